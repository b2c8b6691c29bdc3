"""Interrupts that wait while C++ calls back into Python: raised there, they can end the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Context in which SIGINT and SIGTERM do not reach their handlers; what came meanwhile reaches them at its end.

    Torch's exporter computes shapes in Python below operators of C++, some of which may raise nothing: there an
    interrupt ends the process by SIGABRT. Elsewhere the exporter takes it for an error of the model, or loses it. In
    other threads, where Python calls no handlers, this does nothing.
    """
    # Python sets signal handlers in the main thread only
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    came: list[signal.Signals] = []
    is_held = True

    def hold(number: int, frame: FrameType | None) -> None:
        if is_held:
            came.append(signal.Signals(number))
        else:  # between the end and the last handler that is put back
            before[signal.Signals(number)](number, frame)

    # the system's own actions, to end the process or to ignore the signal, raise nothing in Python
    before = {number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))}
    try:
        for number in before:
            signal.signal(number, hold)
        yield
    finally:
        is_held = False
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)

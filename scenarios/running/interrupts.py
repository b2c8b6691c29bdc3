"""Ctrl-C and SIGTERM: the first asks a run to stop where it can go on later, the second stops it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class StopRequest:
    """Whether somebody wants the run to stop."""

    is_made: bool = False


@contextmanager
def stop_requests(told: Callable[[], None]) -> Iterator[StopRequest]:
    """Take the first signal as a request; inside the block, and in the main thread only.

    Args:
        told: is called once, when the request is made.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        if request.is_made:
            raise KeyboardInterrupt
        request.is_made = True
        told()

    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Ctrl-C and SIGTERM: the first requests a stop from which the run can be resumed, the second stops it at once."""

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
    """Flag of a requested stop: `is_made` is set by the first signal."""

    is_made: bool = False


@contextmanager
def stop_requests(on_request: Callable[[], None]) -> Iterator[StopRequest]:
    """Context in which the first signal requests a stop and the second raises; in the main thread only.

    Args:
        on_request: called once, at the first signal.
    """
    request = StopRequest()
    # Python sets signal handlers in the main thread only
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def request_stop(_number: int, _frame: FrameType | None) -> None:
        if request.is_made:
            raise KeyboardInterrupt
        request.is_made = True
        on_request()

    before = {number: signal.signal(number, request_stop) for number in _SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Watch of a server: a model that does not return is stopped, and a process that does not end is ended.

Python takes a signal between two of its own instructions, so a thread that never comes back from the model never sees
SIGTERM. The number of a signal is written to a socket by Python's own C code as soon as it comes; a thread that waits
there sees it whatever the others do.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from ..onnx_session import LONGEST_RUN_S, OnnxSession

#: Time after `finish_s` for farewells, sockets and a reload that is under way; then the process is ended.
GRACE_S = 3.0
_LOOK_S = 0.5
#: Where a run is under way when the time to finish is over, it gets this much more.
_LAST_RUN_S = 0.5
_STOPS = (signal.SIGINT, signal.SIGTERM)


class ServingWatch:
    """A thread that looks after a server; made in the main thread.

    Args:
        finish_s: time that the server has for what waits when it is told to stop.
        end: called with a sentence when the time is over and the server has not ended; it must end the process.
    """

    def __init__(self, finish_s: float, end: Callable[[str], None] | None = None) -> None:
        self._finish_s, self._end = finish_s, end or _end_process
        self._session: Callable[[], OnnxSession | None] = lambda: None
        self._signals, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._closes = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def watch(self, session: Callable[[], OnnxSession]) -> None:
        """Look after the model that this session runs, too."""
        self._session = session

    def close(self) -> None:
        """End the watch; in the main thread."""
        signal.set_wakeup_fd(self._before)
        self._closes.set()
        self._sender.close()
        self._thread.join()
        self._signals.close()

    def _run(self) -> None:
        finish_s = end_s = float("inf")
        while not self._closes.is_set():
            arrived = self._arrived(min(_LOOK_S, max(0.0, end_s - time.monotonic())))
            if self._closes.is_set():
                return
            now_s = time.monotonic()
            if arrived and finish_s < float("inf"):  # the second signal: at once
                finish_s = min(finish_s, now_s)
                end_s = min(end_s, now_s + GRACE_S)
            elif arrived:
                finish_s = now_s + self._finish_s
                end_s = finish_s + GRACE_S
            if session := self._session():
                session.stop_longer_than(LONGEST_RUN_S if now_s < finish_s else _LAST_RUN_S)
            if now_s >= end_s:
                limit_s = self._finish_s + GRACE_S
                self._end(f"the server was ended, because it took more than {limit_s:g} s to stop")
                return

    def _arrived(self, wait_s: float) -> bool:
        """Whether a signal came that stops the server."""
        if not select.select([self._signals], [], [], wait_s)[0]:
            return False
        return any(number in _STOPS for number in self._signals.recv(64))


def _end_process(sentence: str) -> None:
    """End this process now: no other thread can be waited for."""
    sys.stderr.write(f"error: {sentence}\n")
    sys.stderr.flush()
    os._exit(1)

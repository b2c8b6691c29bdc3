"""The process of a live page: hears on its standard input what a run tells, draws the page, and serves it.

Nothing goes from here to the run, and the run waits for nothing of this: whatever visitors do costs them alone.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable

from .drawings import Drawing, Drawings
from .live_drawing import LiveDrawer
from .page_server import PageServer
from .run_so_far import RunEnd, RunSoFar

#: Least pause between two drawings in s, and how often the processor time of a drawing: while somebody looks, drawing
#: takes less than half of a processor core, at a lower priority than the run.
PAUSE_S, PAUSE_SHARE = 0.5, 1.5
#: After the end of the run: for how long visitors are waited for who have not got the last drawing, and how soon after
#: an answer the next question of a page comes, in s.
LINGER_S, RETURN_S = 4.0, 0.5


class PageProcess:
    """Draws the page of one run while it is told of it.

    Args:
        told: lines of JSON, see `LivePage`; the first has the facts of the run.
        listening: socket of the page.
    """

    def __init__(self, told: Iterable[bytes], listening: socket.socket) -> None:
        self._told = iter(told)
        self._run = RunSoFar(json.loads(next(self._told)))
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._drawings = Drawings()
        self._drawings.changed()
        self._server = PageServer(listening, self._drawings)
        self._drawer = LiveDrawer()
        self._failure: Exception | None = None

    def serve(self) -> None:
        """Draw and serve until the run has ended and its visitors know."""
        threading.Thread(target=self._hear, name="told", daemon=True).start()
        until_s = float("inf")
        while time.monotonic() < until_s:
            if (version := self._drawings.wanted(0.25)) is not None:
                began_s = time.process_time()
                with self._lock:
                    page = self._drawer.page(self._run, version)
                self._drawings.drawn(Drawing(version, page.encode()))
                if self._drawer.is_behind:
                    self._drawings.changed()
                self._ended.wait(max(PAUSE_S, PAUSE_SHARE * (time.process_time() - began_s)))
            if self._ended.is_set():
                until_s = min(until_s, time.monotonic() + LINGER_S)
                if self._drawings.is_served(RETURN_S):
                    break
        self._server.close()
        if self._failure is not None:
            raise self._failure

    def _hear(self) -> None:
        try:
            for line in self._told:
                with self._lock:
                    self._run.take(json.loads(line))
                self._drawings.changed()
        except Exception as error:  # noqa: BLE001 - raised again where the process ends
            self._failure = error
        if self._run.end is None:
            done = f"{self._run.rounds_done} of {self._run.n_rounds} rounds were complete"
            with self._lock:
                self._run.end = RunEnd("failed", f"The process of the run has ended without a word; {done}")
            self._drawings.changed()
        self._ended.set()


def main() -> None:
    """Serve the socket whose number is the only argument; a failure is one line on the standard output."""
    os.nice(5)  # the run comes first
    try:
        PageProcess(sys.stdin.buffer, socket.socket(fileno=int(sys.argv[1]))).serve()
    except Exception as error:  # noqa: BLE001 - the run tells its user
        sys.stdout.write(f"{type(error).__name__}: {' '.join(str(error).split())}\n")
        sys.exit(1)


if __name__ == "__main__":  # started by `PageFeed`
    main()

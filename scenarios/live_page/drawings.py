"""`Drawings`: the newest drawing of a page, handed from the thread that draws to those that serve visitors."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Drawing(NamedTuple):
    """A whole page, and the number of the state that it shows."""

    version: int
    page: bytes


class Drawings:
    """The newest drawing; nothing is drawn unless somebody waits for it."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._version = 0
        self._newest: Drawing | None = None
        self._served_s = -math.inf
        self._visitors = self._waiting = 0

    def changed(self) -> None:
        """What is shown has changed."""
        with self._news:
            self._version += 1
            self._news.notify_all()

    def wanted(self, patience_s: float) -> int | None:
        """Version that somebody waits for and that is not drawn; None: nobody does for so long."""
        with self._news:
            self._news.wait_for(lambda: self._is_wanted, patience_s)
            return self._version if self._is_wanted else None

    def drawn(self, drawing: Drawing) -> None:
        """Give it to all who wait."""
        with self._news:
            self._newest = drawing
            self._news.notify_all()

    def is_served(self, since_s: float) -> bool:
        """Whether nobody waits, and the last visitor left so long ago in s that no next question is to be expected."""
        with self._news:
            return not self._visitors and time.monotonic() - self._served_s >= since_s

    @contextmanager
    def visit(self) -> Iterator[None]:
        """Context of one question, from its arrival to the end of its answer."""
        with self._news:
            self._visitors += 1
        try:
            yield
        finally:
            with self._news:
                self._visitors -= 1
                self._served_s = time.monotonic()

    def newer(self, version: int | None, patience_s: float) -> Drawing | None:
        """A newer drawing than this version, or for None the newest that there is, after whose version to ask next.

        None: there was none for so long.
        """
        with self._news:
            # a larger one is of an earlier run at this address
            least = version + 1 if version is not None and version <= self._version else 0
            self._waiting += 1
            self._news.notify_all()
            try:
                self._news.wait_for(lambda: self._newest is not None and self._newest.version >= least, patience_s)
            finally:
                self._waiting -= 1
            found = self._newest
            return found if found is not None and found.version >= least else None

    @property
    def _is_wanted(self) -> bool:
        return self._waiting > 0 and (self._newest is None or self._newest.version < self._version)

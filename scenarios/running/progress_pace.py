"""Pace of what is counted: its rate, how long it will still take, and both as text."""

from __future__ import annotations

import time


class ProgressPace:
    """Rate of what is counted since a phase began.

    Args:
        done: number that were done before.
    """

    def __init__(self, done: float = 0) -> None:
        self._first = self._done = done
        self._began_s = self._seen_s = time.perf_counter()

    def see(self, done: float) -> None:
        """So many are done now."""
        self._done, self._seen_s = done, time.perf_counter()

    @property
    def per_s(self) -> float:
        """Mean rate from the beginning to the last that was counted; 0 before the first."""
        took_s = self._seen_s - self._began_s
        return (self._done - self._first) / took_s if took_s > 0.0 else 0.0

    @property
    def elapsed_s(self) -> float:
        """Time since the phase began."""
        return time.perf_counter() - self._began_s

    def left_s(self, total: float) -> float | None:
        """Time until all are done at this rate; None: the rate is not known yet."""
        if self.per_s == 0.0:
            return None
        return max(0.0, (total - self._done) / self.per_s - (time.perf_counter() - self._seen_s))


def rate_text(per_s: float, unit: str) -> str:
    """A rate with its unit: "2.1 rounds/s", or "3.4 s/round" where one takes longer than a second."""
    if per_s >= 1.0:
        return f"{per_s:,.1f} {unit}/s"
    return f"{1 / per_s:,.1f} s/{unit.removesuffix('s')}" if per_s > 0.0 else ""


def time_text(seconds: float) -> str:
    """A duration as minutes and seconds, or with hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

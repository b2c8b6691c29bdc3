"""Timetables of outages: fixed from the start, queried by time, with answers that do not depend on earlier queries.

An outage takes its first instant and leaves its last one out. Random timetables are drawn only as far as
they are queried; their answers depend on their stream alone.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

#: Outages that are drawn at once; in pieces of any size a stream gives the same numbers.
_DRAWN_AT_ONCE = 64


class Outage(NamedTuple):
    """From `start_s` on, and over at `end_s`; an infinite end means for good."""

    start_s: float
    end_s: float


#: Where a timetable ends.
NEVER = Outage(math.inf, math.inf)


class Outages(Protocol):
    """One timetable; its outages follow each other and do not overlap."""

    def next(self, now_s: float) -> Outage:
        """The first outage that is not over at this instant, `NEVER` where there is none."""
        ...


class ScheduledOutages:
    """Outages at given times.

    Args:
        outages: in order, each over before the next.
    """

    def __init__(self, outages: Sequence[Outage]) -> None:
        # Sought by their ends: the first that is not over may be under way or still to come.
        self._outages, self._ends_s = tuple(outages), [outage.end_s for outage in outages]

    def next(self, now_s: float) -> Outage:
        index = bisect_right(self._ends_s, now_s)
        return self._outages[index] if index < len(self._outages) else NEVER


class RandomOutages:
    """Up and down in turn, each for an exponential time: failures without memory of the time since the last repair.

    Args:
        draws: random stream of this timetable alone.
        mean_up_s: mean time from a repair, or from the start, to the next failure.
        mean_down_s: mean time to repair.

    Source: alternating renewal process; the long-run share of time out is mean_down_s / (mean_up_s + mean_down_s).
    """

    def __init__(self, draws: np.random.Generator, mean_up_s: float, mean_down_s: float) -> None:
        self._draws, self._means_s = draws, (mean_up_s, mean_down_s)
        self._outages: list[Outage] = []
        self._ends_s: list[float] = []

    def next(self, now_s: float) -> Outage:
        while not self._ends_s or self._ends_s[-1] <= now_s:
            self._draw()
        return self._outages[bisect_right(self._ends_s, now_s)]

    def _draw(self) -> None:
        """Some more; added one by one, so that rounding does not depend on the size of a piece."""
        end_s = self._ends_s[-1] if self._ends_s else 0.0
        for up_s, down_s in (self._draws.standard_exponential((_DRAWN_AT_ONCE, 2)) * self._means_s).tolist():
            start_s = end_s + up_s
            end_s = start_s + down_s
            self._outages.append(Outage(start_s, end_s))
            self._ends_s.append(end_s)


class Timetable:
    """Several timetables of one thing, which is out while it is out in any of them."""

    def __init__(self, parts: Sequence[Outages] = ()) -> None:
        self._parts = tuple(parts)

    def is_out(self, now_s: float) -> bool:
        """Whether it is out at this instant."""
        return self.goes_out_s(now_s) <= now_s

    def goes_out_s(self, now_s: float) -> float:
        """When it goes out next; this instant or before where it is out already, infinity where it never does."""
        return min((part.next(now_s).start_s for part in self._parts), default=math.inf)

    def back_s(self, now_s: float) -> float:
        """The first instant from this one on at which it is not out; infinity where it is out for good."""
        # The end of one part may lie inside an outage of another.
        while now_s < math.inf and self.is_out(now_s):
            now_s = max(part.next(now_s).end_s for part in self._parts if part.next(now_s).start_s <= now_s)
        return now_s

    def touches(self, from_s: float, to_s: float) -> bool:
        """Whether it is out at any instant of this stretch, both ends included."""
        return self.goes_out_s(from_s) <= to_s

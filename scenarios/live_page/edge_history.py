"""What edges carried and lost, round by round: counters as they were, and what they tell about the last rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ...emulator.counters import EdgeTraffic
from ..report.round_records import Array, Edge, MeasuredEdge

#: Rounds that count as the last ones: of a single one, an edge may have carried only a few packets.
LAST_ROUNDS = 3
#: Instants that are kept; of more, every second one goes.
MOST_INSTANTS = 1000
_NOTHING: Sequence[float] = [0.0] * len(fields(EdgeTraffic))


class EdgeHistory:
    """Counters of all edges at some ends of rounds.

    Args:
        edges: directions that may ever carry something.
    """

    def __init__(self, edges: Iterable[Edge]) -> None:
        self.edges: list[Edge] = sorted(edges)
        self._instants: list[tuple[int, Mapping[Edge, Sequence[float]]]] = []

    def see(self, rounds_done: int, counters: Iterable[Sequence[float]]) -> None:
        """Take counters; of rounds that are repeated, those of before are dropped.

        Args:
            rounds_done: number of completed rounds.
            counters: sender, receiver and the state of `EdgeTraffic`, of every direction that carried something.
        """
        while self._instants and self._instants[-1][0] >= rounds_done:
            self._instants.pop()
        seen = {(int(sender), int(receiver)): state for sender, receiver, *state in counters}
        if not set(seen) <= set(self.edges):
            self.edges = sorted({*self.edges, *seen})
        self._instants.append((rounds_done, seen))
        if len(self._instants) > MOST_INSTANTS:
            del self._instants[-2:0:-2]  # not the first, nor the last

    @property
    def last_rounds(self) -> tuple[int, int]:
        """First and last of the last rounds, counted from 1."""
        return self._before(len(self._instants) - 1)[0] + 1, self._instants[-1][0]

    def lately(self) -> list[MeasuredEdge]:
        """Every direction in the last rounds; without messages where it carried none. Empty before the first round."""
        if not self._instants:
            return []
        (_, now), (_, before) = self._instants[-1], self._before(len(self._instants) - 1)
        return [
            MeasuredEdge(sender=edge[0], receiver=edge[1], **_between(before, now, edge).as_dict())
            for edge in self.edges
        ]

    def curves(self) -> tuple[Array, Array, Array]:
        """Rounds [T]; of every direction [E, T] share of packets lost, and bits per second, since the instant before.

        NaN where a direction carried nothing.
        """
        shape = len(self.edges), len(self._instants)
        losses, rates = np.full(shape, np.nan), np.full(shape, np.nan)
        for at, (_, now) in enumerate(self._instants):
            before = self._instants[at - 1][1] if at else {}
            for place, edge in enumerate(self.edges):
                counted = _between(before, now, edge)
                if counted.packets:
                    losses[place, at] = counted.lost_packets / counted.packets
                if counted.airtime_s > 0.0:
                    rates[place, at] = 8 * counted.sent_bytes / counted.airtime_s
        return np.array([done for done, _ in self._instants], dtype=np.float64), losses, rates

    def _before(self, last: int) -> tuple[int, Mapping[Edge, Sequence[float]]]:
        """The newest instant that is `LAST_ROUNDS` or more before another one; the start of the run where none is."""
        until = self._instants[last][0] - LAST_ROUNDS
        earlier = [instant for instant in self._instants[:last] if instant[0] <= until]
        return earlier[-1] if earlier else (0, {})


def _between(before: Mapping[Edge, Sequence[float]], now: Mapping[Edge, Sequence[float]], edge: Edge) -> EdgeTraffic:
    """What one direction carried from one instant to another."""
    ends = zip(now.get(edge, _NOTHING), before.get(edge, _NOTHING), strict=True)
    differences: list[Any] = [one - other for one, other in ends]
    return EdgeTraffic(*differences)

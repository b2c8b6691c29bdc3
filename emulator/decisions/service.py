"""Serving a user: when answers of a served model arrive, and what the user gets over a stretch of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any, Self

import numpy as np

from ..radio.waves import Array

MS_PER_S = 1e3
S_PER_MINUTE = 60.0


@dataclass
class Service:
    """Sums over time; those of several users are added.

    Attributes:
        duration_s: all time.
        outage_s: time in which the user got less than it needs, interruptions included.
        interrupted_s: part of the outage in which nothing was sent because of a handover or a sweep.
        bits: bits that arrived.
        lost_db_s: dB below the best beam, times s in which something was sent; beams only.
        n_actions: handovers or sweeps begun.
        n_own_readings: readings that arrived while its own cell served the user; handovers only, ...
        n_prepared_readings: ... and those among them at which the other cell was prepared.
    """

    duration_s: float = 0.0
    outage_s: float = 0.0
    interrupted_s: float = 0.0
    bits: float = 0.0
    lost_db_s: float = 0.0
    n_actions: int = 0
    n_own_readings: int = 0
    n_prepared_readings: int = 0

    @classmethod
    def total(cls, parts: Iterable[Service]) -> Self:
        """Sum over several users or stretches."""
        return cls(*map(sum, zip(*map(astuple, parts), strict=True)))

    def served(self, seconds: float, rate_bps: float, *, outage: bool, lost_db: float = 0.0) -> None:
        """Add time at a rate."""
        self.duration_s += seconds
        self.bits += rate_bps * seconds
        self.lost_db_s += lost_db * seconds
        if outage:
            self.outage_s += seconds

    def interrupted(self, seconds: float) -> None:
        """Add time in which nothing is sent."""
        self.duration_s += seconds
        self.outage_s += seconds
        self.interrupted_s += seconds

    @property
    def outage_ms_per_min(self) -> float:
        """Outage, in ms for every minute."""
        return MS_PER_S * S_PER_MINUTE * self.outage_s / self.duration_s

    @property
    def rate_bps(self) -> float:
        """Mean over all time, outages included."""
        return self.bits / self.duration_s

    @property
    def interrupted_share(self) -> float:
        """Share of the time in which nothing was sent because of a handover, or because beams were measured."""
        return self.interrupted_s / self.duration_s

    @property
    def lost_db(self) -> float:
        """Mean over the time in which something was sent."""
        sent_s = self.duration_s - self.interrupted_s
        return self.lost_db_s / sent_s if sent_s > 0.0 else 0.0

    @property
    def prepared_share(self) -> float:
        """Share of the time in the own cell in which the other cell was prepared."""
        return self.n_prepared_readings / self.n_own_readings if self.n_own_readings else 0.0

    def figures(self) -> dict[str, Any]:
        """Figures for summaries."""
        return {
            "outage_ms_per_min": self.outage_ms_per_min,
            "rate_bps": self.rate_bps,
            "actions_per_min": S_PER_MINUTE * self.n_actions / self.duration_s,
        }


def arrivals_s(sensed_s: Array, seconds: float) -> Array:
    """Instant of the answer about every frame.

    A device that is slower than its sensor leaves frames out: whenever it is done it takes the newest one.

    >>> arrivals_s(np.array([0.0, 1.0, 2.0, 3.0]), 1.5).tolist()
    [1.5, 3.0, inf, 4.5]

    Args:
        sensed_s: [n] instants of the frames, ascending.
        seconds: time from the start of an inference to its answer.

    Returns:
        [n] s; infinite where a frame was left out.
    """
    arrival = np.full(len(sensed_s), np.inf)
    row, free_s = 0, -np.inf
    while row < len(sensed_s):
        start_s = max(float(sensed_s[row]), free_s)
        # Frames between the last one taken and this are left out: a late answer about an old frame would be of no use.
        newest = int(np.searchsorted(sensed_s, start_s, side="right")) - 1
        free_s = arrival[newest] = start_s + seconds
        row = newest + 1
    return arrival

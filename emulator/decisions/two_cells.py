"""Signals of the two cells of a user, and the times in which a warning of one of them is in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..radio.waves import Array
from .access_link import AccessLink
from .service import Service

NEVER = float("inf")
#: Instants closer than this are one: far above what sums of floats lose, far below an interruption.
SAME_S = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class TwoCells:
    """Signals of both cells at one user over n frames; cell 0 is its own.

    Attributes:
        frame_s: time from a frame to the next.
        snr_db: [2, n] from each frame until the next.
        rate_bps: [2, n] that they carry.
        outage: [2, n] bool, less than the user needs.
    """

    frame_s: float
    snr_db: Array
    rate_bps: Array
    outage: NDArray[np.bool_]

    @classmethod
    def of(cls, snr_db: Array, frame_s: float, link: AccessLink) -> TwoCells:
        """Signals as a link turns them into rates."""
        rate_bps = link.rate_bps(snr_db)
        return cls(frame_s, snr_db, rate_bps, link.in_outage(rate_bps))

    @property
    def n_frames(self) -> int:
        """Frames of the stretch."""
        return int(self.snr_db.shape[1])

    @property
    def end_s(self) -> float:
        """End of the last frame in s; the first begins at 0."""
        return self.n_frames * self.frame_s


def stay(cells: TwoCells) -> Service:
    """Service of a user that is never handed over."""
    seconds = np.full(cells.n_frames, cells.frame_s)
    return Service(
        duration_s=float(seconds.sum()),
        outage_s=float(seconds[cells.outage[0]].sum()),
        bits=float((cells.rate_bps[0] * seconds).sum()),
    )


class Spans(NamedTuple):
    """Times in which something holds: [m] ascending beginnings, and [m] ends before the next of them."""

    from_s: Array
    until_s: Array

    def lasting(self, seconds: float) -> Spans:
        """The part of each span that comes after it has held for so long."""
        begun_s = self.from_s + seconds
        return Spans(begun_s[begun_s < self.until_s], self.until_s[begun_s < self.until_s])

    def holds(self, times_s: Array) -> NDArray[np.bool_]:
        """[n] instants -> [n] bool, whether they lie in a span, its end not included."""
        begun, ended = (np.searchsorted(edges_s, times_s, side="right") for edges_s in self)
        # spans do not overlap, so one more has begun than ended exactly inside a span
        return np.asarray(begun > ended)


def warned_times(arrival_s: Array, warned: NDArray[np.bool_]) -> Spans:
    """Spans in which a warning of a cell is in force: from an answer that warns until the next one that does not.

    Args:
        arrival_s: [n] of the answers; infinite where there was none.
        warned: [n] whether they warn.
    """
    # stable: of answers that arrive at one instant the one about the later frame holds
    order = np.argsort(arrival_s, kind="stable")
    order = order[np.isfinite(arrival_s[order])]
    at_s, now = arrival_s[order], warned[order]
    # Only changes matter: a warning that follows a warning goes on.
    before = np.append(False, now[:-1])
    ends_s = at_s[before & ~now]
    return Spans(at_s[now & ~before], np.append(ends_s, NEVER) if len(now) and now[-1] else ends_s)

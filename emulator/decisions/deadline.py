"""Does a warning come before the blockage does, and early enough to act on it?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..radio.waves import Array
from .service import MS_PER_S, S_PER_MINUTE

#: Products of frame numbers and times are off by less than this.
SAME_S = 1e-9


@dataclass
class Deadline:
    """Blockages that began, and the warnings of them.

    Attributes:
        duration_s: watched.
        in_time: blockages with a warning early enough.
        late: with a warning, but not early enough.
        missed: without one.
        false_alarms: times of warning after which nothing came.
        lead_s: of every blockage with a warning, how long before it the first one arrived.
    """

    duration_s: float = 0.0
    in_time: int = 0
    late: int = 0
    missed: int = 0
    false_alarms: int = 0
    lead_s: list[float] = field(default_factory=list)

    @property
    def n_blockages(self) -> int:
        """That began."""
        return self.in_time + self.late + self.missed

    def add(self, other: Deadline) -> None:
        """Count what another one counted."""
        for name in ("duration_s", "in_time", "late", "missed", "false_alarms", "lead_s"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def figures(self) -> dict[str, Any]:
        """For summaries; shares and leads only where there is something to share."""
        n = self.n_blockages
        figures: dict[str, Any] = {"blockages": n, "in_time": self.in_time, "late": self.late, "missed": self.missed}
        if n:
            figures["in_time_share"] = self.in_time / n
        if self.lead_s:
            figures["median_lead_ms"] = MS_PER_S * float(np.median(self.lead_s))
        if self.duration_s:
            figures["false_alarms_per_min"] = S_PER_MINUTE * self.false_alarms / self.duration_s
        return figures


def onsets(blocked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[m] frames that are blocked after one that is not."""
    return np.flatnonzero(blocked[1:] & ~blocked[:-1]).astype(np.int64) + 1


def deadline(
    blocked: NDArray[np.bool_],
    warned: NDArray[np.bool_],
    arrival_s: Array,
    frame_s: float,
    horizon: int,
    needed_s: float,
) -> Deadline:
    """Blockages of a stretch of frames, and whether they were foretold in time.

    A blockage is foretold by a warning about any of the `horizon` frames before it, which is what the label asks for;
    those of a blockage that is still going on do not count.

    Args:
        blocked: [n] frames; the first is at 0 s.
        warned: [n] whether the answer about a frame warns.
        arrival_s: [n] when that answer arrived; infinite where there was none.
        frame_s: from a frame to the next.
        horizon: frames that a warning looks ahead.
        needed_s: how long before a blockage a warning must arrive to be in time.
    """
    seen = Deadline(duration_s=len(blocked) * frame_s)
    heard = warned & np.isfinite(arrival_s)
    for onset in onsets(blocked).tolist():
        before = np.flatnonzero(blocked[:onset])
        earliest = max(onset - horizon, int(before[-1]) + 1 if len(before) else 0)
        answers = np.flatnonzero(heard[earliest:onset]) + earliest
        if not len(answers):
            seen.missed += 1
            continue
        lead_s = onset * frame_s - float(arrival_s[answers].min())
        seen.lead_s.append(lead_s)
        if lead_s >= needed_s - SAME_S:
            seen.in_time += 1
        else:
            seen.late += 1
    seen.false_alarms = _false_alarms(blocked, heard, horizon)
    return seen


def _false_alarms(blocked: NDArray[np.bool_], heard: NDArray[np.bool_], horizon: int) -> int:
    """Runs of false warnings; such as follow each other within the horizon are one, for they would cause one handover.

    A warning is false where its frame is clear and none of the frames that it looks at is blocked. The last frames,
    whose future is not there, count as clear only as far as it is.
    """
    n_before = np.concatenate([[0], np.cumsum(blocked)])
    frame = np.arange(len(blocked))
    stop = np.minimum(frame + horizon + 1, len(blocked))
    false = np.flatnonzero(heard & (n_before[stop] == n_before[frame]))
    return int(np.count_nonzero(np.diff(false) > horizon) + 1) if len(false) else 0

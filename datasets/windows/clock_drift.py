"""Drift of sensor clocks: a sensor whose clock runs ahead shows older frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ClockDrift:
    """Drift of a sensor's clock against the clock of labels and other sensors.

    A clock that falls behind is no case of its own: a reader of the newest frame that there is sees no older ones.

    Attributes:
        ppm: rate error in parts per million, from the start of the recording on.
        jump_s: size in s of a single jump ahead.
        jump_at_s: instant of the jump in s of the recording.
    """

    ppm: float = 0.0
    jump_s: float = 0.0
    jump_at_s: float = 0.0

    def ahead_s(self, time_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """[n] s by which the clock is ahead at instants [n]."""
        jumped: NDArray[np.float64] = np.where(time_s >= self.jump_at_s, self.jump_s, 0.0)
        return 1e-6 * self.ppm * (time_s - time_s[:1]) + jumped


def rows_seen(time_s: NDArray[np.float64], sequence: NDArray[np.int64], drift: ClockDrift) -> NDArray[np.int64]:
    """[n] row whose frame a sensor with this drift shows in each row.

    Args:
        time_s: [n] instants of the rows, ascending inside a sequence.
        sequence: [n] whose frames are contiguous; nothing before its first frame is ever shown.
        drift: drift of the sensor's clock.

    Returns:
        [n] nearest rows of the same sequence, none later than the row itself.
    """
    rows = np.arange(len(time_s))
    if len(time_s) == 0:
        return rows
    taken_s = time_s - drift.ahead_s(time_s)
    seen = np.empty_like(rows)
    begins = np.flatnonzero(np.diff(sequence, prepend=sequence[0] - 1))
    for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
        instants_s = time_s[begin:end]
        after = np.searchsorted(instants_s, taken_s[begin:end]).clip(0, end - begin - 1)
        before = (after - 1).clip(0)
        is_nearer = taken_s[begin:end] - instants_s[before] < instants_s[after] - taken_s[begin:end]
        seen[begin:end] = begin + np.where(is_nearer, before, after)
    return np.minimum(seen, rows)

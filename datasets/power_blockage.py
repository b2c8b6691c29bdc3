"""Blockage label from received power alone, frame after frame, as a base station can compute it itself."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

import numpy as np
from numpy.typing import NDArray

#: Smallest fall in dB below the median of the last clear sweeps that counts as a blockage.
POWER_DROP_DB = 8.0
CLEAR_SWEEPS = 100


class PowerBlockage:
    """Labeler of a recording, a piece at a time or all at once.

    The first piece must hold `CLEAR_SWEEPS` frames, or all that there are. The median of their stronger half is the
    first reference, since some of them may be blocked.
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._ascending: list[float] = []

    def label(self, best_power_db: NDArray[np.float64]) -> NDArray[np.bool_]:
        """[F] whether the best beam lies 8 dB or more below the running median of clear sweeps.

        Args:
            best_power_db: [F] the frames after those before.
        """
        if not self._recent:
            first = np.sort(best_power_db[:CLEAR_SWEEPS])
            for power_db in first[len(first) // 2 :].tolist():
                self._remember(power_db)
        blocked = np.empty(len(best_power_db), dtype=np.bool_)
        for index, power_db in enumerate(best_power_db.tolist()):
            blocked[index] = is_blocked = power_db <= self._median() - POWER_DROP_DB
            # clear sweeps only: a long blockage would otherwise become the new reference
            if not is_blocked:
                self._remember(power_db)
        return blocked

    def _remember(self, power_db: float) -> None:
        # kept in both orders: by age to drop the oldest, and sorted, so that no sweep sorts a hundred again
        if len(self._recent) == CLEAR_SWEEPS:
            del self._ascending[bisect_left(self._ascending, self._recent.popleft())]
        self._recent.append(power_db)
        insort(self._ascending, power_db)

    def _median(self) -> float:
        middle = len(self._ascending) // 2
        if len(self._ascending) % 2:
            return self._ascending[middle]
        return (self._ascending[middle - 1] + self._ascending[middle]) / 2.0

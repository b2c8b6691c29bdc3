"""How much weaker everything at one base station is while something stands in its line of sight, as recorded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..loss import BlockedTimes

Array = NDArray[np.float64]


class RecordedFade:
    """Loss of a line of sight over time; played again and again along the clock.

    Between two frames it runs straight in dB: a vehicle's edge takes 20 dB within a tenth of a second, about the time
    from one frame to the next. Reflections arrive all the while, so that no fade is deeper than `deepest_db`.

    Args:
        when: whose frames.
        loss_db: [n] loss of the line of sight in each of them, at least 0.
        deepest_db: above 0, of what is left when the line of sight is gone.
    """

    def __init__(self, when: BlockedTimes, loss_db: Array, deepest_db: float) -> None:
        fade_db = filled_shadow_db(loss_db, deepest_db)
        self._when = when
        self._frame_s = np.append(when.time_s, when.time_s[0] + when.duration_s)  # the first frame follows the last
        self._fade_db = np.append(fade_db, fade_db[0])

    def __call__(self, time_s: Array) -> Array:
        """[...] instants of the clock -> [...] dB, at least 0."""
        return np.asarray(np.interp(self._when.recorded_s(time_s), self._frame_s, self._fade_db))


def filled_shadow_db(loss_db: Array, deepest_db: float) -> Array:
    """Loss of all power, where that of the line of sight is this: [...] dB -> [...] dB in [0, deepest_db).

    The line of sight and a constant rest add their powers: 10 log10((1 + r) / (10^(-loss / 10) + r)).
    """
    rest = 1.0 / (10.0 ** (deepest_db / 10.0) - 1.0)
    direct = 10.0 ** (-np.maximum(np.asarray(loss_db, dtype=np.float64), 0.0) / 10.0)
    return np.asarray(10.0 * np.log10((1.0 + rest) / (direct + rest)))

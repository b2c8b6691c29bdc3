"""The rule that predicts which kind of arm wins, from pilots alone. Frozen before the regimes that it is tested on ran.

Designed on `tracking`, `tracking_permuted`, `tracking_scarce`, `positions_only` and `phones`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from panel import ALONE, AVERAGING, SHEAF  # a script beside its modules
from pilot import Pilot

#: What any kind of collaboration has to gain on training alone, in the pilot, in points of the first score.
LEAST_GAIN = 0.01


def predicted(pilots: Sequence[Pilot], *, maps_differ: bool) -> str:
    """The kind that is to win.

    Alone, unless averaged encoders gain `LEAST_GAIN` on it, with own heads or with heads that are averaged once. Then
    the sheaf, if averages through maps are better than all without maps; else averaging. Maps that are the identity do
    what averages do, so that without other maps the sheaf is never predicted.

    Args:
        pilots: of the regime, one per seed.
        maps_differ: whether maps are others than the identity by number.
    """
    local = fmean(one.local for one in pilots)
    without_maps = max(fmean(values) for values in zip(*((p.own, p.mixed, p.told_own) for p in pilots), strict=True))
    through_maps = fmean(one.told_mixed for one in pilots)
    if max(without_maps, through_maps) - local <= LEAST_GAIN:
        return ALONE
    return SHEAF if maps_differ and through_maps > without_maps else AVERAGING

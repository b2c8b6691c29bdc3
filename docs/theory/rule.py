"""The rules that predict which kind of arm wins, each frozen before the regimes that it is tested on ran.

That of pilots was designed on `tracking`, `tracking_permuted`, `tracking_scarce`, `positions_only` and `phones`; the
race on these and on those that had tested it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from ledger import ALL, RegimeScores  # a script beside its modules
from panel import ALONE, ARMS, AVERAGING, KINDS, SHEAF, Regime
from pilot import Pilot

#: What any kind of collaboration has to gain on training alone, in the pilot, in points of the first score.
LEAST_GAIN = 0.01
#: Seeds of a race; none of them is scored.
RACE_SEEDS = (100, 101, 102, 103)
#: A kind that is less than this behind the leader is taken in its place where it costs less, in points of the score.
SLACK = 0.005


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


def raced(scores: RegimeScores, regime: Regime) -> str | None:
    """The cheapest kind that is near the leader of a race of all arms; None: an arm has not been raced on all seeds.

    Args:
        scores: of the races of the regime, on validation samples.
        regime: whose arms compete.
    """
    values = {arm: scores.values(arm, ALL) for arm in regime.arms}
    if any(set(RACE_SEEDS) - set(of_seeds) for of_seeds in values.values()):
        return None
    best = {
        kind: max(means)
        for kind in KINDS
        if (means := [fmean(values[arm].values()) for arm in values if ARMS[arm][0] == kind])
    }
    return next(kind for kind in KINDS if kind in best and best[kind] > max(best.values()) - SLACK)

"""A second rule that predicts which kind of arm wins: ten rounds of all arms, of which the cheapest near the leader.

Designed on all regimes that the rule of pilots had been designed and tested on, and frozen before the others ran.
"""

from __future__ import annotations

from statistics import fmean

from ledger import ALL, RegimeScores  # a script beside its modules
from panel import ALONE, ARMS, AVERAGING, SHEAF, Regime

#: Rounds of a race, and its seeds; none of them is scored.
ROUNDS, SEEDS = 10, (100, 101, 102, 103)
#: What a race changes of a regime.
EDITS = {"rounds": ROUNDS, "evaluate_every": ROUNDS, "data.scored": "validation"}
#: A kind that is less than this behind the leader is taken in its place where it costs less, in points of the score.
SLACK = 0.005
#: By what is sent: nothing, one exchange per round, two or as much with maps to agree upon.
CHEAPEST_FIRST = (ALONE, AVERAGING, SHEAF)


def raced(scores: RegimeScores, regime: Regime) -> str | None:
    """The kind that is to win; None: an arm has not been raced on all seeds.

    Args:
        scores: of the races of the regime, on validation samples.
        regime: whose arms compete.
    """
    values = {arm: scores.values(arm, ALL) for arm in regime.arms}
    if any(set(SEEDS) - set(of_seeds) for of_seeds in values.values()):
        return None
    best = {
        kind: max(means)
        for kind in CHEAPEST_FIRST
        if (means := [fmean(values[arm].values()) for arm in values if ARMS[arm][0] == kind])
    }
    return next(kind for kind in CHEAPEST_FIRST if kind in best and best[kind] > max(best.values()) - SLACK)

"""Whether runs are long enough: a stopping rule on validation samples, beside the rounds that a regime has.

Rounds are enough where longer training scores no more than `GAIN` above, at any later point of a curve. A point is the
mean over the curve's arms and seeds. The last point cannot be judged: nothing comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

from ledger import ALL, Ledger  # a script beside its modules
from regimes import comparison_of
from sheafedge.scenarios.compare.result_table import without_zero
from verdicts import signed

GAIN = 0.01
#: Curve over rounds -> regimes that it speaks for, and the rounds that these have.
ROUNDS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "tracking_rounds": (("tracking", "tracking_scarce", "tracking_mirrored", "tracking_permuted"), 60),
    "blockage_rounds": (("blockage",), 20),
    "drones_rounds": (("drones", "drones_occluded", "drones_views", "drones_permuted", "drones_sizes"), 20),
}


def enough(scores: Mapping[int, float]) -> int | None:
    """Fewest rounds that are enough; None: those before the last are not, and nothing comes after the last.

    Args:
        scores: rounds -> score.
    """
    known = sorted(scores)
    for index, rounds in enumerate(known[:-1]):
        if max(scores[later] for later in known[index + 1 :]) <= scores[rounds] + GAIN:
            return rounds
    return None


def stopping_rows(ledger: Ledger) -> Iterator[str]:
    """A row per curve over rounds that has scores: what its regimes have, what is enough, and what more would bring."""
    yield (
        "| Curve | Regimes with these rounds | Rounds (score) | Enough by the rule | Best of more rounds, less these"
        " | Arms that gain more than .01 by more rounds |"
    )
    yield "|---" * 6 + "|"
    for curve, (regimes, rounds) in ROUNDS.items():
        arms = _of_arms(curve, ledger)
        if not arms:
            continue
        means = {at: fmean(scores[at] for scores in arms.values()) for at in next(iter(arms.values()))}
        least = enough(means) or f"more than {sorted(means)[-2]}"
        gaining = [f"{arm} ({signed(gain)})" for arm, scores in arms.items() if (gain := _gain(scores, rounds)) > GAIN]
        names = ", ".join(f"`{name}`" for name in regimes)
        yield (
            f"| `{curve}` | {names} | {rounds} ({without_zero(f'{means[rounds]:.3f}')}) | {least}"
            f" | {signed(_gain(means, rounds))} | {'; '.join(gaining) or 'none'} |"
        )


def _gain(scores: Mapping[int, float], rounds: int) -> float:
    return max(score for at, score in scores.items() if at > rounds) - scores[rounds]


def _of_arms(curve: str, ledger: Ledger) -> dict[str, dict[int, float]]:
    """Arm that has all points of a curve -> rounds -> mean score over its seeds."""
    found: dict[str, dict[int, float]] = {}
    comparison = comparison_of(curve)
    for arm in comparison.methods:
        scores = {value: ledger.of(curve, str(value)).values(arm, ALL) for value in comparison.varied_values}
        if all(scores.values()):
            found[arm] = {value: fmean(of_seeds.values()) for value, of_seeds in scores.items()}
    return found

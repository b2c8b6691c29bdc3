"""Whether runs are long enough: a stopping rule on validation samples, beside the rounds that a regime has.

Rounds are enough where longer training scores no more than `MARGIN` above, at any later point of a curve. A point is
the mean over the curve's arms and seeds. The last point cannot be judged: nothing comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

from ledger import ALL, Ledger, varied_text  # a script beside its modules
from regimes import comparison_of
from sheafedge.scenarios.compare.result_table import without_zero
from verdicts import signed

#: Points of the score by which longer training has to be above.
MARGIN = 0.01
#: Curve over rounds -> its regime, the rounds that this has, and others with as many, of which no curve was made.
ROUNDS: Mapping[str, tuple[str, int, tuple[str, ...]]] = {
    "tracking_rounds": (
        "tracking",
        60,
        ("tracking_scarce", "tracking_mirrored", "tracking_permuted", "tracking_options"),
    ),
    "blockage_rounds": ("blockage", 20, ()),
    "drones_rounds": (
        "drones",
        20,
        (
            "drones_permuted",
            "drones_permuted_fresh",
            "drones_sizes",
            "drones_sizes_scarce",
            "drones_sizes_fresh",
            "drones_sizes_trust",
            "drones_sizes_same",
        ),
    ),
    "drones_occluded_rounds": ("drones_occluded", 20, ()),
    "drones_views_rounds": ("drones_views", 20, ()),
    # with the rounds of the longest arm there
    "blockage_pooled": ("blockage", 60, ()),
    "drones_pooled": ("drones", 60, ()),
    "drones_occluded_pooled": ("drones_occluded", 60, ()),
    "drones_views_pooled": ("drones_views", 60, ()),
}


def enough(scores: Mapping[int, float]) -> int | None:
    """Fewest rounds that are enough; None: those before the last are not, and nothing comes after the last.

    Args:
        scores: rounds -> score.
    """
    known = sorted(scores)
    for index, rounds in enumerate(known[:-1]):
        if max(scores[later] for later in known[index + 1 :]) <= scores[rounds] + MARGIN:
            return rounds
    return None


def stopping_rows(ledger: Ledger) -> Iterator[str]:
    """A row per curve over rounds that has scores: what its regimes have, what is enough, and what more would bring."""
    margin = without_zero(f"{MARGIN:.2f}")
    yield (
        "| Regime | Others with these rounds, not measured | Rounds (score) | Enough by the rule"
        f" | Best of more rounds, less these | Arms that gain more than {margin} by more rounds |"
    )
    yield "|---" * 6 + "|"
    for curve, (regime, rounds, others) in ROUNDS.items():
        arms = _of_arms(curve, ledger)
        if not arms:
            continue
        means = {at: fmean(scores[at] for scores in arms.values()) for at in next(iter(arms.values()))}
        least = enough(means) or f"more than {sorted(means)[-2]}"
        gaining = [
            f"{arm} ({signed(gain)})" for arm, scores in arms.items() if (gain := _gain(scores, rounds)) > MARGIN
        ]
        names = ", ".join(f"`{name}`" for name in others) or "none"
        alone = f", *{next(iter(arms))}* alone" if len(arms) == 1 else ""
        yield (
            f"| `{regime}`{alone} | {names} | {rounds} ({without_zero(f'{means[rounds]:.3f}')}) | {least}"
            f" | {signed(_gain(means, rounds))} | {'; '.join(gaining) or 'none'} |"
        )


def _gain(scores: Mapping[int, float], rounds: int) -> float:
    return max(score for at, score in scores.items() if at > rounds) - scores[rounds]


def _of_arms(curve: str, ledger: Ledger) -> dict[str, dict[int, float]]:
    """Arm -> rounds -> mean score over the seeds that it has at all points of a curve; without arms of no such seed."""
    found: dict[str, dict[int, float]] = {}
    comparison = comparison_of(curve)
    for arm in comparison.methods:
        scores = {value: ledger.of(curve, varied_text(value)).values(arm, ALL) for value in comparison.varied_values}
        if seeds := set.intersection(*({*of_seeds} for of_seeds in scores.values())):
            found[arm] = {value: fmean(of_seeds[seed] for seed in seeds) for value, of_seeds in scores.items()}
    return found

"""Words for differences: an arm is better or worse than another if an interval that admits it was one of many says so.

A difference is paired, seed by seed. Its interval is Student's t with the correction of Nadeau and Bengio where seeds
deal the same samples anew; p values of a family of differences are adjusted by Holm's method. "better" and "worse" need
an adjusted p of at most 1 - `CONFIDENCE`; all else is "not shown", which does not say that arms are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ledger import RegimeScores  # a script beside its modules
from sheafedge.scenarios.compare.difference_tables import p_value_text
from sheafedge.scenarios.compare.result_table import without_zero
from sheafedge.scenarios.compare.statistics import CONFIDENCE, holm, paired_estimate

BETTER, WORSE, NOT_SHOWN = "better", "worse", "not shown"


@dataclass(frozen=True, slots=True)
class Difference:
    """An arm against another one in a group.

    Attributes:
        arm, other, group: what is compared, and where.
        n: number of seeds that both have.
        mean: of the differences; None: no common seed.
        interval: of the mean difference; None: fewer than two seeds.
        p: two-sided; None: unknown.
        p_holm: adjusted for the family; None: unknown, or not adjusted yet.
        n_mixed: number of seeds of which both ran on different kinds of processors.
    """

    arm: str
    other: str
    group: str
    n: int
    mean: float | None
    interval: tuple[float, float] | None
    p: float | None
    p_holm: float | None = None
    n_mixed: int = 0

    @property
    def word(self) -> str:
        """`BETTER`, `WORSE` or `NOT_SHOWN`."""
        if self.mean is None or not is_shown(self.p_holm):
            return NOT_SHOWN
        return BETTER if self.mean > 0.0 else WORSE

    @property
    def marked(self) -> str:
        """The word, in bold where something is shown."""
        return self.word if self.word == NOT_SHOWN else f"**{self.word}**"

    @property
    def p_values(self) -> str:
        """Both p values, as the page has them."""
        return f"p {p_value_text(self.p)}, {p_value_text(self.p_holm)}"

    def __str__(self) -> str:
        if self.mean is None:
            return "no common seed"
        interval = "" if self.interval is None else f" [{signed(self.interval[0])}, {signed(self.interval[1])}]"
        return f"{signed(self.mean)}{interval}"


def is_shown(p: float | None) -> bool:
    """Whether a p value is small enough for a word; None: unknown."""
    return p is not None and p <= 1.0 - CONFIDENCE


def difference(scores: RegimeScores, arm: str, other: str, group: str, test_per_train: float) -> Difference:
    """Paired difference of two arms, not adjusted.

    Args:
        scores: of the regime; a larger score is better.
        arm, other, group: what is compared, and where.
        test_per_train: see `paired_estimate`; 0 where seeds have data of their own.
    """
    mine, theirs = scores.values(arm, group), scores.values(other, group)
    found = {seed: mine[seed] - theirs[seed] for seed in mine if seed in theirs}
    estimate = paired_estimate([*found.values()], test_per_train)
    return Difference(
        arm,
        other,
        group,
        n=len(found),
        mean=fmean(found.values()) if found else None,
        interval=estimate.interval,
        p=estimate.p,
        n_mixed=sum(scores.is_mixed(arm, other, seed) for seed in found),
    )


def adjusted(family: Sequence[Difference]) -> list[Difference]:
    """The same differences with p values adjusted for their number."""
    p_values = holm([one.p for one in family])
    return [replace(one, p_holm=p) for one, p in zip(family, p_values, strict=True)]


def against(scores: RegimeScores, reference: str, test_per_train: float) -> dict[tuple[str, str], Difference]:
    """(arm, group) -> difference to a reference; all arms of a group are a family."""
    found = {}
    for group in scores.groups:
        others = [arm for arm in scores.arms if arm != reference]
        family = adjusted([difference(scores, arm, reference, group, test_per_train) for arm in others])
        found |= {(one.arm, one.group): one for one in family}
    return found


def all_are(differences: Iterable[Difference], word: str) -> bool:
    """Whether all of them, one at least, have this word."""
    words = [one.word for one in differences]
    return bool(words) and set(words) == {word}


def signed(value: float) -> str:
    """A difference of scores, as -.012."""
    return without_zero(f"{value:+.3f}")

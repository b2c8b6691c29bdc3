"""What controls say: their differences, adjusted for each other, and the tables of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controls import CONTROLS, OVERVIEWS  # a script beside its modules
from ledger import ALL, RegimeScores
from verdicts import NOT_SHOWN, Difference, adjusted, difference

#: (arm, control, group) -> difference; groups are in the order of the page.
Judged = Mapping[tuple[str, str, str], Difference]


def judged_controls(scores: RegimeScores, test_per_train: float) -> Judged:
    """All differences of a regime's rows that have scores, with p values adjusted for their number.

    Differences over all clients are one family; those of groups of clients are another.

    Args:
        scores: of the regime.
        test_per_train: see `difference`.
    """
    arms = {*scores.arms}
    rows = [one for one in CONTROLS if one.regime == scores.name and {one.arm, one.control} <= arms]
    found: dict[tuple[str, str, str], Difference] = {}
    for groups in ([group for group in scores.groups if group != ALL], [ALL]):
        family = [difference(scores, one.arm, one.control, group, test_per_train) for one in rows for group in groups]
        found |= {(one.arm, one.other, one.group): one for one in adjusted(family)}
    return found


def shown_on_the_whole_page(judged: Mapping[str, Judged]) -> set[tuple[str, str, str]]:
    """(regime, arm, control) of differences over all clients that stay shown when they are adjusted for all regimes."""
    over_all = [(regime, one) for regime, of_regime in judged.items() for one in of_regime.values() if one.group == ALL]
    family = adjusted([one for _, one in over_all])
    return {
        (regime, one.arm, one.other) for (regime, _), one in zip(over_all, family, strict=True) if one.word != NOT_SHOWN
    }


def overview(name: str, judged: Mapping[str, Judged]) -> dict[str, list[Difference | None]]:
    """Differences over all clients of what decides everywhere.

    Args:
        name: key of `OVERVIEWS`.
        judged: regime, in order -> its differences.

    Returns:
        Regime that has rows of all these things -> a difference per thing; None: an arm was not run.
    """
    found = {}
    for regime, of_regime in judged.items():
        controls = {one.thing: one for one in CONTROLS if one.regime == regime}
        if of_regime and {*OVERVIEWS[name]} <= {*controls}:
            rows = [controls[thing] for thing in OVERVIEWS[name]]
            found[regime] = [of_regime.get((one.arm, one.control, ALL)) for one in rows]
    return found


def n_seeds(column: Iterable[Difference | None]) -> int:
    """Largest number of seeds of a difference of a regime; 0: none was run."""
    return max((one.n for one in column if one is not None), default=0)


def overview_rows(name: str, judged: Mapping[str, Judged]) -> Iterator[str]:
    """Table of what decides everywhere: a row per thing praised, a column per regime that has some of their arms.

    Args:
        name, judged: see `overview`.
    """
    columns, everywhere = overview(name, judged), shown_on_the_whole_page(judged)
    if not columns:
        return
    n_of = {regime: n_seeds(column) for regime, column in columns.items()}
    heads = [f"`{regime}` (n = {n})" for regime, n in n_of.items()]
    yield f"| What is praised | {' | '.join(heads)} |"
    yield "|---" * (1 + len(columns)) + "|"
    for thing, *row in zip(OVERVIEWS[name], *columns.values(), strict=True):
        cells = (
            _cell(one, n, one is not None and (regime, one.arm, one.other) in everywhere)
            for (regime, n), one in zip(n_of.items(), row, strict=True)
        )
        yield f"| {thing} | {' | '.join(cells)} |"


def _cell(one: Difference | None, n: int, is_everywhere: bool) -> str:
    """Difference and word, with its number of seeds where that is not the one of the column."""
    if one is None:
        return "not run"
    word = f"**{one.word}**" if is_everywhere else one.word
    return f"{one} {word}" + ("" if one.n == n else f" (n = {one.n})")


def control_rows(judged: Mapping[str, Judged]) -> Iterator[str]:
    """Rows of all regimes, of controls whose arms both have scores."""
    for regime, of_regime in judged.items():
        groups = dict.fromkeys(group for *_, group in of_regime)
        for one in (one for one in CONTROLS if one.regime == regime and (one.arm, one.control, ALL) in of_regime):
            named = f"| `{regime}` | {one.thing} | {one.arm} | {one.control} |"
            in_groups = [of_regime[one.arm, one.control, group] for group in groups]
            said = "; ".join(f"{each.group}: {each} {each.word} ({each.p_values})" for each in in_groups)
            yield f"{named} {said} | {in_groups[-1].n_mixed} |"

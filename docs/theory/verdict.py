"""Predictions beside winners: what was right, what was wrong, and what a rule without pilots would have got right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ledger import ALL, Ledger, RegimeScores  # a script beside its modules
from panel import ALONE, ARMS, AVERAGING, SHEAF, TOLD_DIFFUSION, Regime
from pilot import read_pilots
from rule import predicted
from sheafedge.scenarios.compare.statistics import paired_estimate

KINDS = (ALONE, AVERAGING, SHEAF)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the seeds of a regime say about the three kinds.

    Attributes:
        best: kind -> its arm with the best mean.
        means: kind -> that mean.
        winner: the kind with the best of these.
        n_seeds: that all arms have.
        level: kinds whose best arm is not shown to be behind that of the winner, the winner among them: the 95 %
            interval of the paired difference holds 0.
    """

    best: dict[str, str]
    means: dict[str, float]
    winner: str
    level: frozenset[str]
    n_seeds: int


def outcome(scores: RegimeScores, regime: Regime) -> Outcome | None:
    """Outcome of a regime; None: a run is missing."""
    values = {arm: scores.values(arm, ALL) for arm in regime.arms}
    if not all(values.values()) or len({frozenset(seeds) for seeds in values.values()}) != 1:
        return None
    means = {arm: fmean(of_seeds.values()) for arm, of_seeds in values.items()}
    best = {
        kind: max((arm for arm in means if ARMS[arm][0] == kind), key=lambda arm: means[arm])
        for kind in KINDS
        if any(ARMS[arm][0] == kind for arm in means)
    }
    winner = max(best, key=lambda kind: means[best[kind]])
    # of the split, which is what seeds deal anew; samples that training leaves out on purpose do not count
    ratio = scores.test_per_train * regime.edits.get("data.train_fraction", 1.0) if regime.measured else 0.0
    level = {winner}
    for kind, arm in best.items():
        mine, theirs = values[best[winner]], values[arm]
        interval = paired_estimate([mine[seed] - theirs[seed] for seed in mine], ratio).interval
        if interval is None or interval[0] <= 0.0:
            level.add(kind)
    return Outcome(
        best, {kind: means[arm] for kind, arm in best.items()}, winner, frozenset(level), len(values[best[winner]])
    )


def table(chosen: Sequence[Regime], ledger: Ledger, path: Path) -> str:
    """The table of the page, and under it how often each rule was right."""
    return "\n".join(_lines(chosen, ledger, path))


def _lines(chosen: Sequence[Regime], ledger: Ledger, path: Path) -> Iterator[str]:
    pilots = read_pilots(path)
    yield "| regime | seeds | alone | averaging | sheaf | winner | level with it | predicted | |"
    yield "|---|---|---|---|---|---|---|---|---|"
    judged: list[tuple[Outcome, str]] = []
    for regime in chosen:
        found, mine = outcome(ledger.of(regime.name), regime), [one for one in pilots if one.regime == regime.name]
        if found is None or not mine:
            continue
        guess = predicted(mine, maps_differ=TOLD_DIFFUSION in regime.arms)
        cells = [f"{found.means[kind]:.3f} ({found.best[kind]})" if kind in found.best else "-" for kind in KINDS]
        level = ", ".join(kind for kind in KINDS if kind in found.level - {found.winner}) or "-"
        word = _word(found, guess) + (", designed on" if regime.design else "")
        yield (
            "| " + " | ".join([f"`{regime.name}`", str(found.n_seeds), *cells, found.winner, level, guess, word]) + " |"
        )
        if not regime.design:
            judged.append((found, guess))
    if not judged:
        return
    yield ""
    yield "| rule, on the regimes that it was not designed on | winner predicted | winner or level with it | of |"
    yield "|---|---|---|---|"
    rules = {"pilots": [guess for _, guess in judged], **{f"always {kind}": [kind] * len(judged) for kind in KINDS}}
    for name, guesses in rules.items():
        pairs = [(found, guess) for (found, _), guess in zip(judged, guesses, strict=True)]
        exact = sum(guess == found.winner for found, guess in pairs)
        level_or = sum(guess in found.level for found, guess in pairs)
        yield f"| {name} | {exact} | {level_or} | {len(pairs)} |"


def _word(found: Outcome, guess: str) -> str:
    if guess == found.winner:
        return "right"
    return "level" if guess in found.level else "**wrong**"

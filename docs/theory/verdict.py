"""Predictions beside winners: what was right, what a wrong choice costs, and what always the same kind would cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ledger import ALL, Ledger, RegimeScores  # a script beside its modules
from panel import ARMS, KINDS, PILOTS, RACE, TOLD_DIFFUSION, Regime
from pilot import read_pilots
from rule import predicted, raced
from sheafedge.scenarios.compare.statistics import paired_estimate

#: A choice that is less than this behind the best kind is near it, in points of the score.
NEAR = 0.01


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

    def lost_by(self, kind: str) -> float:
        """How far a kind is behind the winner."""
        return self.means[self.winner] - self.means[kind]


@dataclass(frozen=True, slots=True)
class Judged:
    """A regime, what was found in it, and what each rule said of it.

    Attributes:
        regime, found: the regime and its outcome.
        guesses: rule -> the kind that it predicts.
    """

    regime: Regime
    found: Outcome
    guesses: dict[str, str]


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


def judged(chosen: Sequence[Regime], ledger: Ledger, races: Ledger, pilots: Path) -> list[Judged]:
    """Regimes that have scores, with the guesses of the rules that have what they need."""
    found, known = [], read_pilots(pilots)
    for regime in chosen:
        result = outcome(ledger.of(regime.name), regime)
        if result is None:
            continue
        guesses = {}
        if mine := [one for one in known if one.regime == regime.name]:
            guesses[PILOTS] = predicted(mine, maps_differ=TOLD_DIFFUSION in regime.arms)
        if (guess := raced(races.of(regime.name), regime)) is not None:
            guesses[RACE] = guess
        found.append(Judged(regime, result, guesses))
    return found


def table(found: Sequence[Judged]) -> str:
    """The table of regimes."""
    return "\n".join(_regime_lines(found))


def totals(found: Sequence[Judged]) -> str:
    """How often each rule was right, on the regimes that it had not seen."""
    return "\n".join(_total_lines(found))


def likeness(found: Sequence[Judged], pilots: Path) -> str:
    """How alike training had changed the heads of neighbors after ten rounds, by who won in the end."""
    return "\n".join(_likeness_lines(found, pilots))


def _regime_lines(found: Sequence[Judged]) -> Iterator[str]:
    yield f"| regime | seeds | alone | averaging | sheaf | winner | level with it | {PILOTS} | {RACE} |"
    yield "|---" * 9 + "|"
    for one in found:
        best, means = one.found.best, one.found.means
        cells = [f"{means[kind]:.3f} ({best[kind]})" if kind in best else "-" for kind in KINDS]
        level = ", ".join(kind for kind in KINDS if kind in one.found.level - {one.found.winner}) or "-"
        said = [_guess(one, rule) for rule in (PILOTS, RACE)]
        name, n = f"`{one.regime.name}`", str(one.found.n_seeds)
        yield "| " + " | ".join([name, n, *cells, one.found.winner, level, *said]) + " |"


def _guess(one: Judged, rule: str) -> str:
    """What a rule said, in bold where that is not the winner; in brackets where the rule had seen the regime."""
    if rule not in one.guesses:
        return "-"
    guess = one.guesses[rule]
    text = guess if guess == one.found.winner else f"**{guess}** (-{one.found.lost_by(guess):.3f})"
    return f"[{text}]" if rule in one.regime.known_to else text


def _total_lines(found: Sequence[Judged]) -> Iterator[str]:
    yield (
        f"| regimes | rule | winner named | less than {NEAR:g} behind it | shown behind it | lost in the mean"
        " | lost at most | of |"
    )
    yield "|---" * 8 + "|"
    for regimes, new_to, rules in (("new to the pilots", PILOTS, (PILOTS,)), ("new to both", RACE, (PILOTS, RACE))):
        among = [one for one in found if new_to not in one.regime.known_to and new_to in one.guesses]
        for rule in (*rules, *(f"always {kind}" for kind in KINDS)) if among else ():
            kinds = [one.guesses.get(rule, rule.removeprefix("always ")) for one in among]
            pairs = [(one.found, kind) for one, kind in zip(among, kinds, strict=True)]
            lost = [result.lost_by(kind) for result, kind in pairs]
            exact = sum(kind == result.winner for result, kind in pairs)
            near, behind = sum(loss < NEAR for loss in lost), sum(kind not in result.level for result, kind in pairs)
            yield (
                f"| {regimes} | {rule} | {exact} | {near} | {behind} | {fmean(lost):.4f} | {max(lost):.3f}"
                f" | {len(pairs)} |"
            )


def _likeness_lines(found: Sequence[Judged], pilots: Path) -> Iterator[str]:
    yield "| winner | regimes with pilots | heads of neighbors alike, least to most | through maps, least to most |"
    yield "|---" * 4 + "|"
    known = read_pilots(pilots)
    for kind in KINDS:
        mine = [[one for one in known if one.regime == each.regime.name] for each in found if each.found.winner == kind]
        by_number = [fmean(one.alike for one in seeds) for seeds in mine if seeds]
        through_maps = [fmean(one.told_alike for one in seeds) for seeds in mine if seeds]
        ends = (f"{min(each):.2f} to {max(each):.2f}" if each else "-" for each in (by_number, through_maps))
        yield f"| {kind} | {len(by_number)} | {' | '.join(ends)} |"

"""The search for step sizes behind `docs/results.md`.

All arms of a search try one grid with its first seed. An arm whose best lies clearly at an edge of what it tried goes
on beyond that edge. A control tries what was chosen for the arms whose gain it decides, too. The best combinations of
every arm are tried with the other seeds, and the best mean over all of them is chosen; where that lies clearly at an
edge, what is beyond is tried with all seeds. What every run scored is kept beside the page in `steps.csv`, as it
comes: nothing in it is run again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from keeping import run_and_keep  # a script beside its modules
from ledger import ALL, rows_of_run, sizes_of
from sheafedge.scenarios.compare.comparison import Comparison
from sheafedge.scenarios.compare.plan import PlannedRun, planned_runs
from sheafedge.scenarios.compare.result_table import without_zero
from sheafedge.scenarios.compare.stored_runs import run_code, stored_summary
from sheafedge.scenarios.compare.tuning import VALIDATION
from tables import read_rows, write_rows

ENCODER, HEAD = "training.encoder_step_size", "training.head_step_size"
#: Values of grids: what lies beside one of them is tried next.
LADDER = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
#: An arm goes on at most so often with the first seed, and in the mean over all, where an edge of what it tried is
#: better than the rest by more than this.
WIDENINGS, GAIN = 4, 0.005

#: Step sizes of encoders, and of heads.
Sizes = tuple[float, float]
Grid = Mapping[str, Sequence[float]]
#: Control -> arms whose gain it decides.
Controls = Mapping[str, Collection[str]]


@dataclass(frozen=True)
class Search:
    """How the arms of some regimes are tuned.

    Attributes:
        regime: whose samples are used.
        grid: what every arm tries.
        seeds: of the search; none of them is scored.
        edits: of its runs alone.
        until: `sharing.until` of arms that set it: the same share of the fewer rounds of a search.
        alike: arm that is not searched for -> arm whose step sizes it gets.
        finalists: combinations of every arm that all seeds try: the more, the less the first seed tells.
    """

    regime: str
    grid: Grid
    seeds: Sequence[int] = (100,)
    edits: Mapping[str, Any] | None = None
    until: int = 0
    alike: Mapping[str, str] = field(default_factory=dict)
    finalists: int = 3


@dataclass(frozen=True, slots=True)
class Step:
    """What one combination scored on validation samples of one seed.

    Attributes:
        search, arm: of whom.
        encoder, head: step sizes.
        seed: of the search.
        score: mean over clients; nan: the run failed, as its numbers left the finite ones.
        code: of the software that made the run.
    """

    search: str
    arm: str
    encoder: float
    head: float
    seed: int
    score: float
    code: str

    @property
    def key(self) -> tuple[str, str, float, float, int]:
        """What is there once."""
        return self.search, self.arm, self.encoder, self.head, self.seed


class StepTable:
    """Rows of a file `steps.csv`.

    Args:
        path: of the file; it may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = {row.key: row for row in read_rows(path, Step)}

    def arms(self, search: str) -> list[str]:
        """Arms of a search of which something was tried."""
        return list(dict.fromkeys(row.arm for row in self._rows.values() if row.search == search))

    def tried(self, search: str, arm: str) -> dict[Sizes, dict[int, float]]:
        """Step sizes -> seed -> score."""
        found: dict[Sizes, dict[int, float]] = {}
        for row in self._rows.values():
            if (row.search, row.arm) == (search, arm):
                found.setdefault((row.encoder, row.head), {})[row.seed] = row.score
        return found

    def has(self, search: str, arm: str, sizes: Sizes, seed: int) -> bool:
        """Whether it was tried."""
        return (search, arm, *sizes, seed) in self._rows

    def ranked(self, search: str, arm: str) -> list[tuple[Sizes, float]]:
        """Step sizes with their mean score, best first; of those alone that most seeds tried, and none of which failed.

        A mean over fewer seeds could win by easy ones.
        """
        tried = {sizes: list(scores.values()) for sizes, scores in self.tried(search, arm).items()}
        most = max(map(len, tried.values()), default=0)
        means = [(sizes, fmean(scores)) for sizes, scores in tried.items() if len(scores) == most]
        return sorted(((sizes, one) for sizes, one in means if not math.isnan(one)), key=lambda pair: -pair[1])

    def best(self, search: str) -> dict[str, Sizes]:
        """Arm -> its step sizes; one whose runs all failed has none."""
        ranked = {arm: self.ranked(search, arm) for arm in self.arms(search)}
        return {arm: of_arm[0][0] for arm, of_arm in ranked.items() if of_arm}

    def chosen(self, search: str) -> dict[str, dict[str, float]]:
        """Arm -> its settings."""
        return {arm: dict(zip((ENCODER, HEAD), sizes, strict=True)) for arm, sizes in self.best(search).items()}

    def put(self, steps: Iterable[Step]) -> None:
        """Add rows, in the place of those of the same run."""
        self._rows |= {step.key: step for step in steps}

    def write(self) -> None:
        """Write the file as a whole, ordered."""
        write_rows(self.path, Step, sorted(self._rows.values(), key=lambda row: row.key))

    def markdown(self, search: str) -> str:
        """Table of a search: what was chosen for every arm, and the best that lost."""
        lines = ["| arm | encoder | head | score | next best | combinations tried | runs |", "|---" * 7 + "|"]
        for arm in self.arms(search):
            tried, ranked = self.tried(search, arm), self.ranked(search, arm)
            sizes = [f"{size:g}" for size in ranked[0][0]] if ranked else ["-", "-"]
            scores = [_number(score) for _, score in ranked[:2]]
            cells = [arm, *sizes, *scores, *["-"] * (2 - len(scores))]
            cells += [str(len(tried)), str(sum(map(len, tried.values())))]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)


def search_steps(
    name: str, search: Search, comparison: Comparison, table: StepTable, out: Path, jobs: int, controls: Controls
) -> None:
    """Try what was not tried yet, keeping the score of each run before the next.

    Args:
        name: of the search.
        search: how it is done.
        comparison: of the regime whose samples are used, with all arms of all regimes that are tuned by this search.
        table: what was tried before.
        out: folder of runs.
        jobs: runs at a time.
        controls: of its arms.
    """
    arms = {arm: edits for arm, edits in comparison.methods.items() if arm not in search.alike}
    # arms with step sizes of their own keep them
    if fixed := [arm for arm, edits in arms.items() if {ENCODER, HEAD} & edits.keys()]:
        raise SystemExit(f"{', '.join(fixed)} set step sizes, which are searched for; leave them out of the file")
    searched = shortened(comparison.edited({"methods": arms, "reference": ""}), search)
    first, *others = search.seeds
    attempt = partial(_try, name, searched, table=table, out=out, jobs=jobs)
    for _ in range(1 + WIDENINGS):
        attempt(chosen_for_others(table, name, controls), first)
        for _ in range(1 + WIDENINGS):
            grids = {arm: grid_of(search, table.tried(name, arm), first) for arm in arms}
            attempt({arm: list(product(*grid)) for arm, grid in grids.items()}, first)
        for seed in others:
            ranked = {arm: _of_seed(table.tried(name, arm), first) for arm in arms}
            attempt({arm: [sizes for sizes, _ in best[: search.finalists]] for arm, best in ranked.items()}, seed)
        beyond = {arm: beyond_the_edge(table, name, arm) for arm in arms}
        for seed in search.seeds:
            attempt(beyond, seed)


def chosen_for_others(table: StepTable, search: str, controls: Controls) -> dict[str, list[Sizes]]:
    """Control -> step sizes that were chosen for an arm whose gain it decides, and that it did not try itself.

    A gain could be due to these in the place of what is praised.

    Args:
        table: what was tried.
        search: its name.
        controls: of its arms.
    """
    best, owed = table.best(search), dict[str, list[Sizes]]()
    for control, arms in controls.items():
        tried = table.tried(search, control)
        if missing := [best[arm] for arm in arms if arm in best and best[arm] not in tried]:
            owed[control] = missing
    return owed


def beyond_the_edge(table: StepTable, search: str, arm: str) -> list[Sizes]:
    """Step sizes next to the chosen ones where these lie at an edge, clearly the best in the mean over all seeds.

    Args:
        table: what was tried.
        search: its name.
        arm: of the search.
    """
    tried, means = table.tried(search, arm), dict(table.ranked(search, arm))
    if not means:
        return []
    best = max(means, key=means.__getitem__)
    encoders, heads = ({sizes[index] for sizes in tried} for index in (0, 1))
    return [
        *((encoder, best[1]) for encoder in _widened_along(0, encoders, means) if encoder not in encoders),
        *((best[0], head) for head in _widened_along(1, heads, means) if head not in heads),
    ]


def grid_of(search: Search, tried: Mapping[Sizes, Mapping[int, float]], seed: int) -> tuple[Sequence[float], ...]:
    """Step sizes of encoders, and of heads, that an arm has to try with the first seed, after what it tried."""
    scores = {sizes: of_sizes[seed] for sizes, of_sizes in tried.items() if seed in of_sizes}
    grid = [
        sorted({*search.grid[key]} | {sizes[index] for sizes in scores}) for index, key in enumerate((ENCODER, HEAD))
    ]
    if not {*product(*grid)} <= scores.keys():
        return tuple(grid)  # what is not known yet may be better than an edge
    return tuple(_widened_along(index, values, scores) for index, values in enumerate(grid))


def _widened_along(index: int, values: Iterable[float], scores: Mapping[Sizes, float]) -> tuple[float, ...]:
    """Values of encoders (0) or heads (1), widened by what the combinations with each score at best."""
    scored = [(sizes[index], score) for sizes, score in scores.items()]
    return widened({value: _best(score for own, score in scored if own == value) for value in values})


def _best(scores: Iterable[float]) -> float:
    """Largest of the finite ones; minus infinity: there is none."""
    return max((score for score in scores if not math.isnan(score)), default=-math.inf)


def _of_seed(tried: Mapping[Sizes, Mapping[int, float]], seed: int) -> list[tuple[Sizes, float]]:
    """Step sizes with their score with a seed, best first."""
    found = [(sizes, scores[seed]) for sizes, scores in tried.items() if not math.isnan(scores.get(seed, math.nan))]
    return sorted(found, key=lambda pair: -pair[1])


def _try(
    name: str,
    searched: Comparison,
    wanted: Mapping[str, Sequence[Sizes]],
    seed: int,
    *,
    table: StepTable,
    out: Path,
    jobs: int,
) -> None:
    """Run combinations of arms that the table does not have.

    Raises:
        SheafedgeError: as of `run_and_keep`. Nothing is kept then: a run that fails is one of bad step sizes.
    """
    arm_of: dict[str, str] = {}
    methods: dict[str, Mapping[str, Any]] = {}
    for arm, combinations in wanted.items():
        for encoder, head in combinations:
            if not table.has(name, arm, (encoder, head), seed):
                label = f"{arm} [{encoder:g}, {head:g}]"
                arm_of[label], methods[label] = arm, {**searched.methods[arm], ENCODER: encoder, HEAD: head}
    if not methods:
        return
    runs = planned_runs(
        searched.edited({"set": {**searched.edits, **VALIDATION}, "methods": methods, "seeds": [seed], "vary": {}})
    )
    folder, code = out / "runs", run_code()

    def put(run: PlannedRun, score: float, code: str) -> None:
        table.put([Step(name, arm_of[run.method], *sizes_of(run), seed, score, code)])
        table.write()

    def keep(run: PlannedRun) -> None:
        row = next(row for row in rows_of_run(name, run, stored_summary(folder / run.name)) if row.group == ALL)
        put(run, row.score, row.code)

    def is_kept(run: PlannedRun) -> bool:
        return table.has(name, arm_of[run.method], sizes_of(run), seed)

    for run in run_and_keep(runs, is_kept, keep, folder, jobs):
        put(run, math.nan, code)


def shortened(comparison: Comparison, search: Search) -> Comparison:
    """A comparison with the fewer rounds of a search, of all arms the same."""
    methods = {
        arm: {key: search.until if key == "sharing.until" else value for key, value in edits.items() if key != "rounds"}
        for arm, edits in comparison.methods.items()
    }
    return comparison.edited({"set": {**comparison.edits, **(search.edits or {})}, "methods": methods})


def widened(best: Mapping[float, float]) -> tuple[float, ...]:
    """Step sizes with the next one of the ladder at the end where the best lies, if it is clearly better than the rest.

    Args:
        best: step size -> best score with it; minus infinity: none.

    >>> widened({0.001: 0.50, 0.003: 0.52})
    (0.001, 0.003, 0.01)
    >>> widened({0.001: 0.50, 0.003: 0.501})
    (0.001, 0.003)
    """
    values = sorted(best)
    first, *rest = sorted(values, key=lambda value: -best[value])
    low, high = LADDER.index(values[0]), LADDER.index(values[-1])
    if best[first] - max((best[value] for value in rest), default=-math.inf) > GAIN:
        low -= low > 0 and first == values[0]
        high += high + 1 < len(LADDER) and first == values[-1]
    return LADDER[low : high + 1]


def at_the_edge(table: StepTable, search: str) -> list[str]:
    """Arms whose chosen combination has a largest or smallest value of all that were tried for them."""
    found = []
    for arm, own in table.best(search).items():
        tried = [sorted({sizes[index] for sizes in table.tried(search, arm)}) for index in (0, 1)]
        if any(len(values) > 1 and one in (values[0], values[-1]) for one, values in zip(own, tried, strict=True)):
            found.append(arm)
    return found


def lack_part(search: Search, name: str, table: StepTable, controls: Controls) -> list[str]:
    """Arms that did not try all that they have to, or of which too few combinations were tried with all seeds."""
    first, *others = search.seeds
    owed = chosen_for_others(table, name, controls)
    found = []
    for arm in table.arms(name):
        tried = table.tried(name, arm)
        of_first = {sizes for sizes, scores in tried.items() if first in scores}
        few = any(sum(seed in scores for scores in tried.values()) < search.finalists for seed in others)
        whole = {*product(*grid_of(search, tried, first))} <= of_first
        if few or arm in owed or not whole or beyond_the_edge(table, name, arm):
            found.append(arm)
    return found


def _number(score: float) -> str:
    return without_zero(f"{score:.3f}")

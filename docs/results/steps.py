"""The search for step sizes behind `docs/results.md`: one grid for all, wider for arms whose best lies at an edge.

What was tried is kept beside the page in `steps.csv`, as the scores are. Nothing is searched again for an arm that
is in it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any

from rich.console import Console
from sheafedge.scenarios.compare.comparison import Comparison
from sheafedge.scenarios.compare.stored_runs import run_code
from sheafedge.scenarios.compare.tuning import tune
from sheafedge.scenarios.terminal.compare_console import ComparisonLines
from tables import read_rows, write_rows  # a script beside its modules

ENCODER, HEAD = "training.encoder_step_size", "training.head_step_size"
#: Values of grids: what lies beside one of them is tried next.
LADDER = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
#: A grid is widened at most so often, where its edge is better than the rest by more than this.
WIDENINGS, GAIN = 4, 0.005

Grid = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Search:
    """How the arms of some regimes are tuned.

    Attributes:
        regime: whose samples are used.
        grid: where it begins.
        seeds: of the search; none of them is scored.
        edits: of its runs alone.
        until: `sharing.until` of arms that set it: the same share of the fewer rounds of a search.
        alike: arm whose runs take many times as long -> arm whose step sizes it gets.
    """

    regime: str
    grid: Grid
    seeds: Sequence[int] = (100,)
    edits: Mapping[str, Any] | None = None
    until: int = 0
    alike: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """What one combination scored on validation samples.

    Attributes:
        search, arm: of whom.
        encoder, head: step sizes.
        score: mean over clients and seeds; nan: numbers left the finite ones.
        chosen: whether it is the best of the arm.
        code: of the software that made the runs.
    """

    search: str
    arm: str
    encoder: float
    head: float
    score: float
    chosen: bool
    code: str


class StepTable:
    """Rows of a file `steps.csv`.

    Args:
        path: of the file; it may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.steps = path, read_rows(path, Step)

    def of(self, search: str) -> list[Step]:
        """All that was tried in a search."""
        return [step for step in self.steps if step.search == search]

    def chosen(self, search: str) -> dict[str, dict[str, float]]:
        """Arm -> its settings."""
        return {step.arm: {ENCODER: step.encoder, HEAD: step.head} for step in self.of(search) if step.chosen}

    def put(self, steps: Iterable[Step]) -> None:
        """Add what was tried for some arms, in the place of what was."""
        new = list(steps)
        arms = {(step.search, step.arm) for step in new}
        self.steps = [step for step in self.steps if (step.search, step.arm) not in arms] + new

    def write(self) -> None:
        """Write the file as a whole, ordered."""
        order = sorted(self.steps, key=lambda one: (one.search, one.arm, one.encoder, one.head))
        write_rows(self.path, Step, order)

    def markdown(self, search: str) -> str:
        """Table of a search: what was chosen for every arm, and the best that lost."""
        lines = ["| arm | encoder | head | score | tried | next best |", "|---" * 6 + "|"]
        for arm in dict.fromkeys(step.arm for step in self.of(search)):
            mine = [step for step in self.of(search) if step.arm == arm]
            best = next(step for step in mine if step.chosen)
            others = sorted((step.score for step in mine if not step.chosen and not isnan(step.score)), reverse=True)
            cells = [arm, f"{best.encoder:g}", f"{best.head:g}", _number(best.score), str(len(mine))]
            lines.append("| " + " | ".join([*cells, _number(others[0]) if others else "-"]) + " |")
        return "\n".join(lines)


def search_steps(
    name: str, search: Search, comparison: Comparison, table: StepTable, out: Path, options: argparse.Namespace
) -> None:
    """Find the step sizes of the arms that the table does not have, and write the table.

    Args:
        name: of the search.
        search: how it is done.
        comparison: of the regime whose samples are used, with all arms of all regimes that are tuned by this search.
        table: what was found before.
        out: folder of runs.
        options: `jobs` and `keep_stale`.
    """
    known = {*table.chosen(name), *search.alike}
    missing = {arm: edits for arm, edits in comparison.methods.items() if arm not in known}
    if not missing:
        return
    # arms with step sizes of their own keep them
    fixed = [arm for arm, edits in missing.items() if {ENCODER, HEAD} & edits.keys()]
    if fixed:
        raise SystemExit(f"{', '.join(fixed)} set step sizes, which are searched for; leave them out of the file")
    searched = shortened(comparison.edited({"methods": missing, "reference": ""}), search)
    found: dict[str, Any] = {}
    grids: dict[str, Grid] = dict.fromkeys(missing, search.grid)
    waiting = list(missing)
    for _ in range(1 + WIDENINGS):
        for grid in _different(grids[arm] for arm in waiting):
            methods = {arm: searched.methods[arm] for arm in waiting if grids[arm] == grid}
            of_grid = searched.edited({"methods": methods})
            with ComparisonLines(Console(emoji=False), keep_stale=options.keep_stale) as lines:
                tried = tune(of_grid, grid, search.seeds, out, options.jobs, lines, keep_stale=options.keep_stale)
            found |= tried["arms"]
        wider = {arm: _wider(grids[arm], found[arm]["tried"]) for arm in waiting}
        waiting = [arm for arm in waiting if wider[arm] != grids[arm]]
        grids |= wider
    code = run_code()
    table.put(
        Step(name, arm, *_sizes(tried["values"]), _score(tried["score"]), tried["values"] == facts["chosen"], code)
        for arm, facts in found.items()
        for tried in facts["tried"]
    )
    table.write()


def _different(grids: Iterable[Grid]) -> list[Grid]:
    """Each once, in order."""
    found: list[Grid] = []
    for grid in grids:
        if grid not in found:
            found.append(grid)
    return found


def _wider(grid: Grid, tried: Iterable[Mapping[str, Any]]) -> Grid:
    """The grid of an arm, widened where one of its edges is clearly the best of what was tried."""
    scored = [one for one in tried if one["score"] is not None]

    def best_at(key: str, value: float) -> float:
        return max((one["score"] for one in scored if one["values"][key] == value), default=float("-inf"))

    return {key: widened({value: best_at(key, value) for value in values}) for key, values in grid.items()}


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
        best: step size -> best score with it.

    >>> widened({0.001: 0.50, 0.003: 0.52})
    (0.001, 0.003, 0.01)
    >>> widened({0.001: 0.50, 0.003: 0.501})
    (0.001, 0.003)
    """
    values = sorted(best)
    first, *rest = sorted(values, key=lambda value: -best[value])
    low, high = LADDER.index(values[0]), LADDER.index(values[-1])
    if not rest or best[first] - best[rest[0]] > GAIN:
        low -= low > 0 and first == values[0]
        high += high + 1 < len(LADDER) and first == values[-1]
    return LADDER[low : high + 1]


def at_the_edge(steps: Sequence[Step]) -> list[str]:
    """Arms whose chosen combination has a largest or smallest value of all that were tried for them."""
    found = []
    for step in (one for one in steps if one.chosen):
        mine = [one for one in steps if one.arm == step.arm]
        tried = [(step.encoder, {one.encoder for one in mine}), (step.head, {one.head for one in mine})]
        if any(len(values) > 1 and own in (min(values), max(values)) for own, values in tried):
            found.append(step.arm)
    return found


def _sizes(values: Mapping[str, float]) -> tuple[float, float]:
    return values[ENCODER], values[HEAD]


def _score(score: float | None) -> float:
    return float("nan") if score is None else score


def _number(score: float) -> str:
    return f"{score:.3f}".replace("0.", ".", 1)

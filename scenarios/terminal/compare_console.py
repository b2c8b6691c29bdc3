"""Progress of a comparison, and its tables at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from ..compare.comparison_tables import failure_lines, legend, result_tables
from ..compare.differences import notes
from ..compare.jobs import JobOutcome
from ..compare.plan import PlannedRun
from ..compare.result_table import ResultTable, number
from ..compare.results import ALL_CLIENTS, groups_with_all
from ..compare.stored_runs import stored_summary
from ..report.shown_scores import heading
from ..tasks.task_table import TASKS
from .console_elements import data_table
from .progress_display import ProgressDisplay
from .run_console import WIDEST_ALGORITHM

#: A recording job that took less time found the world in the cache.
FOUND_S = 1.0
#: Width in columns that is enough for any table.
WIDE = 1000


class ComparisonLines(ProgressDisplay):
    """Prints a line per finished run, and shows a bar on a terminal.

    Args:
        console: where they are printed.
        keep_stale: what happens to runs that other software made: they are kept.

    Attributes:
        n_runs, n_done: number of different runs, and number of complete ones.
    """

    def __init__(self, console: Console, *, keep_stale: bool = False) -> None:
        super().__init__(console)
        self._keep_stale = keep_stale
        self.n_runs = self.n_done = self._n_ended = 0
        # the number of runs is not known before the plan is made
        self.phase("planning")

    def begun(self, n_runs: int, n_stored: int, stale: Mapping[str, int]) -> None:
        """Print the numbers of runs and of stored runs, and what happens to those that other software made."""
        self.n_runs, self.n_done = n_runs, n_stored
        self._print(f"{n_runs} runs, {n_stored} of them already stored{self._about_stale(stale)}")
        self._n_ended = n_stored
        self.phase("comparing", "runs", n_runs, n_stored)

    def _about_stale(self, stale: Mapping[str, int]) -> str:
        if not stale:
            return ""
        said = ", ".join(f"{n} by {reason}" for reason, n in stale.items())
        which = f"made by other software ({said})"
        if self._keep_stale:
            return f"; {sum(stale.values())} of these were {which} and are kept"
        return f"; {sum(stale.values())} more were {which} and are made again (--keep-stale keeps them)"

    def recorded(self, seed: int, outcome: JobOutcome) -> None:
        """Print how long a recording took."""
        if outcome.seconds > FOUND_S and not outcome.error:
            self._print(f"recorded a world of seed {seed}  {outcome.seconds:.0f} s")

    def ended(self, run: PlannedRun, folder: Path, outcome: JobOutcome) -> None:
        """Print the scores or the error of a run."""
        varied = "" if run.value is None else f", {run.value}"
        if outcome.error:
            self._print(f"{run.method}{varied}, seed {run.seed}: failed, {outcome.sentence}")
        else:
            self.n_done += 1
            self._print(f"{run.method}{varied}, seed {run.seed}: {_scores(folder)}  {outcome.seconds:.0f} s")
        self._n_ended += 1
        self.advanced(self._n_ended)

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False)


def print_results(console: Console, results: Mapping[str, Any], folder: Path) -> None:
    """Prints the main tables, the failures and the folder."""
    console.print(legend(results), soft_wrap=True, markup=False)
    for table in result_tables(results):
        if table.is_main:
            print_table(console, table)
    for note in notes(results):
        console.print(note, soft_wrap=True, highlight=False, markup=False)
    for line in failure_lines(results):
        console.print(f"[red]failed:[/red] {escape(line)}", soft_wrap=True)
    console.print(f"folder   {folder}", soft_wrap=True, markup=False)


def print_table(console: Console, table: ResultTable) -> None:
    """Prints a table at its smallest width without cut cells; the terminal wraps it if it is narrower."""
    shown = _rich_table(table)
    # measured as if the terminal were wide: rich cuts what does not fit, which would hide digits
    least = Measurement.get(console, console.options.update(width=WIDE), shown).minimum
    console.print(shown, width=max(console.width, least), crop=False)


def _rich_table(table: ResultTable) -> Table:
    """Rich table whose names and headings may wrap, while numbers do not."""
    shown = data_table(escape(table.title))
    for index, head in enumerate(table.heads):
        widest = max((len(row[index]) for row in table.rows), default=0)
        if index == 0:
            shown.add_column(head, overflow="fold", min_width=min(widest, WIDEST_ALGORITHM))
        else:
            shown.add_column(escape(head.replace("_", " ")), justify="right", overflow="fold", min_width=widest)
    for row in table.rows:
        shown.add_row(*map(escape, row))
    return shown


def _scores(folder: Path) -> str:
    summary = stored_summary(folder)
    first = TASKS[summary["task"]].columns[0]
    groups = {name: scores for name, scores in groups_with_all(summary).items() if name != ALL_CLIENTS}
    return f"{heading(first)} " + ", ".join(f"{name} {number(one[first.key], first)}" for name, one in groups.items())

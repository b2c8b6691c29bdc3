"""What a person sees while a comparison goes on, and its tables at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import MofNCompleteColumn
from rich.table import Table

from ..compare.plan import PlannedRun
from ..compare.results import ALL_CLIENTS, groups_with_all
from ..compare.stored_runs import stored_summary
from ..compare.tables import ResultTable, failure_lines, heading, legend, number, result_tables
from ..compare.work import Done
from ..tasks.task_table import TASKS
from .progress_bar import ShownWhileWorking
from .run_console import WIDEST_ALGORITHM

#: A recording that took less was found, not made.
FOUND_S = 1.0
#: More than any table needs.
WIDE = 1000


class ComparisonLines(ShownWhileWorking):
    """A line per run that ended, and a bar on a terminal.

    Attributes:
        n_runs, n_done: different runs of the comparison, and those of them that are there.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console, MofNCompleteColumn())
        self.n_runs = self.n_done = 0
        self._task = self._bar.add_task("runs", total=None)

    def begun(self, n_runs: int, n_stored: int) -> None:
        """Say what there is to do."""
        self.n_runs, self.n_done = n_runs, n_stored
        self._say(f"{n_runs} runs, {n_stored} of them there already")
        self._bar.update(self._task, total=n_runs, completed=n_stored)

    def recorded(self, seed: int, done: Done) -> None:
        """Say what took so long."""
        if done.seconds > FOUND_S and not done.error:
            self._say(f"recorded a world of seed {seed}  {done.seconds:.0f} s")

    def ended(self, run: PlannedRun, folder: Path, done: Done) -> None:
        """Say how one run went."""
        varied = "" if run.value is None else f", {run.value}"
        if done.error:
            self._say(f"{run.arm}{varied}, seed {run.seed}: failed, {done.sentence}")
        else:
            self.n_done += 1
            self._say(f"{run.arm}{varied}, seed {run.seed}: {_scores(folder)}  {done.seconds:.0f} s")
        self._bar.advance(self._task)

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)


def print_results(console: Console, results: Mapping[str, Any], folder: Path) -> None:
    """The tables worth a look, what failed, and where everything lies."""
    console.print(legend(results), soft_wrap=True, highlight=False, markup=False)
    for table in result_tables(results):
        if table.is_main:
            print_table(console, table)
    for line in failure_lines(results):
        console.print(f"[red]failed:[/red] {escape(line)}", soft_wrap=True, highlight=False)
    console.print(f"folder   {folder}", soft_wrap=True, highlight=False, markup=False)


def print_table(console: Console, table: ResultTable) -> None:
    """As wide as it must be: what a screen does not hold wraps, and nothing is cut."""
    shown = _rich_table(table)
    least = Measurement.get(console, console.options.update(width=WIDE), shown).minimum
    console.print(shown, width=max(console.width, least), crop=False)


def _rich_table(table: ResultTable) -> Table:
    """Names and headings fold, numbers stay whole."""
    shown = Table(title=escape(table.title), title_justify="left")
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

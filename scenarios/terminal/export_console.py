"""Progress of an export, and the accuracy tables of its bundles."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...emulator.contracts import NodeId
from ...emulator.edge.precisions import PRECISIONS
from ..export.bundles import ExportedBundle
from ..tasks.task_spec import Column, Task
from .console_elements import data_table, print_warning
from .progress_display import ProgressDisplay


class ExportProgress(ProgressDisplay):
    """A progress bar on a terminal; elsewhere only one line if the world has to be recorded again."""

    def __init__(self, console: Console, n_clients: int) -> None:
        super().__init__(console)
        self._n_clients, self._n_ready = n_clients, 0
        self.phase("loading")

    def recording(self, done: int, total: int) -> None:
        """The recording of the run is missing and is being made again."""
        if self.is_new("recording"):
            if not self._console.is_terminal:
                self._console.print("recording the world again, because its recording is missing", soft_wrap=True)
            self.phase("recording", "frames", total)
        self.advanced(done)

    def ready(self, client: NodeId) -> None:
        """One more client is exported."""
        if self.is_new("exporting"):
            self.phase("exporting", "clients", self._n_clients)
        self._n_ready += 1
        self.advanced(self._n_ready)


def print_bundles(console: Console, task: Task, made: Sequence[ExportedBundle]) -> None:
    """Prints scores per condition, agreement with the trained models, warnings, and the paths of the bundles."""
    of_precision = {one.precision: [each for each in made if each.precision == one.precision] for one in made}
    for precision, bundles in of_precision.items():
        # tables of the other precisions include the trained model
        if not PRECISIONS[precision].is_trained or len(of_precision) == 1:
            console.print(_table(task, bundles))
        for one in bundles:
            if one.choice:
                console.print(one.choice, soft_wrap=True, markup=False)
            for warning in one.warnings:
                print_warning(console, warning)
    for bundles in of_precision.values():
        _print_place(console, bundles)


def _print_place(console: Console, made: Sequence[ExportedBundle]) -> None:
    size = sum(one.model_bytes for one in made)
    counted = "1 bundle" if len(made) == 1 else f"{len(made)} bundles"
    kind = "folders and .zip" if made[0].archive else "folders"
    console.print(
        f"{counted} in {made[0].precision}, models {size / 1e6:.2f} MB, in {made[0].folder.parent} ({kind})",
        soft_wrap=True,
        markup=False,
    )


def _table(task: Task, made: Sequence[ExportedBundle]) -> Table:
    """Table of one precision: a row per condition, with the mean over clients and the worst client."""
    first, precision = task.columns[0], made[0].precision
    quantized = bool(made[0].evidence.trained)
    samples = sum(one.evidence.samples for one in made)
    table = data_table(escape(f"{task.title} On {samples:,} held-out samples: {first.title}"))
    table.add_column("condition", overflow="fold")
    titles = ["float32", precision, "worst change (client)", "agreement", "lowest (client)"]
    if not quantized:
        titles = [precision, "worst (client)"]
    for title in ("clients", *titles):
        table.add_column(title, justify="right")
    for condition in dict.fromkeys(name for one in made for name in one.evidence.scores):
        under = [one for one in made if condition in one.evidence.scores]
        row = _compared if quantized else _scored
        table.add_row(condition, str(len(under)), *row(first, condition, under))
    return table


def _scored(first: Column, condition: str, made: Sequence[ExportedBundle]) -> list[str]:
    scores = {one.client: one.evidence.scores[condition][first.key] for one in made}
    worst = min(scores, key=lambda client: first.rank(scores[client]))
    return [first.form.format(fmean(scores.values())), f"{first.form.format(scores[worst])} ({worst})"]


def _compared(first: Column, condition: str, made: Sequence[ExportedBundle]) -> list[str]:
    trained = [one.evidence.trained[condition][first.key] for one in made]
    found = [one.evidence.scores[condition][first.key] for one in made]
    agreement = {one.client: one.evidence.agreement[condition] for one in made}
    worst = max(made, key=lambda one: one.evidence.loss(condition))
    shown = worst.evidence
    change = round(shown.scores[condition][first.key] - shown.trained[condition][first.key], 3) + 0.0  # no -0.000
    lowest = min(agreement, key=lambda client: agreement[client])
    return [
        first.form.format(fmean(trained)),
        first.form.format(fmean(found)),
        f"{change:+.3f} ({worst.client})",
        f"{fmean(agreement.values()):.3f}",
        f"{agreement[lowest]:.3f} ({lowest})",
    ]

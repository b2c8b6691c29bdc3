"""What a person sees while a run goes on, and the tables at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, TextColumn
from rich.table import Table

from ..running.run import RunResult
from ..schema.scenario import Scenario
from ..tasks.task_spec import TaskSpec
from ..tasks.task_table import TASKS
from ..wiring.emulation import Emulation
from .progress_bar import ShownWhileWorking
from .value_console import deadline_lines, value_table
from .warning_line import print_warning

#: Without a terminal, one line every so many rounds.
LINES_PER_RUN = 6
#: Tables fit a terminal of 80 columns: titles of many figures break into two lines, names of algorithms do not.
MANY_FIGURES, FIGURE_WIDTH, WIDEST_ALGORITHM = 3, 9, 14


class LiveProgress(ShownWhileWorking):
    """A progress bar on a terminal, a few plain lines elsewhere."""

    def __init__(self, console: Console, scenario: Scenario) -> None:
        super().__init__(console, MofNCompleteColumn(), TextColumn("{task.fields[status]}"))
        self._scenario = scenario
        self._task = self._bar.add_task("loading", total=scenario.rounds, status="")
        self._last_status, self._recording = "", False

    def recording(self, done: int, total: int) -> None:
        """Move the bar; without a terminal, say once what takes so long."""
        if not self._console.is_terminal and not self._recording:
            self._console.print("recording the world, once; the next run finds it", soft_wrap=True)
        self._recording = True
        self._bar.update(self._task, description="recording", completed=done, total=total)

    def started(self, emulation: Emulation) -> None:
        """Say what is about to run."""
        scenario = self._scenario
        groups = ", ".join(f"{len(members)} {escape(group)}" for group, members in emulation.groups.items())
        device = next(iter(emulation.clients[0].models.values())).head.device
        self._console.print(
            f"[bold]{escape(scenario.name)}[/bold]  {scenario.algorithm}, seed {scenario.seed}:"
            f" {len(emulation.clients)} base stations ({groups}), {emulation.graph.number_of_edges()} edges,"
            f" {scenario.rounds} rounds on {device}",
            soft_wrap=True,
        )
        for warning in emulation.warnings:
            print_warning(self._console, warning)
        self._bar.update(self._task, description="training", completed=0, total=scenario.rounds)

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        """Move the bar, or print a line now and then."""
        if score is not None:
            first = self._scenario.task_spec.columns[0]
            self._last_status = f"{first.title} {first.form.format(score)}"
        status = f"{self._last_status}  {now_s:.1f} s simulated"
        self._bar.update(self._task, completed=round_index + 1, status=status)
        scored = self._scenario.evaluate_every  # a line has something new to say when models were scored
        every = scored * max(1, round(self._scenario.rounds / LINES_PER_RUN / scored))
        if not self._console.is_terminal and (round_index + 1) % every == 0:
            self._console.print(f"round {round_index + 1}/{self._scenario.rounds}  {status}", soft_wrap=True)

    def stopping(self) -> None:
        """Say why it does not stop at once."""
        self._console.print("stopping after this round, so that the run can go on; once more to stop at once")

    def worker_lost(self, sentence: str) -> None:
        """Say why rounds come again."""
        print_warning(self._console, f"{sentence}; going on from the last checkpoint with new workers")

    def exporting(self, n_clients: int) -> None:
        """Say why the bar stands still."""
        self._bar.update(self._task, description="exporting", status=f"{n_clients} ONNX models")


def print_result(console: Console, result: RunResult) -> None:
    """Scores beside baselines, traffic, simulated time, where the models are, and what became unstable on the way."""
    summary = result.summary
    console.print(_score_table(summary))
    _print_value(console, summary.get("value", {}))
    facts = _facts(result)
    if console.is_terminal:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, text in facts.items():
            table.add_row(name, escape(text))
        console.print(table)
    else:  # one line each, whole, for whoever reads them by program
        for name, text in facts.items():
            console.print(f"{name:8} {escape(text)}", soft_wrap=True)
    for warning in result.warnings:
        print_warning(console, warning)


def _print_value(console: Console, value: Mapping[str, Any]) -> None:
    """What acting on the answers brought; nothing where it was not played."""
    if "groups" in value:
        console.print(value_table(value))
        for line in deadline_lines(value):
            console.print(f"in time  {escape(line)}", soft_wrap=True)


def _queued(traffic: Mapping[str, int]) -> str:
    """What queues did to messages, where they did anything."""
    dropped, waiting = traffic["dropped_messages"], traffic["waiting_messages"]
    return (f"; full queues refused {dropped:,} messages" if dropped else "") + (
        f"; {waiting:,} still waited at the end" if waiting else ""
    )


def _facts(result: RunResult) -> dict[str, str]:
    summary, traffic = result.summary, result.summary["traffic"]
    return {
        "traffic": f"{traffic['messages']:,} messages, {traffic['bytes'] / 1e6:,.1f} MB",
        "losses": f"{traffic['lost_messages']:,} messages lost, {traffic['partial_messages']:,} used in part,"
        f" {traffic['late_messages']:,} late; {traffic['lost_packets']:,} packets lost for good,"
        f" {traffic['retransmissions']:,} sent again{_queued(traffic)}",
        "time": f"{summary['virtual_time_s']:.1f} s simulated ({summary['energy_j']:.0f} J of computing); here"
        f" {summary['recording_time_s']:.1f} s for the data, {summary['wall_time_s']:.1f} s of training,"
        f" {summary['value_time_s']:.1f} s of serving, {summary['export_time_s']:.1f} s for exports",
        "models": _export_line(result.folder, summary["exports"]),
        "pictures": ", ".join(str(result.folder / name) for name in summary["pictures"]) or "none",
        **_paced(summary),
        "folder": str(result.folder),
        "trace": summary["trace_hash"],
    }


def _paced(summary: Mapping[str, Any]) -> dict[str, str]:
    """How well the clock kept to the wall, and what came of outside clients; nothing where neither was asked for."""
    facts = {}
    if pace := summary.get("realtime"):
        facts["pace"] = (
            f"{pace['speed']:g} simulated seconds per real one; events were {pace['lag_mean_s'] * 1e3:.1f} ms late on"
            f" average, {pace['lag_max_s'] * 1e3:.0f} ms at most"
        )
    if outside := summary.get("outside"):
        facts["outside"] = "; ".join(
            f"client {one['client']} took {one['turns_in_time']} of {one['turns']} turns in time, {one['late']} answers"
            f" late, {one['refused']} refused"
            for one in outside
        )
    return facts


_SPLITS = {
    "sequence": "held-out drive-bys",
    "time": "held-out time",
    "random": "a random split: rows leak, for comparison only",
}
_VALIDATION = {
    "sequence": "validation drive-bys, not the test",
    "time": "validation time, not the test",
    "random": "random validation rows, not the test: rows leak",
}


def _score_table(summary: Mapping[str, Any]) -> Table:
    task = TASKS[summary["task"]]
    scored_on = (_VALIDATION if summary["scored"] == "validation" else _SPLITS)[summary["split"]]
    title = f"{task.title} On {scored_on} ({summary['test_windows']:,} samples)"
    table = Table(title=title, title_justify="left")
    table.add_column("group (clients)", overflow="fold")
    table.add_column("model", overflow="fold", min_width=WIDEST_ALGORITHM)
    width = FIGURE_WIDTH if len(task.columns) > MANY_FIGURES else None
    for column in task.columns:
        table.add_column(column.title, justify="right", max_width=width)
    for group, scores in summary["groups"].items():
        model = summary["algorithm"] if scores["model"] == "fused" else f"{summary['algorithm']}: {scores['model']}"
        name = f"{escape(group)} ({scores['clients']})"
        table.add_row(name, f"[bold]{model}[/bold]", *_figures(task, scores))
        for name, baseline in summary["baselines"][group].items():
            table.add_row("", f"[dim]{name}[/dim]", *_figures(task, baseline), end_section=name == "majority")
    return table


def _figures(task: TaskSpec, scores: Mapping[str, float]) -> list[str]:
    return [column.form.format(scores[column.key]) if column.key in scores else "-" for column in task.columns]


def _export_line(folder: Path, exports: list[Mapping[str, Any]]) -> str:
    if not exports:
        return "none (export.onnx = false)"
    providers = ", ".join(sorted({row["provider"] for row in exports}))
    error = max(row["max_abs_error"] for row in exports)
    size = sum(row["bytes"] for row in exports)
    where = folder / Path(exports[0]["path"]).parent
    return f"{len(exports)} ONNX files, {size / 1e6:.1f} MB in {where}; within {error:.1e} of torch on {providers}"

"""Progress of a run: a labeled bar on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from ..running.progress_pace import ProgressPace, rate_text, time_text
from ..schema.scenario import Scenario
from ..tasks.task_spec import SensorTask
from ..wiring.emulation import Emulation
from .console_elements import print_warning
from .progress_display import ProgressDisplay

#: Without a terminal, about so many progress lines are printed per run.
LINES_PER_RUN = 6


class LiveProgress(ProgressDisplay):
    """Callbacks of a run, see `RunProgress`: recording, training and export are phases with bars of their own."""

    def __init__(self, console: Console, scenario: Scenario) -> None:
        super().__init__(console)
        self._scenario = scenario
        self._last_score, self._rounds = "", 0
        self.phase("loading")

    def recording(self, done: int, total: int) -> None:
        """Move the bar; without a terminal, print once that a recording is being made."""
        if self.is_new("recording"):
            if not self._console.is_terminal:
                self._console.print("recording the world (once; later runs reuse the recording)", soft_wrap=True)
            self.phase("recording", "frames", total)
        self.advanced(done)

    def started(self, emulation: Emulation) -> None:
        """Print algorithm, seed, groups, edges and rounds, notes on the coupling, and the warnings of the scenario."""
        scenario = self._scenario
        clients = "base stations" if isinstance(scenario.task_spec, SensorTask) else "clients"
        groups = ", ".join(f"{len(members)} {escape(group)}" for group, members in emulation.groups.items())
        # of the model itself: "auto" in the scenario does not name the device
        device = next(iter(emulation.clients[0].models.values())).head.device
        self._console.print(
            f"[bold]{escape(scenario.name)}[/bold]  {scenario.algorithm}, seed {scenario.seed}:"
            f" {len(emulation.clients)} {clients} ({groups}){'' if emulation.server is None else ' and a server'},"
            f" {emulation.graph.number_of_edges()} edges,"
            f" {scenario.rounds} rounds on {device}",
            soft_wrap=True,
        )
        for note in emulation.notes:
            self._console.print(f"  {escape(note)}", soft_wrap=True)
        for warning in emulation.warnings:
            print_warning(self._console, warning)
        self.phase("training", "rounds", scenario.rounds)

    def round_recorded(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Ignored: the terminal shows the mean score alone."""

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        """Move the bar; without a terminal, print a line at some rounds."""
        if score is not None:
            first = self._scenario.task_spec.columns[0]
            self._last_score = f"{first.title} {first.form.format(score)}"
        if self._rounds == 0 and round_index > 0:  # resumed: the rounds before tell nothing about this machine's pace
            self.phase("training", "rounds", self._scenario.rounds, round_index + 1)
        self._rounds = round_index + 1
        status = "  ".join(filter(None, [self._last_score, f"{now_s:.1f} s simulated"]))
        self.advanced(self._rounds, status)
        if self._is_printed():
            pace = _pace_text(self._pace, self._scenario.rounds)
            self._console.print(
                f"round {self._rounds}/{self._scenario.rounds}  {status}{pace}", soft_wrap=True, markup=False
            )

    def _is_printed(self) -> bool:
        scored = self._scenario.evaluate_every  # a line is new only after models were scored
        # a multiple of the scored rounds
        every = scored * max(1, round(self._scenario.rounds / LINES_PER_RUN / scored))
        return not self._console.is_terminal and self._rounds % every == 0

    def stopping(self) -> None:
        """Print that the run stops at the end of the round."""
        self._console.print(
            "stopping after this round, so that the run can be resumed; press Ctrl-C again to stop at once"
        )

    def worker_lost(self, sentence: str) -> None:
        """Print why rounds are repeated."""
        print_warning(self._console, f"{sentence}; continuing from the last checkpoint with new workers")
        self._rounds = 0

    def exporting(self, done: int, total: int) -> None:
        """Show how many ONNX models have been exported."""
        if self.is_new("exporting"):
            self.phase("exporting", "models", total)
        self.advanced(done)
        if done == total:  # pictures and reports follow, which nothing counts
            self.phase("writing results")


def _pace_text(pace: ProgressPace, rounds: int) -> str:
    """Rate and time left, for a line of a log; nothing after the last round."""
    left_s = pace.left_s(rounds)
    return f"  {rate_text(pace.per_s, 'rounds')}, {time_text(left_s)} left" if left_s else ""

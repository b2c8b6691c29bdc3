"""Progress of a command on a terminal: what is done, how fast, and how long it will still take."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import Progress, Task, TaskID
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..running.progress_pace import ProgressPace, rate_text, time_text
from .console_elements import print_warning

#: Bars that are shorter say nothing.
_SHORTEST_BAR, _LONGEST_BAR = 8, 40


class ProgressDisplay:
    """Progress bar that is shown while its block runs and removed at the end; nothing is shown without a terminal.

    Beside the bar stand what is counted, its rate, the time left and the time since the phase began, as far as the
    terminal is wide enough; a status has a line of its own below.

    Args:
        console: output of the bar.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace = ProgressPace()
        self._bar = _LabeledBar(console=console, transient=True, disable=not console.is_terminal)
        self._task: TaskID | None = None
        self._phase = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def phase(self, name: str, unit: str = "", total: float | None = None, done: float = 0) -> None:
        """Begin a phase, with a clock of its own.

        Args:
            name: what is being done, such as "training".
            unit: what is counted, such as "rounds".
            total: number of them; None: unknown.
            done: number of them that were done before.
        """
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._phase, self._pace = name, ProgressPace(done)
        self._task = self._bar.add_task(name, total=total, completed=int(done), unit=unit, status="", pace=self._pace)

    def is_new(self, name: str) -> bool:
        """Whether another phase than this one is shown."""
        return self._phase != name

    def advanced(self, done: float, status: str = "") -> None:
        """So many of the phase are done."""
        assert self._task is not None, "a phase has begun"
        self._pace.see(done)
        self._bar.update(self._task, completed=done, status=status)

    def noted(self, sentence: str) -> None:
        """Print what the user should know about the recording of the world."""
        print_warning(self._console, sentence)


class _LabeledBar(Progress):
    """Bar with as many labels as the terminal has room for."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            yield _line(task, self.console.width)
            if status := task.fields["status"]:
                yield Text(f"  {status}", no_wrap=True, overflow="ellipsis")


def _line(task: Task, width: int) -> RenderableType:
    """One line about a task: its name and count always, then time left, rate, bar and time so far if they fit."""
    labels = _labels(task)
    name, count = task.description, labels.pop("count")
    room = width - len(name) - len(count) - 3
    shown = {}
    for label in ("left", "rate", "elapsed"):
        # the bar comes before the time so far
        if labels[label] and room >= len(labels[label]) + 2 + (_SHORTEST_BAR if label == "elapsed" else 0):
            shown[label] = labels[label]
            room -= len(labels[label]) + 2
    row = Table.grid(padding=(0, 1, 0, 0))
    cells: list[RenderableType] = [Text(name, no_wrap=True, overflow="ellipsis")]
    if room >= _SHORTEST_BAR:
        total, bar_width = task.total, min(room, _LONGEST_BAR)
        cells.append(ProgressBar(total=total, completed=task.completed, width=bar_width, pulse=total is None))
    said = "  ".join(filter(None, [count, *(shown.get(label) for label in ("rate", "left", "elapsed"))]))
    row.add_row(*cells, Text(said, no_wrap=True, overflow="ellipsis"))
    return row


def _labels(task: Task) -> dict[str, str]:
    pace, unit = task.fields["pace"], task.fields["unit"]
    if task.total is None:
        return {"count": "", "rate": "", "left": "", "elapsed": f"{time_text(pace.elapsed_s)} so far"}
    count = f"{task.completed:,.0f}/{task.total:,.0f} {unit}".rstrip()
    left = None if task.finished else pace.left_s(task.total)
    return {
        "count": count,
        "rate": rate_text(pace.per_s, unit),
        "left": "" if left is None else f"{time_text(left)} left",
        "elapsed": f"{time_text(pace.elapsed_s)} so far",
    }

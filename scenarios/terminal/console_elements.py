"""Progress bar and warning line that all commands share."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class ProgressDisplay:
    """Progress bar that is shown while its block runs and removed at the end; nothing is shown without a terminal.

    Args:
        console: output of the bar.
        columns: columns to the right of the bar.
    """

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            *columns,
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def noted(self, sentence: str) -> None:
        """Print what the user should know about the recording of the world."""
        print_warning(self._console, sentence)


def print_warning(console: Console, warning: str) -> None:
    """Prints one line that starts with `warning:`."""
    console.print(f"[yellow]warning:[/yellow] {escape(warning)}", soft_wrap=True)

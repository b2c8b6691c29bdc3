"""The bar that all commands show while they work."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def transient_bar(console: Console, *columns: ProgressColumn) -> Progress:
    """A bar with these columns behind it, gone when the work is done; where there is no terminal, nothing."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )

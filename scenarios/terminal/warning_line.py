"""How a warning looks, whichever command gives it."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape


def print_warning(console: Console, warning: str) -> None:
    """One line."""
    console.print(f"[yellow]warning:[/yellow] {escape(warning)}", soft_wrap=True)

"""What all commands print with: one console, one kind of table, one kind of list, and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

#: Spaces between two columns.
_GAP = (0, 2, 0, 0)


def standard_console(*, stderr: bool = False, file: TextIO | None = None) -> Console:
    """Console of a command: text is printed as it is written, without colored numbers and emoji."""
    return Console(stderr=stderr, file=file, emoji=False, highlight=False)


def data_table(title: str = "", *, caption: str = "") -> Table:
    """Table of results: one rule below the headings, a blank line between sections."""
    return Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        caption=caption or None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )


def print_facts(console: Console, facts: Mapping[str, str], *, whole: Sequence[str] = ()) -> None:
    """Prints a line per fact, its name in front; on a terminal long ones wrap below their beginning.

    Args:
        console: output.
        facts: name -> text.
        whole: names whose texts hold paths or hashes, which must not be cut into pieces.
    """
    width = max(map(len, facts), default=0)
    for name, text in facts.items():
        if name in whole or not console.is_terminal:
            console.print(f"{name:{width}}  {text}", soft_wrap=True, markup=False, highlight=False)
        else:
            row = Table.grid(padding=_GAP)
            row.add_column(min_width=width, max_width=width)
            row.add_column()
            row.add_row(name, escape(text))
            console.print(row)


def print_list(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    """Prints names and what they are; without a terminal one line each, whatever its length."""
    width = max((len(name) for name, _ in rows), default=0)
    if not console.is_terminal:
        for name, text in rows:
            console.print(f"{name:{width}} {text}".rstrip(), soft_wrap=True, markup=False, highlight=False)
        return
    table = Table.grid(padding=_GAP)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in rows:
        table.add_row(escape(name), escape(text))
    console.print(table)


def print_warning(console: Console, warning: str) -> None:
    """Prints one line that starts with `warning:`."""
    console.print(f"[yellow]warning:[/yellow] {escape(warning)}", soft_wrap=True)

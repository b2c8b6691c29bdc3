"""Panels of the help, and how the help of a command shows examples."""

from __future__ import annotations

#: Headings below which the help lists the commands.
RUN = "Run: emulate and train"
COMPARE = "Compare: many runs"
WORLD = "World: sensor data"
EDGE = "Edge: trained models on devices"


def examples(*lines: str) -> str:
    """Epilog of the help of a command: one example per line.

    Args:
        lines: commands as a user types them; a square bracket is markup to the help and is escaped.
    """
    return "\n\n".join(["[bold]Examples[/bold]", *(f"  {line}".replace("[", r"\[") for line in lines)])

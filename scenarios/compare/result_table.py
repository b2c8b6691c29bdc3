"""`ResultTable`, and the texts of cells that tables of a comparison share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..tasks.task_spec import Column
from .results import ALL_CLIENTS


@dataclass(frozen=True, slots=True)
class ResultTable:
    """One table of text cells.

    Attributes:
        title: one line.
        heads: column headings.
        rows: rows with one cell per heading.
        is_main: whether a terminal shows the table, too.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_main: bool = True

    def markdown(self) -> str:
        """Markdown text of the table; all columns but the first are aligned right."""
        lines = [self.heads, ["---", *["---:"] * (len(self.heads) - 1)], *self.rows]
        # names of methods are free text and may hold the column separator
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return f"### {self.title}\n\n{table}\n"


def number(value: float, column: Column) -> str:
    """Text of a score in a table: without unit and without leading zero."""
    # the form of a column is one replacement field followed by its unit, such as "{:.2f} dB"
    return without_zero(column.form[: column.form.index("}") + 1].format(value))


def without_zero(text: str) -> str:
    """Text of a number without the zero before its point.

    >>> without_zero("-0.012"), without_zero("10.5")
    ('-.012', '10.5')
    """
    return text.replace("0.", ".", 1) if text.lstrip("+-").startswith("0.") else text


def shown_value(value: Any) -> str:
    """Short text of a field's value."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def group_names(results: Mapping[str, Any]) -> list[str]:
    """Names of the groups, and "all clients" last if there is more than one group."""
    # over all entries: one whose runs all failed has no groups
    names = list(dict.fromkeys(group for entry in results["entries"] for group in entry["groups"]))
    named = [name for name in names if name != ALL_CLIENTS]
    return named if len(named) == 1 else [*named, ALL_CLIENTS]


def name_heads(results: Mapping[str, Any]) -> list[str]:
    """Headings above the cells of `name_cells`."""
    varied = [results["vary"].rpartition(".")[2]] if results["vary"] else []
    return ["method", *varied, *(["seeds"] if _some_failed(results) else [])]


def name_cells(results: Mapping[str, Any], entry: Mapping[str, Any]) -> list[str]:
    """Cells that name an entry: method, value of the varied field, number of seeds if some failed."""
    varied = [shown_value(entry["varied"])] if results["vary"] else []
    n = [f"{entry['n']} of {len(results['seeds'])}"] if _some_failed(results) else []
    return [entry["arm"], *varied, *n]


def _some_failed(results: Mapping[str, Any]) -> bool:
    """Whether some runs failed, so that the number of seeds must be shown."""
    return any(entry["n"] < len(results["seeds"]) for entry in results["entries"])


def figure_of(entry: Mapping[str, Any], group: str, kind: str, column: Column) -> Mapping[str, Any] | None:
    """Spread of a score over seeds, of kind "scores", "differences" or one of `SHARED_MODELS`; None: there is none."""
    figure: Mapping[str, Any] | None = entry["groups"].get(group, {}).get(kind, {}).get(column.key)
    return figure

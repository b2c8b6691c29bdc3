"""Tables of standards, read from `tables/`: one CSV file per table, with its clause in the first line."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..contracts import DataError
from ..regular_file import quoted

FOLDER = Path(__file__).parent / "tables"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One table of a standard.

    Attributes:
        name: file name without ending.
        clause: clause of the standard.
        labels: [n_rows] first column as text.
        columns: [n_rows] float64 each, read-only, NaN where a cell is empty; the first column too where it is numeric.
    """

    name: str
    clause: str
    labels: tuple[str, ...]
    columns: Mapping[str, NDArray[np.float64]]

    def __getitem__(self, column: str) -> NDArray[np.float64]:
        if column not in self.columns:
            raise DataError(f"table {self.name} has no column {column!r}; it has {', '.join(self.columns)}")
        return self.columns[column]

    def row(self, label: str) -> dict[str, float]:
        """One row by its label.

        Raises:
            DataError: there is no such row.
        """
        if label not in self.labels:
            raise DataError(f"table {self.name} has no row {label!r}; it has {', '.join(self.labels)}")
        index = self.labels.index(label)
        return {name: float(column[index]) for name, column in self.columns.items()}


@cache
def table(name: str) -> Table:
    """The table in `tables/<name>.csv`, read once.

    Raises:
        DataError: there is no such file, or it is not a table.
    """
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.csv")))
        raise DataError(f"no table {name!r} among the radio tables; known: {known}")
    return parse_table(name, path.read_text(encoding="utf-8"))


def parse_table(name: str, text: str) -> Table:
    """A table from the text of its file: `# clause`, header, rows.

    Raises:
        DataError: no clause, no rows, a row of another length, or a cell that is no number.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("# "):
        raise DataError(
            f"table {name} must begin with '# ' and the clause of its standard, got {quoted(lines[0] if lines else '')}"
        )
    header, *rows = list(csv.reader(lines[1:])) or [[]]
    if not rows:
        raise DataError(f"table {name} must hold a header and at least one row")
    # Lines 1 and 2 are the clause and the header.
    for number, row in enumerate(rows, start=3):
        if len(row) != len(header):
            raise DataError(f"table {name} line {number} has {len(row)} cells, its header {len(header)}")
    cells = dict(zip(header, zip(*rows, strict=True), strict=True))
    columns = {column: _numbers(name, column, texts) for column, texts in cells.items() if column != header[0]}
    labels = tuple(cells[header[0]])
    if all(_is_number(label) for label in labels):
        columns = {header[0]: _numbers(name, header[0], labels), **columns}
    return Table(name, lines[0][2:], labels, columns)


def _numbers(name: str, column: str, texts: tuple[str, ...]) -> NDArray[np.float64]:
    wrong = [text for text in texts if text and not _is_number(text)]
    if wrong:
        raise DataError(f"table {name} column {quoted(column)} must hold numbers or nothing, got {quoted(wrong[0])}")
    numbers = np.array([float(text) if text else np.nan for text in texts])
    # `table` is cached, so that all callers share the arrays.
    numbers.flags.writeable = False
    return numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

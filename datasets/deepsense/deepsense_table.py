"""Table of a DeepSense 6G scenario: the columns of its CSV, and the files that its cells point to.

Source: DeepSense 6G (Alkhateeb et al. 2023), scenario pages. The data is CC BY-NC-SA 4.0 and not part of this
repository.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import is_regular, open_regular, quoted, read_regular, reason, shown
from ..data_folder import DataFolder

#: Text files of a cell hold up to 64 numbers.
MAX_TEXT_BYTES = 1 << 16
#: The largest published tables have 20 MB, 36,000 rows and 60 columns.
MAX_TABLE_BYTES, MAX_ROW_BYTES, MAX_COLUMNS, MAX_CELLS = 1 << 27, 1 << 20, 4096, 1 << 22
#: Folder of everything that one unit of the testbed recorded.
_UNIT = re.compile(r"unit\d+", re.IGNORECASE)
#: No path that a file system takes is longer.
MAX_CELL = 4096


@dataclass(frozen=True, slots=True, eq=False)
class DeepSenseTable:
    """A scenario's CSV.

    Attributes:
        path: path of the CSV; cells are relative to its folder.
        folder: folder that all files must lie in.
        columns: cells by column, spaces stripped.
        lines: line of the CSV that holds each row.
        row_numbers: number of each row, from 0, before any was left out.
    """

    path: Path
    folder: DataFolder
    columns: Mapping[str, Sequence[str]]
    lines: Sequence[int]
    row_numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """Name of a row in messages."""
        return f"row {self.row_numbers[row] + 1} (line {self.lines[row]}) of {self.path.name}"

    def take(self, rows: NDArray[np.int64]) -> DeepSenseTable:
        """Table with some of the rows; messages still use their old numbers."""
        kept = rows.tolist()
        columns = {name: [cells[row] for row in kept] for name, cells in self.columns.items()}
        lines, numbers = [self.lines[row] for row in kept], [self.row_numbers[row] for row in kept]
        return DeepSenseTable(self.path, self.folder, columns, lines, numbers)

    def first_column(self, *names: str) -> str | None:
        """The first of these columns that the table has."""
        return next((name for name in names if name in self.columns), None)

    def column_with_prefix(self, *prefixes: str) -> str | None:
        """The first column whose name starts so."""
        return next((name for name in self.columns if name.startswith(prefixes)), None)

    def file(self, column: str, row: int) -> Path:
        """Path that a cell points to: as it says, or from the folder `unit1`, `unit2`, ... on that it names.

        Tables that were made on another machine name files from its root, or from a folder above: `/unit1/x.txt`,
        `C:/data/Scenario9/unit1/x.txt`, `development_dataset/unit1/x.txt`. Nothing outside of the folder is opened.

        Raises:
            DataError: the cell is empty or leads out of the folder.
        """
        cell = self.columns[column][row]
        parts = cell.replace("\\", "/").split("/")
        unit = next((index for index, part in enumerate(parts) if _UNIT.fullmatch(part)), 0)
        try:
            if unit == 0:
                return self.folder.below(self.path.parent, cell)
            inside = self.folder.below(self.path.parent, "/".join(parts[unit:]))
            is_elsewhere = parts[0] == "" or ":" in parts[0] or is_regular(inside)
            return inside if is_elsewhere else self.folder.below(self.path.parent, cell)
        except DataError as error:
            raise DataError(f"{self.where(row)}: column {column} {error}") from None

    def is_inline(self, column: str) -> bool:
        """Whether cells are numbers, not paths to files with numbers; told by the first that is not empty."""
        return _is_number(next((cell for cell in self.columns[column] if cell), ""))

    def numbers(self, column: str, row: int, n_numbers: int) -> NDArray[np.float64]:
        """[n_numbers] what the text file of a cell holds, NaN included.

        Raises:
            DataError: the file is missing, no text, or holds another number of numbers.
        """
        path = self.file(column, row)
        where = f"{self.where(row)}: {column} file {shown(path)}"
        try:
            words = read_regular(path, MAX_TEXT_BYTES).decode("ascii", "backslashreplace").replace(",", " ").split()
        except OSError as error:
            raise DataError(f"{where} cannot be read as numbers ({reason(error)})") from None
        if odd := next((word for word in words if not _is_number(word)), None):
            raise DataError(f"{where} cannot be read as numbers ({quoted(odd)} is none)")
        values = np.array([float(word) for word in words])
        if len(values) != n_numbers:
            raise DataError(f"{where} holds {len(values)} numbers, expected {n_numbers}; fetch the file again")
        return values

    def number(self, column: str, row: int, *, is_inline: bool) -> float:
        """The finite number of a cell, or of its file.

        Raises:
            DataError: a cell or file that is no finite number.
        """
        cell = self.columns[column][row]
        if is_inline and not _is_number(cell):
            raise DataError(f"{self.where(row)}: column {column} must hold a number, got {quoted(cell)}")
        value = float(cell) if is_inline else float(self.numbers(column, row, 1)[0])
        if not np.isfinite(value):
            raise DataError(f"{self.where(row)}: {column} is {value}; leave the row out")
        return value

    def series(self, column: str) -> NDArray[np.float64]:
        """[n_rows] one number per row, inline or in files; every one finite.

        Raises:
            DataError: a cell or file that is no finite number.
        """
        is_inline = self.is_inline(column)
        return np.array([self.number(column, row, is_inline=is_inline) for row in range(len(self))])

    def whole_numbers(self, column: str) -> NDArray[np.int64]:
        """[n_rows] `series` of a column that counts.

        Raises:
            DataError: a number that is not whole, or too large to count anything.
        """
        values = self.series(column)
        bad = np.flatnonzero((values != np.rint(values)) | (np.abs(values) > 2**31 - 1))
        if len(bad):
            raise DataError(f"{self.where(bad[0])}: {column} must be a whole number, got {values[bad[0]]}")
        return values.astype(np.int64)


def read_table(path: Path, folder: DataFolder) -> DeepSenseTable:
    """The rows of a CSV; empty lines are skipped.

    Args:
        path: path of the CSV.
        folder: folder that the files of its cells must lie in.

    Raises:
        DataError: the file is no CSV with a header and at least one row, or a row has too few or too many cells; or it
            is larger than any table of DeepSense.
    """
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        # utf-8-sig: spreadsheet programs put a byte order mark before the first heading
        with open_regular(path, MAX_TABLE_BYTES) as content, TextIOWrapper(content, "utf-8-sig", newline="") as stream:
            whole = _WholeRows(path, stream)
            reader = csv.reader(whole, strict=True)
            header = _checked_header(path, next(reader, []))
            for cells in reader:
                whole.begin_row()
                if any(cell.strip() for cell in cells):
                    lines.append(reader.line_num)
                    rows.append(_checked_row(path, reader.line_num, cells, len(header)))
                    if len(rows) * len(header) > MAX_CELLS:
                        raise DataError(f"{shown(path)} has more than {MAX_CELLS} cells; leave columns or rows out")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{shown(path)} cannot be read as CSV ({reason(error)}); fetch the file again") from error
    if not rows:
        raise DataError(f"{shown(path)} has no rows below its header; fetch the file again")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return DeepSenseTable(path, folder, columns, lines, range(len(lines)))


class _WholeRows:
    """Lines of a CSV, as long as those of one row are few: a quote that is never closed would gather them all."""

    def __init__(self, path: Path, stream: TextIO) -> None:
        self._path, self._stream, self._n_left = path, stream, MAX_ROW_BYTES

    def begin_row(self) -> None:
        """What was read belongs to a row that is complete."""
        self._n_left = MAX_ROW_BYTES

    def __iter__(self) -> Iterator[str]:
        while line := self._stream.readline(self._n_left):
            self._n_left -= len(line)
            if self._n_left <= 0:
                raise DataError(f"{shown(self._path)} has a row of more than {MAX_ROW_BYTES} characters; repair it")
            yield line


def _checked_header(path: Path, cells: list[str]) -> list[str]:
    if len(cells) > MAX_COLUMNS:
        raise DataError(f"{shown(path)} has {len(cells)} columns, a table of DeepSense at most {MAX_COLUMNS}")
    header = [name.strip() for name in cells]
    counts = Counter(name for name in header if name)
    if repeated := sorted(name for name, n_times in counts.items() if n_times > 1):
        raise DataError(f"{shown(path)} has two columns {quoted(repeated[0])}; keep one of them")
    return header


def _checked_row(path: Path, line: int, cells: list[str], n_columns: int) -> list[str]:
    if len(cells) != n_columns:
        raise DataError(f"{shown(path)}, line {line}, has {len(cells)} cells, its header {n_columns}; repair the line")
    stripped = [cell.strip() for cell in cells]
    if long := next((cell for cell in stripped if len(cell) > MAX_CELL), None):
        raise DataError(
            f"{shown(path)}, line {line}, has a cell of {len(long)} characters, {quoted(long)}; at most {MAX_CELL} are "
            "a number or a path"
        )
    return stripped


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

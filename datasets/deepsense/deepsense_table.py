"""Table of a DeepSense 6G scenario: the columns of its CSV, and the files that its cells point to.

Source: DeepSense 6G (Alkhateeb et al. 2023), scenario pages. The data is CC BY-NC-SA 4.0 and not part of this
repository.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError

#: Text files of a cell hold up to 64 numbers.
MAX_TEXT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class DeepSenseTable:
    """A scenario's CSV.

    Attributes:
        path: path of the CSV; cells are relative to its folder.
        columns: cells by column, spaces stripped.
        lines: line of the CSV that holds each row.
        row_numbers: number of each row, from 0, before any was left out.
    """

    path: Path
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
        return DeepSenseTable(self.path, columns, lines, numbers)

    def first_column(self, *names: str) -> str | None:
        """The first of these columns that the table has."""
        return next((name for name in names if name in self.columns), None)

    def column_with_prefix(self, *prefixes: str) -> str | None:
        """The first column whose name starts so."""
        return next((name for name in self.columns if name.startswith(prefixes)), None)

    def file(self, column: str, row: int) -> Path:
        """Path that a cell points to.

        Raises:
            DataError: the cell is empty or points out of the folder.
        """
        cell = self.columns[column][row].replace("\\", "/")
        # a downloaded CSV must not make us read files outside of its folder
        relative = PurePosixPath(cell)
        if not cell or cell == "nan" or relative.is_absolute() or ".." in relative.parts or ":" in cell:
            raise DataError(
                f"{self.where(row)}: column {column} holds {cell!r}, expected a path below {self.path.parent}"
            )
        return self.path.parent / relative

    def check_files(self, columns: Sequence[str]) -> None:
        """Refuses the table if a file that these columns name is not there, before anything is read."""
        for column in columns:
            missing = [row for row in range(len(self)) if not self.file(column, row).is_file()]
            if missing:
                raise DataError(
                    f"{self.where(missing[0])}: {column} file {self.file(column, missing[0])} does not exist "
                    f"({len(missing)} of {len(self)} are missing); unpack all parts of the scenario"
                )

    def is_inline(self, column: str) -> bool:
        """Whether the cells are numbers, not paths to files with numbers."""
        return _is_number(self.columns[column][0])

    def numbers(self, column: str, row: int, n_numbers: int) -> NDArray[np.float64]:
        """[n_numbers] what the text file of a cell holds, NaN included.

        Raises:
            DataError: the file is missing, no text, or holds another number of numbers.
        """
        path = self.file(column, row)
        try:
            with path.open("rb") as stream:
                content = stream.read(MAX_TEXT_BYTES + 1)
            values = np.array([float(word) for word in content.decode("ascii").replace(",", " ").split()])
        except (OSError, ValueError) as error:
            raise DataError(f"{self.where(row)}: {column} file {path} cannot be read as numbers ({error})") from error
        if len(values) != n_numbers or len(content) > MAX_TEXT_BYTES:
            raise DataError(
                f"{self.where(row)}: {column} file {path} holds {len(values)} numbers, expected {n_numbers}; "
                "fetch the file again"
            )
        return values

    def series(self, column: str) -> NDArray[np.float64]:
        """[n_rows] one number per row, inline or in files; every one finite.

        Raises:
            DataError: a cell or file that is no finite number.
        """
        inline = self.is_inline(column)
        values = np.empty(len(self))
        for row, cell in enumerate(self.columns[column]):
            if inline and not _is_number(cell):
                raise DataError(f"{self.where(row)}: column {column} must hold a number, got {cell!r}")
            values[row] = float(cell) if inline else self.numbers(column, row, 1)[0]
            if not np.isfinite(values[row]):
                raise DataError(f"{self.where(row)}: {column} is {values[row]}; leave the row out")
        return values

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


def find_table(root: Path, scenario: int) -> Path:
    """The CSV of a scenario, in `root` or in its folder below.

    Raises:
        DataError: the folder is missing, or holds no such CSV, or several.
    """
    if not root.is_dir():
        raise DataError(f"data.root must be the folder of a DeepSense scenario, but {root} is not a folder")
    stems = {
        f"{stem}{suffix}" for stem in (f"scenario{scenario}", f"scenario{scenario:02d}") for suffix in ("", "_dev")
    }
    folders = [root, *sorted(root / stem for stem in stems)]
    found = [folder / f"{stem}.csv" for folder in folders for stem in sorted(stems)]
    found = [path for path in found if path.is_file()]
    if not found:
        present = sorted(path.name for folder in folders if folder.is_dir() for path in folder.glob("*.csv"))
        raise DataError(
            f"no scenario{scenario}.csv or scenario{scenario}_dev.csv in {root} "
            f"(CSV files there: {', '.join(present) or 'none'}); check the folder and the scenario number"
        )
    if len(found) > 1:
        names = ", ".join(path.relative_to(root).as_posix() for path in found)
        raise DataError(f"several tables of scenario {scenario} in {root}: {names}; keep one of them")
    return found[0]


def read_table(path: Path) -> DeepSenseTable:
    """The rows of a CSV; empty lines are skipped.

    Raises:
        DataError: the file is no CSV with a header and at least one row, or a row has too few or too many cells.
    """
    try:
        # utf-8-sig: spreadsheet programs put a byte order mark before the first heading
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, strict=True)
            header = [name.strip() for name in next(reader, [])]
            lines, rows = [], []
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    lines.append(reader.line_num)
                    rows.append([cell.strip() for cell in cells])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV ({error}); fetch the file again") from error
    if not rows:
        raise DataError(f"{path} has no rows below its header; fetch the file again")
    repeated = sorted({name for name in header if name and header.count(name) > 1})
    if repeated:
        raise DataError(f"{path} has two columns {repeated[0]!r}; keep one of them")
    for line, cells in zip(lines, rows, strict=True):
        if len(cells) != len(header):
            raise DataError(f"{path}, line {line}, has {len(cells)} cells, its header {len(header)}; repair the line")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return DeepSenseTable(path, columns, lines, range(len(lines)))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

"""Reader of text files of numbers, a row per line, as link traces are: block by block, in linear time.

A format is a list of `TraceColumn`; what they do not allow is refused with its row. Beside the numbers that are asked
for, memory holds one block of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, quoted, reason, shown
from .trace_rows import RowShape, instants, numbers, row_widths

#: Real traces have a few megabytes; a larger file is a mistake that would fill the memory.
MAX_BYTES = 1 << 28
#: 256 MiB for every column that is kept.
MAX_ROWS = 1 << 25
#: Characters of a word that a message repeats.
SHOWN_WORD = 40
#: No line of a trace is longer.
MAX_LINE_BYTES = 1 << 16
BLOCK_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ZIP = b"PK\x03\x04"
#: Column -> [n] float64.
Columns = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """A column of numbers, and which of them can have been measured.

    Attributes:
        name: name in messages, and in the first line of files that name their columns.
        lowest, highest: smallest and largest value, far outside of everything measured so far.
        unit: unit that the first line may state behind the name, as in "delay(ms)".
        ascends: whether a value below that of the row before is refused.
        is_whole: whether fractions are refused.
        is_instant: whether words are dates with times of day, such as 2019.12.16_13.40.04; they become seconds since
            the first of January 1970.
    """

    name: str
    lowest: float
    highest: float
    unit: str = ""
    ascends: bool = False
    is_whole: bool = False
    is_instant: bool = False


def read_columns(path: Path, columns: Sequence[TraceColumn]) -> Columns:
    """All columns of a text file of words without a header; blank lines at its end do not count.

    Args:
        path: path of the file.
        columns: columns of a row, in their order.

    Raises:
        DataError: the file cannot be read, is empty or too large; a row has another width; a word is no number that
            the column can hold.
    """
    return _read(path, columns, has_header=False)


def read_named_columns(path: Path, columns: Sequence[TraceColumn]) -> Columns:
    """Some columns of a text file whose first line names them.

    Words are separated by commas, semicolons or tabs where the first line has one of these, otherwise by spaces. Rows
    may be wider than the first line, all by as much; what stands behind the named columns is not read.

    Args:
        path: path of the file.
        columns: columns that are kept.

    Raises:
        DataError: as `read_columns`; or the first line lacks a column.
    """
    return _read(path, columns, has_header=True)


def _read(path: Path, columns: Sequence[TraceColumn], *, has_header: bool) -> Columns:
    try:
        with open_regular(path, MAX_BYTES) as stream:
            shape = RowShape(b"", tuple(range(len(columns))), len(columns), is_exact=True)
            if has_header:
                shape = _named_shape(path, stream.readline(MAX_LINE_BYTES), columns)
            rows = _Rows(path, columns, shape, first_row=2 if has_header else 1)
            for block in _blocks(path, stream):
                rows.append(block)
    except OSError as error:
        raise DataError(f"{shown(path)} cannot be read ({reason(error)}); name the file of a link trace") from None
    return rows.columns()


def _named_shape(path: Path, line: bytes, columns: Sequence[TraceColumn]) -> RowShape:
    """Where the columns are, by the first line of a file."""
    if line.startswith(_ZIP):
        raise DataError(f"{shown(path)} is a workbook or an archive, whatever its name; save its sheet as CSV")
    line = line.removeprefix(_BYTE_ORDER_MARK)
    separator = next((one for one in (b",", b";", b"\t") if one in line), b"")
    cells = line.replace(b'"', b"").split(separator or None)
    names = [b"".join(cell.split()).decode("ascii", "backslashreplace").lower() for cell in cells]
    at = []
    for column in columns:
        known = {column.name.lower(), f"{column.name}({column.unit})".lower()}
        if (found := next((index for index, name in enumerate(names) if name in known), None)) is None:
            due = f"{column.name}({column.unit})" if column.unit else column.name
            raise DataError(
                f"{shown(path)} row 1 must name a column {due!r}, got {quoted(' '.join(names))}; is it a trace of"
                " another format?"
            )
        at.append(found)
    return RowShape(separator, tuple(at), len(names), is_exact=False)


def _blocks(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Content of a file in blocks of whole lines."""
    while block := stream.read(BLOCK_BYTES):
        rest = stream.readline(MAX_LINE_BYTES + 1)
        if len(rest) > MAX_LINE_BYTES:
            raise DataError(f"{shown(path)} has a line of more than {MAX_LINE_BYTES} bytes; is it a link trace?")
        yield block + rest


class _Rows:
    """Columns as far as they have been read, with the checks across blocks."""

    def __init__(self, path: Path, columns: Sequence[TraceColumn], shape: RowShape, first_row: int) -> None:
        self._path, self._columns, self._shape = shown(path), columns, shape
        self._pieces: dict[str, list[NDArray[np.float64]]] = {column.name: [] for column in columns}
        self._n_rows = 0
        self._blank_row: int | None = None
        self._next_row = first_row

    def append(self, block: bytes) -> None:
        """Take the rows of a block of whole lines."""
        n_lines, n_rows = self._check_widths(block)
        if n_rows:
            words, width = self._shape.words(block, n_rows), self._shape.width
            self._n_rows += n_rows
            if self._n_rows > MAX_ROWS:
                raise DataError(f"{self._path} has more than {MAX_ROWS} rows; shorten it")
            for column, at in zip(self._columns, self._shape.at, strict=True):
                self._pieces[column.name].append(self._checked(column, words[at::width]))
        self._next_row += n_lines

    def columns(self) -> Columns:
        """All rows, column by column.

        Raises:
            DataError: there are none.
        """
        if not self._n_rows:
            raise DataError(f"{self._path} holds no rows; name the file of a link trace")
        return {name: np.concatenate(self._pieces.pop(name)) for name in list(self._pieces)}

    def _check_widths(self, block: bytes) -> tuple[int, int]:
        """Number of lines in a block, and of rows among them, after a check that each has the words that are due."""
        n_words = row_widths(block, self._shape.separator)
        filled = np.flatnonzero(n_words)
        last = int(filled[-1]) if len(filled) else -1
        if last >= 0 and self._blank_row is not None:
            self._refuse_width(self._blank_row, 0)
        if last >= 0 and not self._shape.is_exact and n_words[0] >= self._shape.width:
            self._shape = self._shape.of_width(int(n_words[0]))  # rows are as wide as the first of them
        if len(wrong := np.flatnonzero(n_words[: last + 1] != self._shape.width)):
            self._refuse_width(self._next_row + int(wrong[0]), int(n_words[wrong[0]]))
        if last + 1 < len(n_words) and self._blank_row is None:
            self._blank_row = self._next_row + last + 1
        return len(n_words), last + 1

    def _refuse_width(self, row: int, n_words: int) -> None:
        raise DataError(
            f"{self._path} row {row} has {n_words} values where {self._shape.width} are due; repair or remove it"
        )

    def _checked(self, column: TraceColumn, words: list[bytes]) -> NDArray[np.float64]:
        values = instants(words) if column.is_instant else numbers(words)
        where, name = f"{self._path} row", column.name
        if len(wrong := np.flatnonzero(~np.isfinite(values))):
            row, word = self._next_row + int(wrong[0]), words[wrong[0]][:SHOWN_WORD].decode("ascii", "backslashreplace")
            due = "a time like 2019.12.16_13.40.04" if column.is_instant else "a finite number"
            raise DataError(f"{where} {row}: {name} must be {due}, got {quoted(word)}")
        if len(wrong := np.flatnonzero((values < column.lowest) | (values > column.highest))):
            raise DataError(
                f"{where} {self._next_row + int(wrong[0])}: {name} must lie from {column.lowest:g} to"
                f" {column.highest:g}, got {values[wrong[0]]:g}"
            )
        if column.is_whole and len(wrong := np.flatnonzero(values != np.floor(values))):
            row, value = self._next_row + int(wrong[0]), values[wrong[0]]
            raise DataError(f"{where} {row}: {name} must be a whole number, got {value:.15g}")
        if column.ascends:
            self._check_order(column, values)
        return values

    def _check_order(self, column: TraceColumn, values: NDArray[np.float64]) -> None:
        pieces = self._pieces[column.name]
        before = float(pieces[-1][-1]) if pieces else -np.inf
        if len(wrong := np.flatnonzero(np.diff(values, prepend=before) < 0.0)):
            at = int(wrong[0])
            raise DataError(
                f"{self._path} row {self._next_row + at}: {column.name} must be no less than that of the row before"
                f" ({values[at - 1] if at else before:.15g}), got {values[at]:.15g}; give runs that were joined a file"
                " each"
            )

"""Reader of text files of numbers, a row per line, as link traces are: block by block, in linear time.

A format is a list of `TraceColumn`; what they do not allow is refused with its row. Beside the numbers that are asked
for, memory holds one block of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, quoted, reason, shown

#: Real traces have a few megabytes; a larger file is a mistake that would fill the memory.
MAX_BYTES = 1 << 28
#: 256 MiB for every column that is kept.
MAX_ROWS = 1 << 25
#: No number that a trace holds is written longer.
MAX_WORD = 40
#: No line of a trace is longer.
MAX_LINE_BYTES = 1 << 16
BLOCK_BYTES = 1 << 20
#: Column -> [n] float64.
Columns = dict[str, NDArray[np.float64]]
#: Bytes at which `bytes.split` parts words.
_IS_SPACE = np.isin(np.arange(256), np.frombuffer(b" \t\n\r\x0b\x0c", np.uint8))
_NEWLINE = 10


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """A column of numbers, and which of them can have been measured.

    Attributes:
        name: name in messages.
        at: index of its word in a row.
        lowest, highest: smallest and largest value, far outside of everything measured so far.
        order: "rising": above the row before; "ascending": no less than it; "": any.
        whole: whether fractions are refused.
    """

    name: str
    at: int
    lowest: float
    highest: float
    order: Literal["rising", "ascending", ""] = ""
    whole: bool = False


def read_columns(path: Path, columns: Sequence[TraceColumn], *, width: int, header: str = "") -> Columns:
    """Some columns of a text file; blank lines at its end do not count.

    Args:
        path: path of the file.
        columns: columns that are kept.
        width: number of words in every row.
        header: beginning of the first line; empty: it has none.

    Raises:
        DataError: the file cannot be read, is empty, too large, or begins otherwise; a row has another width; a word
            is no number that the column can hold.
    """
    rows = _Rows(path, columns, width)
    try:
        with open_regular(path, MAX_BYTES) as stream:
            if header:
                _skip_header(path, stream, header)
                rows.next_row += 1
            for block in _blocks(path, stream):
                rows.append(block)
    except OSError as error:
        raise DataError(f"{shown(path)} cannot be read ({reason(error)}); name the file of a link trace") from None
    return rows.columns()


def _skip_header(path: Path, stream: BinaryIO, header: str) -> None:
    if not stream.readline(MAX_LINE_BYTES).startswith(header.encode()):
        raise DataError(f"{shown(path)} row 1 must begin with {header!r}; is it a trace of another format?")


def _blocks(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Content of a file in blocks of whole lines."""
    while block := stream.read(BLOCK_BYTES):
        rest = stream.readline(MAX_LINE_BYTES + 1)
        if len(rest) > MAX_LINE_BYTES:
            raise DataError(f"{shown(path)} has a line of more than {MAX_LINE_BYTES} bytes; is it a link trace?")
        yield block + rest


class _Rows:
    """Columns as far as they have been read, with the checks across blocks."""

    def __init__(self, path: Path, columns: Sequence[TraceColumn], width: int) -> None:
        self._path, self._columns, self._width = shown(path), columns, width
        self._pieces: dict[str, list[NDArray[np.float64]]] = {column.name: [] for column in columns}
        self._n_rows = 0
        self._blank_row: int | None = None
        self.next_row = 1

    def append(self, block: bytes) -> None:
        """Take the rows of a block of whole lines."""
        n_lines = self._check_widths(block)
        if words := block.split():
            self._n_rows += len(words) // self._width
            if self._n_rows > MAX_ROWS:
                raise DataError(f"{self._path} has more than {MAX_ROWS} rows; shorten it")
            for column in self._columns:
                self._pieces[column.name].append(self._checked(column, words[column.at :: self._width]))
        self.next_row += n_lines

    def columns(self) -> Columns:
        """All rows, column by column.

        Raises:
            DataError: there are none.
        """
        if not self._n_rows:
            raise DataError(f"{self._path} holds no rows; name the file of a link trace")
        return {name: np.concatenate(self._pieces.pop(name)) for name in list(self._pieces)}

    def _check_widths(self, block: bytes) -> int:
        """Number of lines in a block, after a check that each has the words that are due."""
        raw = np.frombuffer(block, np.uint8)
        is_space = _IS_SPACE[raw]
        begins = ~is_space
        begins[1:] &= is_space[:-1]
        line_ends = np.flatnonzero(raw == _NEWLINE)
        if raw[-1] != _NEWLINE:
            line_ends = np.append(line_ends, len(raw) - 1)
        n_words = np.add.reduceat(begins, np.append(0, line_ends[:-1] + 1), dtype=np.int64)
        filled = np.flatnonzero(n_words)
        last = int(filled[-1]) if len(filled) else -1
        if last >= 0 and self._blank_row is not None:
            self._refuse_width(self._blank_row, 0)
        if len(wrong := np.flatnonzero(n_words[: last + 1] != self._width)):
            self._refuse_width(self.next_row + int(wrong[0]), int(n_words[wrong[0]]))
        if last + 1 < len(n_words) and self._blank_row is None:
            self._blank_row = self.next_row + last + 1
        return len(n_words)

    def _refuse_width(self, row: int, n_words: int) -> None:
        raise DataError(f"{self._path} row {row} has {n_words} values where {self._width} are due; repair or remove it")

    def _checked(self, column: TraceColumn, words: list[bytes]) -> NDArray[np.float64]:
        values = _numbers(words)
        where, name = f"{self._path} row", column.name
        if len(wrong := np.flatnonzero(~np.isfinite(values))):
            row, word = self.next_row + int(wrong[0]), words[wrong[0]][:MAX_WORD].decode("ascii", "backslashreplace")
            raise DataError(f"{where} {row}: {name} must be a finite number, got {quoted(word)}")
        if len(wrong := np.flatnonzero((values < column.lowest) | (values > column.highest))):
            raise DataError(
                f"{where} {self.next_row + int(wrong[0])}: {name} must lie from {column.lowest:g} to"
                f" {column.highest:g}, got {values[wrong[0]]:g}"
            )
        if column.whole and len(wrong := np.flatnonzero(values != np.floor(values))):
            row, value = self.next_row + int(wrong[0]), values[wrong[0]]
            raise DataError(f"{where} {row}: {name} must be a whole number, got {value:.15g}")
        self._check_order(column, values)
        return values

    def _check_order(self, column: TraceColumn, values: NDArray[np.float64]) -> None:
        if not column.order:
            return
        pieces = self._pieces[column.name]
        before = float(pieces[-1][-1]) if pieces else -np.inf
        steps = np.diff(values, prepend=before)
        if len(wrong := np.flatnonzero(steps <= 0.0 if column.order == "rising" else steps < 0.0)):
            at = int(wrong[0])
            asked = "above" if column.order == "rising" else "no less than"
            raise DataError(
                f"{self._path} row {self.next_row + at}: {column.name} must be {asked} that of the row before"
                f" ({values[at - 1] if at else before:.15g}), got {values[at]:.15g}"
            )


def _numbers(words: list[bytes]) -> NDArray[np.float64]:
    """[n] NaN where a word is no number."""
    if max(map(len, words)) <= MAX_WORD:  # an array of words is as wide as the longest
        with suppress(ValueError):
            return np.array(words).astype(np.float64)
    return np.array([_number(word) for word in words])


def _number(word: bytes) -> float:
    try:
        return float(word) if len(word) <= MAX_WORD else np.nan
    except ValueError:
        return np.nan

"""Rows of a text file: how many words each has, which of them are where, and the numbers and times that they spell."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

#: No number that a trace holds is written longer.
MAX_WORD = 40
#: Bytes at which `bytes.split` parts words.
_IS_SPACE = np.isin(np.arange(256), np.frombuffer(b" \t\n\r\x0b\x0c", np.uint8))
_NEWLINE = 10
#: A date and a time of day: YYYY.MM.DD_HH.MM.SS, whatever separates the numbers.
_INSTANT_LENGTH, _SEPARATORS = 19, (4, 7, 10, 13, 16)
_DIGITS = tuple(at for at in range(_INSTANT_LENGTH) if at not in _SEPARATORS)
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RowShape:
    """Place of the columns in a row.

    Attributes:
        separator: byte between words; empty: any number of spaces and tabs.
        at: index of each column's word.
        width: number of words of every row.
        is_exact: whether rows have this width; otherwise that of the first row, which is no smaller.
    """

    separator: bytes
    at: tuple[int, ...]
    width: int
    is_exact: bool

    def of_width(self, width: int) -> RowShape:
        """The same columns in rows of exactly this width."""
        return replace(self, width=width, is_exact=True)

    def words(self, block: bytes, n_rows: int) -> list[bytes]:
        """Words of the rows of a block, one after the other.

        Args:
            block: whole lines; the first of them are rows, each of this width, and the others are blank.
            n_rows: number of rows.
        """
        if not self.separator:
            return block.split()
        one_line = block.replace(b'"', b"").replace(b"\r", b"").replace(b"\n", self.separator)
        return one_line.split(self.separator)[: n_rows * self.width]


def row_widths(block: bytes, separator: bytes) -> NDArray[np.int64]:
    """[n_lines] number of words of each line; 0 of a blank one.

    Args:
        block: whole lines.
        separator: as of `RowShape`.
    """
    raw = np.frombuffer(block, np.uint8)
    is_space = _IS_SPACE[raw]
    begins = ~is_space
    begins[1:] &= is_space[:-1]
    line_ends = np.flatnonzero(raw == _NEWLINE)
    if raw[-1] != _NEWLINE:
        line_ends = np.append(line_ends, len(raw) - 1)
    starts = np.append(0, line_ends[:-1] + 1)
    n_words = np.add.reduceat(begins, starts, dtype=np.int64)
    if not separator:
        return n_words
    n_cells = 1 + np.add.reduceat(raw == separator[0], starts, dtype=np.int64)
    return np.where(n_words > 0, n_cells, 0)


def numbers(words: list[bytes]) -> NDArray[np.float64]:
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


def instants(words: list[bytes]) -> NDArray[np.float64]:
    """[n] seconds since the first of January 1970, NaN where a word is no date with a time of day."""
    right = np.fromiter((len(word) == _INSTANT_LENGTH for word in words), np.bool_, len(words))
    letters = np.array(words, dtype=f"S{_INSTANT_LENGTH}").view(np.uint8).reshape(len(words), _INSTANT_LENGTH)
    digits = letters - np.uint8(ord("0"))  # wraps: above 9 for all that are no digits
    right &= (digits[:, _DIGITS] <= 9).all(axis=1) & (digits[:, _SEPARATORS] > 9).all(axis=1)
    at = digits.astype(np.int64)
    year = at[:, 0:4] @ np.array([1000, 100, 10, 1])
    month, day, hour, minute, second = (10 * at[:, first] + at[:, first + 1] for first in (5, 8, 11, 14, 17))
    right &= (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second <= 60)
    months = np.where(right, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + np.where(right, day - 1, 0)
    right &= days.astype("datetime64[M]") == months  # the month has this day
    of_day_s = 3600.0 * hour + 60.0 * minute + second
    return np.where(right, days.astype(np.int64) * _DAY_S + of_day_s, np.nan)

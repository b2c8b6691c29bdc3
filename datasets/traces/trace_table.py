"""Reads text files of numbers, a row per line, and names the row where something else stands."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError

#: Real traces have a few megabytes; a larger file is a mistake that would fill the memory.
MAX_BYTES = 1 << 28
#: No number that a trace holds is written longer.
MAX_WORD = 40
#: Column -> [n] float64.
Columns = dict[str, NDArray[np.float64]]


def trace_rows(path: Path, *, header: str = "") -> list[list[bytes]]:
    """The words of every line; blank lines at the end are dropped.

    Args:
        path: of the file.
        header: what its first line must begin with; empty: it has none.

    Raises:
        DataError: the file cannot be read, is empty, too large, or begins otherwise.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path} has {path.stat().st_size} bytes; a link trace has at most {MAX_BYTES}, shorten it")
        lines = path.read_bytes().rstrip().split(b"\n")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DataError(f"{path} cannot be read ({error}); name the file of a link trace") from None
    if header:
        if not lines[0].startswith(header.encode()):
            raise DataError(f"{path} row 1 must begin with {header!r}; is it a trace of another format?")
        lines = lines[1:]
    if not lines or not lines[0].strip():
        raise DataError(f"{path} holds no rows; name the file of a link trace")
    return [line.split() for line in lines]


def columns_of(path: Path, rows: list[list[bytes]], names: dict[str, int], *, width: int, first_row: int) -> Columns:
    """Some columns as numbers.

    Args:
        path: to name in errors.
        rows: words.
        names: column -> where it stands in a row.
        width: words in every row.
        first_row: number of the first of the rows in its file, from 1.

    Raises:
        DataError: a row of another width, or a word that is no finite number.
    """
    for number, row in enumerate(rows, start=first_row):
        if len(row) != width:
            raise DataError(f"{path} row {number} has {len(row)} values where {width} are due; repair or remove it")
    columns = {}
    for name, at in names.items():
        words = [row[at] for row in rows]
        values = _numbers(words)
        if not np.isfinite(values).all():
            wrong = int(np.flatnonzero(~np.isfinite(values))[0])
            shown = words[wrong][:MAX_WORD].decode("ascii", "backslashreplace")
            raise DataError(f"{path} row {wrong + first_row}: {name} must be a finite number, got {shown!r}")
        columns[name] = values
    return columns


def check_order(
    path: Path, name: str, values: NDArray[np.float64], *, strictly: bool, first_row: int, lowest: float = -np.inf
) -> None:
    """A column that must not go back.

    Raises:
        DataError: it goes back, stands still where it must not, or begins too low.
    """
    if values[0] < lowest:
        raise DataError(f"{path} row {first_row}: {name} must be {lowest:g} or more, got {values[0]:g}")
    steps = np.diff(values)
    if wrong := np.flatnonzero(steps <= 0.0 if strictly else steps < 0.0).tolist():
        row = wrong[0] + 1
        asked = "above" if strictly else "no less than"
        raise DataError(
            f"{path} row {row + first_row}: {name} must be {asked} that of the row before ({values[row - 1]:.15g}), got"
            f" {values[row]:.15g}"
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

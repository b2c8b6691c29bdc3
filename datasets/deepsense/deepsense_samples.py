"""Which samples of a DeepSense table can be used, and how many cannot for which reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import is_regular, shown
from .deepsense_table import DeepSenseTable

#: Cells that name no file.
EMPTY = frozenset({"", "nan", "none"})


class UsableSamples:
    """Samples of a table that can be used so far; those that cannot are counted by reason, or refused.

    Args:
        table: table with a row per sample.
        strict: whether a sample that cannot be used refuses the table.

    Attributes:
        dropped: reason -> number of samples, for the first reason of each.
    """

    def __init__(self, table: DeepSenseTable, *, strict: bool) -> None:
        self.dropped: Counter[str] = Counter()
        self._table, self._strict = table, strict
        self._usable = np.ones(len(table), dtype=np.bool_)
        self._first = ""

    def rows(self) -> list[int]:
        """Rows that can be used so far, from 0."""
        return np.flatnonzero(self._usable).tolist()

    @contextmanager
    def reading(self, row: int, reason: str) -> Iterator[None]:
        """Context in which a sample is read; a `DataError` drops it, or is raised where samples are not dropped."""
        try:
            yield
        except DataError as error:
            if self._strict:
                raise
            self._drop([row], reason, str(error))

    def refuse(self, rows: Sequence[int], reason: str, message: str | Callable[[int], str]) -> None:
        """Drop samples that were read and cannot be used.

        Args:
            rows: rows of the table, from 0.
            reason: reason in a few words.
            message: sentence about the first of them, or from a row to the sentence about it.

        Raises:
            DataError: samples are not dropped.
        """
        found = [row for row in rows if self._usable[row]]
        if not found:
            return
        sentence = message if isinstance(message, str) else message(found[0])
        if self._strict:
            raise DataError(sentence)
        self._drop(found, reason, sentence)

    def leave_out(self, rows: Sequence[int], reason: str) -> None:
        """Drop samples that were asked to be left out, also where others are not dropped."""
        if found := [row for row in rows if self._usable[row]]:
            self._drop(found, reason, f"{self._table.where(found[0])}: {reason}")

    def lacking(self, column: str) -> NDArray[np.bool_]:
        """[n_rows] whether a sample has no file in this column; none where samples are not dropped for that."""
        lacks = np.zeros(len(self._table), dtype=np.bool_)
        if not self._strict:
            lacks[self.rows()] = [not self._has_file(column, row) for row in self.rows()]
        return lacks

    def require_files(self, columns: Sequence[str], spared: Mapping[str, NDArray[np.bool_]]) -> None:
        """Drop the samples that lack a file in one of these columns, before any file is read.

        Args:
            columns: columns of paths.
            spared: column -> [n_rows] samples that need no file there.

        Raises:
            DataError: samples are not dropped; a path leads out of the folder; or no sample has a file of a column.
        """
        for column in columns:
            rows = [row for row in self.rows() if column not in spared or not spared[column][row]]
            missing = [row for row in rows if not self._has_file(column, row)]
            if missing and len(missing) == len(rows) and not self._strict:
                raise DataError(
                    f"{self._table.path.name}: column {column} names no file that exists in any of {len(rows)} rows,"
                    f" the first is {self._named(column, missing[0])}; unpack all parts of the scenario, or leave the"
                    " sensor out with --modalities"
                )
            if missing:
                sentence = (
                    f"{self._table.where(missing[0])}: {column} file {self._named(column, missing[0])} does not exist"
                    f" ({len(missing)} of {len(self._table)} are missing); unpack all parts of the scenario"
                )
                self.refuse(missing, f"{column}: no file", sentence)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """[n_rows] one finite number per sample, inline or in files; NaN of samples that cannot be used."""
        values = np.full(len(self._table), np.nan)
        is_inline = self._table.is_inline(column)
        for row in self.rows():
            with self.reading(row, f"{column}: no number"):
                values[row] = self._table.number(column, row, is_inline=is_inline)
        return values

    def whole_numbers(self, column: str) -> NDArray[np.int64]:
        """[n_rows] `numbers` of a column that counts; 0 of samples that cannot be used."""
        values = self.numbers(column)
        bad = ~np.isnan(values) & ((values != np.rint(values)) | (np.abs(values) > 2**31 - 1))
        self.refuse(
            np.flatnonzero(bad).tolist(),
            f"{column}: no whole number",
            lambda row: f"{self._table.where(row)}: {column} must be a whole number, got {values[row]}",
        )
        usable = self._usable
        return np.where(usable, np.nan_to_num(values), 0.0).astype(np.int64)

    def kept(self) -> NDArray[np.int64]:
        """Rows that can be used, from 0.

        Raises:
            DataError: there are none.
        """
        if not self._usable.any():
            raise DataError(
                f"{shown(self._table.path)}: no sample is left of {len(self._table)} ({listed_counts(self.dropped)});"
                f" the first to go: {self._first}"
            )
        return np.flatnonzero(self._usable)

    def _drop(self, rows: Sequence[int], reason: str, message: str) -> None:
        self._first = self._first or message
        self.dropped[reason] += len(rows)
        self._usable[rows] = False

    def _has_file(self, column: str, row: int) -> bool:
        if self._table.columns[column][row].lower() in EMPTY and not self._strict:
            return False
        return is_regular(self._table.file(column, row))

    def _named(self, column: str, row: int) -> str:
        cell = self._table.columns[column][row]
        return "''" if cell.lower() in EMPTY else shown(self._table.file(column, row))


def listed_counts(dropped: Mapping[str, int]) -> str:
    """Reasons with their numbers of samples, for people."""
    return ", ".join(f"{reason}: {count:,}" for reason, count in dropped.items())

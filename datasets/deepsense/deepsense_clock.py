"""Instants and sequences of the rows of a DeepSense table."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import quoted, shown
from .deepsense_table import DeepSenseTable

#: The sampling that DeepSense aims at, for tables without time stamps.
NOMINAL_RATE_HZ = 10.0
#: Where a table has no `seq_index`, a longer silence of the clock starts another sequence.
SEQUENCE_GAP_S = 5.0
DAY_S = 86_400.0

# ['11-46-31-250'], 11:46:31-250123, 11:46:31.25, each alone or after a date.
_STAMP = re.compile(r"(?<!\d)(\d{1,2})[:-](\d{1,2})[:-](\d{1,2})(?:([:.-])(\d{1,9}))?\W*$")


def read_clock(table: DeepSenseTable, notes: list[str]) -> NDArray[np.float64] | None:
    """[n_rows] seconds since the first row, by the column whose name starts with time_stamp; None without one.

    The clock is one of the day: a fall by more than half a day is midnight.

    Raises:
        DataError: a time stamp that is none.
    """
    column = table.column_with_prefix("time_stamp", "timestamp")
    if column is None:
        return None
    cells = table.columns[column]
    matches = [_STAMP.search(cell) for cell in cells]
    # A fraction behind '-' or ':' counts milliseconds or microseconds, without leading zeros: the column tells which.
    counts = [match[5] for match in matches if match and match[5] and match[4] != "."]
    per_count_s = 1e-3 if all(len(count) <= 3 for count in counts) else 1e-6
    seconds = np.empty(len(table))
    for row, match in enumerate(matches):
        if match is None or int(match[1]) > 23 or int(match[2]) > 59 or int(match[3]) > 60:
            raise DataError(f"{table.where(row)}: {column} must be a time like 11-46-31-250, got {quoted(cells[row])}")
        seconds[row] = 3600 * int(match[1]) + 60 * int(match[2]) + int(match[3])
        if match[5]:
            seconds[row] += float(f"0.{match[5]}") if match[4] == "." else int(match[5]) * per_count_s
    midnights = np.cumsum(np.diff(seconds, prepend=seconds[0]) < -DAY_S / 2)
    if midnights[-1]:
        notes.append(f"{column} passes midnight {midnights[-1]} time(s)")
    running: NDArray[np.float64] = seconds + DAY_S * midnights
    running -= running[0]
    return running


def read_sequence(table: DeepSenseTable, clock_s: NDArray[np.float64] | None, notes: list[str]) -> NDArray[np.int64]:
    """[n_rows] which drive-by, flight or pass: `seq_index`, or cut at silences of the clock, or at holes of `index`.

    Raises:
        DataError: a sequence starts again, or nothing tells where sequences end.
    """
    if "seq_index" in table.columns:
        sequence = table.whole_numbers("seq_index")
        begins = np.flatnonzero(np.diff(sequence, prepend=sequence[0] - 1))
        _, first = np.unique(sequence[begins], return_index=True)
        if len(first) < len(begins):
            again = begins[np.setdiff1d(np.arange(len(begins)), first)[0]]
            raise DataError(
                f"{table.where(again)}: seq_index {sequence[again]} starts again after another sequence; "
                "the rows of a sequence must be contiguous, in time order"
            )
        return sequence
    if clock_s is not None:
        step_s = np.diff(clock_s, prepend=clock_s[0])
        # a clock that runs backwards begins another sequence, too
        sequence = np.cumsum((step_s > SEQUENCE_GAP_S) | (step_s < 0))
        notes.append(
            f"no seq_index: {sequence[-1] + 1} sequences, cut where the clock is silent for {SEQUENCE_GAP_S} s"
        )
        return sequence
    if "index" in table.columns:
        sequence = np.cumsum(np.diff(table.whole_numbers("index"), prepend=0) != 1)
        sequence -= sequence[0]
        notes.append(f"no seq_index and no time stamps: {sequence[-1] + 1} sequences, cut at holes of index")
        return sequence
    raise DataError(
        f"{shown(table.path)} has neither seq_index nor time_stamp nor index; windows could cross sequences unseen"
    )


def read_frame_index(table: DeepSenseTable, sequence: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n_rows] `index`, or the row number without one; steps over 1 tell that frames are missing.

    Raises:
        DataError: `index` does not rise inside a sequence.
    """
    if "index" not in table.columns:
        return np.array(table.row_numbers, dtype=np.int64)
    numbers = table.whole_numbers("index")
    falls = np.flatnonzero(
        (np.diff(numbers, prepend=numbers[0] - 1) <= 0) & (np.diff(sequence, prepend=sequence[0]) == 0)
    )
    if len(falls):
        raise DataError(
            f"{table.where(falls[0])}: index {numbers[falls[0]]} does not follow {numbers[falls[0] - 1]}; "
            "rows must be in time order"
        )
    return numbers


def time_in_sequences(
    table: DeepSenseTable, clock_s: NDArray[np.float64] | None, sequence: NDArray[np.int64], notes: list[str]
) -> tuple[NDArray[np.float64], float]:
    """[n_rows] instants in seconds, and the frames per second inside of sequences.

    Raises:
        DataError: the clock runs backwards inside a sequence.
    """
    if clock_s is None:
        notes.append(f"no time stamps: rows taken as {NOMINAL_RATE_HZ} per second")
        return np.array(table.row_numbers) / NOMINAL_RATE_HZ, NOMINAL_RATE_HZ
    inside = np.diff(sequence) == 0
    adjacent = np.diff(table.row_numbers) == 1  # a step over samples that were left out is no step of the recorder
    step_s = np.diff(clock_s)
    backwards = np.flatnonzero(inside & (step_s < 0))
    if len(backwards):
        row = int(backwards[0]) + 1
        raise DataError(f"{table.where(row)}: time stamp runs backwards by {-step_s[row - 1]:.3f} s inside a sequence")
    # the rate counts steps inside sequences: pauses between them would lower it
    counted = inside & adjacent
    duration_s = float(step_s[counted].sum())
    if duration_s == 0:
        notes.append(f"time stamps do not advance inside sequences: rate taken as {NOMINAL_RATE_HZ} Hz")
        return clock_s, NOMINAL_RATE_HZ
    return clock_s, float(counted.sum() / duration_s)

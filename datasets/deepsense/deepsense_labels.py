"""Checks that beam and blockage labels of a DeepSense table belong to its power files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from .deepsense_samples import UsableSamples
from .deepsense_table import DeepSenseTable

#: Released labels are the strongest beam of their own sweep; what is left for NaN beams and ties.
MIN_BEAM_AGREEMENT = 0.9
#: A label that leads or trails its power by up to this many rows is found and named.
MAX_LAG_ROWS = 5
#: Below this correlation with the fall of power, a blockage label tells nothing about the link.
MIN_BLOCKAGE_CORRELATION = 0.2
#: How much better a shifted label must fit to be called shifted; a shift by one row costs an event of ten rows 0.1.
LAG_MARGIN = 0.04
#: Blocked rows of a sequence lie below its clear rows by less only if the labels belong elsewhere: people cost 7 dB.
MIN_DROP_DB = 1.0
#: Rows of each kind that a sequence must have to be judged, and the share of such sequences that may look odd.
MIN_ROWS_OF_A_KIND = 3
MAX_ODD_SEQUENCES = 0.2

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BeamNumbering:
    """Numbering of the beam labels of a table.

    Attributes:
        name: such as "1-based" or "mirrored, 0-based, 32 beams".
        agreement: share of sweeps without NaN whose strongest beam is the label.
    """

    name: str
    agreement: float


def detect_beam_numbering(
    table: DeepSenseTable, column: str, labels: NDArray[np.int64], powers: NDArray[np.float64]
) -> BeamNumbering:
    """Numbering of beam labels, found by comparison with the power files.

    Args:
        labels: [n_rows] as in the table.
        powers: [n_rows, n_beams] linear, NaN where a beam was not measured; no row without any.

    Raises:
        DataError: no numbering explains the labels, because they are shifted or belong to other sweeps.
    """
    # a sweep with an unmeasured beam does not contradict a label: that beam may have been the strongest
    whole: Bools = ~np.asarray(np.isnan(powers).any(axis=1), dtype=np.bool_)
    readings = _readings(labels, powers)
    agreements = {
        (name, lag): _agreement(np.roll(predicted, lag), beam, whole)
        for lag in sorted(range(-MAX_LAG_ROWS, MAX_LAG_ROWS + 1), key=abs)  # 0 first: it wins a tie
        for name, (predicted, beam) in readings.items()
    }
    name, lag = max(agreements, key=lambda key: agreements[key])
    agreement = agreements[name, lag]
    if lag == 0 and agreement >= MIN_BEAM_AGREEMENT:
        return BeamNumbering(name, agreement)
    predicted, beam = readings[name]
    row = int(np.argmax((predicted != beam) & whole))
    if agreement >= MIN_BEAM_AGREEMENT:
        why = (
            f"labels fit the sweep {abs(lag)} row(s) {'later' if lag > 0 else 'earlier'}, so one of the two is shifted"
        )
    else:
        why = f"the best reading, {name}, fits {agreement:.0%} of the sweeps"
    raise DataError(
        f"{table.where(row)}: {column} is {labels[row]}, but beam {beam[row]} (from 0) of the power file is strongest; "
        f"{why}; label and power files must come from one download"
    )


def meanings_of(labels: NDArray[np.int64], n_all: int) -> dict[str, tuple[int, NDArray[np.int64]]]:
    """Numbering -> beams of its codebook, and [n_rows] the beams that the labels mean in it."""
    meanings: dict[str, tuple[int, NDArray[np.int64]]] = {}
    for n_beams in (n_all, n_all // 2, n_all // 4, n_all // 8):
        if n_beams < 2:
            continue
        suffix = "" if n_beams == n_all else f", {n_beams} beams"
        meanings |= {
            f"1-based{suffix}": (n_beams, labels - 1),
            f"0-based{suffix}": (n_beams, labels),
            f"mirrored, 1-based{suffix}": (n_beams, n_beams - labels),
            f"mirrored, 0-based{suffix}": (n_beams, n_beams - 1 - labels),
        }
    return meanings


def _readings(
    labels: NDArray[np.int64], powers: NDArray[np.float64]
) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Numbering -> [n_rows] beams that the labels mean in it, and [n_rows] strongest beams of its codebook."""
    n_all = powers.shape[1]
    meanings = meanings_of(labels, n_all)
    strongest = {
        n_beams: np.nanargmax(_measured(powers[:, :: n_all // n_beams]), axis=1) for n_beams, _ in meanings.values()
    }
    return {name: (predicted, strongest[n_beams]) for name, (n_beams, predicted) in meanings.items()}


def _measured(powers: NDArray[np.float64]) -> NDArray[np.float64]:
    """With 0 for rows of a smaller codebook that have no measured beam left."""
    return np.where(np.isnan(powers).all(axis=1, keepdims=True), 0.0, powers)


def _agreement(predicted: NDArray[np.int64], beam: NDArray[np.int64], counted: Bools) -> float:
    return float((predicted == beam)[counted].mean()) if counted.any() else 0.0


def read_blockage(table: DeepSenseTable, column: str, samples: UsableSamples) -> Bools:
    """[n_rows] the label, from files or inline; samples without a number are dropped.

    Raises:
        DataError: a label other than 0 and 1.
    """
    labels = samples.numbers(column)
    odd = np.flatnonzero((labels != 0) & (labels != 1) & ~np.isnan(labels))
    if len(odd):
        raise DataError(f"{table.where(odd[0])}: {column} must be 0 or 1, got {labels[odd[0]]:g}")
    return np.asarray(labels == 1, dtype=np.bool_)


def complaint_about_blockage(
    table: DeepSenseTable,
    column: str,
    blocked: Bools,
    best_power_db: NDArray[np.float64],
    sequence: NDArray[np.int64],
) -> str:
    """Why the labels cannot belong to these sweeps, with a row; empty if they can, or if nothing is ever blocked.

    Args:
        blocked: [n_rows] label.
        best_power_db: [n_rows] of the strongest beam.
        sequence: [n_rows].
    """
    if blocked.all() or not blocked.any():
        return ""
    fall_db = _fall_db(best_power_db, sequence)
    by_lag = {lag: _correlation(blocked, fall_db, sequence, lag) for lag in range(-MAX_LAG_ROWS, MAX_LAG_ROWS + 1)}
    best = max(by_lag, key=lambda lag: by_lag[lag])
    if best and by_lag[best] >= MIN_BLOCKAGE_CORRELATION and by_lag[best] > by_lag[0] + LAG_MARGIN:
        why = (
            f"labels fit the power {abs(best)} row(s) {'later' if best > 0 else 'earlier'} better "
            f"(correlation {by_lag[best]:.2f} instead of {by_lag[0]:.2f}), so one of the two is shifted"
        )
    elif by_lag[0] <= -MIN_BLOCKAGE_CORRELATION:
        why = "power is higher in blocked rows, so 0 and 1 seem to be swapped"
    elif by_lag[0] < MIN_BLOCKAGE_CORRELATION:
        why = f"labels do not follow the power (correlation {by_lag[0]:.2f})"
    else:
        return _complaint_about_sequences(table, column, blocked, best_power_db, sequence)
    row = int(np.argmax(np.where(blocked, -fall_db, fall_db)))  # the plainest contradiction
    return (
        f"{table.where(row)}: {column} is {int(blocked[row])} where the best beam is {fall_db[row]:.1f} dB below "
        f"the clear level of its sequence; {why}"
    )


def _fall_db(best_power_db: NDArray[np.float64], sequence: NDArray[np.int64]) -> NDArray[np.float64]:
    """How far each row lies below the clear level of its sequence, its upper quintile: most of it may be blocked."""
    parts = np.split(best_power_db, _borders(sequence))
    clear = np.repeat([np.quantile(part, 0.8) for part in parts], [len(part) for part in parts])
    fall: NDArray[np.float64] = clear - best_power_db
    return fall


def _borders(sequence: NDArray[np.int64]) -> NDArray[np.int64]:
    """First row of every sequence but the first; the rows of one are contiguous."""
    return np.asarray(np.flatnonzero(np.diff(sequence)) + 1, dtype=np.int64)


def _correlation(blocked: Bools, fall_db: NDArray[np.float64], sequence: NDArray[np.int64], lag: int) -> float:
    """Of the label in one row with the power `lag` rows later, inside of sequences."""
    n = len(blocked) - abs(lag)
    early, late = slice(0, max(n, 0)), slice(abs(lag), None)
    label_rows, power_rows = (early, late) if lag >= 0 else (late, early)
    together = sequence[early] == sequence[late]
    label, fall = blocked[label_rows][together].astype(float), fall_db[power_rows][together]
    if len(label) < 3 or label.std() == 0 or fall.std() == 0:
        return 0.0
    return float(np.corrcoef(label, fall)[0, 1])


def _complaint_about_sequences(
    table: DeepSenseTable,
    column: str,
    blocked: Bools,
    best_power_db: NDArray[np.float64],
    sequence: NDArray[np.int64],
) -> str:
    """Labels may belong in some sequences and be numbered wrongly in the rest."""
    judged, odd = 0, []
    for rows in np.split(np.arange(len(sequence)), _borders(sequence)):
        dark, clear = rows[blocked[rows]], rows[~blocked[rows]]
        if min(len(dark), len(clear)) >= MIN_ROWS_OF_A_KIND:
            judged += 1
            if np.median(best_power_db[clear]) - np.median(best_power_db[dark]) < MIN_DROP_DB:
                odd.append(int(dark[0]))
    if len(odd) <= MAX_ODD_SEQUENCES * judged:
        return ""
    return (
        f"{table.where(odd[0])}: {column} is 1, but in {len(odd)} of {judged} sequences blocked rows have no less "
        "power than clear ones; the label files of these sequences seem to be numbered otherwise"
    )

"""Which values each field of a recording may have, and in which order its frames lie.

Checked where frames are written and where they are read: a file may have been changed between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, DataError
from ...emulator.modalities import ValueRange
from .recording_layout import MAX_AXIS, Field

#: Of fields that no sensor gives. A loss of 300 dB is that of ten buses; a clock may count from 1970.
_RANGES: Mapping[str, ValueRange] = {
    "time_s": ValueRange(-1e10, 1e10),
    "los_loss_db": ValueRange(0.0, 1e4),
    "link_power_dbw": ValueRange(-1e4, 100.0),
    "doppler_shift_hz": ValueRange(-1e6, 1e6),
    "doppler_spread_hz": ValueRange(0.0, 1e6),
}
#: Columns of positions by their names; others by their endings, and those without a unit may hold any finite number.
_COLUMN_RANGES: Mapping[str, ValueRange] = {
    "latitude_deg": ValueRange(-90.0, 90.0),
    "longitude_deg": ValueRange(-180.0, 180.0),
    "distance_m": ValueRange(0.0, 1e8),
}
_UNIT_RANGES: Mapping[str, ValueRange] = {"_deg": ValueRange(-360.0, 360.0), "_m": ValueRange(-1e8, 1e8)}
_ANY_NUMBER = ValueRange(-1e300, 1e300)


def column_range(column: str) -> ValueRange:
    """Values of a column of positions, by its name."""
    ending = next((ending for ending in _UNIT_RANGES if column.endswith(ending)), None)
    return _COLUMN_RANGES.get(column, _UNIT_RANGES[ending] if ending else _ANY_NUMBER)


def value_ranges(field: Field, n_beams: int | None) -> tuple[ValueRange, ...]:
    """Values of a field: one range, or one per column; none where its type allows no others.

    Args:
        field: field of a base station.
        n_beams: size of its codebook; None: no sweeps are recorded.
    """
    if field.name == "best_beam":
        return (ValueRange(0, (n_beams or MAX_AXIS) - 1),)
    spec = next((row.recorded for name, row in MODALITY_SPECS.items() if name == field.name), None)
    if spec is None:
        return (_RANGES[field.name],) if field.name in _RANGES else ()
    if spec.needs_columns:
        return tuple(column_range(column) for column in field.columns)
    return spec.ranges


def check_values(where: str, field: Field, n_beams: int | None, rows: NDArray[Any], frames: range) -> None:
    """Refuse frames with a value that no sensor gives.

    Args:
        where: how messages name the field.
        field: field of a base station.
        n_beams: size of its codebook; None: no sweeps are recorded.
        rows: [n, *field.shape] in the stored type.
        frames: number of each of them.

    Raises:
        DataError: names column, frame, value and what is valid.
    """
    if rows.dtype == np.bool_:
        # a byte of an HDF5 enumeration may hold any number, and numpy believes each of them to be True
        _refuse_outside(where, ValueRange(0, 1), rows.view(np.uint8), frames)
        return
    ranges = value_ranges(field, n_beams)
    if len(ranges) == 1:
        _refuse_outside(where, ranges[0], rows, frames)
        return
    names = field.columns or tuple(f"column {index}" for index in range(len(ranges)))
    for index, (name, allowed) in enumerate(zip(names, ranges, strict=True)):
        _refuse_outside(f"{where}, {name},", allowed, rows[..., index], frames)


def _refuse_outside(where: str, allowed: ValueRange, rows: NDArray[Any], frames: range) -> None:
    if not rows.size or bool(allowed.holds(rows.min()) & allowed.holds(rows.max())):  # NaN is in no range
        return
    bad = ~allowed.holds(rows) & ~(np.isnan(rows) & allowed.or_nan)
    if bad.any():
        at = tuple(int(index) for index in np.argwhere(bad)[0])
        raise DataError(f"{where} must be {allowed}, got {rows[at]} in frame {frames[at[0]]}")


class FrameOrder:
    """Order of the frames of one base station, checked piece by piece.

    Inside a sequence time does not run backwards and numbers of frames rise; a sequence does not start again.

    Args:
        where: how messages name the base station.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._n_frames = 0
        self._last: dict[str, float] = {}
        self._seen: set[int] = set()

    def check(
        self,
        time_s: NDArray[np.float64],
        sequence: NDArray[np.int32],
        frame_index: NDArray[np.int32] | None,
    ) -> None:
        """Check the next frames, and remember them if they are in order.

        Raises:
            DataError: names the frame.
        """
        if len(time_s) == 0:
            return
        first = int(sequence[0])
        continues = self._last.get("sequence") == first
        same = np.diff(sequence, prepend=sequence[0]) == 0
        same[0] = continues
        self._refuse_backwards("time_s", time_s, same, sequence, lambda step: step < 0)
        if frame_index is not None:
            self._refuse_backwards("frame_index", frame_index, same, sequence, lambda step: step <= 0)
        begun = sequence[~same]
        known = set(self._seen)
        for number in begun.tolist():
            if number in known:
                raise DataError(
                    f"{self._where}: sequence {number} starts again; the frames of a sequence must be contiguous"
                )
            known.add(number)
        self._seen = known
        self._n_frames += len(time_s)
        self._last = {"time_s": float(time_s[-1]), "sequence": int(sequence[-1])}
        if frame_index is not None:
            self._last["frame_index"] = int(frame_index[-1])

    def _refuse_backwards(
        self, name: str, values: NDArray[Any], same: NDArray[np.bool_], sequence: NDArray[np.int32], wrong: Any
    ) -> None:
        before = np.append(self._last.get(name, 0.0), values[:-1].astype(np.float64))
        steps = values - before
        backwards = np.flatnonzero(wrong(steps) & same)
        if len(backwards):
            row = int(backwards[0])
            raise DataError(
                f"{self._where}: {name} runs backwards in frame {self._n_frames + row}, inside sequence"
                f" {sequence[row]}, from {before[row]:.15g} to {values[row]:.15g}; frames must be in the order of time"
            )

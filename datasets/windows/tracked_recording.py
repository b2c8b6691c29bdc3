"""From what a base station that follows vehicles has sensed to the rows that beam tracking trains on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from .drive_bys import M_PER_DEGREE, Recording
from .sensed_frames import SensedFrames, measured_powers


def tracked_recording(sensed: SensedFrames, *, min_rows: int = 1) -> Recording:
    """Positions and powers of one base station, drive-by after drive-by.

    Beams that were not measured (NaN) count as the weakest measured beam of their sweep. Rows follow each other as
    recorded: where a recorder dropped frames inside a drive-by, the sweep before is an older one.

    Args:
        sensed: with powers, and gps in meters east and north of the base station or in degrees.
        min_rows: drive-bys with fewer are left out; `tracking_windows` needs its length + 1. How many were
            left out is the difference in numbers of sequences.

    Returns:
        Named after the base station.

    Raises:
        DataError: there is no frame, gps or powers are not kept, a sweep holds no measured beam, positions cannot be
            related to the base station, or every drive-by is too short.
    """
    if sensed.n_frames == 0:
        raise DataError(f"base station {sensed.name!r} has no frame; record longer")
    powers = _powers(sensed)
    positions_m = _positions_m(sensed)
    sequence = sensed.column("sequence")
    kept = tracked_rows(sequence, min_rows)
    if not len(kept):
        _, n_rows_of = np.unique(sequence, return_counts=True)
        raise DataError(
            f"base station {sensed.name!r} has {len(n_rows_of)} drive-bys, the longest of {n_rows_of.max()} rows, but "
            f"{min_rows} are needed; record at a higher rate or shorten data.window"
        )
    return Recording(sensed.name, positions_m[kept], powers[kept], sequence[kept], kept)


def tracked_rows(sequence: NDArray[np.integer[Any]], min_rows: int = 1) -> NDArray[np.int64]:
    """[n_kept] rows of the drive-bys that have so many rows, ascending: which row of all each row of the result was."""
    _, member, n_rows_of = np.unique(sequence, return_inverse=True, return_counts=True)
    kept: NDArray[np.int64] = np.flatnonzero(n_rows_of[member] >= min_rows).astype(np.int64)
    return kept


def _powers(sensed: SensedFrames) -> NDArray[np.float64]:
    """[n, n_beams] linear, without NaN."""
    try:
        return measured_powers(sensed.powers.astype(np.float64))
    except DataError as error:
        raise DataError(f"base station {sensed.name!r}: {error}") from error


def _positions_m(sensed: SensedFrames) -> NDArray[np.float64]:
    """[n, 2] east and north of the base station."""
    columns, values = sensed.gps_columns, sensed.frames("gps").astype(np.float64)
    if {"east_m", "north_m"} <= set(columns):
        return values[:, [columns.index("east_m"), columns.index("north_m")]]
    if not {"latitude_deg", "longitude_deg"} <= set(columns):
        raise DataError(
            f"base station {sensed.name!r} has gps columns {', '.join(columns)}, expected east_m and north_m, or "
            "latitude_deg and longitude_deg; record it again"
        )
    if not sensed.knows_its_place:
        raise DataError(
            f"base station {sensed.name!r} tells positions in degrees, but its geometry gives no latitude_deg and "
            "longitude_deg of its own; import with the column of the base station's position"
        )
    latitude, longitude = columns.index("latitude_deg"), columns.index("longitude_deg")  # kept from the base station
    narrower = np.cos(np.radians(sensed.gps_origin[latitude]))
    return np.stack([values[:, longitude] * narrower, values[:, latitude]], axis=1) * M_PER_DEGREE

"""Samples of beam tracking: from what a base station sensed to drive-bys, and from these to windows and best beams.

Beams may get other numbers: an array may be mounted upside down, its codebook may begin elsewhere or be listed in any
order. Only the base station knows its numbers, and nothing that it measures changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError, InputWindow
from ..recordings.site_geometry import HEADING, PositionAxes, along_the_array
from .drive_bys import M_PER_DEGREE, Recording
from .samples import Samples
from .sensed_frames import SensedFrames
from .sensor_windows import BeamWindows
from .swept_powers import measured_powers, without_powers


def tracking_windows(recording: Recording, length: int) -> BeamWindows:
    """Samples of all rows with `length` sweeps before them in their own drive-by.

    Inputs are the last `length` positions including now, in meters, and the power in dB of the `length`
    sweeps before now. The sweep of now is in no input: its strongest beam is the label.

    Raises:
        ConfigError: length below 1.
        DataError: a drive-by has fewer than length + 1 rows.
    """
    if length < 1:
        raise ConfigError(f"data.window must be at least 1, got {length}; 4 keeps the last four positions and sweeps")
    starts = recording.sequence_starts
    n_rows_of = np.diff(starts, append=recording.n_rows)
    _check_long_enough(recording, starts, n_rows_of, length)

    rows_before = np.arange(recording.n_rows) - np.repeat(starts, n_rows_of)
    row = np.flatnonzero(rows_before >= length).astype(np.int64)
    power_db = (10 * np.log10(recording.powers)).astype(np.float32)
    beams = recording.beams
    return BeamWindows(
        frames={"rf": power_db, "gps": recording.positions_m.astype(np.float32)},
        windows={"rf": InputWindow("rf", length, lag=1, axis=0), "gps": InputWindow("gps", length, axis=0)},
        measured=recording.powers,
        end=row,
        label=beams[row],
        previous_beam=beams[row - 1],
        sequence=recording.sequence[row],
        frame_rows=np.arange(recording.n_rows) if recording.frame_rows is None else recording.frame_rows,
        numbering=np.arange(recording.n_beams, dtype=np.int64),
        n_before=length,
        gps_origin=np.zeros(2),
    )


def _check_long_enough(
    recording: Recording, starts: NDArray[np.int64], n_rows_of: NDArray[np.int64], length: int
) -> None:
    shortest = int(n_rows_of.argmin())
    n_rows = int(n_rows_of[shortest])
    if n_rows <= length:
        remedy = f"set data.window to at most {n_rows - 1}" if n_rows > 1 else "leave that drive-by out"
        raise DataError(
            f"recording {recording.name}: sequence {recording.sequence[starts[shortest]]} has {n_rows} "
            f"row{'s' if n_rows > 1 else ''}, but data.window = {length} needs {length + 1}; {remedy}"
        )


def tracked_recording(sensed: SensedFrames, *, min_rows: int = 1, axes: PositionAxes = "compass") -> Recording:
    """Positions and powers of one base station, drive-by after drive-by.

    Beams that were not measured (NaN) count as the weakest measured beam of their sweep; frames whose best beam is
    known without powers are left out. Rows follow each other as recorded: where a recorder dropped frames inside a
    drive-by, the sweep before is an older one.

    Args:
        sensed: with powers, and gps in meters east and north of the base station or in degrees.
        min_rows: drive-bys with fewer are left out; `tracking_windows` needs its length + 1. How many were
            left out is the difference in numbers of sequences.
        axes: positions are east and north of the base station, or to the right of its array and ahead of it.

    Returns:
        Named after the base station.

    Raises:
        DataError: there is no frame, gps or powers are not kept, a sweep holds no measured beam, positions cannot be
            related to the base station or to its array, or every drive-by is too short.
    """
    if sensed.n_frames == 0:
        raise DataError(f"base station {sensed.name!r} has no frame; record longer")
    swept, powers = _powers(sensed)
    positions_m = _along(axes, sensed, _positions_m(sensed))[swept]
    sequence = sensed.column("sequence")[swept]
    kept = tracked_rows(sequence, min_rows)
    if not len(kept):
        _, n_rows_of = np.unique(sequence, return_counts=True)
        raise DataError(
            f"base station {sensed.name!r} has {len(n_rows_of)} drive-bys, the longest of {n_rows_of.max()} rows, but "
            f"{min_rows} are needed; record at a higher rate or shorten data.window"
        )
    return Recording(sensed.name, positions_m[kept], powers[kept], sequence[kept], swept[kept])


def tracked_rows(sequence: NDArray[np.integer[Any]], min_rows: int = 1) -> NDArray[np.int64]:
    """[n_kept] rows of the drive-bys that have so many rows, ascending: which row of all each row of the result was."""
    _, member, n_rows_of = np.unique(sequence, return_inverse=True, return_counts=True)
    kept: NDArray[np.int64] = np.flatnonzero(n_rows_of[member] >= min_rows).astype(np.int64)
    return kept


def _powers(sensed: SensedFrames) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """[n] rows of the frames that have powers, and [n, n_beams] these, linear, without NaN."""
    powers = sensed.powers.astype(np.float64)
    left_out = without_powers(powers) & sensed.is_labeled
    swept = np.flatnonzero(~left_out).astype(np.int64)
    try:
        return swept, measured_powers(powers[swept])
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


def _along(axes: PositionAxes, sensed: SensedFrames, positions_m: NDArray[np.float64]) -> NDArray[np.float64]:
    if axes == "compass":
        return positions_m
    if sensed.heading_deg is None:
        raise DataError(
            f"base station {sensed.name!r}: its geometry does not state {HEADING}, the bearing that its array faces,"
            " which data.position_axes = 'array' needs; state it when the recording is made, or use 'compass'"
        )
    return along_the_array(positions_m, sensed.heading_deg)


def renumbered(samples: Samples, numbering: NDArray[np.int64]) -> Samples:
    """Samples with renumbered beams, in labels, powers and input sweeps.

    Labels are found before beams get new numbers, so that a tie between two beams is broken as ever.

    Args:
        samples: samples of beams, in the order of the codebook.
        numbering: [n_beams] beam that each new number stands for; every beam once.

    Returns:
        Samples that put their sweeps in this order when inputs are gathered; frames stay shared.
    """
    assert isinstance(samples, BeamWindows), "there are no beams in other samples"
    if np.array_equal(numbering, np.arange(len(numbering))):
        return samples
    # the argsort of a permutation is its inverse: beam -> new number
    number_of = np.argsort(numbering)
    return replace(
        samples,
        numbering=numbering,
        label=number_of[samples.label],
        previous_beam=number_of[samples.previous_beam],
    )

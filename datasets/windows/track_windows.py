"""Cuts drive-bys into samples of beam tracking: what a base station knew, and which beam was best then."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError, InputWindow
from .drive_bys import Recording
from .sensor_windows import BeamWindows


def tracking_windows(recording: Recording, length: int) -> BeamWindows:
    """Every window of the recording that has `length` sweeps before it in its own drive-by.

    Inputs are the last `length` positions including now, east and north in meters, and the power in dB of the `length`
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

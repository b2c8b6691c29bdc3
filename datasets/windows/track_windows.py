"""Cuts a recording into training samples: what a base station knew, and which beam was best then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError, Modality
from .drive_bys import Recording


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Samples of one recording; row i of every array belongs to sample i.

    Attributes:
        gps: [n, length, 2] float32, last `length` positions including now, east and north in meters, oldest first.
        rf: [n, length, n_beams] float32, received power in dB of the `length` sweeps before now, oldest first.
            The current sweep is never in it: its strongest beam is the label.
        label: [n] int64, best beam now.
        powers: [n, n_beams] float64, linear received power now; only for scoring.
        previous_beam: [n] int64, best beam of the sweep before now.
        sequence: [n] int64, drive-by.
        end: [n] int64, row of the recording that is now.
        numbering: [n_beams] int64, beam of the codebook that each number stands for.
        modalities: those of the inputs, what their owner has.
    """

    gps: NDArray[np.float32]
    rf: NDArray[np.float32]
    label: NDArray[np.int64]
    powers: NDArray[np.float64]
    previous_beam: NDArray[np.int64]
    sequence: NDArray[np.int64]
    end: NDArray[np.int64]
    numbering: NDArray[np.int64]
    modalities: tuple[Modality, ...] = ("rf", "gps")

    n_after = 0

    def __len__(self) -> int:
        return len(self.label)

    @property
    def n_beams(self) -> int:
        return int(self.powers.shape[1])

    @property
    def n_before(self) -> int:
        """Sweeps before now that a sample uses."""
        return int(self.rf.shape[1])

    @property
    def input_shapes(self) -> dict[Modality, tuple[int, ...]]:
        """Of one sample."""
        return {modality: self._rows(modality).shape[1:] for modality in self.modalities}

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = slice(None)) -> dict[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, length, ...] as described above."""
        return {modality: self._rows(modality)[indices] for modality in self.modalities}

    def owned_by(self, modalities: Sequence[Modality]) -> Windows:
        """The same samples for somebody with these sensors."""
        return replace(self, modalities=tuple(modalities))

    def every(self, stride: int) -> Windows:
        """Every so many-th sample, counted by its row in the recording."""
        return self if stride == 1 else self.take(np.flatnonzero(self.end % stride == 0))

    def take(self, indices: NDArray[np.integer[Any]]) -> Windows:
        """The samples at these indices, in this order."""
        arrays = ("gps", "rf", "label", "powers", "previous_beam", "sequence", "end")
        return replace(self, **{name: getattr(self, name)[indices] for name in arrays})

    def _rows(self, modality: Modality) -> NDArray[np.float32]:
        return self.gps if modality == "gps" else self.rf


def make_windows(recording: Recording, length: int) -> Windows:
    """Every window of the recording that has `length` sweeps before it in its own drive-by.

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
    history = row[:, None] + np.arange(1 - length, 1)  # [n, length], the last column is now
    power_db = (10 * np.log10(recording.powers)).astype(np.float32)
    beams = recording.beams
    return Windows(
        gps=recording.positions_m.astype(np.float32)[history],
        rf=power_db[history - 1],
        label=beams[row],
        powers=recording.powers[row],
        previous_beam=beams[row - 1],
        sequence=recording.sequence[row],
        end=row,
        numbering=np.arange(recording.n_beams, dtype=np.int64),
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

"""Rows that a client trains on: in memory, or partly kept aside to judge what was learned from the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Labels, Modality, State
from ...emulator.saved_state import SavedState


class TrainingRows(Protocol):
    """Labeled rows of one client; they may grow at the end, between rounds."""

    @property
    def label(self) -> Labels:
        """[n_rows] int64 classes, or float32 values."""
        ...

    def inputs(self, indices: NDArray[np.integer[Any]]) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, ...] in physical units."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RowsInMemory:
    """Training rows that are held as arrays.

    Attributes:
        arrays: modality -> [n_rows, ...] in physical units.
        label: [n_rows] int64 classes, or float32 values.
    """

    arrays: Mapping[Modality, NDArray[np.float32]]
    label: Labels

    def inputs(self, indices: NDArray[np.integer[Any]]) -> Mapping[Modality, NDArray[np.float32]]:
        return {modality: rows[indices] for modality, rows in self.arrays.items()}


class PartlyPrivateRows:
    """Training rows without the private ones until these are released, with them from then on.

    Args:
        rows: trained on from the start.
        private: kept aside.
    """

    def __init__(self, rows: TrainingRows, private: TrainingRows) -> None:
        self._rows, self.private = rows, private
        self.released = False

    def release(self) -> None:
        """Train on all rows from now on."""
        self.released = True

    def state(self) -> State:
        """Whether all rows are trained on."""
        return self.released

    def restore(self, saved: SavedState) -> None:
        self.released = saved.flag()

    @property
    def label(self) -> Labels:
        """[n_rows] int64 classes, or float32 values."""
        return np.concatenate([self._rows.label, self.private.label]) if self.released else self._rows.label

    def inputs(self, indices: NDArray[np.integer[Any]]) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, ...] in physical units, in the order of the indices."""
        n_first = len(self._rows.label)
        behind = indices >= n_first
        # one gather instead of two, and no copy
        if not behind.any():
            return self._rows.inputs(indices)
        first, second = self._rows.inputs(indices[~behind]), self.private.inputs(indices[behind] - n_first)
        # rows were gathered part by part; this puts them back into the order of the indices
        back = np.argsort(np.concatenate([np.flatnonzero(~behind), np.flatnonzero(behind)]))
        return {modality: np.concatenate([first[modality], second[modality]])[back] for modality in first}

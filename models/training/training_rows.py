"""Rows that a client trains on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Labels, Modality


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

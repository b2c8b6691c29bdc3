"""Training rows of which a client keeps some aside for a while, to judge what it learned from the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Modality, State
from ...emulator.saved_state import SavedState
from .local_training import TrainingRows


class PartlyPrivateRows:
    """The rows that training sees: without the private ones until these are released, with them from then on.

    Args:
        rows: trained on from the start.
        private: kept aside.
    """

    def __init__(self, rows: TrainingRows, private: TrainingRows) -> None:
        self._rows, self.private = rows, private
        self.released = False

    def release(self) -> None:
        """From now on all rows are trained on."""
        self.released = True

    def state(self) -> State:
        """Whether all rows are trained on."""
        return self.released

    def restore(self, saved: SavedState) -> None:
        """Release them, or take them back."""
        self.released = saved.flag()

    @property
    def label(self) -> NDArray[np.int64]:
        """[n_rows] classes."""
        return np.concatenate([self._rows.label, self.private.label]) if self.released else self._rows.label

    def inputs(self, indices: NDArray[np.integer[Any]]) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, ...] in physical units, in the order of the indices."""
        n_first = len(self._rows.label)
        behind = indices >= n_first
        if not behind.any():
            return self._rows.inputs(indices)
        first, second = self._rows.inputs(indices[~behind]), self.private.inputs(indices[behind] - n_first)
        back = np.argsort(np.concatenate([np.flatnonzero(~behind), np.flatnonzero(behind)]))
        return {modality: np.concatenate([first[modality], second[modality]])[back] for modality in first}

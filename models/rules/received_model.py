"""A shared model as the last exchange left it: what pulls at local training, and what is scored as "global"."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import State
from ...emulator.saved_state import SavedState
from ..flat_model import FlatModel, assign, copies
from ..joint.prediction_turn import predict
from ..sharing.chained_learner import Inputs
from ..state.tensors import restore_tensor, to_array


class ReceivedModel:
    """Copy of the values of a model that goes on being trained; before the first exchange those of its start.

    Args:
        flat: the model.
    """

    def __init__(self, flat: FlatModel) -> None:
        self._flat = flat
        self._values = copies(flat.values)

    @property
    def parameters(self) -> list[Tensor]:
        """In the order of `FlatModel.parameters`."""
        # running statistics come last in a vector
        return [values[: len(own)] for values, own in zip(self._values, self._flat.parameters, strict=True)]

    def note(self) -> None:
        """Keep the values as they are now."""
        assign(self._values, self._flat.values)

    def predict(self, inputs: Inputs) -> NDArray[np.float32]:
        """Logits [n, n_outputs] of the model with these values."""
        with self._flat.holding(self._values):
            return predict(self._flat.model, inputs)

    def state(self) -> State:
        return [to_array(values) for values in self._values]

    def restore(self, saved: SavedState) -> None:
        for values, one in zip(self._values, saved.listed(len(self._values)), strict=True):
            restore_tensor(values, one)

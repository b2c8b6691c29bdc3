"""Sensors that are hidden from a model while it trains, so that it learns to do without them (modality dropout)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...emulator.contracts import State
from ...emulator.saved_state import SavedState
from ..state.stream_states import numpy_stream_state, restore_numpy_stream


class HiddenSensors:
    """Masks of minibatches; a sample never loses all of its sensors.

    Masks are those of `present` of an exported model, so that training sees what a device will do with a lost sensor.

    Source: the idea is that of Neverova et al., ModDrop: Adaptive Multi-Modal Gesture Recognition, TPAMI 2016.

    Args:
        probability: that a sample loses a sensor, for every sensor alone.
        draws: stream of their own, so that minibatches are those of a run without.
    """

    def __init__(self, probability: float, draws: np.random.Generator) -> None:
        self._probability, self._draws = probability, draws

    def present(self, n: int, n_sensors: int, like: Tensor) -> Tensor | None:
        """[n, n_sensors] 1 where a sensor is there, 0 where it is hidden; None for models of one sensor.

        Args:
            n: samples of the minibatch.
            n_sensors: of the model.
            like: tensor of the wanted type and device.
        """
        if n_sensors < 2:
            return None
        hidden = self._draws.random((n, n_sensors)) < self._probability
        # drawn for every sample, so that as much is drawn whatever was hidden
        kept = self._draws.integers(n_sensors, size=n)
        nothing_left = hidden.all(axis=1)
        hidden[nothing_left, kept[nothing_left]] = False
        return torch.from_numpy(~hidden).to(like)

    def state(self) -> State:
        """Position of the stream."""
        return numpy_stream_state(self._draws)

    def restore(self, saved: SavedState) -> None:
        restore_numpy_stream(self._draws, saved)

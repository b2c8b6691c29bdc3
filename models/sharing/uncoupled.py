"""Models of one client that train side by side and do not touch each other's heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Modality, State
from ...emulator.saved_state import SavedState
from ..flat import FlatModule
from ..training.client_setup import ClientSetup
from ..training.local_training import LocalTraining


class UncoupledModels:
    """All models of a client (the fused one, or one per modality), each with its own batches and optimizer.

    Attributes:
        models: as the client was set up with, by name.
        encoders: modality -> the one encoder of it that any of the models has.
        flops: of one round of local steps.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self._n_steps = setup.training.local_steps
        self.models = setup.models
        self._trainings = {
            name: LocalTraining(
                setup.client_id, model, setup.rows, setup.objective, setup.training, setup.batch_draws[name]
            )
            for name, model in setup.models.items()
        }
        trainings = self._trainings.values()
        self.encoders: dict[Modality, FlatModule] = {m: flat for one in trainings for m, flat in one.encoders.items()}
        self.flops = self._n_steps * sum(training.flops_per_step for training in trainings)

    def train(self, round_index: int) -> None:
        """A round of minibatch steps: encoders (15), attention (17), and heads by their own gradient alone."""
        for training in self._trainings.values():
            for _ in range(self._n_steps):
                loss = training.backward()
                training.step_encoders()
                training.step_attention()
                training.step_head()
            training.check_finite(loss, round_index)

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        """Logits of every model, by name."""
        return {name: training.predict(inputs) for name, training in self._trainings.items()}

    def health(self) -> Mapping[str, float]:
        """Mean training loss of the models."""
        return {"loss": float(np.mean([training.loss for training in self._trainings.values()]))}

    def state(self) -> State:
        """Of every model, by name."""
        return {name: training.state() for name, training in self._trainings.items()}

    def restore(self, saved: SavedState) -> None:
        """Train on from there."""
        for name, one in saved.parts(*self._trainings).items():
            self._trainings[name].restore(one)

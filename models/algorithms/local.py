"""Stand-alone training: no message ever leaves the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Message, MessageSlot, Modality, Phase
from ..client_setup import ClientSetup
from ..local_training import LocalTraining

TRAIN = "train"


def train_alone(trainings: Sequence[LocalTraining], n_steps: int, round_index: int) -> None:
    """Minibatch steps of uncoupled models: encoders (15), attention (17) and head by its own gradient."""
    for training in trainings:
        for _ in range(n_steps):
            loss = training.backward()
            training.step_encoders()
            training.step_attention()
            training.set_head(training.head - training.settings.head_step_size * training.head_gradient)
        training.check_finite(loss, round_index)


class Local:
    """Every client for itself, with the models it was given (fused, or one per modality)."""

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        self._settings = setup.training
        self._trainings = {
            name: LocalTraining(setup.client_id, model, setup.rows, setup.training, setup.batch_draws[name])
            for name, model in setup.models.items()
        }
        self._flops = setup.training.local_steps * sum(t.flops_per_step for t in self._trainings.values())

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase(TRAIN, self._flops),)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        train_alone(tuple(self._trainings.values()), self._settings.local_steps, round_index)
        return ()

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return frozenset()

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        """Nothing ever arrives."""

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return {name: training.predict(inputs) for name, training in self._trainings.items()}

    def health(self) -> Mapping[str, float]:
        return {"loss": float(np.mean([training.loss for training in self._trainings.values()]))}

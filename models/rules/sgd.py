"""The plainest rule: minibatch steps on the client's own loss, from where the last exchange has left the models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...emulator.contracts import Modality, State
from ...emulator.saved_state import Parts, SavedState
from ..flat import FlatModule
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.vector_gossip import SharedVector, Weights, shared_model
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training


class LocalSgd:
    """All models of a client (the fused one, or one per modality), each with its own batches and optimizer.

    Nothing couples the models or holds them back. Source: with a server this is FedAvg (McMahan et al. 2017, algorithm
    1), with neighbors adapt-then-combine diffusion (Chen and Sayed 2012), which most code named D-PSGD runs.

    Attributes:
        models: as the client was set up with, by name.
        encoders: modality -> the one encoder of it that any of the models has.
        flops: of one round of local steps.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self.models = setup.models
        self._trainings = {name: local_training(setup, name) for name in setup.models}
        self._parts = Parts(**self._trainings)
        # unimodal models have one modality each, so no encoder is there twice
        trainings = self._trainings.values()
        self.encoders: dict[Modality, FlatModule] = {m: flat for one in trainings for m, flat in one.encoders.items()}
        self.flops = setup.training.local_steps * sum(training.flops_per_step for training in trainings)

    def shared(self, weights: Weights) -> list[SharedVector]:
        """All parts of the fused model; algorithms with one model per modality choose among `encoders` themselves."""
        (model,) = self.models.values()
        return shared_model(model, self.encoders, weights)

    def train(self, round_index: int) -> None:
        """A round of minibatch steps: encoders (15), attention (17), and heads by their own gradient alone."""
        for training in self._trainings.values():
            training.train(round_index)

    def received(self) -> None:
        """Nothing to note: the next step starts from the vectors as they are."""

    def predict(self, inputs: Inputs) -> Logits:
        """Logits of every model, by name."""
        return {name: training.predict(inputs) for name, training in self._trainings.items()}

    def health(self) -> Mapping[str, float]:
        """Mean training loss of the models."""
        return {"loss": float(np.mean([training.loss for training in self._trainings.values()]))}

    def state(self) -> State:
        return self._parts.state()

    def restore(self, saved: SavedState) -> None:
        self._parts.restore(saved)

"""FedProx: local training that is held near the model that was received."""

from __future__ import annotations

from collections.abc import Mapping

from ...emulator.contracts import State
from ...emulator.saved_state import Parts, SavedState
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.vector_gossip import SharedVector, Weights, shared_model
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training
from .received_model import ReceivedModel


class Prox:
    """Steps on f(w) + mu / 2 * |w - w_received|^2, and the whole model is exchanged.

    With mu = 0 it is `LocalSgd` to the bit. Source: Li et al. 2020, *Federated Optimization in Heterogeneous Networks*,
    algorithm 2, its inexact solver being the client's local steps.
    """

    def __init__(self, setup: ClientSetup) -> None:
        (name,) = setup.models
        self._name, self._strength = name, setup.personalization.proximal
        self._training = local_training(setup, name)
        self._received = ReceivedModel(self._training.flat)
        self._parts = Parts(training=self._training, received=self._received)
        self.flops = setup.training.local_steps * self._training.flops_per_step

    def shared(self, weights: Weights) -> list[SharedVector]:
        return shared_model(self._training.model, self._training.encoders, weights)

    def train(self, round_index: int) -> None:
        n_steps = self._training.settings.local_steps
        self._training.train_near(self._received.parameters, self._strength, n_steps, round_index)

    def received(self) -> None:
        self._received.note()

    def predict(self, inputs: Inputs) -> Logits:
        return {self._name: self._training.predict(inputs)}

    def health(self) -> Mapping[str, float]:
        """Training loss, without the pull's part."""
        return {"loss": self._training.loss}

    def state(self) -> State:
        return self._parts.state()

    def restore(self, saved: SavedState) -> None:
        self._parts.restore(saved)

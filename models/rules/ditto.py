"""Ditto: a personal model beside the shared one, drawn towards it as it was received."""

from __future__ import annotations

from collections.abc import Mapping

from ...emulator.contracts import State
from ...emulator.saved_state import Parts, SavedState
from ..algorithms.algorithm import GLOBAL, PERSONAL
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.vector_gossip import SharedVector, Weights, shared_model
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training
from .received_model import ReceivedModel


class Ditto:
    """The shared model w is trained as by `LocalSgd`; the personal one v on f(v) + lambda / 2 * |v - w_received|^2.

    Both have batches and optimizers of their own; v takes `personalization.personal_steps` steps per round. With
    lambda = 0 it is the client training alone. Source: Li et al. 2021, *Ditto: Fair and Robust Federated Learning
    Through Personalization*, algorithm 1.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self._settings = setup.personalization
        self._shared, self._own = local_training(setup, GLOBAL), local_training(setup, PERSONAL)
        self._received = ReceivedModel(self._shared.flat)
        self._parts = Parts(shared=self._shared, personal=self._own, received=self._received)
        n_steps = setup.training.local_steps + self._settings.personal_steps
        self.flops = n_steps * self._shared.flops_per_step

    def shared(self, weights: Weights) -> list[SharedVector]:
        return shared_model(self._shared.model, self._shared.encoders, weights)

    def train(self, round_index: int) -> None:
        self._shared.train(round_index)
        n_steps, strength = self._settings.personal_steps, self._settings.attraction
        self._own.train_near(self._received.parameters, strength, n_steps, round_index)

    def received(self) -> None:
        self._received.note()

    def predict(self, inputs: Inputs) -> Logits:
        return {PERSONAL: self._own.predict(inputs), GLOBAL: self._received.predict(inputs)}

    def health(self) -> Mapping[str, float]:
        """Training losses of the shared and of the personal model, without the pull's part."""
        return {"loss": self._shared.loss, "personal_loss": self._own.loss}

    def state(self) -> State:
        return self._parts.state()

    def restore(self, saved: SavedState) -> None:
        self._parts.restore(saved)

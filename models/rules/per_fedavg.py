"""Per-FedAvg: a shared model from which one step on own rows leads to a good personal one."""

from __future__ import annotations

from collections.abc import Mapping

from ...emulator.contracts import State
from ...emulator.saved_state import Parts, SavedState
from ..algorithms.algorithm import GLOBAL, PERSONAL
from ..flat_model import FlatModel, assign, copies
from ..joint.prediction_turn import predict
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.vector_gossip import SharedVector, Weights, shared_model
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training
from .received_model import ReceivedModel


class PerFedAvg:
    """The shared model w is trained where one step has led it: the first-order variant.

    One local step, on two minibatches D and D':

        w' <- w - alpha grad f(w; D)
        w  <- w - beta grad f(w'; D')

    The personal model is w - alpha grad f(w; D'') of the model w that was received, D'' the minibatch that is next at
    that instant; it stays until the next exchange. Steps of w are the client's local steps (beta: its step sizes, or
    Adam). Batches of all three kinds come from one order.

    Source: Fallah, Mokhtari, Ozdaglar 2020, *Personalized Federated Learning with Theoretical Guarantees*, algorithm 1,
    its approximation without second derivatives.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self._step_size, self._n_steps = setup.personalization.personal_step_size, setup.training.local_steps
        self._shared = local_training(setup, GLOBAL)
        self._own = FlatModel(setup.models[PERSONAL], share_buffers=not setup.training.local_statistics)
        self._received = ReceivedModel(self._shared.flat)
        self._parts = Parts(shared=self._shared, personal=self._own.model, received=self._received)
        self.flops = (2 * self._n_steps + 1) * self._shared.flops_per_step

    def shared(self, weights: Weights) -> list[SharedVector]:
        return shared_model(self._shared.model, self._shared.encoders, weights)

    def train(self, round_index: int) -> None:
        flat = self._shared.flat
        self._shared.begin_round()
        for _ in range(self._n_steps):
            before = copies(flat.parameters)
            self._shared.backward()
            self._adapt(flat)
            loss = self._shared.backward()
            assign(flat.parameters, before)
            self._shared.step()
        self._shared.check_finite(loss, round_index)

    def received(self) -> None:
        self._received.note()
        self._shared.backward()
        self._own.copy(self._shared.flat)
        self._adapt(self._own)

    def _adapt(self, flat: FlatModel) -> None:
        """Step alpha along the last gradient of the shared model."""
        for values, gradient in zip(flat.parameters, self._shared.flat.gradients, strict=True):
            values.sub_(gradient, alpha=self._step_size)

    def predict(self, inputs: Inputs) -> Logits:
        return {PERSONAL: predict(self._own.model, inputs), GLOBAL: self._received.predict(inputs)}

    def health(self) -> Mapping[str, float]:
        """Training loss of the adapted model."""
        return {"loss": self._shared.loss}

    def state(self) -> State:
        return self._parts.state()

    def restore(self, saved: SavedState) -> None:
        self._parts.restore(saved)

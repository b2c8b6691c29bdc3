"""APFL: every client mixes a model of its own with the shared one, and learns how much of each."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...emulator.contracts import State
from ...emulator.saved_state import Parts, SavedState
from ..algorithms.algorithm import GLOBAL, PERSONAL
from ..flat_model import assign, copies, mixture
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.vector_gossip import SharedVector, Weights, shared_model
from ..state.tensors import restore_tensor, to_array
from ..training.client_setup import ClientSetup
from ..training.local_training import LocalTraining, local_training
from .received_model import ReceivedModel


class Apfl:
    """The shared model w, the client's own model v, and their mixture u = alpha v + (1 - alpha) w, the personal model.

    One local step on one minibatch, all from the old values:

        w     <- w - eta grad f(w)
        v     <- v - eta alpha grad f(u)
        alpha <- alpha - eta_alpha <v - w, grad f(u)>, into [0, 1]

    and u is mixed anew, also when w was received. Steps of w and v are the client's local steps (eta: its step sizes,
    or Adam with moments for each). w is what `LocalSgd` makes of it, to the bit.

    Source: Deng, Kamani, Mahdavi 2020, *Adaptive Personalized Federated Learning*, algorithm 1 and its adaptive alpha,
    here in every local step.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self._settings, self._n_steps = setup.personalization, setup.training.local_steps
        self._shared = local_training(setup, GLOBAL)
        self._own = OwnPart(local_training(setup, PERSONAL), setup.personalization.mixing)
        self._received = ReceivedModel(self._shared.flat)
        self._parts = Parts(shared=self._shared, personal=self._own, received=self._received)
        self.flops = 2 * self._n_steps * self._shared.flops_per_step

    def shared(self, weights: Weights) -> list[SharedVector]:
        return shared_model(self._shared.model, self._shared.encoders, weights)

    def train(self, round_index: int) -> None:
        self._shared.begin_round()
        self._own.training.begin_round()
        for _ in range(self._n_steps):
            batch = self._shared.draw()
            loss = self._shared.backward(batch)
            of_mixture = self._own.training.backward(batch)
            self._own.step(self._shared.flat.parameters, self._settings.mixing_step_size)
            self._shared.step()
            self._own.mix(self._shared.flat.parameters)
        self._shared.check_finite(loss, round_index)
        self._own.training.check_finite(of_mixture, round_index)

    def received(self) -> None:
        self._received.note()
        self._own.mix(self._shared.flat.parameters)

    def predict(self, inputs: Inputs) -> Logits:
        return {PERSONAL: self._own.training.predict(inputs), GLOBAL: self._received.predict(inputs)}

    def health(self) -> Mapping[str, float]:
        """Training losses of the shared model and of the mixture, and the share of the own model in it."""
        own = self._own
        return {"loss": self._shared.loss, "personal_loss": own.training.loss, "mixing": float(own.share)}

    def state(self) -> State:
        return self._parts.state()

    def restore(self, saved: SavedState) -> None:
        self._parts.restore(saved)


class OwnPart:
    """The client's own model v, and its share in the mixture, whose values the trained module has between steps.

    Args:
        training: of the mixture; its steps are those of v.
        share: alpha at the start; v starts as the module does.

    Attributes:
        share: [] alpha.
    """

    def __init__(self, training: LocalTraining, share: float) -> None:
        self.training = training
        self.share = training.head.new_tensor(share)
        self._values = copies(training.flat.parameters)

    def step(self, shared: list[Tensor], step_size: float) -> None:
        """Step v and alpha along the last gradient, which is one at the mixture.

        Args:
            shared: w at which the mixture was made.
            step_size: eta_alpha.
        """
        flat, along = self.training.flat, torch.zeros_like(self.share)
        for own, other, gradient in zip(self._values, shared, flat.gradients, strict=True):
            along += ((own - other) * gradient).sum()
            gradient.mul_(self.share)
        # steps change the module's values, so that these are v's for the length of one
        assign(flat.parameters, self._values)
        self.training.step()
        assign(self._values, flat.parameters)
        self.share.sub_(along, alpha=step_size).clamp_(0.0, 1.0)

    def mix(self, shared: list[Tensor]) -> None:
        """Give the module the values of the mixture with w."""
        assign(self.training.flat.parameters, mixture(self.share, self._values, shared))

    def state(self) -> State:
        return {
            "training": self.training.state(),
            "share": to_array(self.share),
            "values": [to_array(values) for values in self._values],
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("training", "share", "values")
        self.training.restore(parts["training"])
        restore_tensor(self.share, parts["share"])
        for values, one in zip(self._values, parts["values"].listed(len(self._values)), strict=True):
            restore_tensor(values, one)

"""pFedMe: the shared model follows personal ones that are each the proximal point of a minibatch."""

from __future__ import annotations

from collections.abc import Mapping

from ...emulator.contracts import State
from ...emulator.saved_state import Parts, SavedState
from ..algorithms.algorithm import GLOBAL, PERSONAL
from ..flat_model import FlatModel, assign, mixture
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.vector_gossip import SharedVector, Weights, shared_model
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training
from .received_model import ReceivedModel


class PFedMe:
    """The shared model w follows the personal one, theta, which is trained near it.

    A round has S local steps, each of them on one minibatch D:

        theta <- theta - delta (grad f(theta; D) + lambda (theta - w)), K times
        w     <- w - eta lambda (w - theta)

    theta starts every round at w as it was received, and goes on from step to step, as in the code of the authors; the
    paper asks for a minimizer of the bracket and leaves its start open. Steps of theta are the client's local steps
    (delta: its step sizes, or Adam). Running statistics are those of theta, which alone sees rows.

    Source: Dinh, Tran, Nguyen 2020, *Personalized Federated Learning with Moreau Envelopes*, algorithm 1.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self._settings, self._n_steps = setup.personalization, setup.training.local_steps
        self._own = local_training(setup, PERSONAL)
        self._shared = FlatModel(setup.models[GLOBAL], share_buffers=not setup.training.local_statistics)
        self._received = ReceivedModel(self._shared)
        self._parts = Parts(personal=self._own, shared=self._shared.model, received=self._received)
        self.flops = self._n_steps * self._settings.personal_steps * self._own.flops_per_step

    def shared(self, weights: Weights) -> list[SharedVector]:
        return shared_model(self._shared.model, self._shared.encoders, weights)

    def train(self, round_index: int) -> None:
        settings, share = self._settings, self._settings.global_step_size * self._settings.attraction
        self._own.flat.copy(self._shared)
        self._own.begin_round()
        for _ in range(self._n_steps):
            batch = self._own.draw()
            for _ in range(settings.personal_steps):
                loss = self._own.backward(batch)
                self._own.flat.pull(self._shared.parameters, settings.attraction)
                self._own.step()
            assign(self._shared.parameters, mixture(share, self._own.flat.parameters, self._shared.parameters))
        self._shared.copy_statistics(self._own.flat)
        self._own.check_finite(loss, round_index)

    def received(self) -> None:
        self._received.note()

    def predict(self, inputs: Inputs) -> Logits:
        return {PERSONAL: self._own.predict(inputs), GLOBAL: self._received.predict(inputs)}

    def health(self) -> Mapping[str, float]:
        """Training loss of the personal model, without the pull's part."""
        return {"loss": self._own.loss}

    def state(self) -> State:
        return self._parts.state()

    def restore(self, saved: SavedState) -> None:
        self._parts.restore(saved)

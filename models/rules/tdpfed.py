"""TDPFed: factors of low-rank weights follow a dense personal model, and only they are exchanged."""

from __future__ import annotations

from collections.abc import Mapping

from ...emulator.contracts import State
from ...emulator.saved_state import Parts, SavedState
from ...emulator.turns import play
from ..algorithms.algorithm import COMPRESSED_GLOBAL, COMPRESSED_LOCAL, PERSONAL
from ..factors.alternating_turn import AlternatingSteps, AlternatingTurn
from ..factors.factored_model import FactoredModel
from ..joint.prediction_turn import predict
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.vector_gossip import SharedVector, Weights
from ..training.client_setup import ClientSetup
from ..training.divergence import refuse_diverged
from ..training.local_training import local_training


class TdpFed:
    """The shared model is [[A]], a low-rank tensor per weight; the personal one, theta, is dense and never sent.

    A round has tau minibatches D, after each of which the factors come nearer to theta:

        theta <- theta - eta_p (grad f(theta; D) + lambda (theta - [[A]])), s times, with Nesterov's momentum
        A     <- A - eta grad_A lambda / 2 |theta - [[A]]|^2, s' times, by Adam, all factors at once

    theta starts every round at [[A]] as it was received, and momenta at 0. Biases, and what a fusion learns, are dense
    in both models and under the same pull. Running statistics are those of theta, which alone sees rows.

    Source: Wang, Jin, Liu, Zong, Shao, Li, *Tensor Decomposition based Personalized Federated Learning*, algorithm 1,
    with the gradient of its appendix. It leaves open the momentum (here 0.9), whether momenta outlive a round (no), how
    factors start (see `canonical.initial`), in which order modes step, and what happens to biases.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self._settings, self._keeps = setup.personalization, setup.factors.personal_start == "keep"
        self._own, self._who = local_training(setup, PERSONAL), f"client {setup.client_id}"
        self._shared = FactoredModel(
            setup.models[COMPRESSED_LOCAL],
            setup.models[COMPRESSED_GLOBAL],
            setup.factors,
            setup.common_draws,
            share_buffers=not setup.training.local_statistics,
        )
        self._own.flat.copy(self._shared.trained)
        self._steps = AlternatingSteps(
            n_batches=setup.training.local_steps,
            personal_steps=self._settings.personal_steps,
            factor_steps=setup.factors.steps,
            attraction=self._settings.attraction,
            personal_step_size=self._settings.personal_step_size,
            factor_step_size=setup.factors.step_size,
        )
        self._parts = Parts(personal=self._own, shared=self._shared)
        of_personal = self._steps.personal_steps * self._own.flops_per_step
        of_factors = self._steps.factor_steps * self._shared.layout.gradient_flops
        self.flops = self._steps.n_batches * (of_personal + of_factors)

    def shared(self, weights: Weights) -> list[SharedVector]:
        return self._shared.shared(weights)

    def train(self, round_index: int) -> None:
        if not self._keeps:
            self._own.flat.copy(self._shared.composed())
        turn = AlternatingTurn(self._own, self._shared.layout, self._shared.values, self._steps)
        play(turn)
        self._shared.take(turn.values, self._own.flat)
        self._own.loss = float(turn.loss)
        vectors = [*self._own.flat.parameters, turn.values]
        refuse_diverged(
            self._who, round_index, self._own.loss, vectors, self._settings, step_sizes=["personal_step_size"]
        )

    def received(self) -> None:
        self._shared.note_received()

    def predict(self, inputs: Inputs) -> Logits:
        return {
            PERSONAL: self._own.predict(inputs),
            COMPRESSED_LOCAL: predict(self._shared.trained.model, inputs),
            COMPRESSED_GLOBAL: predict(self._shared.received.model, inputs),
        }

    def health(self) -> Mapping[str, float]:
        """Training loss of the personal model, without the pull's part."""
        return {"loss": self._own.loss}

    def state(self) -> State:
        return self._parts.state()

    def restore(self, saved: SavedState) -> None:
        self._parts.restore(saved)
        # of all statistics, those that are never sent are the personal model's
        self._shared.copy_statistics(self._own.flat)

"""The chain that most baselines are: models trained side by side, then averages with neighbors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...emulator.contracts import Modality, State
from ...emulator.saved_state import Parts, SavedState
from ..flat import FlatModule
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training
from .chained_learner import ChainedLearner, ChainPhase, Inputs, Logits
from .vector_gossip import SharedVector, VectorGossip

MIX = "mix"


class UncoupledModels:
    """All models of a client (the fused one, or one per modality), each with its own batches and optimizer.

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

    def train(self, round_index: int) -> None:
        """A round of minibatch steps: encoders (15), attention (17), and heads by their own gradient alone."""
        for training in self._trainings.values():
            training.train(round_index)

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


def train_then_mix(
    setup: ClientSetup, models: UncoupledModels, shared: Mapping[str, Sequence[SharedVector]]
) -> ChainedLearner:
    """Adapt, then combine: a round of local steps, then each phase averages its vectors.

    Args:
        setup: of the client.
        models: trained in the first phase.
        shared: phase -> vectors averaged there, in this order; training alone is a phase that shares nothing.
    """
    gossip = {phase: VectorGossip(setup.client_id, vectors, setup.sharing) for phase, vectors in shared.items()}
    names = list(gossip)
    first = ChainPhase(names[0], [gossip[names[0]]], work=models.train, flops=lambda: models.flops)
    return ChainedLearner(
        setup.client_id,
        [first, *(ChainPhase(name, [gossip[name]]) for name in names[1:])],
        parts=Parts(models=models, gossip=Parts(**gossip)),
        models=models.predict,
        figures=models.health,
        shared={phase: one.shared for phase, one in gossip.items()},
    )

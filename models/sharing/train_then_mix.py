"""The chain that most baselines are: local training, then averages with neighbors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...emulator.saved_state import Parts
from ..training.client_setup import ClientSetup
from .chained_learner import ChainedLearner, ChainPhase
from .uncoupled import UncoupledModels
from .vector_gossip import SharedVector, VectorGossip

MIX = "mix"


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

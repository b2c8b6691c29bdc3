"""The chain that most algorithms among neighbors are: a local rule, then averages with neighbors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...emulator.contracts import MODALITIES, Learner
from ...emulator.saved_state import Parts
from ..rules.local_rule import LocalRule
from ..training.client_setup import ClientSetup
from .chained_learner import ChainedLearner, ChainPhase
from .gossip import mix
from .vector_gossip import Combine, SharedVector, VectorGossip, Weights, consensus_figures

MIX = "mix"


def train_then_mix(
    setup: ClientSetup, rule: LocalRule, shared: Mapping[str, Sequence[SharedVector]], combine: Combine = mix
) -> ChainedLearner:
    """Adapt, then combine: a round of local work, then each phase averages its vectors.

    Args:
        setup: of the client.
        rule: works in the first phase, and learns in the last one what has become of its vectors.
        shared: phase -> vectors averaged there, in this order; training alone is a phase that shares nothing.
        combine: makes a client's new vector of its own one and those that arrived.
    """
    gossip = {
        phase: VectorGossip(setup.client_id, vectors, setup.sharing, combine) for phase, vectors in shared.items()
    }

    def finish(round_index: int) -> None:
        if setup.sharing.in_round(round_index):
            rule.received()

    phases = [ChainPhase(name, [one]) for name, one in gossip.items()]
    phases[0] = replace(phases[0], work=rule.train, flops=lambda: rule.flops)
    phases[-1] = replace(phases[-1], finish=finish)
    return ChainedLearner(
        setup.client_id,
        phases,
        parts=Parts(models=rule, gossip=Parts(**gossip)),
        models=rule.predict,
        figures=lambda: {**rule.health(), **consensus_figures(gossip.values())},
        shared={phase: one.shared for phase, one in gossip.items()},
    )


def with_neighbors(
    setups: Sequence[ClientSetup], rule_of: Callable[[ClientSetup], LocalRule], combine: Combine = mix
) -> list[Learner]:
    """Learners that average all that their rule exchanges with neighbors of the same group, after the local work.

    Args:
        setups: of the clients.
        rule_of: makes the local rule of a client.
        combine: see `train_then_mix`.
    """
    rules = [(setup, rule_of(setup)) for setup in setups]
    return [train_then_mix(setup, rule, {MIX: rule.shared(group_weights(setup))}, combine) for setup, rule in rules]


def group_weights(setup: ClientSetup) -> Weights:
    """Weights of the neighbors of the same group, with whom a client has all of its model in common."""
    weights = setup.group_mixing
    shared = [m for m in MODALITIES if m not in setup.training.personal_encoders]
    return Weights(dict.fromkeys(shared, weights), weights)

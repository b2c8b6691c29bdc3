"""Whole models averaged over all clients of a group, as if groups were known and all their members were linked."""

from __future__ import annotations

from ...emulator.contracts import Learner
from ..rules.sgd import LocalSgd
from ..sharing.train_then_mix import MIX, group_weights, train_then_mix
from ..sharing.vector_gossip import shared_encoders
from ..training.client_setup import ClientSetup

GROUP = "group"


def group_averaging(setup: ClientSetup) -> Learner:
    """First the mean model of the group, then encoders averaged with neighbors of other groups too.

    A reference rather than a method: the wiring links all members of a group with each other, whatever the graph.
    """
    models = LocalSgd(setup)
    shared = {GROUP: models.shared(group_weights(setup)), MIX: shared_encoders(models.encoders, setup.mixing)}
    return train_then_mix(setup, models, shared)

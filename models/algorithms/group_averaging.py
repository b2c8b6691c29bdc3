"""Whole models averaged over all clients of a group, as if groups were known and all their members were linked."""

from __future__ import annotations

from ...emulator.contracts import Learner
from ..sharing.train_then_mix import MIX, UncoupledModels, train_then_mix
from ..sharing.vector_gossip import shared_encoders, shared_model
from ..training.client_setup import ClientSetup

GROUP = "group"


def group_averaging(setup: ClientSetup) -> Learner:
    """First the mean model of the group, then encoders averaged with neighbors of other groups too.

    A reference rather than a method: the wiring links all members of a group with each other, whatever the graph.
    """
    models = UncoupledModels(setup)
    (name,) = setup.models
    personal = setup.training.personal_encoders
    of_group = shared_model(setup.models[name], models.encoders, setup.group_mixing, personal=personal)
    shared = {GROUP: of_group, MIX: shared_encoders(models.encoders, setup.mixing)}
    return train_then_mix(setup, models, shared)

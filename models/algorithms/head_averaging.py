"""The simplest alternative to the sheaf: the same models, encoders averaged, and heads averaged instead of coupled."""

from __future__ import annotations

from ..rules.sgd import LocalSgd
from ..sharing.chained_learner import ChainedLearner
from ..sharing.train_then_mix import MIX, train_then_mix
from ..sharing.vector_gossip import shared_encoders, shared_head
from ..training.client_setup import ClientSetup


def head_averaging(setup: ClientSetup) -> ChainedLearner:
    """Encoders averaged inside each modality, heads with all neighbors; attention stays personal, as in the sheaf.

    Needs heads of one size everywhere. Source: ablation (c) that Ghalkha et al. 2025 do not show.
    """
    models = LocalSgd(setup)
    (name,) = setup.models
    shared = shared_encoders(models.encoders, setup.mixing) + shared_head(setup.models[name], setup.head_mixing)
    return train_then_mix(setup, models, {MIX: shared})

"""Decentralised SGD per modality: unimodal models, averaged where modalities are equal; nothing crosses modalities."""

from __future__ import annotations

from ...emulator.contracts import MODALITIES, Learner
from ..rules.sgd import LocalSgd
from ..sharing.train_then_mix import MIX, train_then_mix
from ..sharing.vector_gossip import shared_encoders, shared_head
from ..training.client_setup import ClientSetup


def dsgd(setup: ClientSetup) -> Learner:
    """One unimodal model per modality, encoders averaged, heads personal; a client reports its best modality.

    Source: the DSGD baseline of Ghalkha et al. 2025, whose text averages encoders only.
    """
    models = LocalSgd(setup)
    return train_then_mix(setup, models, {MIX: shared_encoders(models.encoders, setup.mixing)})


def dsgd_heads(setup: ClientSetup) -> Learner:
    """The same with heads averaged too, as classical decentralised SGD does."""
    models = LocalSgd(setup)
    shared = shared_encoders(models.encoders, setup.mixing)
    for modality in MODALITIES:
        if modality in models.models:
            shared += shared_head(models.models[modality], setup.mixing.get(modality, {}), modality)
    return train_then_mix(setup, models, {MIX: shared})

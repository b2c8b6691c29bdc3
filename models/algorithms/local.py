"""Stand-alone training: no message ever leaves the client."""

from __future__ import annotations

from ...emulator.contracts import Learner
from ..rules.sgd import LocalSgd
from ..sharing.train_then_mix import MIX, train_then_mix
from ..training.client_setup import ClientSetup


def local(setup: ClientSetup) -> Learner:
    """Every client for itself, with the models it was given (fused, or one per modality)."""
    return train_then_mix(setup, LocalSgd(setup), {MIX: ()})

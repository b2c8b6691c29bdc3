"""Federated averaging: a server, its clients, and plain local steps between their exchanges."""

from __future__ import annotations

from collections.abc import Sequence

from ...emulator.contracts import Learner
from ..rules.sgd import LocalSgd
from ..sharing.server_learner import with_server
from ..training.client_setup import ClientSetup


def fedavg(setups: Sequence[ClientSetup]) -> list[Learner]:
    """Clients train the server's model on their rows, and the server averages what they made of it, by rows.

    Source: McMahan et al. 2017, algorithm 1; heads are averaged inside groups, whose modalities are the same.
    """
    return with_server(setups, LocalSgd)

"""The end of training where biases are fitted: every client fits those of its models to its own training rows."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from ...emulator.contracts import NodeId
from ...models.training.fitted_biases import bias_shifts, shift_biases
from ..wiring.emulation import Emulation
from ..wiring.evaluation import predicted
from ..wiring.live import LiveRows


def fit_biases(emulation: Emulation, absent: Collection[NodeId] = ()) -> None:
    """Shift the biases of all models so that they are right on average about each client's own training rows.

    Args:
        emulation: of clients whose rounds are over, with all models in this process.
        absent: clients whose models are elsewhere.
    """
    present = [client for client in emulation.clients if client.client_id not in absent]
    asked = []
    for client in present:
        rows = client.data.train
        assert not isinstance(rows, LiveRows), "refused with the scenario: no task of such outputs learns live"
        learner = emulation.learners[client.client_id]
        asked.append((client, rows, emulation.pool.submit(partial(predicted, learner, rows))))
    for client, rows, ticket in asked:
        for name, logits in ticket.result().items():
            shift_biases(client.models[name], bias_shifts(logits, rows.label))

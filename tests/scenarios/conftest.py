"""A beam tracking scenario small enough to be run in a moment."""

from __future__ import annotations

from typing import Any

import pytest
from sheafedge.scenarios.schema import Scenario, load_scenario

#: Four clients at one site, models of a few hundred numbers, one round of messages without loss.
TINY: dict[str, Any] = {
    "rounds": 2,
    "data.n_sites": 1,
    "data.n_beams": 8,
    "data.road": {"n_passes": 16, "min_rows": 8, "max_rows": 10},
    "clients.n_clients": 4,
    "topology.kind": "complete",
    "model.hidden_dim": 8,
    "model.embedding_dim": 4,
    "network.transport": "memory",
    "export.onnx": False,
}


@pytest.fixture(scope="session")
def tiny_edits() -> dict[str, Any]:
    """What makes the shipped scenario tiny."""
    return dict(TINY)


@pytest.fixture(scope="session")
def tiny() -> Scenario:
    """The shipped scenario, tiny."""
    return load_scenario("beam_tracking").edited(TINY)

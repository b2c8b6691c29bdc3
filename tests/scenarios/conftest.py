"""A beam tracking scenario small enough to be run in a moment."""

from __future__ import annotations

from typing import Any

import pytest
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario

#: Four clients at one street of fifteen cars, models of a few hundred numbers, two rounds of messages.
TINY: dict[str, Any] = {
    "rounds": 2,
    "world.n_sites": 1,
    "world.duration_s": 300,
    "data.n_beams": 8,
    "clients.n_clients": 4,
    "topology.kind": "complete",
    "model.hidden_dim": 8,
    "model.embedding_dim": 4,
    "network.transport": "memory",
    "export.onnx": False,
    "export.pictures": 0,
    "export.report": False,
}


@pytest.fixture(scope="session")
def tiny_edits() -> dict[str, Any]:
    """What makes the shipped scenario tiny."""
    return dict(TINY)


@pytest.fixture(scope="session")
def tiny() -> Scenario:
    """The shipped scenario, tiny."""
    return load_scenario("beam_tracking").edited(TINY)

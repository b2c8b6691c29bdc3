"""Encoders that stay at home: each goes its own way, while what is shared comes together."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch
from integration.tiny import tiny, walk

RUN: dict[str, Any] = {"algorithm": "sheaf_dmfl_att", "rounds": 6}


def spread(edits: dict[str, Any]) -> dict[str, float]:
    """Largest difference between any two owners' encoders at the end, by modality."""
    last = walk(tiny({**RUN, **edits})).states[-1]
    found = {}
    for modality in ("gps", "rf"):
        encoders = [
            torch.cat([values.flatten() for name, values in state.items() if name.startswith(f"encoder {modality}")])
            for state in last.values()
            if any(name.startswith(f"encoder {modality}") for name in state)
        ]
        found[modality] = max(float((one - other).abs().max()) for one, other in combinations(encoders, 2))
    return found


def test_only_the_personal_encoders_drift_apart() -> None:
    shared, personal = spread({}), spread({"training.personal_encoders": ["gps"]})
    assert personal["gps"] > 1.5 * shared["gps"]
    assert personal["rf"] == pytest.approx(shared["rf"], rel=0.5)


def test_a_personal_encoder_is_that_of_a_client_whose_neighbors_share_nothing() -> None:
    """With all encoders personal and no coupling, learning together is learning alone."""
    edits = {"training.personal_encoders": ["gps", "rf"], "sheaf.coupling": 0.0}
    together, alone = (walk(tiny({**RUN, **more})) for more in (edits, {"algorithm": "local"}))
    assert together.states[-1].keys() == alone.states[-1].keys()
    for client, state in together.states[-1].items():
        assert all(torch.equal(values, alone.states[-1][client][name]) for name, values in state.items())
    assert together.emulation.recorder.traffic.messages == 0

"""Biases fitted after the last round: right on average at every client, and nothing else of a run moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.scenarios.running.fitted_biases import fit_biases
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate
from sheafedge.scenarios.wiring.evaluation import predicted

SMALL: dict[str, Any] = {
    "rounds": 2,
    "world.n_sites": 2,
    "world.duration_s": 90,
    "world.blockage": "3gpp_b",
    "clients.n_clients": 2,
    "topology.kind": "complete",
    "training.local_steps": 1,
    "training.fitted_biases": True,
    "training.batch_size": 8,
    "model.width": 0.125,
    "model.embedding_dim": 8,
    "model.hidden_dim": 8,
    "network.transport": "memory",
    "export.onnx": False,
    "export.pictures": 0,
    "export.report": False,
    "decision.evaluate": False,
}
#: Logits are float32.
ROUNDING = 1e-5


def small(**edits: Any) -> Scenario:
    return load_scenario("outage_forecast").edited({**SMALL, **edits})


def answers(emulation: Emulation) -> list[np.ndarray]:
    return [predicted(emulation.learners[c.client_id], c.data.train)["fused"] for c in emulation.clients]  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ["sheaf_dmfl", "head_averaging", "dfedu"])
def test_every_client_is_right_on_average_about_its_own_rows(algorithm: str) -> None:
    scenario = small(algorithm=algorithm)
    emulation = build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None)
    try:
        emulate(emulation, scenario.rounds)
        before = answers(emulation)
        fit_biases(emulation, absent={1})
        first, second = answers(emulation)
        labels = emulation.clients[0].data.train.label
        odds = 1.0 / (1.0 + np.exp(-first.astype(np.float64)))
        assert_allclose(odds.mean(axis=0), (labels.sum(axis=0) + 0.5) / (len(labels) + 1), atol=ROUNDING)
        assert np.ptp(first - before[0], axis=0).max() < ROUNDING
        assert np.abs(first - before[0]).max() > 0.01
        assert np.array_equal(second, before[1])
    finally:
        emulation.close()


def test_a_run_reports_the_fitted_models_and_leaves_the_trace_alone(tmp_path: Path) -> None:
    fitted, plain = (
        run_scenario(small(**{"training.fitted_biases": on}), out=tmp_path / str(on)).summary for on in (True, False)
    )
    assert fitted["trace_hash"] == plain["trace_hash"]
    briers = [summary["groups"]["lidar+camera"]["brier"] for summary in (fitted, plain)]
    assert briers[0] != briers[1]

"""A finished run with models, made once."""

from __future__ import annotations

import pytest
from sheafedge.scenarios.library.run_result import RunResult
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario


@pytest.fixture(scope="session")
def finished(tiny: Scenario, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """Two rounds of beam tracking: groups of one and of two sensors, scored after the second only."""
    scenario = tiny.edited({"export.onnx": True, "evaluate_every": 2, "links.model": "radio"})
    return run_scenario(scenario, tmp_path_factory.mktemp("library") / "run")

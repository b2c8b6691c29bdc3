"""Figures of theory of whole runs: they change nothing, survive an interruption, and say what they should."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from integration.test_resume import stopped
from sheafedge.scenarios.running.run import resume_run, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.theory.theory_watch import gradient_bound

FLOAT32 = 1e-4
#: All clients have one sensor in common, so that the graph is complete: its eigenvalues are 0 and, three times, 4.
ALIKE = {"clients.groups": [{"name": "gps", "modalities": ["gps"], "share": 1.0}]}


def theory(scenario: Scenario, out: Path) -> dict[str, Any]:
    found: dict[str, Any] = run_scenario(scenario.edited({"export.theory": True}), out).summary["theory"]
    return found


def test_figures_leave_the_run_as_it_is_and_go_on_where_it_was_interrupted(tiny: Scenario, tmp_path: Path) -> None:
    without = run_scenario(tiny, tmp_path / "without").summary
    assert "theory" not in without
    looked_at = tiny.edited({"export.theory": True})
    whole = run_scenario(looked_at, tmp_path / "whole").summary
    assert whole["trace_hash"] == without["trace_hash"]
    assert [row["round"] for row in whole["theory"]["rows"]] == [0, 1, 2]
    aside = stopped(looked_at, tmp_path / "run", round_index=0)
    assert resume_run(aside).summary["theory"] == whole["theory"]


def test_maps_that_stay_the_identity_have_the_figures_of_the_graph(tiny: Scenario, tmp_path: Path) -> None:
    found = theory(tiny.edited({**ALIKE, "sheaf.map_step_size": 0.0, "rounds": 1}), tmp_path / "run")
    start, end = found["rows"]
    assert (start["maps"], start["energy"]) == ("own", 0.0)  # heads start equal
    assert end["energy"] > 0.0
    assert end["objective"] == pytest.approx(end["loss"] + 0.05 * end["energy"])  # coupling 0.1
    assert end["weight_decay"] == pytest.approx(0.1 * end["rayleigh"])
    assert 0.0 < end["rayleigh"] <= end["largest_eigenvalue"]
    assert (end["largest_eigenvalue"], end["smallest_eigenvalue"]) == pytest.approx((4.0, 4.0), rel=FLOAT32)
    assert end["seen"] == pytest.approx(1.0, rel=1e-3)
    assert end["largest_holonomy"] == pytest.approx(0.0, abs=FLOAT32)
    # of a complete graph: energy = 4 * sum of |w_i - mean|^2
    assert end["energy"] == pytest.approx(4.0 * 4 * end["consensus_vectors"] ** 2, rel=FLOAT32)


def test_a_compressed_edge_shows_less_and_averages_have_the_maps_of_the_graph(tiny: Scenario, tmp_path: Path) -> None:
    compressed = theory(tiny.edited({**ALIKE, "sheaf.compression": 0.2, "rounds": 1}), tmp_path / "compressed")["rows"][
        -1
    ]
    assert 0.2 < compressed["seen"] < 0.9  # up to three different fifths, which miss or meet each other
    assert compressed["largest_holonomy"] > 0.5
    averaged = theory(tiny.edited({**ALIKE, "algorithm": "head_averaging", "rounds": 1}), tmp_path / "averaged")
    last = averaged["rows"][-1]
    assert (last["maps"], last["weight_decay"], last["gradient_maps"]) == ("identity", None, None)
    assert last["smallest_eigenvalue"] == pytest.approx(4.0, rel=FLOAT32)
    assert "algorithm 'head_averaging' does not couple heads" in averaged["bound"]["reason"]


def test_plain_steps_below_the_limit_keep_to_the_bound_and_steps_above_have_none(tiny: Scenario) -> None:
    """Numbers by hand: L = 3, |L_F| = 4, lambda = 0.1, so the limit is 2 / 3.4."""
    common = {"smoothness": 3.0, "largest_eigenvalue": 4.0, "objective": 10.0, "maps": "own"}
    rows = [{**common, "round": done, "gradient_vectors": 2.0} for done in (0, 1, 2)]
    scenario = tiny.edited({"training.head_step_size": 0.1, "training.local_steps": 5})
    found = gradient_bound(rows, scenario)
    assert found["limit"] == pytest.approx(2.0 / 3.4)
    assert found["rho"] == pytest.approx(0.1 * (1.0 - 0.17))
    assert found["bound"] == pytest.approx(10.0 / (found["rho"] * 10))
    assert found["mean_square"] == 4.0
    above = gradient_bound(rows, scenario.edited({"training.head_step_size": 0.9}))
    assert "bound" not in above
    assert "0.9 is not below the limit 0.588" in above["reason"]
    assert math.isclose(above["mean_square"], 4.0)
    # resumed with theory after 3 of 5 rounds: the bound is of the last two
    resumed = gradient_bound([{**row, "round": row["round"] + 3} for row in rows], scenario)
    assert resumed["bound"] == found["bound"]


def test_without_a_known_smoothness_there_is_a_reason_and_no_bound(tiny: Scenario) -> None:
    common = {"smoothness": None, "largest_eigenvalue": 4.0, "objective": 10.0, "gradient_vectors": 2.0}
    found = gradient_bound([{**common, "round": done} for done in (0, 1)], tiny)
    assert found == {"mean_square": 4.0, "reason": "the smoothness of objective 'cross_entropy' is not known"}

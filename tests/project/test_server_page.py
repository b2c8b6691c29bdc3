"""The comparisons behind docs/server.md can be run, with a server and among peers."""

from __future__ import annotations

from pathlib import Path

import pytest
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.compare.comparison import loaded_tables, validated_comparison
from sheafedge.scenarios.compare.plan import planned_runs

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("server_or_peers.toml", "server_or_peers_blockage.toml")
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the sources are not here: an installed wheel is tested")


@pytest.mark.parametrize("page", PAGES)
def test_the_comparison_can_be_planned_and_has_both_sides_and_the_control(page: str) -> None:
    runs = planned_runs(validated_comparison(loaded_tables(str(DOCS / page))))
    chosen = {run.scenario.algorithm for run in runs}
    assert {ALGORITHMS[name].server for name in chosen} == {True, False}
    assert "local" in chosen  # no claim without it
    assert any(fault.names_server for run in runs for fault in run.scenario.faults)
    assert any(run.scenario.server.medium != "own" for run in runs if run.scenario.server_id is not None)


def test_both_pages_compare_the_same_methods() -> None:
    one, other = (validated_comparison(loaded_tables(str(DOCS / page))) for page in PAGES)
    assert one.methods == other.methods


def test_the_comparison_of_generated_models_has_the_control_of_every_claim() -> None:
    """Training alone, averages, and for the sheaf: no graph, another diffusion, and maps that learn nothing."""
    runs = planned_runs(validated_comparison(loaded_tables(str(DOCS / "generated_models.toml"))))
    chosen = {run.scenario.algorithm for run in runs}
    assert {"local", "fedavg", "fedper", "pfedhn", "fedsheafhn"} <= chosen
    generated = [run.scenario.hyper for run in runs if run.scenario.algorithm == "fedsheafhn"]
    assert {(one.diffusion, one.maps) for one in generated if not one.attention} == {
        ("none", "learned"),
        ("gcn", "learned"),
        ("sheaf", "identity"),
        ("sheaf", "learned"),
    }

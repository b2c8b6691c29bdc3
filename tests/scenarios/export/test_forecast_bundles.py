"""Bundles of forecasts: every output has its time and receiver, and what was fitted after the last round is in them."""

from __future__ import annotations

import numpy as np
import pytest
from sheafedge.emulator.edge.bundle import Bundle, load_bundle
from sheafedge.emulator.edge.label_probabilities import label_probabilities
from sheafedge.scenarios.export.bundles import export_bundles
from sheafedge.scenarios.export.export_source import ExportRequest
from sheafedge.scenarios.export.finished_run import FinishedRun, finished_run
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import load_scenario

HORIZON = 3
EDITS = {
    "rounds": 1,
    "world.n_sites": 2,
    "world.duration_s": 90,
    "clients.n_clients": 2,
    "clients.groups": [{"name": "all", "modalities": ["rf", "signal"], "share": 1.0}],
    "topology.kind": "complete",
    "data.window": 4,
    "data.horizon": HORIZON,
    "training.local_steps": 1,
    "training.fitted_biases": True,
    "model.width": 0.125,
    "network.transport": "memory",
    "export.pictures": 0,
    "export.report": False,
    "decision.evaluate": False,
    "decision.warn_above": 0.2,
}
#: Scores of a file and of the model in memory.
SAME = 1e-6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    scenario = load_scenario("outage_forecast").edited(EDITS)
    return finished_run(run_scenario(scenario, tmp_path_factory.mktemp("runs") / "run").folder)


@pytest.fixture(scope="module")
def bundle(run: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    (made,) = export_bundles(run, [ExportRequest(clients=(1,))], tmp_path_factory.mktemp("bundles"))
    return load_bundle(made.folder, trial=None)


def test_a_manifest_says_what_every_output_is_about(bundle: Bundle) -> None:
    output = bundle.manifest.output
    assert output.forecast is not None
    assert (output.kind, output.forecast.series) == ("forecast", ("own", "neighbor"))
    assert output.forecast.ahead_s == pytest.approx((0.1, 0.2, 0.3))
    assert output.horizon_s == pytest.approx(0.3)
    assert bundle.session.run(bundle.samples).shape[1] == output.n_outputs == 2 * HORIZON
    assert repr(bundle).endswith("own, neighbor to 0.3 s ahead, float32)")


def test_it_warns_from_the_probability_of_the_scenario_on(bundle: Bundle) -> None:
    output = bundle.manifest.output
    at_threshold = np.full((1, output.n_outputs), output.threshold)
    assert label_probabilities(at_threshold, output)[0, 1] == pytest.approx(0.2)


def test_biases_that_were_fitted_after_the_last_round_are_those_of_the_bundle(run: FinishedRun, bundle: Bundle) -> None:
    """`metrics.jsonl` has the scores of before."""
    (stored,) = (row.scores for row in run.summary.exports if row.client == 1)
    assert stored is not None
    held_out = bundle.manifest.metrics["held_out"]
    assert held_out == pytest.approx(
        {key: value for key, value in stored["fused"].items() if key in held_out}, abs=SAME
    )


def test_the_card_has_scores_of_every_time_ahead(bundle: Bundle) -> None:
    card, ahead = bundle.content["README.md"].decode(), bundle.manifest.metrics["ahead"]
    for at in ("0.1 s", "0.2 s", "0.3 s"):
        row = f"| {at} | {ahead['own'][at]['brier']:.3f} | {ahead['own'][at]['ece']:.3f} |"
        assert row in card
    assert "worst output" in card
    assert "above 0.2" in card

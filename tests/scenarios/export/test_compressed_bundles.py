"""Bundles of models made of factors: as good as the run says, smaller than dense ones, and served as any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sheafedge.emulator.edge.bundle import Bundle, load_bundle
from sheafedge.scenarios.export.bundles import export_bundles
from sheafedge.scenarios.export.export_source import ExportRequest
from sheafedge.scenarios.export.finished_run import finished_run
from sheafedge.scenarios.running.metric_rows import metric_rows
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import load_scenario

EDITS = {
    "rounds": 2,
    "evaluate_every": 1,
    "clients.n_clients": 2,
    "data.dataset": "file",
    "data.split": "random",
    "data.owners": "equal",
    "training.local_steps": 4,
    "factors.steps": 4,
    "network.transport": "memory",
    "export.onnx": True,
    "export.report": False,
}


Exported = tuple[Bundle, Path]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exported]:
    """Kept model -> bundle of client 0, and its run; both runs have one trajectory."""
    folder, draws = tmp_path_factory.mktemp("factors"), np.random.default_rng(0)
    y = np.arange(240) % 3
    images = draws.normal(size=(240, 16, 16)) + np.where(np.arange(16) // 6 == y[:, None], 1.0, 0.0)[:, None, :]
    np.savez(folder / "mine.npz", x=images.astype(np.float32), y=y)
    made = {}
    for model in ("personal", "compressed local"):
        edits = {**EDITS, "data.root": str(folder / "mine.npz"), "export.model": model}
        run = run_scenario(load_scenario("two_digits").edited(edits), folder / model).folder
        bundle, _ = export_bundles(finished_run(run), [ExportRequest()], folder / f"{model} bundles")
        made[model] = load_bundle(bundle.folder), run
    return made


def test_a_bundle_of_factors_answers_its_own_samples_and_scores_as_its_run(exported: dict[str, Exported]) -> None:
    """Loading runs the samples of the bundle through its model, and refuses what differs."""
    for model, (bundle, run) in exported.items():
        *_, last = (row for row in metric_rows(run) if row["client"] == 0 and "models" in row)
        assert bundle.manifest.metrics["held_out"]["accuracy"] == pytest.approx(
            last["models"][model]["accuracy"], abs=1e-9
        )


def test_it_is_smaller_than_a_dense_one_of_the_same_run(exported: dict[str, Exported]) -> None:
    parameters = {model: bundle.manifest.parameters for model, (bundle, _) in exported.items()}
    sizes = {model: len(bundle.content["model.onnx"]) for model, (bundle, _) in exported.items()}
    assert parameters["compressed local"] < 0.55 * parameters["personal"]
    assert sizes["compressed local"] < 0.75 * sizes["personal"]  # a file has more in it than weights

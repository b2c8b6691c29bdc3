"""The paper's scenarios from a world to exported models, small enough for seconds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubles.deepsense_layout import official_layout
from doubles.drone_folder import drone_folder
from sheafedge.datasets.deepsense.deepsense_folder import import_deepsense
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.scenarios.running import onnx_files as exports
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.data import load_data

#: Four clients, encoders of an eighth of their width, two rounds.
SMALL: dict[str, Any] = {
    "rounds": 2,
    "evaluate_every": 2,
    "world.n_sites": 2,
    "clients.n_clients": 4,
    "topology.kind": "complete",
    "training.local_steps": 2,
    "training.batch_size": 8,
    "model.width": 0.125,
    "model.embedding_dim": 8,
    "model.hidden_dim": 8,
    "network.transport": "memory",
    "export.pictures": 0,
    "export.report": False,
}
STREETS: dict[str, Any] = {"world.duration_s": 90}
FLIGHTS: dict[str, Any] = {
    "world.duration_s": 120,
    "world.sky.min_flight_s": 10,
    "world.sky.max_flight_s": 20,
    "data.n_beams": 8,
}
#: Sums of a dozen times of a few seconds.
ROUNDING_S = 1e-9
#: Logits of narrow networks, float32 in another order.
FLOAT32 = 1e-4


@pytest.fixture(scope="module", autouse=True)
def _traced_once() -> Iterator[None]:
    """Runs here share one exporter, and with it the traced graphs: tracing one takes seconds."""
    shared = exports.OnnxExporter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exports, "OnnxExporter", lambda: shared)
        yield


def small(name: str, edits: dict[str, Any]) -> Scenario:
    return load_scenario(name).edited({**SMALL, **edits})


def assert_ran_well(result: RunResult, scenario: Scenario) -> None:
    """Every group is scored beside its baselines, and nothing has left the finite numbers."""
    summary = result.summary
    assert summary["task"] == scenario.task
    assert sum(group["clients"] for group in summary["groups"].values()) == 4
    first = scenario.task_spec.columns[0].key
    for name, scores in summary["groups"].items():
        assert 0.0 <= scores[first] <= 1.0
        assert set(summary["baselines"][name]) == {"persistence", "majority"}
    rows = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * 4
    assert all(np.isfinite(row["loss"]) for row in rows)
    assert summary["traffic"]["messages"] > 0
    # Rounds begin and end for all together.
    for _, of_round in groupby(rows, key=lambda row: row["round"]):
        spent_s = {row["compute_s"] + row["waiting_s"] for row in of_round}
        assert max(spent_s) - min(spent_s) < ROUNDING_S
    assert sum(row["airtime_s"] for row in rows) > 0.0
    assert {*rows[-1]["train_models"], *rows[-1]["train_loss"]} == {*rows[-1]["held_out_loss"]} == {*rows[-1]["models"]}
    assert_diagnosed_well(json.loads((result.folder / "diagnostics.json").read_text()), summary)


def assert_diagnosed_well(diagnostics: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    """Edges add up to the traffic of the run, and every group has curves over all of its held-out samples."""
    traffic = summary["traffic"]
    for name in ("messages", "bytes", "lost_messages", "lost_packets"):
        assert sum(edge[name] for edge in diagnostics["edges"]) == traffic[name]
    assert {name: list(models) for name, models in diagnostics["held_out"].items()} == {
        name: [group["model"]] for name, group in summary["groups"].items()
    }
    curves = [of_model for models in diagnostics["held_out"].values() for of_model in models.values()]
    assert sum(sum(one["reliability"]["n"]) for one in curves) == summary["test_windows"]


def assert_handed_out_well(result: RunResult, scenario: Scenario) -> None:
    """Every client has a model that answers about its own inputs, and says what they are."""
    summary = result.summary
    assert len(summary["exports"]) == 4
    for row, client in zip(summary["exports"], load_data(scenario).clients, strict=True):
        assert row["max_abs_error"] <= FLOAT32
        session = OnnxSession(result.folder / row["path"])
        inputs = client.test.inputs(slice(0, 3))
        assert set(session.input_names) == set(inputs)
        answer = session.run({str(modality): rows for modality, rows in inputs.items()})
        outputs = scenario.task_spec.outputs(scenario.data, client.test)
        assert answer.shape == (3, outputs.n)
        told = json.loads(session.metadata["inputs"])
        assert {name: tuple(facts["shape"]) for name, facts in told.items()} == dict(client.test.input_shapes)
        assert json.loads(session.metadata["labels"]) == list(outputs.labels)


def test_streets_train_to_warn_of_blockages_and_leave_pictures_of_what_base_stations_saw(tmp_path: Path) -> None:
    scenario = small("blockage", {**STREETS, "export.onnx": False, "export.pictures": 2})
    result = run_scenario(scenario, tmp_path / "run")
    assert_ran_well(result, scenario)
    assert set(result.summary["groups"]) == {"lidar+camera", "lidar+rf", "camera+rf"}
    assert {"balanced_accuracy", "f1", "accuracy"} <= set(result.summary["groups"]["lidar+rf"])
    assert result.summary["pictures"] == ["pictures/bs00.png", "pictures/bs01.png"]
    for name in result.summary["pictures"]:
        assert (result.folder / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_model_of_lidar_camera_beams_and_radar_is_handed_out(tmp_path: Path) -> None:
    """All encoders in one graph; radar is known only to its row, its sensor and its encoder, and goes the whole way."""
    everything = [{"name": "all", "modalities": ["lidar", "camera", "rf", "radar"], "share": 1.0}]
    radar = {"world.radar.n_ranges": 64, "world.radar.n_angles": 16}
    scenario = small("blockage", {**STREETS, **radar, "clients.groups": everything})
    result = run_scenario(scenario, tmp_path / "run")
    assert_ran_well(result, scenario)
    assert_handed_out_well(result, scenario)


@pytest.mark.slow
def test_skies_train_to_point_at_drones_in_every_setting_of_images(tmp_path: Path) -> None:
    traces = set()
    for setting in ("plain", "occluded", "views"):
        scenario = small("drone_beam", {**FLIGHTS, "data.images": setting})
        result = run_scenario(scenario, tmp_path / setting)
        assert_ran_well(result, scenario)
        assert_handed_out_well(result, scenario)
        assert set(result.summary["groups"]) == {"gps", "camera", "both"}
        traces.add(result.summary["trace_hash"])
    assert len(traces) == 3  # the settings are not one


@pytest.mark.slow
def test_an_imported_deepsense_folder_trains(deepsense_root: Path, tmp_path: Path) -> None:
    official_layout(tmp_path, deepsense_root, slice(0, 800))
    report = import_deepsense(tmp_path, 1, tmp_path / "street.h5")
    both = [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}]
    source = {"data.source": "recording", "data.recordings": [str(report.path)]}
    scenario = small("beam_tracking", {**source, "clients.groups": both})
    assert report.n_sequences >= 8
    result = run_scenario(scenario, tmp_path / "run")
    assert_ran_well(result, scenario)
    assert_handed_out_well(result, scenario)
    assert {client.recording for client in load_data(scenario).clients} == {"bs00, DeepSense scenario 1"}


@pytest.mark.slow
def test_an_imported_folder_trains_as_its_gathered_rows_do(deepsense_root: Path, tmp_path: Path) -> None:
    """Two ways to the same measurements: the same drive-bys, the same labels, positions to the millimeter."""
    official_layout(tmp_path, deepsense_root, slice(0, 2422))
    report = import_deepsense(tmp_path, 1, tmp_path / "street.h5")
    imported = load_data(small("beam_tracking", {"data.source": "recording", "data.recordings": [str(report.path)]}))
    rows = {"data.source": "deepsense", "data.root": str(deepsense_root), "data.scenarios": [1]}
    for one, other in zip(imported.clients, load_data(small("beam_tracking", rows)).clients, strict=True):
        for mine, theirs in ((one.train, other.train), (one.test, other.test)):
            np.testing.assert_array_equal(mine.sequence, theirs.sequence)
            np.testing.assert_array_equal(mine.label, theirs.label)
            for modality, values in theirs.inputs().items():
                np.testing.assert_allclose(mine.inputs()[modality], values, atol=1e-3)


@pytest.mark.parametrize("every", [0, 3])
def test_drones_whose_samples_have_labels_without_powers_are_learned_and_scored(tmp_path: Path, every: int) -> None:
    """No sample has powers, or one of three."""
    drone_folder(tmp_path, 120, 6, range(0, 120, every) if every else ())
    recording = import_deepsense(tmp_path, 23, tmp_path / "drone.h5").path
    edits = {"data.source": "recording", "data.recordings": [str(recording)], "clients.n_clients": 3}
    result = run_scenario(small("drone_beam", {**edits, "export.onnx": False}), tmp_path / "run")
    summary = json.loads((result.folder / "summary.json").read_text())
    for scores in (*summary["groups"].values(), *summary["baselines"]["gps"].values()):
        assert {"top1", "top3"} <= set(scores)
        assert ("power_loss_db" in scores) == bool(every)
    assert re.fullmatch(r"no powers: \d+ of \d+ held-out frames have a best beam alone", summary["value"]["skipped"])

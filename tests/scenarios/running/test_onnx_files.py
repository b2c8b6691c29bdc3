"""Hand-out: every client's model as a file that says what it is and computes what torch computes, or no file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sheafedge.emulator.contracts import Learner
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.scenarios.running import onnx_files as exports
from sheafedge.scenarios.running.onnx_files import ExportError, export_clients
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate
from sheafedge.scenarios.wiring.predictions import Predictions

#: One architecture, because tracing takes seconds.
BOTH = [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}]
FLOAT32_SUM = 1e-5  # logits near 1 from sums of a few hundred float32 products, in another order


@pytest.fixture(scope="module")
def scenario(tiny: Scenario) -> Scenario:
    return tiny.edited({"clients.groups": BOTH, "clients.n_clients": 2, "export.onnx": True, "rounds": 1})


@pytest.fixture(scope="module")
def emulation(scenario: Scenario) -> Iterator[Emulation]:
    """After its last round."""
    emulation = build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None)
    emulate(emulation, scenario.rounds)
    yield emulation
    emulation.close()


@pytest.fixture(scope="module")
def handed_out(
    scenario: Scenario, emulation: Emulation, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[dict[str, Any]]]:
    """The run folder, and what the summary will say."""
    folder = tmp_path_factory.mktemp("run")
    rows = exported(scenario, emulation, emulation.learners, folder / "models")
    return folder, rows


@pytest.fixture(scope="module", autouse=True)
def _traced_once() -> Iterator[None]:
    """All exports here share one exporter, and with it the traced graph."""
    shared = exports.OnnxExporter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exports, "OnnxExporter", lambda: shared)
        yield


def exported(scenario: Scenario, emulation: Emulation, learners: Sequence[Any], folder: Path) -> list[dict[str, Any]]:
    """Rows of the clients of these learners."""
    clients, predictions = emulation.clients[: len(learners)], Predictions(learners, emulation.pool)
    return export_clients(scenario, clients, predictions, {"both": "fused"}, folder, emulation.pool)


@dataclass
class WrongBy:
    """A learner that says something else than its model computes."""

    learner: Learner
    offset: float

    @property
    def client_id(self) -> int:
        return self.learner.client_id

    def predict(self, inputs: Mapping[Any, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: logits + np.float32(self.offset) for name, logits in self.learner.predict(inputs).items()}


def test_every_client_gets_one_file_under_a_path_inside_the_run_folder(
    handed_out: tuple[Path, list[dict[str, Any]]],
) -> None:
    folder, rows = handed_out
    assert [row["client"] for row in rows] == [0, 1]
    assert [row["path"] for row in rows] == ["models/client-00.onnx", "models/client-01.onnx"]
    assert {path.name for path in (folder / "models").iterdir()} == {"client-00.onnx", "client-01.onnx"}
    for row in rows:
        assert row["bytes"] == (folder / row["path"]).stat().st_size
        assert 0.0 <= row["max_abs_error"] <= FLOAT32_SUM
        assert row["provider"] == "CPUExecutionProvider"
        json.dumps(row)


def test_a_file_takes_physical_units_in_batches_of_any_size(
    handed_out: tuple[Path, list[dict[str, Any]]], emulation: Emulation
) -> None:
    folder, rows = handed_out
    for row, client, learner in zip(rows, emulation.clients, emulation.learners, strict=True):
        session = OnnxSession(folder / row["path"])
        assert session.input_names == ["rf", "gps"]
        for n_rows in (1, 5, len(client.data.test)):
            inputs = client.data.test.inputs(np.arange(n_rows))
            logits = session.run({str(modality): values for modality, values in inputs.items()})
            np.testing.assert_allclose(logits, learner.predict(inputs)["fused"], atol=FLOAT32_SUM)


def test_a_file_tells_a_stranger_what_it_is(
    handed_out: tuple[Path, list[dict[str, Any]]], emulation: Emulation
) -> None:
    folder, rows = handed_out
    told = OnnxSession(folder / rows[1]["path"]).metadata
    assert told["scenario"] == "beam_tracking"
    assert told["algorithm"] == "sheaf_dmfl_att"
    assert told["seed"] == "0"
    assert told["client"] == "1"
    assert told["group"] == "both"
    assert told["trained_on"] == emulation.clients[1].data.recording
    assert json.loads(told["modalities"]) == ["rf", "gps"]
    assert json.loads(told["labels"]) == [f"beam {index}" for index in range(8)]
    inputs = json.loads(told["inputs"])
    assert (inputs["gps"]["shape"], inputs["gps"]["unit"]) == ([4, 2], "m")
    assert (inputs["rf"]["shape"], inputs["rf"]["unit"]) == ([4, 8], "dB")
    assert "before now" in inputs["rf"]["meaning"]
    assert told["task"] == "beam_tracking"
    assert told["output"] == "logits [batch, 8], one per beam of the codebook"


@pytest.mark.parametrize(("offset", "said"), [(0.5, "by 0.5"), (float("nan"), "by nan")])
def test_a_model_that_computes_something_else_is_not_handed_out(
    offset: float, said: str, scenario: Scenario, emulation: Emulation, tmp_path: Path
) -> None:
    learners = [WrongBy(emulation.learners[0], offset), emulation.learners[1]]
    with pytest.raises(ExportError) as caught:
        exported(scenario, emulation, learners, tmp_path / "models")
    message = str(caught.value)
    assert f"client 0 differs from torch {said} on held-out rows" in message
    assert "export.max_abs_error = 0.0001" in message
    assert "raise that limit" in message
    # what is right stays, as it would have if it had come first
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["client-01.onnx"]


def test_outputs_too_large_for_the_limit_are_told_from_a_wrong_export(
    scenario: Scenario, emulation: Emulation, tmp_path: Path
) -> None:
    learners = [WrongBy(emulation.learners[0], 1e9)]
    with pytest.raises(ExportError) as caught:
        exported(scenario, emulation, learners, tmp_path / "models")
    assert "outputs of client 0's trained model reach 1e+09, where float32 numbers are 64 apart" in str(caught.value)
    assert "probably diverged: lower its step sizes" in str(caught.value)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_difference_inside_the_limit_passes(scenario: Scenario, emulation: Emulation, tmp_path: Path) -> None:
    """The negative control of the test above."""
    generous = scenario.edited({"export.max_abs_error": 0.6})
    learners = [WrongBy(emulation.learners[0], 0.5)]
    (row,) = exported(generous, emulation, learners, tmp_path / "models")
    assert row["max_abs_error"] == pytest.approx(0.5, abs=FLOAT32_SUM)


def test_a_run_whose_export_fails_is_a_failed_run(scenario: Scenario, tmp_path: Path) -> None:
    with pytest.raises(ExportError):
        run_scenario(scenario.edited({"export.max_abs_error": 1e-30, "rounds": 2}), tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run.failed"]
    failed = tmp_path / "run.failed"
    assert "export.max_abs_error = 1e-30" in (failed / "FAILED.txt").read_text()
    assert not (failed / "summary.json").exists()
    rows = [json.loads(line) for line in (failed / "metrics.jsonl").read_text().splitlines()]
    assert {row["round"] for row in rows} == {0, 1}

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.scenarios.library.run_result import RunResult
from sheafedge.scenarios.library.trained_model import TrainedModel
from sheafedge.scenarios.wiring.data import load_data

#: Logits of a narrow network, float32 in another order.
FLOAT32 = 1e-4


def of_group(finished: RunResult, group: str) -> TrainedModel:
    rows = map(json.loads, (finished.folder / "metrics.jsonl").read_text().splitlines())
    return finished.model(next(row["client"] for row in rows if row["group"] == group))


def held_out(finished: RunResult, model: TrainedModel) -> dict[str, np.ndarray]:
    test = load_data(finished.scenario).clients[model.client].test
    return {str(name): rows for name, rows in test.inputs(np.arange(len(test))).items()}


@pytest.mark.parametrize("group", ["gps", "both"])
def test_torch_and_onnx_answer_held_out_samples_alike(finished: RunResult, group: str) -> None:
    model = of_group(finished, group)
    inputs = held_out(finished, model)
    assert list(model.inputs) == list(inputs)
    logits = model.logits(inputs)
    module = model.module()
    with torch.inference_mode():
        found = module({name: torch.from_numpy(rows) for name, rows in inputs.items()})
    assert logits.shape == (len(next(iter(inputs.values()))), len(model.labels))
    assert_allclose(found.numpy(), logits, atol=FLOAT32)
    assert model.predict(inputs) == [model.labels[index] for index in logits.argmax(axis=1)]


def test_the_accuracy_of_the_predictions_is_the_score_of_the_run(finished: RunResult) -> None:
    model = of_group(finished, "gps")
    test = load_data(finished.scenario).clients[model.client].test
    found = [model.labels.index(label) for label in model.predict(held_out(finished, model))]
    assert np.mean(found == test.label) == pytest.approx(finished.summary["groups"]["gps"]["top1"])


def test_a_module_can_be_trained_on_and_the_next_one_is_as_before(finished: RunResult) -> None:
    model = of_group(finished, "gps")
    module, inputs = model.module(), {name: torch.from_numpy(one) for name, one in held_out(finished, model).items()}
    before = module(inputs).detach().clone()
    module(inputs).square().mean().backward()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-0.1)
    assert not torch.equal(module(inputs), before)
    assert torch.equal(model.module()(inputs), before)


def test_inputs_that_do_not_fit_are_one_sentence(finished: RunResult) -> None:
    model = of_group(finished, "both")
    blank = {name: np.zeros((2, *said["shape"])) for name, said in model.inputs.items()}
    for wrong, sentence in (
        ({**blank, "lidar": np.zeros((2, 3))}, f"unknown input 'lidar'; client {model.client} takes rf, gps"),
        ({"rf": blank["rf"]}, f"input 'gps' is missing; client {model.client} takes rf, gps"),
        ({**blank, "gps": np.zeros(3)}, r"input 'gps' must have shape \[n, .*\], got \[3\]"),
        ({**blank, "gps": blank["gps"][:1]}, "all inputs need the same number of samples, got rf 2, gps 1"),
    ):
        with pytest.raises(DataError, match=sentence):
            model.logits(wrong)


def test_a_client_without_a_model_is_refused(finished: RunResult) -> None:
    with pytest.raises(ConfigError, match="has no model of client 9; it has those of 0, 1, 2, 3"):
        finished.model(9)


def test_another_file_is_no_model_of_a_run(finished: RunResult, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"model\.onnx is no model of a run"):
        TrainedModel.of(0, tmp_path / "model.onnx", finished.scenario)


def test_a_network_of_other_weights_than_the_scenario_builds_is_refused(finished: RunResult, tmp_path: Path) -> None:
    """Such as one that another version built: the graph answers otherwise than what is rebuilt."""
    model = of_group(finished, "gps")
    graph = onnx.load(model.path)
    (bias,) = (one for one in graph.graph.initializer if one.name == "head.bias")
    # the graph computes with a copy of the name, so that torch finds the old values under the old name
    for node in graph.graph.node:
        node.input[:] = ["other" if name == "head.bias" else name for name in node.input]
    shifted = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + 1.0, "other")
    graph.graph.initializer.append(shifted)
    onnx.save(graph, tmp_path / "other.onnx")
    other = TrainedModel.of(model.client, tmp_path / "other.onnx", finished.scenario)
    assert OnnxSession(other.path).input_names == ["gps"]
    with pytest.raises(DataError, match="answers otherwise than what this version builds"):
        other.module()

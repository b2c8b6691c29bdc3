"""Fewer bits: the same questions, nearly the same answers, a smaller file; and what a model costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.emulator.edge.precisions import PRECISIONS
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.encoders.normalize import RelativePower, StandardizeColumns
from sheafedge.models.export.onnx_export import OnnxExporter
from sheafedge.models.export.onnx_facts import answer_flops, n_parameters
from sheafedge.models.export.quantize import CALIBRATIONS, MAKERS, CalibrationName, float16_model, int8_model
from torch import nn

N_OUTPUTS, HIDDEN, EMBEDDING = 8, 32, 16
SHAPES: dict[Modality, tuple[int, ...]] = {"rf": (4, 8), "gps": (2,)}
METADATA = {"client": "7", "task": "beam_tracking"}
#: Seven bits of weight and eight of activation, three layers deep; relative to the spread of the logits.
INT8_ERROR = 0.1
#: Eleven bits, likewise.
FLOAT16_ERROR = 0.01
#: Where a processor rounds in another order.
SUM = 1e-6

Rows = Mapping[str, NDArray[np.float32]]


def rows(n: int, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Sweeps in dB, and positions in degrees within some meters of the base station."""
    draws = np.random.default_rng(seed)
    return {
        "rf": draws.normal(-60.0, 8.0, (n, 4, 8)).astype(np.float32),
        "gps": draws.normal(2e-5, 3e-5, (n, 2)).astype(np.float32),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> onnx.ModelProto:
    """Exported as a run does."""
    typical = rows(100)
    encoders: dict[Modality, nn.Module] = {m: window_mlp(SHAPES[m], HIDDEN, EMBEDDING) for m in SHAPES}
    normalizers: dict[Modality, nn.Module] = {
        "rf": RelativePower(typical["rf"]),
        "gps": StandardizeColumns(typical["gps"]),
    }
    client = ClientModel(normalizers, encoders, fusion="attention", embedding_dim=EMBEDDING, n_outputs=N_OUTPUTS)
    draws = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for values in client.parameters():
            values.copy_(torch.randn(values.shape, generator=draws) / 3.0)
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    OnnxExporter().export(client, SHAPES, path, METADATA)
    return onnx.load(path)


def session(model: onnx.ModelProto) -> OnnxSession:
    return OnnxSession(bytes(model.SerializeToString()))


def error(model: onnx.ModelProto, small: onnx.ModelProto, inputs: Rows) -> float:
    """Mean difference of a logit, relative to how far logits are apart."""
    expected = session(model).run(inputs)
    return float(np.abs(session(small).run(inputs) - expected).mean() / expected.std())


def size(model: onnx.ModelProto) -> int:
    return len(model.SerializeToString())


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_eight_bits_answer_nearly_alike(model: onnx.ModelProto, calibration: CalibrationName) -> None:
    small = int8_model(model, rows(200, seed=1), calibration=calibration)
    inputs = rows(200, seed=2)
    assert 0.0 < error(model, small, inputs) < INT8_ERROR
    agreement = session(model).run(inputs).argmax(axis=1) == session(small).run(inputs).argmax(axis=1)
    assert agreement.mean() > 0.9


def test_eight_bits_know_the_range_that_they_were_calibrated_with(model: onnx.ModelProto) -> None:
    """The negative control: ranges of samples that are all alike cut off whatever is not."""
    one = {name: np.repeat(values[:1], 20, axis=0) for name, values in rows(1).items()}
    good, bad = (int8_model(model, samples) for samples in (rows(60, seed=1), one))
    assert error(model, bad, rows(200, seed=2)) > 3.0 * error(model, good, rows(200, seed=2))


def test_weights_are_whole_numbers_of_seven_bits_with_a_scale_per_output(model: onnx.ModelProto) -> None:
    """What does not overflow 16 bits in pairs answers alike on processors with and without VNNI."""
    small = int8_model(model, rows(60, seed=1))
    weights = [
        numpy_helper.to_array(tensor)
        for tensor in small.graph.initializer
        if tensor.data_type == TensorProto.INT8 and len(tensor.dims) == 2
    ]
    assert len(weights) == 5  # two layers of each encoder, and the head
    for values in weights:
        assert -64 <= values.min() <= values.max() <= 64
    scales = [tensor for tensor in small.graph.initializer if tensor.name.endswith("weight_scale")]
    assert sorted(tensor.dims[0] for tensor in scales) == sorted([HIDDEN, EMBEDDING] * 2 + [N_OUTPUTS])


def test_sixteen_bits_answer_more_nearly_alike(model: onnx.ModelProto) -> None:
    assert 0.0 < error(model, float16_model(model), rows(200, seed=2)) < FLOAT16_ERROR


def test_positions_of_millionths_of_a_degree_are_not_rounded_away(model: onnx.ModelProto) -> None:
    """In float16 a degree has steps of 6e-8 near zero at best, and its square nothing: normalization is float32."""
    small = session(float16_model(model))
    here, moved = rows(200, seed=2), rows(200, seed=2)
    moved["gps"] = moved["gps"] + np.float32(1e-5)
    expected = session(model).run(moved) - session(model).run(here)
    found = small.run(moved) - small.run(here)
    assert np.abs(expected).max() > 0.1
    assert np.abs(found - expected).max() < FLOAT16_ERROR * session(model).run(here).std()


@pytest.mark.parametrize("bits", [8, 16])
def test_what_is_around_a_model_need_not_know_its_precision(model: onnx.ModelProto, bits: int) -> None:
    small = int8_model(model, rows(60, seed=1)) if bits == 8 else float16_model(model)
    before, after = session(model), session(small)
    assert (after.input_names, after.optional_names) == (["rf", "gps"], ["present"])
    assert after.metadata == before.metadata
    assert after.metadata["client"] == METADATA["client"]
    inputs = rows(3, seed=4)
    logits, shares = after.answer(inputs)
    expected = before.answer(inputs)[1]
    assert logits.dtype == np.float32
    assert shares is not None
    assert expected is not None
    assert shares.dtype == np.float32
    assert_allclose(shares, expected, atol=0.05)
    masked = {**inputs, "present": np.array([[1, 0], [0, 1], [1, 1]], np.float32)}
    assert_array_equal(after.answer(masked)[1][:2], [[1.0, 0.0], [0.0, 1.0]])  # type: ignore[index]
    noise = {**masked, "gps": np.array([[9.0, 9.0]] * 3, np.float32)}  # of no consequence where it is missing
    assert_allclose(after.run(noise)[0], after.run(masked)[0], atol=SUM)


@pytest.mark.parametrize("bits", [8, 16])
def test_a_file_of_fewer_bits_is_smaller_and_the_given_model_stays(model: onnx.ModelProto, bits: int) -> None:
    large = conv_model(channels=128)
    before = large.SerializeToString()
    small = int8_model(large, {"x": np.ones((4, 2, 8, 8), np.float32)}) if bits == 8 else float16_model(large)
    assert large.SerializeToString() == before
    assert size(small) < (0.35 if bits == 8 else 0.55) * size(large)


def conv_model(channels: int = 4) -> onnx.ModelProto:
    """x [batch, 2, 8, 8] -> 3 by 3 convolution -> matrix of 5 outputs."""
    draws = np.random.default_rng(0)
    constants = {
        "kernel": draws.normal(size=(channels, 2, 3, 3)),
        "bias": draws.normal(size=channels),
        "matrix": draws.normal(size=(channels * 36, 5)) / 10,
        "scale": np.array(2.0),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Div", ["x", "scale"], ["scaled"], name="div"),
            helper.make_node("Conv", ["scaled", "kernel", "bias"], ["maps"], name="conv"),
            helper.make_node("Relu", ["maps"], ["positive"], name="relu"),
            helper.make_node("Flatten", ["positive"], ["flat"], name="flatten"),
            helper.make_node("MatMul", ["flat", "matrix"], ["logits"], name="matmul"),
        ],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_the_work_of_an_answer_is_counted_in_products() -> None:
    """Every output of a convolution takes inputs times kernel, that of a matrix its rows; two operations each."""
    assert answer_flops(conv_model(channels=4)) == 2 * (4 * 6 * 6 * (2 * 3 * 3)) + 2 * (5 * 4 * 36)
    assert n_parameters(conv_model(channels=4)) == 4 * 18 + 4 + 4 * 36 * 5 + 1


def test_the_work_of_an_exported_model_is_that_of_its_layers(model: onnx.ModelProto) -> None:
    layers = 32 * HIDDEN + HIDDEN * EMBEDDING + 2 * HIDDEN + HIDDEN * EMBEDDING + EMBEDDING * N_OUTPUTS
    assert answer_flops(model) == 2 * layers


def test_an_unoptimized_graph_with_constants_in_nodes_is_made_smaller_too(tmp_path: Path) -> None:
    model = conv_model()
    value = numpy_helper.from_array(np.array(2.0, np.float32))
    model.graph.node.insert(0, helper.make_node("Constant", [], ["scale"], name="constant", value=value))
    kept = [tensor for tensor in model.graph.initializer if tensor.name != "scale"]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    inputs = {"x": np.random.default_rng(1).normal(size=(50, 2, 8, 8)).astype(np.float32)}
    assert error(model, float16_model(model), inputs) < FLOAT16_ERROR
    assert error(model, int8_model(model, inputs), inputs) < INT8_ERROR


def test_every_precision_has_one_maker_and_every_maker_a_precision() -> None:
    assert set(MAKERS) == set(PRECISIONS)

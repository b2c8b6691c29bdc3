"""Smaller numbers for exported models: 8-bit integers or 16-bit floats inside, float32 inputs and outputs as ever.

The input `present` stays, and the shares of the modalities stay an output: what is around
a model need not know its precision.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.onnx_model import ONNXModel
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers.float16 import convert_float_to_float16

from ...emulator.contracts import PRESENT_NAME
from .onnx_facts import WEIGHTED

CalibrationName = Literal["minmax", "entropy", "percentile"]
#: How the range of an activation follows from what calibration saw.
CALIBRATIONS: Mapping[CalibrationName, CalibrationMethod] = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}
_PERCENTILE = 99.99
#: Normalized inputs are cut here in float16, far outside of anything sensed: sums of larger ones overflow to infinity,
#: and an infinite embedding of a missing sensor times a share of 0 is no number.
MOST_SPREADS = 1000.0
_WHOLE = "/float32"  # ending of constants that stay float32
_WARNINGS, _ERRORS = 2, 3  # severities of onnxruntime, which has no way to ask which one is set


def int8_model(
    model: onnx.ModelProto, samples: Mapping[str, NDArray[np.float32]], *, calibration: CalibrationName = "minmax"
) -> onnx.ModelProto:
    """A model that multiplies 8-bit integers: static, with quantize and dequantize nodes (QDQ).

    Every output channel of a weight has a scale of its own. Weights use 7 of the 8 bits: processors without VNNI add
    pairs of products in 16 bits, which full weights overflow, and the same file would answer differently there.
    Normalization in physical units, pooling and attention stay float32, and so do embeddings and logits: 8 bits cut off
    a logit that is larger than any in calibration, and make beams equal that are not.

    Args:
        model: float32, as exported.
        samples: input -> [n, ...] in physical units, typical ones; activations get the range that they have on these.
        calibration: how.

    Source: onnxruntime, "Quantize ONNX models", on `reduce_range` and saturation.
    """
    with tempfile.TemporaryDirectory() as folder, _quiet():
        small, prepared = Path(folder) / "small.onnx", _prepared(model, Path(folder))
        quantize_static(
            prepared,
            small,
            _OneByOne(_with_present(model, samples)),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QInt8,  # signed on both sides, as ARM and AVX kernels expect
            weight_type=QuantType.QInt8,
            op_types_to_quantize=list(WEIGHTED),
            nodes_to_exclude=_averages(onnx.load(prepared)),
            calibrate_method=CALIBRATIONS[calibration],
            extra_options={
                "OpTypesToExcludeOutputQuantization": ["Gemm", "MatMul"],
                **({"CalibPercentile": _PERCENTILE} if calibration == "percentile" else {}),
            },
        )
        return _like(model, onnx.load(small))


def float16_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model that computes in 16 bits.

    Normalization stays float32: positions differ by millionths of a degree, which float16 does not know.

    Args:
        model: float32, as exported.
    """
    with tempfile.TemporaryDirectory() as folder, _quiet():
        first, rest = _cut_before_weights(onnx.load(_prepared(model, Path(folder))))
        half = ONNXModel(convert_float_to_float16(rest, keep_io_types=True))
    half.topological_sort()  # the converter appends its casts
    return _like(model, _joined(model, first, half.model))


@dataclass(frozen=True, slots=True)
class Calibration:
    """How the ranges of activations are found, for precisions that need them.

    Attributes:
        samples: reads input -> [n, ...] in physical units, typical ones; called only where they are needed.
        method: how a range follows from what the samples gave.
    """

    samples: Callable[[], Mapping[str, NDArray[np.float32]]]
    method: CalibrationName = "minmax"


#: Precision -> how a float32 model becomes one of it. Names, evidence and endings: `emulator/edge/precisions.py`.
MAKERS: Mapping[str, Callable[[onnx.ModelProto, Calibration], onnx.ModelProto]] = {
    "float32": lambda model, _: model,
    "float16": lambda model, _: float16_model(model),
    "int8": lambda model, how: int8_model(model, how.samples(), calibration=how.method),
}


def _prepared(model: onnx.ModelProto, folder: Path) -> Path:
    """The model with everything that is constant computed, and all shapes that can be known."""
    whole, prepared = folder / "whole.onnx", folder / "prepared.onnx"
    onnx.save(_with_listed_constants(model), whole)
    quant_pre_process(whole, prepared, skip_symbolic_shape=True)  # that stumbles over constants which are there
    return prepared


def _with_listed_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with the tensors of its constant nodes as initializers; not all releases of the runtime do it."""
    listed = onnx.ModelProto()
    listed.CopyFrom(model)
    held = {node.output[0]: node.attribute[0].t for node in model.graph.node if _holds_tensor(node)}
    _refill(listed.graph.node, [node for node in model.graph.node if not _holds_tensor(node)])
    for name, tensor in held.items():
        listed.graph.initializer.add().CopyFrom(tensor)
        listed.graph.initializer[-1].name = name
    return listed


def _holds_tensor(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and node.attribute[0].name == "value"


def _averages(model: onnx.ModelProto) -> list[str]:
    """Names of products that are averages over some columns: their weights sum to 1 in every column of the result."""
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    found = []
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in values:
            weights = onnx.numpy_helper.to_array(values[node.input[1]])
            if weights.ndim == 2 and (weights >= 0.0).all() and np.allclose(weights.sum(axis=0), 1.0):
                found.append(node.name)
    return found


def _cut_before_weights(model: onnx.ModelProto) -> tuple[onnx.GraphProto, onnx.ModelProto]:
    """Nodes from the inputs to the first weights with their constants, and a model of the rest that goes on there."""
    constants = {tensor.name for tensor in model.graph.initializer}
    # it comes in behind the weights
    late = {value.name for value in model.graph.input if value.name == PRESENT_NAME} | constants
    reached = {value.name for value in model.graph.input} - late
    first, rest = onnx.GraphProto(), onnx.ModelProto()
    rest.CopyFrom(model)
    del rest.graph.node[:], rest.graph.value_info[:]
    for node in model.graph.node:  # in the order of computing
        is_first = node.op_type not in WEIGHTED and bool(reached.intersection(node.input))
        (first if is_first else rest.graph).node.append(node)
        reached.update(node.output if is_first else ())
    handed_over = dict.fromkeys(name for node in rest.graph.node for name in node.input if name in reached)
    taken_over = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in handed_over]
    _refill(rest.graph.input, [*taken_over, *(value for value in model.graph.input if value.name in late)])
    used_first, used_later = ({name for node in part.node for name in node.input} for part in (first, rest.graph))
    first.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in used_first)
    _refill(rest.graph.initializer, [tensor for tensor in model.graph.initializer if tensor.name in used_later])
    return first, rest


def _joined(model: onnx.ModelProto, first: onnx.GraphProto, half: onnx.ModelProto) -> onnx.ModelProto:
    """Both parts as one model with the inputs of the original; what is handed over is cut to what float16 can take."""
    constants = {tensor.name: f"{tensor.name}{_WHOLE}" for tensor in first.initializer}
    made = {name for node in first.node for name in node.output}
    unlimited = {value.name: f"{value.name}/unlimited" for value in half.graph.input if value.name in made}
    for tensor in first.initializer:
        tensor.name = constants[tensor.name]
    for node in first.node:
        node.input[:] = [constants.get(name, unlimited.get(name, name)) for name in node.input]
        node.output[:] = [unlimited.get(name, name) for name in node.output]
    bounds = {"lowest/float32": -MOST_SPREADS, "highest/float32": MOST_SPREADS}
    limits = [onnx.helper.make_node("Clip", [raw, *bounds], [name]) for name, raw in unlimited.items()]
    _refill(half.graph.node, [*first.node, *limits, *half.graph.node])
    _refill(half.graph.input, model.graph.input)
    half.graph.initializer.extend(first.initializer)
    half.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(at, np.float32), name) for name, at in bounds.items()
    )
    return half


def _refill(field: Any, items: Iterable[Any]) -> None:
    """Repeated messages cannot be assigned."""
    copies = list(items)
    del field[:]
    field.extend(copies)


def _like(model: onnx.ModelProto, changed: onnx.ModelProto) -> onnx.ModelProto:
    """A changed model with the metadata of the one that it comes from.

    Raises:
        RuntimeError: it takes or gives something else.
    """
    for side in ("input", "output"):
        before, after = ([value.name for value in getattr(one.graph, side)] for one in (model, changed))
        if before != after:
            raise RuntimeError(f"quantization changed the {side}s of the graph from {before} to {after}")
    used = {node.domain for node in changed.graph.node}
    _refill(changed.opset_import, [opset for opset in changed.opset_import if opset.domain in used])
    onnx.helper.set_model_props(changed, {prop.key: prop.value for prop in model.metadata_props})
    onnx.checker.check_model(changed)
    return changed


def _with_present(
    model: onnx.ModelProto, samples: Mapping[str, NDArray[np.float32]]
) -> Mapping[str, NDArray[np.float32]]:
    """Samples with all modalities there, where the model has an input that says so."""
    if not any(value.name == PRESENT_NAME for value in model.graph.input):
        return samples
    n_rows = min(map(len, samples.values()))
    return {**samples, PRESENT_NAME: np.ones((n_rows, len(samples)), np.float32)}


class _OneByOne(CalibrationDataReader):  # type: ignore[misc]
    """Samples as calibration wants them; memory does not grow with their number."""

    def __init__(self, samples: Mapping[str, NDArray[np.float32]]) -> None:
        self._rows = _rows(samples)

    def get_next(self) -> Mapping[str, NDArray[np.float32]] | None:
        """One sample, as a batch; None: that was all."""
        return next(self._rows, None)


def _rows(samples: Mapping[str, NDArray[np.float32]]) -> Iterator[Mapping[str, NDArray[np.float32]]]:
    n = min(map(len, samples.values()))
    return ({name: values[i : i + 1] for name, values in samples.items()} for i in range(n))


@contextmanager
def _quiet() -> Iterator[None]:
    """What the tools say of `present`, and of weights too small for float16, is as intended."""
    onnxruntime.set_default_logger_severity(_ERRORS)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        onnxruntime.set_default_logger_severity(_WARNINGS)

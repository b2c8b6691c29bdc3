"""Costs of an exported model on a device: operations and parameters, counted in its graph."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime

#: Operators that hold nearly all operations and all weights.
WEIGHTED = ("Conv", "Gemm", "MatMul")


def answer_flops(model: onnx.ModelProto) -> float:
    """Floating-point operations of one answer of a float32 model, two per product: convolutions and matrices only."""
    shapes = _shapes_of_one_answer(model)
    return float(sum(2 * _products(node, shapes) for node in model.graph.node if node.op_type in WEIGHTED))


def n_parameters(model: onnx.ModelProto) -> int:
    """Floating-point numbers in a float32 model."""
    floats = (tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT)
    return sum(math.prod(tensor.dims) for tensor in floats)


def _shapes_of_one_answer(model: onnx.ModelProto) -> Mapping[str, tuple[int, ...]]:
    """Name -> shape of everything that a product reads or gives, found by computing one: inference loses some."""
    one = onnx.ModelProto()
    one.CopyFrom(model)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in one.graph.initializer}
    given = {
        value.name: np.zeros([1, *(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:])], np.float32)
        for value in one.graph.input
        if value.name not in shapes
    }
    shapes |= {name: values.shape for name, values in given.items()}
    weighted = [node for node in one.graph.node if node.op_type in WEIGHTED]
    wanted = [name for node in weighted for name in (*node.input[:2], *node.output) if name not in shapes]
    del one.graph.output[:]  # the intermediate values are asked for instead
    wanted = list(dict.fromkeys(wanted))
    one.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in wanted)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(one.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return shapes | {name: value.shape for name, value in zip(wanted, session.run(wanted, given), strict=True)}


def _products(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> int:
    if node.op_type == "Conv":
        each = math.prod(shapes[node.input[1]][1:])  # inputs of a group, and the kernel
    else:
        transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
        each = shapes[node.input[0]][-2 if transposed else -1]
    return math.prod(shapes[node.output[0]]) * each

"""A client's model of a graph as ONNX: features and edges of any number of nodes in, logits of all nodes out.

Neighbors are gathered by operators of the graph, so that the file holds nothing of the client's own nodes and edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor

from ..client_model import ClientModel
from ..encoders.graph_convolution import GraphConvolutions, NodeFeatures
from ..encoders.row_scale import CLIP
from .deployed_model import OUTPUT_NAME

#: Names of the inputs.
FEATURES_NAME, EDGES_NAME = "features", "edge_index"
#: The first with sums in ScatterND is 16; this is that of the other files.
_OPSET, _IR_VERSION = 18, 10


def graph_encoder(model: object) -> GraphConvolutions | None:
    """The encoder of a model of a graph; None: it is none."""
    encoder = model.encoders["graph"] if isinstance(model, ClientModel) and "graph" in model.modalities else None
    return encoder if isinstance(encoder, GraphConvolutions) else None


def graph_model(model: ClientModel, encoder: GraphConvolutions) -> onnx.ModelProto:
    """ONNX model: `features` [nodes, F] in the units of the data, `edge_index` [2, edges] -> `logits` [nodes, C].

    Edges stand in both directions, each once, without loops, as in `LocalGraph`; there may be none.
    """
    made, n_outputs, width = _Graph(), model.layout.n_outputs, model.layout.width
    head = model.head.detach()
    made.normalize(model.normalizers["graph"])
    made.read_edges()
    hidden = made.convolve("first", "scaled", encoder.first.weight, encoder.first.bias)
    behind = made.convolve("second", hidden, encoder.second.weight, encoder.second.bias)
    weight, bias = head[: n_outputs * width].view(n_outputs, width), head[n_outputs * width :]
    made.add("Gemm", [behind, made.value("head.weight", weight), made.value("head.bias", bias)], OUTPUT_NAME, transB=1)
    return made.model(encoder.graph.n_features, n_outputs)


class _Graph:
    """Nodes and values of an ONNX graph, as they are added."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._values: list[onnx.TensorProto] = []

    def add(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node with one output; returns its name."""
        self._nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def value(self, name: str, value: Tensor | NDArray[np.generic]) -> str:
        """Add a constant; returns its name."""
        array = value.detach().cpu().float().numpy() if isinstance(value, Tensor) else value
        self._values.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def normalize(self, normalizer: object) -> None:
        """Add `scaled` [nodes, F]."""
        assert isinstance(normalizer, NodeFeatures)
        centered = self.add("Sub", [FEATURES_NAME, self.value("mean", normalizer.scale.mean)], "centered")
        scaled = self.add("Div", [centered, self.value("std", normalizer.scale.std)], "unlimited")
        limits = [self.value(name, np.array(at, np.float32)) for name, at in (("lowest", -CLIP), ("highest", CLIP))]
        self.add("Clip", [scaled, *limits], "scaled")

    def read_edges(self) -> None:
        """Add `source` and `place` [edges + nodes, 1], the ends of edges and loops, and their `weight` in A_hat."""
        first, last = (self.value(f"number {at}", np.array(at, np.int64)) for at in (0, 1))
        axis = self.value("axis", np.array([1], np.int64))
        n_nodes = self.add("Gather", [self.add("Shape", [FEATURES_NAME], "shape"), first], "n_nodes")
        loops = self.add("Range", [first, n_nodes, last], "loops")
        ends = []
        for name, row in (("source", first), ("target", last)):
            end = self.add("Gather", [EDGES_NAME, row], f"{name} of edges")
            ends.append(self.add("Concat", [end, loops], name, axis=0))
        place = self.add("Unsqueeze", [ends[1], axis], "place")
        ones = self._constant("ones", self.add("Shape", [ends[1]], "n_ends"), 1.0)
        nobody = self._constant("nobody", self.add("Shape", [loops], "n_loops"), 0.0)
        degree = self.add("ScatterND", [nobody, place, ones], "degree", reduction="add")
        root = self.add("Reciprocal", [self.add("Sqrt", [degree], "root of degree")], "root")
        parts = [self.add("Gather", [root, end], f"root of {end}") for end in ends]
        self.add("Unsqueeze", [self.add("Mul", parts, "entry"), axis], "weight")

    def convolve(self, name: str, x: str, weight: Tensor, bias: Tensor) -> str:
        """Add A_hat X W + b and what ReLU makes of it; returns the name of the latter."""
        product = self.add("Gemm", [x, self.value(f"{name}.weight", weight)], f"{name}/product", transB=1)
        sent = self.add("Mul", [self.add("Gather", [product, "source"], f"{name}/of source"), "weight"], f"{name}/sent")
        nothing = self._constant(f"{name}/nothing", self.add("Shape", [product], f"{name}/shape"), 0.0)
        gathered = self.add("ScatterND", [nothing, "place", sent], f"{name}/gathered", reduction="add")
        moved = self.add("Add", [gathered, self.value(f"{name}.bias", bias)], f"{name}/embedding")
        return self.add("Relu", [moved], f"{name}/relu")

    def model(self, n_features: int, n_outputs: int) -> onnx.ModelProto:
        """The whole model."""
        graph = helper.make_graph(
            self._nodes,
            "main_graph",
            [
                helper.make_tensor_value_info(FEATURES_NAME, onnx.TensorProto.FLOAT, ["nodes", n_features]),
                helper.make_tensor_value_info(EDGES_NAME, onnx.TensorProto.INT64, [2, "edges"]),
            ],
            [helper.make_tensor_value_info(OUTPUT_NAME, onnx.TensorProto.FLOAT, ["nodes", n_outputs])],
            self._values,
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, producer_name="sheafedge", opset_imports=opsets, ir_version=_IR_VERSION)

    def _constant(self, name: str, shape: str, value: float) -> str:
        filled = numpy_helper.from_array(np.array([value], np.float32))
        return self.add("ConstantOfShape", [shape], name, value=filled)

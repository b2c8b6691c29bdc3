"""From a trained client to ONNX: physical units in, logits out, normalisation inside the graph.

A model with several sensors has one more input, `present`. It has no default: some runtimes take an input with one for
a constant (OpenVINO, onnxruntime-web), and their users could not say that a sensor is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import onnx
from torch import Tensor

from ...emulator.contracts import PRESENT_NAME, Modality
from ..client_model import ClientModel
from ..model_pair import ModelPair
from .deployed_model import ATTENTION_NAME, OUTPUT_NAME, Deployed, DeployedModel, Part, deployed_model, parts_of
from .graph_export import graph_encoder, graph_model
from .traced_parts import TracedPart, state_names, traced_parts

#: Modality -> shape of one sample; the batch dimension stays free.
InputShapes = Mapping[Modality, tuple[int, ...]]

_BATCH, _ROWS = "batch", "batch_or_1"


class OnnxExporter:
    """Writes clients' models as ONNX; traces every part of an architecture once and fills in each client's values.

    Tracing takes seconds, and clients differ in their numbers only, or in which parts they have.
    """

    def __init__(self) -> None:
        self._traced: dict[str, TracedPart] = {}

    def trace(self, models: Iterable[tuple[ClientModel | ModelPair, InputShapes]]) -> None:
        """Trace together what these models need and is new; `export` would do so one model after the other."""
        models = [(model, shapes) for model, shapes in models if graph_encoder(model) is None]  # those are not traced
        self._trace(part for model, shapes in models for part in parts_of(deployed_model(model), shapes))

    def export(
        self, model: ClientModel | ModelPair, input_shapes: InputShapes, path: Path, metadata: Mapping[str, str]
    ) -> None:
        """Write one model.

        Args:
            model: trained model.
            input_shapes: modality -> shape of one sample; the batch dimension stays free. Models of a graph take the
                whole graph instead, see `graph_model`.
            path: path of the `.onnx` file.
            metadata: goes into the file's metadata properties.
        """
        encoder = graph_encoder(model)
        if encoder is not None and isinstance(model, ClientModel):
            proto = graph_model(model, encoder)
        else:
            deployed = deployed_model(model)
            parts = parts_of(deployed, input_shapes)
            self._trace(parts)
            proto = _joined(deployed, parts, [self._traced[part.key] for part in parts], input_shapes)
        onnx.helper.set_model_props(proto, dict(metadata))
        onnx.checker.check_model(proto)
        onnx.save(proto, path)

    def _trace(self, parts: Iterable[Part]) -> None:
        missing = {part.key: part for part in parts if part.key not in self._traced}
        if missing:
            self._traced |= zip(missing, traced_parts(list(missing.values())), strict=True)


def _joined(
    model: Deployed, parts: Sequence[Part], traced: Sequence[TracedPart], input_shapes: InputShapes
) -> onnx.ModelProto:
    """Graph of a model from those of its parts, with the model's own values."""
    graph = onnx.GraphProto(name="main_graph")
    state = model.state_dict()
    constants: list[onnx.TensorProto] = []
    for part, one in zip(parts, traced, strict=True):
        names = _names(part, one)
        graph.initializer.extend(_tensor(names[name], state[names[name]]) for name in one.state)
        constants += (_named(tensor, names) for tensor in one.constants)
        graph.node.extend(_placed(node, part, names) for node in one.nodes)
    graph.initializer.extend(constants)
    _describe(graph, model, parts[-1].makes, input_shapes)
    return onnx.helper.make_model(
        graph,
        producer_name="sheafedge",
        opset_imports=[onnx.helper.make_opsetid("", traced[0].opset)],
        ir_version=traced[0].ir_version,
    )


def _names(part: Part, traced: TracedPart) -> dict[str, str]:
    """Name in the graph of a part -> name in the graph of the model.

    Raises:
        RuntimeError: a value of the part is not in its graph, so that the file would mix two clients.
    """
    own = {
        name: f"{part.holds[first]}{dot}{rest}"
        for name in part.module.state_dict()
        for first, dot, rest in [name.partition(".")]
    }
    if folded := sorted(own[name] for name in state_names(part.module).difference(traced.state)):
        raise RuntimeError(f"the traced graph folded {folded[0]!r} into another constant; export it by itself")
    made = [name for node in traced.nodes for name in node.output] + [tensor.name for tensor in traced.constants]
    return {
        **{name: f"{part.name}/{name}" for name in made},
        **own,
        **dict(zip(traced.inputs, part.reads, strict=True)),
        **dict(zip(traced.outputs, part.makes, strict=True)),
        "": "",  # an input that is left out
    }


def _placed(node: onnx.NodeProto, part: Part, names: Mapping[str, str]) -> onnx.NodeProto:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.name = f"{part.name}/{node.name}"
    made.input[:] = [names[name] for name in node.input]
    made.output[:] = [names[name] for name in node.output]
    return made


def _named(tensor: onnx.TensorProto, names: Mapping[str, str]) -> onnx.TensorProto:
    made = onnx.TensorProto()
    made.CopyFrom(tensor)
    made.name = names[tensor.name]
    return made


def _tensor(name: str, value: Tensor) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(value.numpy(), name)


def _describe(graph: onnx.GraphProto, model: Deployed, outputs: Sequence[str], input_shapes: InputShapes) -> None:
    """Names and shapes of what goes in and comes out."""
    head = model.head if isinstance(model, DeployedModel) else model.trained.head
    n = len(model.modalities)
    shapes: dict[str, tuple[int, ...]] = {str(modality): input_shapes[modality] for modality in model.modalities}
    if n > 1:
        shapes[PRESENT_NAME] = (n,)
    graph.input.extend(
        # one row for any batch will do: it is broadcast
        _value(name, shape, _ROWS if name == PRESENT_NAME else _BATCH)
        for name, shape in shapes.items()
    )
    widths = {OUTPUT_NAME: head.out_features, ATTENTION_NAME: n}
    graph.output.extend(_value(name, (widths[name],)) for name in outputs)


def _value(name: str, shape: Sequence[int], rows: str = _BATCH) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [rows, *shape])

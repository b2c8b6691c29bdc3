"""Parts of models as ONNX graphs: one program of torch's exporter traces any number of them side by side.

Starting the exporter takes most of a second, and every layer some hundredths: what is the same is traced once.
"""

from __future__ import annotations

import copy
import gc
import logging
import warnings
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

import onnx
import torch
from torch import Tensor, nn

from .deployed_model import Part
from .held_interrupts import held_interrupts


@dataclass(frozen=True, eq=False, slots=True)
class TracedPart:
    """Graph of a part, without the values of any client.

    Attributes:
        nodes: in the order of computing.
        constants: what the nodes read that is the same in every client.
        state: names of the values that differ, as in the state dict of the part's module.
        inputs, outputs: names of the values that go in and come out.
        opset: version of ONNX's operator set.
        ir_version: version of ONNX's file format.
    """

    nodes: tuple[onnx.NodeProto, ...]
    constants: tuple[onnx.TensorProto, ...]
    state: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int
    ir_version: int


def traced_parts(parts: Sequence[Part]) -> list[TracedPart]:
    """Graphs of parts, optimized unless that merges values which differ from client to client.

    A normalization right behind a convolution is folded into it; in an unoptimized graph both keep their names.
    """
    traced = _traced(parts, optimize=True)
    folded = [index for index, part in enumerate(parts) if state_names(part.module).difference(traced[index].state)]
    if folded:
        apart = _traced([parts[index] for index in folded], optimize=False)
        for index, one in zip(folded, apart, strict=True):
            traced[index] = one
    return traced


def state_names(module: nn.Module) -> set[str]:
    """Names of a module's values that differ from client to client; counters of batches are no part of a graph."""
    return {name for name, value in module.state_dict().items() if value.is_floating_point()}


class _SideBySide(nn.Module):
    """Parts that have nothing to do with each other."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(copy.deepcopy(part.module) for part in parts)
        self.n_inputs = [len(part.shapes) for part in parts]
        # The exporter merges equal constants, and drops a division by 1, so that all values must differ. They never
        # reach a file.
        draws = torch.Generator().manual_seed(0)
        for value in self.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=draws).add_(0.5))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        made: list[Tensor] = []
        first = 0
        for part, n in zip(self.parts, self.n_inputs, strict=True):
            made.extend(output for output in part(*inputs[first : first + n]) if output is not None)
            first += n
        return tuple(made)


def _traced(parts: Sequence[Part], *, optimize: bool) -> list[TracedPart]:
    # a batch of two: the exporter would take a size of 1 for a constant
    samples = tuple(torch.zeros(2, *shape) for part in parts for shape in part.shapes)
    # a batch of its own for every part, or one part would take its size from the input of another
    batches = [torch.export.Dim(f"batch_{index}", min=1) for index in range(len(parts))]
    sizes = tuple({0: batch} for part, batch in zip(parts, batches, strict=True) for _ in part.shapes)
    inputs = [[f"{index}.{name}" for name in part.reads] for index, part in enumerate(parts)]
    outputs = [[f"{index}.{name}" for name in part.makes] for index, part in enumerate(parts)]
    with held_interrupts(), _quiet_exporter():
        program = torch.onnx.export(
            _SideBySide(parts).eval(),
            samples,
            dynamic_shapes=(sizes,),
            input_names=[name for names in inputs for name in names],
            output_names=[name for names in outputs for name in names],
            dynamo=True,
            optimize=optimize,
            verbose=False,
        )
    assert program is not None
    model: onnx.ModelProto = program.model_proto
    _count_axes_from_the_front(model.graph)
    ends = zip(parts, inputs, outputs, strict=True)
    return [
        _cut_out(model, f"parts.{index}.", state_names(part.module), taken, given)
        for index, (part, taken, given) in enumerate(ends)
    ]


def _count_axes_from_the_front(graph: onnx.GraphProto) -> None:
    """Replace the last axis, -1, of sums and means by its number.

    onnxruntime before 1.32 reduces nothing at a negative axis where there are no samples, and the next operator fails.
    """
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in (*graph.input, *graph.value_info)}
    held = {tensor.name: tensor for tensor in graph.initializer}
    held |= {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
    for node in graph.node:
        if not node.op_type.startswith("Reduce") or len(node.input) < 2 or node.input[1] not in held:
            continue
        axes = onnx.numpy_helper.to_array(held[node.input[1]])
        if (axes < 0).any() and (rank := ranks.get(node.input[0])):
            # its own constant: operators of other ranks read the same -1
            node.input[1] = f"{node.output[0]}.axes"
            graph.initializer.append(onnx.numpy_helper.from_array(axes % rank, node.input[1]))


def _cut_out(
    model: onnx.ModelProto, state: str, values: Set[str], inputs: Sequence[str], outputs: Sequence[str]
) -> TracedPart:
    """The nodes that make some values of a graph, under names that do not depend on what else was traced.

    Args:
        model: graph of several parts.
        state: beginning of the names of what belongs to the part.
        values: of those, names behind it of what differs from client to client.
        inputs, outputs: of the part.

    Raises:
        RuntimeError: the nodes read more than the inputs of the part.
    """
    needed, kept = set(outputs), []
    for node in reversed(model.graph.node):  # from what is read last to what is read first
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    held = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    own = [tensor.name for tensor in held if tensor.name in {f"{state}{name}" for name in values}]
    constants = [tensor for tensor in held if tensor.name not in own]
    if strange := needed.intersection(value.name for value in model.graph.input) - set(inputs):
        raise RuntimeError(f"the traced graph of {outputs[0]!r} reads {min(strange)!r}, an input of another part")
    names = {"": ""} | {name: f"input_{index}" for index, name in enumerate(inputs)}
    names |= {name: f"output_{index}" for index, name in enumerate(outputs)}
    names |= {name: name.removeprefix(state) for name in own}
    names |= {tensor.name: f"constant_{index}" for index, tensor in enumerate(constants)}
    nodes = [_renamed(node, index, names) for index, node in enumerate(reversed(kept))]
    opset = next(one.version for one in model.opset_import if one.domain == "")
    return TracedPart(
        tuple(nodes),
        tuple(_constant(tensor, names[tensor.name]) for tensor in constants),
        tuple(names[name] for name in own),
        tuple(names[name] for name in inputs),
        tuple(names[name] for name in outputs),
        opset,
        model.ir_version,
    )


def _renamed(node: onnx.NodeProto, index: int, names: dict[str, str]) -> onnx.NodeProto:
    """A node under a name that says its number in the part; `names` learns what its outputs are called from now on."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.metadata_props[:]  # lines and folders of the code that was traced
    made.name = f"{node.op_type}_{index}"
    for number, output in enumerate(node.output):
        names.setdefault(output, made.name if number == 0 else f"{made.name}.{number}")
    made.input[:] = [names[name] for name in node.input]
    made.output[:] = [names[name] for name in node.output]
    return made


def _constant(tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
    made = onnx.TensorProto()
    made.CopyFrom(tensor)
    made.name = name
    return made


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Torch's exporter warns of operators of packages that we do not use, and of a shared axis name that we intend.

    It makes a million objects, and searching them for garbage takes a sixth of its time.
    """
    log = logging.getLogger("torch.onnx")
    level, collects = log.level, gc.isenabled()
    log.setLevel(logging.ERROR)
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
        if collects:
            gc.enable()

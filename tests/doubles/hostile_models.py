"""ONNX models that do harm, with the inputs and the output of a tiny bundle: hashes and shapes are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from doubles.bundles import IR_VERSION, OPSET, tiny_inputs, tiny_manifest
from onnx import GraphProto, NodeProto, TensorProto, external_data_helper, helper, numpy_helper
from sheafedge.emulator.edge.bundle import write_bundle
from sheafedge.emulator.edge.golden_samples import golden_file

MANIFEST = tiny_manifest()
ROWS = MANIFEST.golden.rows
#: Beyond every honest sample: the mean of an input at which `loop_on_large_inputs` never ends.
LARGE = 100.0


def hostile_bundle(folder: Path, model: bytes) -> Path:
    """A bundle with right hashes, whose model is this one and must answer 0 everywhere."""
    files = {
        "model.onnx": model,
        "samples.npz": golden_file(tiny_inputs(MANIFEST, ROWS), np.zeros((ROWS, 1), np.float32)),
        "README.md": b"# Hostile\n",
    }
    write_bundle(folder, MANIFEST, files)
    return folder


def _model(
    nodes: Sequence[NodeProto], constants: Mapping[str, object], initializers: Sequence[TensorProto] = ()
) -> bytes:
    """A model; `nodes` make `extra` [..] of `mean` [batch, 1], and the answer is 0 * mean + 0 * reduced extra."""
    shapes = {str(one.modality): ["batch", *one.shape] for one in MANIFEST.inputs}
    means = [helper.make_node("ReduceMean", [name, f"{name}_axes"], [f"{name}_mean"], keepdims=0) for name in shapes]
    known = {f"{name}_axes": np.arange(1, len(shape), dtype=np.int64) for name, shape in shapes.items()}
    known |= {"zero": np.float32(0.0), "column": np.array([-1, 1], np.int64)}
    ends = [
        helper.make_node("Add", [f"{name}_mean" for name in shapes], ["sum"]),
        helper.make_node("Reshape", ["sum", "column"], ["mean"]),
        *nodes,
        helper.make_node("ReduceMean", ["extra"], ["reduced"], keepdims=0),
        helper.make_node("Mul", ["reduced", "zero"], ["nothing"]),
        helper.make_node("Mul", ["mean", "zero"], ["zeros"]),
        helper.make_node("Add", ["zeros", "nothing"], ["logits"]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in {**known, **constants}.items()]
    graph = helper.make_graph(
        [*means, *ends],
        "hostile",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [*tensors, *initializers],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return bytes(made.SerializeToString())


def _loop_body() -> GraphProto:
    """Carries a value, and whether to go on, from one turn to the next."""
    value = helper.make_tensor_value_info
    return helper.make_graph(
        [helper.make_node("Identity", ["on"], ["still_on"]), helper.make_node("Identity", ["carried"], ["kept"])],
        "body",
        [
            value("turn", TensorProto.INT64, []),
            value("on", TensorProto.BOOL, []),
            value("carried", TensorProto.FLOAT, None),
        ],
        [value("still_on", TensorProto.BOOL, []), value("kept", TensorProto.FLOAT, None)],
    )


def endless_loop() -> bytes:
    """Never answers."""
    return _model(
        [helper.make_node("Loop", ["", "true", "mean"], ["extra"], body=_loop_body())], {"true": np.array(True)}
    )


def loop_on_large_inputs() -> bytes:
    """Answers its own samples, and never those whose mean is above `LARGE`."""
    nodes = [
        helper.make_node("ReduceMax", ["mean"], ["largest"], keepdims=0),
        helper.make_node("Greater", ["largest", "bound"], ["is_large"]),
        helper.make_node("Loop", ["", "is_large", "mean"], ["extra"], body=_loop_body()),
    ]
    return _model(nodes, {"bound": np.float32(LARGE)})


def long_loop(turns: int = 1 << 62) -> bytes:
    """As many turns as a 64-bit number can count."""
    nodes = [helper.make_node("Loop", ["turns", "", "mean"], ["extra"], body=_loop_body())]
    return _model(nodes, {"turns": np.int64(turns)})


def filled(*shape: int) -> bytes:
    """A tensor of this shape, made of a few bytes while the model loads or runs."""
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["wide"], value=helper.make_tensor("v", 1, [1], [1.0])),
        helper.make_node("ReduceSum", ["wide"], ["total"], keepdims=0),
        helper.make_node("Add", ["mean", "total"], ["extra"]),
    ]
    return _model(nodes, {"shape": np.array(shape, np.int64)})


def expanded(*shape: int) -> bytes:
    """The same, of an input, which no optimizer can compute while the model loads."""
    nodes = [
        helper.make_node("ReduceMean", ["mean"], ["one"], keepdims=0),
        helper.make_node("Expand", ["one", "shape"], ["wide"]),
        helper.make_node("Mul", ["wide", "wide"], ["squares"]),
        helper.make_node("Exp", ["squares"], ["extra"]),
    ]
    return _model(nodes, {"shape": np.array(shape, np.int64)})


def doubled(times: int) -> bytes:
    """A tensor that is twice as long after every node."""
    names = ["mean", *(f"double_{index}" for index in range(times - 1)), "extra"]
    nodes = [helper.make_node("Concat", [one, one], [two], axis=0) for one, two in pairwise(names)]
    return _model(nodes, {})


def slow_products(n: int, times: int) -> bytes:
    """Products of large matrices, which are finite and take for ever all the same."""
    nodes = [
        helper.make_node("ReduceMean", ["mean"], ["one"], keepdims=0),
        helper.make_node("Expand", ["one", "shape"], ["m_0"]),
        *(helper.make_node("MatMul", [f"m_{i}", f"m_{i}"], [f"m_{i + 1}"]) for i in range(times)),
        helper.make_node("Identity", [f"m_{times}"], ["extra"]),
    ]
    return _model(nodes, {"shape": np.array([n, n], np.int64)})


def many_nodes(n: int) -> bytes:
    """A chain of nodes, none of which can be left out; as bytes, because objects of so many take gigabytes."""
    names = ["mean", *(f"step_{index}" for index in range(n - 1)), "chain"]
    sines = (
        _field(1, _field(1, one.encode()) + _field(2, two.encode()) + _field(4, b"Sin")) for one, two in pairwise(names)
    )
    # Of two graphs in one file the nodes are put together (protobuf merges them).
    return _field(7, b"".join(sines)) + _model([helper.make_node("Identity", ["chain"], ["extra"])], {})


def lying_initializer(*dims: int) -> bytes:
    """A tensor of four bytes that claims to be of any size."""
    lying = TensorProto(name="lying", data_type=TensorProto.FLOAT, raw_data=b"\0\0\0\0")
    lying.dims.extend(dims)
    return _model([helper.make_node("Add", ["mean", "lying"], ["extra"])], {}, [lying])


def outside_file(name: str) -> bytes:
    """Takes its weights from a file of the device."""
    outside = numpy_helper.from_array(np.zeros(1, np.float32), "outside")
    external_data_helper.set_external_data(outside, name, 0, 4)
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    return _model([helper.make_node("Add", ["mean", "outside"], ["extra"])], {}, [outside])


def foreign_operator() -> bytes:
    """An operator that no runtime brings along."""
    return _model([helper.make_node("Anything", ["mean"], ["extra"], domain="stranger")], {})


def nested(depth: int) -> bytes:
    """Conditions inside conditions; written byte by byte, because no library writes them so deep."""
    graph = _field(5, b"") + _field(2, b"deepest")
    for _ in range(depth):
        # NodeProto: op_type = 4, attribute = 5; AttributeProto: name = 1, g = 6, type = 20 (GRAPH = 5)
        branches = b"".join(
            _field(5, _field(1, name) + _field(6, graph if name == b"then_branch" else b"") + b"\xa0\x01\x05")
            for name in (b"then_branch", b"else_branch")
        )
        graph = _field(1, _field(4, b"If") + _field(1, b"on") + branches) + _field(2, b"g")
    opset = _field(8, b"\x10" + bytes([OPSET]))
    return b"\x08" + bytes([IR_VERSION]) + _field(7, graph) + opset


def _field(number: int, content: bytes) -> bytes:
    """A field of protobuf that has a length (wire type 2)."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


#: Name -> model. Every one must be refused.
HOSTILE_MODELS: Mapping[str, Callable[[], bytes]] = {
    "endless loop": endless_loop,
    "loop of 2^62 turns": long_loop,
    "16 GiB while loading": lambda: filled(1 << 32),
    "1e12 numbers while loading": lambda: filled(10**6, 10**6),
    "more numbers than 64 bits count": lambda: filled(1 << 40, 1 << 40),
    "a negative size": lambda: filled(-5, 7),
    "16 GiB while running": lambda: expanded(1 << 16, 1 << 16),
    "1e12 numbers while running": lambda: expanded(10**6, 10**6),
    "12 GiB in steps": lambda: doubled(30),
    "a tensor of 2^60": lambda: doubled(60),
    "slow products": lambda: slow_products(6000, 50),
    "200,000 nodes": lambda: many_nodes(200_000),
    "a tensor that lies": lambda: lying_initializer(10**6, 10**6),
    "a tensor of negative size": lambda: lying_initializer(-1, 4),
    "weights in a file of the system": lambda: outside_file("/etc/hostname"),
    "weights in a file beside": lambda: outside_file("secret.bin"),
    "weights in a file above": lambda: outside_file("../secret.bin"),
    "an operator of its own": foreign_operator,
    "nested 50 deep": lambda: nested(50),
    "nested 500 deep": lambda: nested(500),
    "nested 20,000 deep": lambda: nested(20_000),
    "the runtime's own format": lambda: b"\x10\0\0\0ORTM" + bytes(4000),
    "nothing": lambda: b"",
}

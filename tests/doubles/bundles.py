"""A bundle whose answers can be told by hand: two modalities, `present`, `attention`, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sheafedge.emulator.contracts import InputWindow
from sheafedge.emulator.edge.bundle import write_bundle
from sheafedge.emulator.edge.golden_samples import golden_file
from sheafedge.emulator.edge.input_summaries import summary_names
from sheafedge.emulator.edge.manifest import (
    DriftReference,
    FigureBounds,
    ForecastSpec,
    Golden,
    InputSpec,
    LabelShares,
    Manifest,
    OutputKind,
    OutputSpec,
    Runtime,
)
from sheafedge.emulator.edge.onnx_session import OnnxSession

OPSET, IR_VERSION = 20, 10
RATE_HZ = 10.0
GOLDEN_ROWS = 3
#: Bounds that nothing is outside of.
ANYTHING = FigureBounds(-1e9, 1e9, -1e9, 1e9)


def tiny_bundle(
    folder: Path, *, kind: OutputKind = "binary", n: int = 8, frames: int = 4, gain: float = 1.0, name: str = "tiny"
) -> Path:
    """Write a bundle whose logits are the mean, over the modalities that are there, of a plain figure of each.

    binary, inputs lidar [2, frames, 6] and rf [frames, n], both up to now: the figure is the mean of all values.
    forecast, inputs as of binary: logit k is k + 1 times the figure, of 2 series at 3 times.
    classes, inputs rf [frames, n] before now and gps [frames, 2] up to now: the mean over the frames of every beam, and
    the mean of all values, the same for every beam.

    Args:
        folder: must not be there yet.
        kind: of the output; classes have n labels.
        n: beams of a sweep.
        frames: of a window, at `RATE_HZ`.
        gain: on all logits: two bundles can be told apart.
        name: of the bundle.

    Returns:
        the folder.
    """
    manifest = tiny_manifest(kind=kind, n=n, frames=frames, name=name)
    model = tiny_model(manifest, gain)
    inputs = tiny_inputs(manifest, GOLDEN_ROWS)
    logits = OnnxSession(model).run(inputs)
    files = {"model.onnx": model, "samples.npz": golden_file(inputs, logits), "README.md": b"# A tiny model\n"}
    write_bundle(folder, manifest, files)
    return folder


def tiny_manifest(*, kind: OutputKind = "binary", n: int = 8, frames: int = 4, name: str = "tiny") -> Manifest:
    """What a tiny bundle says of itself, without files."""
    rf = InputSpec(InputWindow("rf", frames, axis=0), (frames, n), RATE_HZ, "dB", "power of every beam")
    lidar = InputSpec(InputWindow("lidar", frames, axis=1), (2, frames, 6), RATE_HZ, "m, rad", "range and angle", 16.0)
    inputs: tuple[InputSpec, ...] = (lidar, rf)
    if kind == "binary":
        output = OutputSpec("binary", ("stays clear", "blocked"), "a blockage is near", horizon_s=0.5)
    elif kind == "forecast":
        output = OutputSpec(
            "forecast",
            ("no outage within 0.2 s", "outage within 0.2 s"),
            "outage ahead",
            horizon_s=0.3,
            temperature=2.0,
            forecast=ForecastSpec(("own", "neighbor"), (14.0, 8.0), (0.1, 0.2, 0.3), 2),
        )
    else:
        swept = InputSpec(InputWindow("rf", frames, lag=1, axis=0), (frames, n), RATE_HZ, "dB", "sweeps before now")
        inputs = (swept, InputSpec(InputWindow("gps", frames, axis=0), (frames, 2), RATE_HZ, "m", "east and north"))
        labels = tuple(f"beam {index}" for index in range(n))
        output = OutputSpec("classes", labels, "best beam now", codebook=tuple(range(0, 8 * n, 8)))
    return Manifest(
        name=name,
        created_by="sheafedge tests",
        task={"binary": "blockage", "forecast": "outage_forecast", "classes": "beam_tracking"}[kind],
        question={"binary": "Will it be blocked?", "forecast": "When?", "classes": "Which beam?"}[kind],
        precision="float32",
        runtime=Runtime(OPSET, IR_VERSION, "1.18"),
        inputs=inputs,
        output=output,
        flops=1000.0,
        parameters=1,
        trained={"scenario": "tiny", "algorithm": "none", "seed": 0, "client": 0},
        metrics={"held_out": {"balanced_accuracy": 0.5}},
        golden=Golden(GOLDEN_ROWS, 1e-5),
        drift=tiny_drift(inputs, len(output.labels)),
    )


def tiny_drift(
    inputs: Sequence[InputSpec], n_labels: int, bounds: FigureBounds = ANYTHING, distance: float = 1.0
) -> DriftReference:
    """A training in which all figures of all inputs lay within these bounds, and all labels were equally frequent."""
    within = {str(one.modality): dict.fromkeys(summary_names(one), bounds) for one in inputs}
    return DriftReference(2, 4, 1e-3, within, LabelShares((1.0 / n_labels,) * n_labels, 6, distance))


def tiny_inputs(manifest: Manifest, rows: int, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Inputs [rows, ...] by name, other ones for every seed."""
    draws = np.random.default_rng(seed)
    return {str(one.modality): draws.normal(size=(rows, *one.shape)).astype(np.float32) for one in manifest.inputs}


def tiny_model(manifest: Manifest, gain: float = 1.0) -> bytes:
    """The graph; see `tiny_bundle`."""
    n_out = manifest.output.n_outputs
    gains = 1.0 + np.arange(n_out if manifest.output.kind == "forecast" else 1)
    nodes, constants = [], {"gain": (gain * gains).astype(np.float32), "zero": np.float32(0.0)}
    figures = []
    for one in manifest.inputs:
        figure, axes = f"{one.modality}_figure", f"{one.modality}_axes"
        per_beam = manifest.output.kind == "classes" and one.modality == "rf"
        constants[axes] = np.array([1] if per_beam else range(1, len(one.shape) + 1), np.int64)
        nodes.append(helper.make_node("ReduceMean", [one.modality, axes], [f"{figure}_raw"], keepdims=int(per_beam)))
        constants[f"{figure}_shape"] = np.array([-1, 1, n_out if per_beam else 1], np.int64)
        nodes.append(helper.make_node("Reshape", [f"{figure}_raw", f"{figure}_shape"], [f"{figure}_row"]))
        constants[f"{figure}_wide"] = np.array([1, 1, n_out], np.int64)
        nodes.append(helper.make_node("Expand", [f"{figure}_row", f"{figure}_wide"], [figure]))
        figures.append(figure)
    constants["last"], constants["middle"] = np.array([2], np.int64), np.array([1], np.int64)
    nodes += [
        helper.make_node("Concat", figures, ["figures"], axis=1),  # [batch, 2, n_out]
        helper.make_node("ReduceMean", ["figures", "last"], ["one_each"], keepdims=0),  # [batch, 2]
        helper.make_node("Mul", ["one_each", "zero"], ["nothing"]),
        helper.make_node("ReduceSum", ["present", "middle"], ["n_present"], keepdims=1),
        helper.make_node("Div", ["present", "n_present"], ["share"]),
        helper.make_node("Add", ["share", "nothing"], ["attention"]),  # as many rows as the inputs have
        helper.make_node("Unsqueeze", ["attention", "last"], ["weights"]),
        helper.make_node("Mul", ["figures", "weights"], ["weighted"]),
        helper.make_node("ReduceSum", ["weighted", "middle"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "gain"], ["logits"]),
    ]
    n = len(manifest.inputs)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [_value(one.modality, ["batch", *one.shape]) for one in manifest.inputs] + [_value("present", ["rows", n])],
        [_value("logits", ["batch", n_out]), _value("attention", ["batch", n])],
        [
            *(numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()),
            numpy_helper.from_array(np.ones((1, n), np.float32), "present"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _value(name: str, shape: list[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(str(name), TensorProto.FLOAT, shape)

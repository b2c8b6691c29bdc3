"""What the form of an exported file is worth: files as they are written beside files with every step of training.

    python benchmarks/export_form.py [--scenarios blockage drone_beam] [--repeats N] [--edits JSON]

One model per group of clients, untrained: values change no time. `FORMS` says what a file holds. In every repeat the
sessions take turns, so that other work on the machine meets both; a repeat is the mean CPU time of `--runs` answers
about one sample, on one thread. Ratios, `plain` over `exported`, are taken inside a repeat.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from sheafedge.benchmarks._repeats import spread
from sheafedge.benchmarks.export import plain_file
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.client_model import ClientModel
from sheafedge.models.export.deployed_model import DeployedModel
from sheafedge.models.export.onnx_export import InputShapes, OnnxExporter
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import build
from sheafedge.scenarios.wiring.torch_setup import one_torch_thread

FORMS = {
    "plain": "torch's exporter, for the model with every step of training: normalizations, scales, adaptive pooling;"
    " with the places in the source of every node, as torch writes them",
    "exported": "the file that a run writes",
}
#: Rows of the comparison of answers.
_ROWS = 32


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", default=["blockage", "drone_beam"])
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--runs", type=int, default=50, help="answers of one repeat")
    parser.add_argument("--edits", type=json.loads, default={}, help="JSON, such as '{\"model.width\": 1}'")
    options, machine = parser.parse_args(argv), machine_facts()
    with one_torch_thread():
        found = {name: _scenario(name, options) for name in options.scenarios}
    print_report("export_form", machine, {"options": vars(options), "forms": FORMS, "scenarios": found})


def _scenario(name: str, options: argparse.Namespace) -> dict[str, Any]:
    say(f"loading {name}")
    scenario = load_scenario(name).edited({"compute.device": "cpu", "network.transport": "memory", **options.edits})
    emulation = build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None)
    try:
        first = {client.group: client for client in reversed(emulation.clients)}
        return {group: _group(group, client, options) for group, client in sorted(first.items())}
    finally:
        emulation.close()


def _group(group: str, client: Client, options: argparse.Namespace) -> dict[str, Any]:
    say(f"comparing the forms of {group}")
    model, of = client.answering("fused"), client.data.test.input_shapes
    assert isinstance(model, ClientModel), "no pairs here"
    shapes: InputShapes = {modality: of[modality] for modality in model.modalities}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "exported.onnx"
        OnnxExporter().export(model, shapes, path, {})
        files = {"plain": plain_file(DeployedModel(model).cpu().float().eval(), shapes), "exported": path.read_bytes()}
    sessions = {form: OnnxSession(content) for form, content in files.items()}
    test = client.data.test
    rows = test.inputs(np.unique(np.linspace(0, len(test) - 1, _ROWS).astype(np.int64)))
    given = {str(modality): rows[modality] for modality in shapes}
    answers = {form: session.run(given) for form, session in sessions.items()}
    times = _times(sessions, {name: values[:1] for name, values in given.items()}, options)
    return {
        "modalities": list(shapes),
        "largest_difference": float(np.abs(answers["plain"] - answers["exported"]).max()),
        "largest_logit": float(np.abs(answers["plain"]).max()),
        "bytes": {form: len(content) for form, content in files.items()},
        "weight_bytes": {form: _weight_bytes(content) for form, content in files.items()},
        "nodes": {form: len(onnx.load_from_string(content).graph.node) for form, content in files.items()},
        "bytes_ratio": len(files["plain"]) / len(files["exported"]),
        "cpu_us": {form: spread([1e6 * one for one in of]) for form, of in times.items()},
        "speed_ratio": spread([a / b for a, b in zip(times["plain"], times["exported"], strict=True)]),
    }


def _times(
    sessions: Mapping[str, OnnxSession], inputs: Mapping[str, Any], options: argparse.Namespace
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {form: [] for form in sessions}
    for repeat in range(-1, options.repeats):  # the first is thrown away
        for form, session in sessions.items():
            begun_s = time.process_time()
            for _ in range(options.runs):
                session.run(inputs)
            if repeat >= 0:
                times[form].append((time.process_time() - begun_s) / options.runs)
    return times


def _weight_bytes(content: bytes) -> int:
    tensors = onnx.load_from_string(content).graph.initializer
    return sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in tensors)


if __name__ == "__main__":
    main()

"""What the ONNX files of a run's models cost, beside one trace per architecture and one client after the other.

    python benchmarks/export.py [--scenarios blockage beam_tracking] [--repeats N] [--edits JSON]

Models are untrained, which changes no time; recordings are made first, or found, and are not timed. `ARMS` says what
each arm holds. They take turns, after one turn that is thrown away: the first trace of a process also imports the
exporter. Beside wall time stands the CPU time of all threads, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from sheafedge.benchmarks._repeats import Timing, interleaved, spread
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.export.deployed_model import Deployed, deployed_model
from sheafedge.models.export.onnx_export import InputShapes, OnnxExporter
from sheafedge.scenarios.running.onnx_files import export_clients
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build
from sheafedge.scenarios.wiring.evaluation import in_pieces, predicted
from sheafedge.scenarios.wiring.predictions import Predictions
from sheafedge.scenarios.wiring.torch_setup import one_torch_thread

ARMS = {
    "plain": "torch's exporter for every architecture as a whole; then client by client the answers of torch and of the"
    " ONNX runtime about all held-out samples, 256 at once",
    "export": "the files of a run whose held-out samples nobody has predicted yet, in the run's pool: predictions,"
    " traces, and the rest, in which files are written and asked about all held-out samples",
    "predictions": "of that, the answers of torch; at the end of a run diagnostics have computed them",
    "traces": "of that, all parts of all architectures in one program",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", default=["blockage", "beam_tracking"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--edits", type=json.loads, default={}, help="JSON, such as '{\"clients.n_clients\": 4}'")
    options, machine = parser.parse_args(argv), machine_facts()
    with one_torch_thread():
        found = {name: _scenario(name, options.edits, options.repeats) for name in options.scenarios}
    print_report("export", machine, {"options": vars(options), "arms": ARMS, "scenarios": found})


def _scenario(name: str, edits: Mapping[str, Any], repeats: int) -> dict[str, Any]:
    say(f"loading {name}")
    scenario = load_scenario(name).edited({"compute.device": "cpu", "network.transport": "memory", **edits})
    emulation = build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None)
    try:
        arms = {
            "plain": lambda: _ready(partial(_plain, emulation)),
            "predictions": lambda: _ready(partial(_predict, emulation)),
            "traces": lambda: _ready(partial(_trace, emulation)),
            "export": lambda: _export(emulation, scenario),
        }
        say("comparing the traces with torch")
        difference = _plain(emulation)
        return {"largest_difference": difference, **_figures(interleaved(arms, repeats), len(emulation.clients))}
    finally:
        emulation.close()


def _figures(timings: Mapping[str, Sequence[Timing]], n_models: int) -> dict[str, Any]:
    def over_export(clock: Callable[[Timing], float]) -> dict[str, float]:
        pairs = zip(timings["plain"], timings["export"], strict=True)
        return spread([clock(plain) / clock(export) for plain, export in pairs])

    return {
        "models": n_models,
        "seconds": {name: spread([one.wall_s for one in of]) for name, of in timings.items()},
        "cpu_seconds": {name: statistics.median(one.cpu_s for one in of) for name, of in timings.items()},
        "plain_over_export": over_export(lambda one: one.wall_s),
        "plain_over_export_cpu": over_export(lambda one: one.cpu_s),
    }


def _shapes(client: Client) -> InputShapes:
    of = client.data.test.input_shapes
    return {modality: of[modality] for modality in client.answering("fused").modalities}


@contextmanager
def _ready(work: Callable[[], Any]) -> Iterator[Callable[[], None]]:
    def only_work() -> None:
        work()

    yield only_work


def _predict(emulation: Emulation) -> Predictions:
    made = Predictions(emulation.learners, emulation.pool)
    made.of({client.client_id: client.data.test for client in emulation.clients})
    return made


def _trace(emulation: Emulation) -> None:
    OnnxExporter().trace((client.answering("fused"), _shapes(client)) for client in emulation.clients)


@contextmanager
def _export(emulation: Emulation, scenario: Scenario) -> Iterator[Callable[[], None]]:
    reported = dict.fromkeys(emulation.group_names, "fused")
    with tempfile.TemporaryDirectory() as folder:

        def export() -> None:
            predictions = Predictions(emulation.learners, emulation.pool)
            export_clients(scenario, emulation.clients, predictions, reported, Path(folder), emulation.pool)

        yield export


def _plain(emulation: Emulation) -> float:
    """Largest difference between the runtime and torch, of the clients whose values the traces hold."""
    sessions: dict[str, OnnxSession] = {}
    differences = []
    for client, learner in zip(emulation.clients, emulation.learners, strict=True):
        model, shapes = deployed_model(client.answering("fused")), _shapes(client)
        key = f"{shapes} {model}"
        is_first = key not in sessions
        if is_first:
            sessions[key] = OnnxSession(plain_file(model, shapes))
        expected = predicted(learner, client.data.test)["fused"]
        # of the other clients too: a file with their values takes as long as one with those of the first
        found = [
            sessions[key].run({str(name): rows for name, rows in inputs.items()})
            for inputs in in_pieces(client.data.test)
        ]
        if is_first:
            differences.append(float(np.abs(np.concatenate(found) - expected).max()))
    return max(differences)


def plain_file(model: Deployed, shapes: InputShapes) -> bytes:
    """ONNX file of a whole model, as torch's exporter makes it."""
    names, sample = [str(modality) for modality in shapes], [torch.zeros(2, *shape) for shape in shapes.values()]
    if len(names) > 1:
        names.append("present")
        sample.append(torch.ones(2, len(shapes)))
    batch = torch.export.Dim("batch", min=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operators of packages that no model uses
        program = torch.onnx.export(
            model,
            tuple(sample),
            dynamic_shapes=(tuple({0: batch} for _ in sample),),
            input_names=names,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    whole = program.model_proto
    if len(shapes) > 1:
        everything = np.ones((1, len(shapes)), np.float32)
        whole.graph.initializer.append(onnx.numpy_helper.from_array(everything, "present"))
    content: bytes = whole.SerializeToString()
    return content


if __name__ == "__main__":
    main()

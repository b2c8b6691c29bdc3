"""Makes the table of drift in `docs/edge_results.md`: false alarms on held-out samples, shifts and faults found.

    python docs/edge/drift.py runs/edge/blockage-joint-0

What a server would say is asked of the same code, on held-out samples in the order of time.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sheafedge.datasets.windows.shifts import SHIFTS
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.drift_watch import ANSWERS, DriftWatch
from sheafedge.emulator.edge.input_summaries import input_summaries
from sheafedge.emulator.edge.label_probabilities import decided_labels
from sheafedge.emulator.edge.manifest import DriftReference, InputSpec
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.scenarios.export.drift_fit import client_drift
from sheafedge.scenarios.export.export_source import ExportSource, export_sources
from sheafedge.scenarios.export.finished_run import finished_run
from sheafedge.scenarios.wiring.torch_setup import one_torch_thread

CONSOLE = Console(emoji=False, width=200, highlight=False)
Inputs = Mapping[Modality, NDArray[np.float32]]
#: Fault -> its modality, and what its windows become. Axis 1 of images, sweeps and fixes is that of frames.
FAULTS: Mapping[str, tuple[Modality, Callable[[NDArray[np.float32]], NDArray[np.float32]]]] = {
    "camera: all black": ("camera", np.zeros_like),
    "camera: repeats one image": ("camera", lambda x: np.broadcast_to(x[:1, :1], x.shape)),
    "LiDAR: centimeters": ("lidar", lambda x: x * np.float32([100.0, 1.0])[:, None, None]),
    "LiDAR: feet": ("lidar", lambda x: x * np.float32([3.28084, 1.0])[:, None, None]),
    "LiDAR: covered, no echo": ("lidar", lambda x: np.stack([np.full_like(x[:, 0], 16.0), x[:, 1]], axis=1)),
    "sweeps: constant 1e-9": ("rf", lambda x: np.full_like(x, 1e-9)),
    "sweeps: repeat one": ("rf", lambda x: np.broadcast_to(x[:1, :1], x.shape)),
    "sweeps: 6 dB more": ("rf", lambda x: x + np.float32(6.0)),
    "sweeps: beams in reverse order": ("rf", lambda x: x[..., ::-1]),
    "GPS: another place, 1 km north": ("gps", lambda x: x + np.float32([0.0, 1000.0])),
    "GPS: columns swapped": ("gps", lambda x: x[..., ::-1]),
    "GPS: repeats one fix": ("gps", lambda x: np.broadcast_to(x[:1, :1], x.shape)),
}
_COUNTED = ("answers", "outside", "windows", "drifted", "label windows", "labels drifted")


def main() -> None:
    """Print a table per run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of finished runs of one scenario")
    with one_torch_thread():
        CONSOLE.print("\n".join(table(parser.parse_args().runs)), soft_wrap=True)


def table(folders: list[Path]) -> Iterator[str]:
    """Lines: a condition each, over the clients that have its sensor."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_COUNTED, 0))
    clients: dict[str, int] = defaultdict(int)
    for folder in folders:
        run = finished_run(folder)
        for source in export_sources(run, [row.client for row in run.summary.exports]):
            for condition, found in _conditions(source):
                clients[condition] += 1
                for name, n in found.items():
                    counts[condition][name] += n
    yield "| Condition | models | frames outside | windows of the input drifted | windows of answers drifted |"
    yield "|---" * 5 + "|"
    for condition, found in counts.items():
        cells = [_share(found["outside"], found["answers"])]
        cells += [_of(found["drifted"], found["windows"]), _of(found["labels drifted"], found["label windows"])]
        yield "| " + " | ".join([condition, str(clients[condition]), *cells]) + " |"


def _conditions(source: ExportSource) -> Iterator[tuple[str, dict[str, int]]]:
    """What is said of the samples of one client under every condition that changes one of its inputs."""
    session = OnnxSession(source.model.SerializeToString())
    specs = {spec.modality: spec for spec in source.inputs}
    reference, _ = client_drift(source, source.output, session, source.trained["held out"])
    assert reference is not None, "too few training samples"
    gathered = source.data.test.inputs()
    inputs = {modality: gathered[modality] for modality in specs}

    def seen(changed: Inputs, of: frozenset[str]) -> dict[str, int]:
        return _counts(source, session, reference, specs, changed, of)

    yield "held out", seen(inputs, frozenset(map(str, specs)))
    for name, (shift, modalities) in SHIFTS.items():
        if of := modalities & {*specs}:
            yield f"{name}", seen(shift(inputs, specs, np.random.default_rng(0)), frozenset(map(str, of)))
    for name, (modality, fault) in FAULTS.items():
        if modality in specs:
            changed = np.ascontiguousarray(fault(inputs[modality]), dtype=np.float32)
            yield name, seen({**inputs, modality: changed}, frozenset({modality}))


def _counts(
    source: ExportSource,
    session: OnnxSession,
    reference: DriftReference,
    specs: Mapping[Modality, InputSpec],
    inputs: Inputs,
    of: frozenset[str],
) -> dict[str, int]:
    """Counts over the inputs that were changed, and over answers."""
    labels = decided_labels(session.run_all({str(name): values for name, values in inputs.items()}), source.output)
    figures = {name: input_summaries(values, specs[name]) for name, values in inputs.items()}
    watch = DriftWatch(reference, list(specs.values()), 1)
    found: dict[str, Any] = dict.fromkeys(_COUNTED, 0)
    for row, label in enumerate(labels):
        verdict = watch.judge(
            "s", row * reference.stride, {name: one[row] for name, one in figures.items()}, int(label)
        )
        found["answers"] += 1
        found["outside"] += bool(of & verdict.outside.keys())
        for name in verdict.judged:
            kinds = ("label windows", "labels drifted") if name == ANSWERS else ("windows", "drifted")
            if name == ANSWERS or name in of:
                found[kinds[0]] += 1
                found[kinds[1]] += name in verdict.drifted
    return found


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}"


if __name__ == "__main__":
    main()

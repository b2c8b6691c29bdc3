"""What answers cost one core here, and how well a model of three figures foretells it: `python benchmarks/devices.py`.

Clients that were not trained (the time is the same) of `blockage` in three widths, `beam_tracking` and `drone_beam`, in
float32, float16 and int8, all taking turns. The model is fitted to `blockage` and asked about the others. Where the
figures of `emulator/edge/device_profiles.py` come from, and the tables of `docs/devices.md`.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.emulator.edge.bench import Contender, Times, latency, ratio, take_turns
from sheafedge.emulator.edge.bench_bundles import Workload
from sheafedge.emulator.edge.device_profiles import REFERENCE
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.client_model import ClientModel
from sheafedge.models.export.onnx_export import OnnxExporter
from sheafedge.models.export.onnx_facts import answer_flops
from sheafedge.models.export.quantize import float16_model, int8_model
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import build

PRECISIONS = ("float32", "float16", "int8")
FITTED = "blockage"
_ROWS = 16  # for calibration of int8
_BATCH = 32  # of a training step
_REPEATS = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A model in one precision; `training_s` is the processor's time of a training step, in float32."""

    name: str
    precision: str
    workload: Workload
    contender: Contender
    training_s: float

    @property
    def is_fitted(self) -> bool:
        return self.name.startswith(FITTED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of timing, for all models together")
    parser.add_argument("--small", action="store_true", help="beam_tracking only, where nothing is fitted")
    wanted = parser.parse_args(arguments)
    machine = machine_facts()
    torch.set_num_threads(1)
    copied, product = _copy_bytes_per_s(), _product_gflops()
    cases = list(_cases(small=wanted.small))
    times = take_turns([case.contender for case in cases], seconds=wanted.seconds)
    seconds = {case.contender.name: float(np.median(times[case.contender.name].cpu_s)) for case in cases}
    model = CostModel(seconds, copied)
    figures = {
        "copy_gb_per_s": round(copied / 1e9, 2),
        "float32_product_gflops": round(product, 1),
        "fit": {one: _named(model.fit(_of(cases, one))) for one in PRECISIONS},
        "training": _training(_of(cases, "float32")),
        "models": [model.row(case, cases, times[case.contender.name]) | _to_float32(case, times) for case in cases],
    }
    print_report("devices", machine, figures)


def _to_float32(case: Case, times: Mapping[str, Times]) -> dict[str, Any]:
    """Processor's time over that of float32 in the same turns: median, and the tenth and ninetieth percentile."""
    found = ratio(times[case.contender.name], times[f"{case.name} float32"])
    return {"to_float32": {name: round(value, 2) for name, value in asdict(found).items()}}


def _cases(*, small: bool) -> Iterator[Case]:
    exporter = OnnxExporter()
    for label, scenario in list(_scenarios())[:1] if small else _scenarios():
        say(f"{label}: {scenario.name}")
        with closing(build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None)) as emulation:
            groups = {client.group: client for client in reversed(emulation.clients)}
            for group, client in sorted(groups.items()):
                yield from _precisions(f"{label} {group}", client, exporter)


def _scenarios() -> Iterator[tuple[str, Scenario]]:
    few = {"clients.n_clients": 6, "topology.kind": "complete"}
    yield "beam_tracking", load_scenario("beam_tracking").edited({**few, "world.n_sites": 1, "world.duration_s": 300})
    yield "drone_beam", load_scenario("drone_beam")
    for width in (0.25, 0.5, 1.0):
        yield f"{FITTED} x{width:g}", load_scenario("blockage").edited({**few, "model.width": width})


def _precisions(name: str, client: Client, exporter: OnnxExporter) -> Iterator[Case]:
    model = client.models["fused"]
    rows = client.data.train.inputs(np.arange(min(_ROWS, len(client.data.train))))
    samples = {str(one): np.ascontiguousarray(rows[one]) for one in model.modalities}
    one_row = {one: values[:1] for one, values in samples.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        exporter.export(model, {one: rows[one].shape[1:] for one in model.modalities}, path, {})
        whole = onnx.load(path)
    flops = answer_flops(whole)
    made = {"float32": whole, "float16": float16_model(whole), "int8": int8_model(whole, samples)}
    training_s = _training_step_s(model, samples)
    n_bytes = float(sum(values.nbytes for values in one_row.values()))
    for precision, proto in made.items():
        content = proto.SerializeToString()
        session = OnnxSession(content)
        yield Case(
            name,
            precision,
            Workload(flops, n_bytes, float(len(content))),
            Contender(f"{name} {precision}", lambda session=session: session.answer(one_row)),  # type: ignore[misc]
            training_s,
        )


def _training_step_s(model: ClientModel, samples: Mapping[str, NDArray[np.float32]]) -> float:
    """Processor's time of a forward and a backward pass, the best of some."""
    rows = {one: torch.from_numpy(np.resize(values, (_BATCH, *values.shape[1:]))) for one, values in samples.items()}
    found = [_cpu_s(lambda: model(rows).sum().backward()) for _ in range(_REPEATS // 2)]
    return float(np.median(found[1:]))


def _of(cases: Sequence[Case], precision: str) -> list[Case]:
    """Those that the model is fitted to; all, where there are none."""
    own = [case for case in cases if case.precision == precision]
    return [case for case in own if case.is_fitted] or own


@dataclass(frozen=True, slots=True)
class CostModel:
    """Time of an answer as a sum: overhead, operations, bytes of input, and weights at the rate of copying memory.

    Attributes:
        seconds: that answers really took.
        copied: bytes per second.
    """

    seconds: Mapping[str, float]
    copied: float

    def fit(self, cases: Sequence[Case]) -> NDArray[np.float64]:
        """[3] overhead, time per operation and per byte of input."""
        found = np.array([self.seconds[case.contender.name] for case in cases])
        weights = np.array([case.workload.weight_bytes for case in cases]) / self.copied
        terms = np.array([(1.0, case.workload.flops, case.workload.input_bytes) for case in cases])
        return _least_relative(terms, found, weights)

    def row(self, case: Case, cases: Sequence[Case], times: Times) -> dict[str, Any]:
        """One model; foretold by a fit that has not seen it, and by the figures in the package."""
        measured, work = self.seconds[case.contender.name], case.workload
        unseen = self.fit([one for one in _of(cases, case.precision) if one is not case])
        foretold = float(unseen @ (1.0, work.flops, work.input_bytes)) + work.weight_bytes / self.copied
        return {
            "model": case.name,
            "precision": case.precision,
            "fitted": case.is_fitted,
            "mflop": round(work.flops / 1e6, 3),
            "input_kb": round(work.input_bytes / 1e3, 1),
            "model_kb": round(work.weight_bytes / 1e3, 1),
            "cpu_ms": round(measured * 1e3, 4),
            "p50_ms": round(latency(times, 1).p50_ms, 4),
            "taken_by_others": round(latency(times, 1).taken_by_others, 2),
            "training_ms": round(case.training_s * 1e3, 3),
            "foretold_unseen": round(foretold / measured, 3),
            "foretold_by_package": round(work.seconds_on(REFERENCE, case.precision) / measured, 3),
        }


def _least_relative(
    terms: NDArray[np.float64], found: NDArray[np.float64], known: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Coefficients [n_terms], none negative, with which terms and what is known come closest to what was found.

    Args:
        terms: [n, n_terms].
        found, known: [n] the sum, and the part of it that needs no coefficient.
    """
    best, best_error = np.zeros(terms.shape[1]), np.inf
    places = range(terms.shape[1])
    for kept in (list(some) for n in places for some in itertools.combinations(places, n + 1)):
        solution = np.zeros(terms.shape[1])
        scale = terms[:, kept].max(axis=0)
        scaled, *_ = np.linalg.lstsq(terms[:, kept] / scale / found[:, None], (found - known) / found, rcond=None)
        solution[kept] = scaled / scale
        error = float(np.sum(((terms @ solution + known) / found - 1.0) ** 2))
        if solution.min() >= 0.0 and error < best_error:
            best, best_error = solution, error
    return best


def _training(cases: Sequence[Case]) -> dict[str, float]:
    """Rates of training steps of `_BATCH` rows, a backward pass counted as two forward passes; the shortest step."""
    gflops = [3e-9 * _BATCH * case.workload.flops / case.training_s for case in cases]
    return {
        "gflops_median": round(float(np.median(gflops)), 1),
        "gflops_min": round(min(gflops), 1),
        "gflops_max": round(max(gflops), 1),
        "shortest_ms": round(1e3 * min(case.training_s for case in cases), 3),
    }


def _named(fit: NDArray[np.float64]) -> dict[str, float | None]:
    overhead_s, per_flop_s, per_byte_s = fit.tolist()
    return {
        "overhead_us": round(overhead_s * 1e6, 2),
        "gflops": round(1e-9 / per_flop_s, 1) if per_flop_s else None,
        "input_gb_per_s": round(1e-9 / per_byte_s, 3) if per_byte_s else None,
    }


def _copy_bytes_per_s() -> float:
    source = np.ones(1 << 26, np.uint8)
    target = np.empty_like(source)
    return max(source.size / _cpu_s(lambda: np.copyto(target, source)) for _ in range(_REPEATS))


def _product_gflops(n: int = 1024) -> float:
    """Float32, in the runtime that devices have."""
    shapes = {name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [n, n]) for name in "abc"}
    node = onnx.helper.make_node("MatMul", ["a", "b"], ["c"])
    graph = onnx.helper.make_graph([node], "product", [shapes["a"], shapes["b"]], [shapes["c"]])
    opset = [onnx.helper.make_opsetid("", 20)]
    session = OnnxSession(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString())
    inputs = {name: np.full((n, n), 0.5, np.float32) for name in "ab"}
    session.run(inputs)
    return max(2e-9 * n**3 / _cpu_s(lambda: session.run(inputs)) for _ in range(_REPEATS))


def _cpu_s(work: Any) -> float:
    started_s = time.process_time()
    work()
    return time.process_time() - started_s


if __name__ == "__main__":
    main()

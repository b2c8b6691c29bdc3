"""What a round costs on the CPU and on a CUDA device, from networks of ten thousand parameters to millions.

    python benchmarks/cuda.py [--workloads NAME ...] [--arms NAME ...] [--rounds N] [--repeats N] [--threads N]
        [--edits JSON]

`WORKLOADS` says what is trained, and `ARMS` where and by which executor; where torch sees no CUDA device, arms that
need one are left out, and the report says so. The whole emulator runs: clock, ZeroMQ, lossy links, coupling, averaging.
Recordings and models are made first and are not timed. Arms take turns, after one turn that is thrown away, and a turn
ends when the device has computed all that it was given. Ratios are of neighbors in time.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from sheafedge.benchmarks._blockage import Workload
from sheafedge.benchmarks._repeats import Arm, Timing, interleaved, spread
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import emulate
from sheafedge.scenarios.wiring.torch_setup import gpu_arithmetic, one_torch_thread

#: Scenario and edits of what is trained, by name.
WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "beam_tracking": ("beam_tracking", {}),
    "blockage": ("blockage", {}),
    "blockage_paper": ("blockage", {"model.width": 1.0}),
}
#: Edits of an arm, by name; on the CPU with the executor that a scenario gets where it names none.
ARMS: dict[str, dict[str, Any]] = {
    "cpu": {"compute.device": "cpu", "compute.executor": "auto"},
    "cuda_batched": {"compute.device": "cuda", "compute.executor": "batched"},
    "cuda_threads": {"compute.device": "cuda", "compute.executor": "threads"},
    "cuda_serial": {"compute.device": "cuda", "compute.executor": "serial"},
    "cuda_tf32": {"compute.device": "cuda", "compute.executor": "batched", "compute.tf32": True},
}
REFERENCE = "cpu"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options, machine = _options(argv), machine_facts()
    seen = torch.cuda.is_available()
    arms = [name for name in ARMS if name in options.arms and (seen or ARMS[name]["compute.device"] == "cpu")]
    if not seen:
        say(f"torch sees no CUDA device here; of the arms, {', '.join(arms)} is run")
    with one_torch_thread():
        figures = {name: _workload(name, arms, options) for name in options.workloads}
    print_report(
        "cuda",
        machine,
        {
            "options": vars(options),
            "cuda": _device_facts() if seen else None,
            "arms": {name: ARMS[name] for name in arms},
            "workloads": figures,
        },
    )


def _workload(name: str, arms: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    shipped, edits = WORKLOADS[name]
    scenario = load_scenario(shipped).edited(
        {"rounds": options.rounds, "compute.threads": options.threads, **edits, **options.edits}
    )
    say(f"loading {name}")
    workload = Workload(scenario, load_data(scenario).clients)
    executors: dict[str, str] = {}
    peaks_mb: dict[str, float] = {}
    makers: dict[str, Arm] = {
        arm: partial(_rounds, replace(workload, scenario=scenario.edited(ARMS[arm])), arm, executors, peaks_mb)
        for arm in arms
    }
    timings = interleaved(makers, options.repeats)
    return {
        "scenario": shipped,
        "clients": len(workload.data),
        "parameters_per_client": _parameters(workload),
        "local_steps": scenario.training.local_steps,
        "batch_size": scenario.training.batch_size,
        "executors": executors,
        "seconds_per_round": {
            arm: spread([one.wall_s / scenario.rounds for one in taken]) for arm, taken in timings.items()
        },
        "cpu_seconds_per_round": {
            arm: statistics.median(one.cpu_s for one in taken) / scenario.rounds for arm, taken in timings.items()
        },
        "speed_over_cpu": _ratios(timings),
        "peak_device_mb": peaks_mb,
    }


@contextmanager
def _rounds(
    workload: Workload, arm: str, executors: dict[str, str], peaks_mb: dict[str, float]
) -> Iterator[Callable[[], None]]:
    """All rounds of a scenario; which executor it got and what it held on the device is noted."""
    compute = workload.scenario.compute
    on_cuda = compute.device == "cuda"
    if on_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    emulation = workload.emulation()
    executors[arm] = str(emulation.executor)

    def play() -> None:
        emulate(emulation, workload.scenario.rounds)
        if on_cuda:
            torch.cuda.synchronize()

    try:
        with gpu_arithmetic(tf32=compute.tf32):
            yield play
    finally:
        emulation.close()
    if on_cuda:
        peaks_mb[arm] = round(torch.cuda.max_memory_allocated() / 1e6, 1)


def _parameters(workload: Workload) -> dict[str, int]:
    """Smallest and largest number of parameters of a client's models."""
    emulation = workload.emulation(ARMS[REFERENCE])
    try:
        sizes = [
            sum(parameter.numel() for model in client.models.values() for parameter in model.parameters())
            for client in emulation.clients
        ]
    finally:
        emulation.close()
    return {"min": min(sizes), "max": max(sizes)}


def _ratios(timings: Mapping[str, Sequence[Timing]]) -> dict[str, dict[str, float]]:
    """Rounds per second of every arm over those of the CPU, repeat by repeat."""
    if REFERENCE not in timings:
        return {}
    return {
        arm: spread([cpu.wall_s / one.wall_s for cpu, one in zip(timings[REFERENCE], taken, strict=True)])
        for arm, taken in timings.items()
        if arm != REFERENCE
    }


def _device_facts() -> dict[str, Any]:
    """What decides speed on the device."""
    found = torch.cuda.get_device_properties(0)
    return {
        "name": found.name,
        "memory_gb": round(found.total_memory / 1e9, 1),
        "multiprocessors": found.multi_processor_count,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--rounds", type=int, default=5, help="per repeat")
    parser.add_argument("--repeats", type=int, default=3, help="of every arm")
    parser.add_argument("--threads", type=int, default=2, help="of the pool")
    parser.add_argument("--edits", type=json.loads, default={}, help="JSON, such as '{\"clients.n_clients\": 4}'")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()

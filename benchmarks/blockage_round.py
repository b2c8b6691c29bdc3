"""What a round, an evaluation and an export of the scenario blockage cost, beside the bare sum of its local steps.

    python benchmarks/blockage_round.py [--rounds N] [--repeats N] [--seed N] [--clients N] [--seconds S] [--width X]

The scenario runs as shipped: 20 base stations, Sheaf-DMFL-Att, ZeroMQ, lossy links, jobs on threads with one torch
thread each. Its recording is made first, or found, and is not timed. `ARMS` says what each arm holds; all but the
export take turns. Beside wall time stands the CPU time of all threads, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sheafedge.benchmarks._bare_steps import state_of
from sheafedge.benchmarks._blockage import Workload, bare_rounds, emulated_rounds, play_bare
from sheafedge.benchmarks._repeats import Arm, Timing, interleaved, spread
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.scenarios.running.onnx_files import export_clients
from sheafedge.scenarios.wiring.emulation import Emulation, emulate
from sheafedge.scenarios.wiring.evaluation import Evaluator
from sheafedge.scenarios.wiring.predictions import Predictions
from sheafedge.scenarios.wiring.torch_setup import one_torch_thread

ARMS = {
    "round": "training rounds on the whole emulator: clock, base stations, recorder and trace hash, ZeroMQ, lossy links"
    " with retransmission and deadline, sheaf coupling and gossip; the learners' health is observed, nobody is scored",
    "bare_steps": "the local steps of as many rounds in plain torch and in the same pool: the same models, rows and"
    " minibatches, binary cross-entropy, fused Adam and two gradient steps; nothing is exchanged",
    "evaluation": "scores and losses of every client on its held-out and some training windows, once, in that pool",
    "export": "every client's model as ONNX, once, checked in the ONNX runtime on its held-out windows; cold, as at the"
    " end of a run",
}
#: After which the bare steps are compared with stand-alone training on the emulator.
AGREEMENT_ROUNDS = 1


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    machine = machine_facts()
    say("loading")
    workload = _workload(options)
    with one_torch_thread():
        say("comparing the bare steps with stand-alone training")
        agreement = _agreement(workload)
        timings = interleaved(_arms(workload), options.repeats)
        timings |= interleaved({"export": lambda: _export(workload)}, options.exports, warm_up=False)
    figures = {
        "options": vars(options),
        "scenario": _facts(workload),
        "arms": ARMS,
        "largest_difference": agreement,
        **_figures(timings, options.rounds),
    }
    print_report("blockage_round", machine, figures)


def _arms(workload: Workload) -> dict[str, Arm]:
    return {
        "round": lambda: emulated_rounds(workload),
        "bare_steps": lambda: bare_rounds(workload),
        "evaluation": lambda: _evaluation(workload),
    }


@contextmanager
def _evaluation(workload: Workload) -> Iterator[Callable[[], None]]:
    emulation = workload.emulation({"network.transport": "memory"})
    evaluator = Evaluator(workload.scenario.task_spec, emulation.clients, rounds=1, every=1)
    try:
        yield partial(_score_all, emulation, evaluator)
    finally:
        emulation.close()


@contextmanager
def _export(workload: Workload) -> Iterator[Callable[[], None]]:
    emulation = workload.emulation({"network.transport": "memory"})
    clients = emulation.clients
    reported = dict.fromkeys(emulation.group_names, "fused")
    try:
        with tempfile.TemporaryDirectory() as folder:

            def export() -> None:
                predictions = Predictions(emulation.learners, emulation.pool)
                export_clients(workload.scenario, clients, predictions, reported, Path(folder), emulation.pool)

            yield export
    finally:
        emulation.close()


def _score_all(emulation: Emulation, evaluator: Evaluator) -> None:
    tickets = [emulation.pool.submit(partial(evaluator.observe, learner, 0)) for learner in emulation.learners]
    for ticket in tickets:
        ticket.result()


def _agreement(workload: Workload) -> dict[str, float]:
    """Largest difference of any parameter between the bare steps and the emulator's stand-alone training.

    In float64: a last bit of float32 can decide a maximum over neighboring pixels, and Adam makes whole steps of it.
    """
    alone = workload.emulation({"algorithm": "local", "compute.executor": "serial"}, torch.float64)
    bare = workload.bare(torch.float64)
    start = [client.state() for client in bare]
    try:
        emulate(alone, AGREEMENT_ROUNDS)
        play_bare(bare, alone.pool, AGREEMENT_ROUNDS, workload.scenario.training.local_steps)
    finally:
        alone.close()
    found = [client.state() for client in bare]
    expected = [state_of(client.models["fused"]) for client in alone.clients]
    return {
        "rounds": AGREEMENT_ROUNDS,
        "to_stand_alone_training": max(float((a - b).abs().max()) for a, b in zip(expected, found, strict=True)),
        "moved": max(float((a - b).abs().max()) for a, b in zip(start, found, strict=True)),
    }


def _figures(timings: Mapping[str, Sequence[Timing]], rounds: int) -> dict[str, Any]:
    """Seconds of every arm, per round where it has rounds, and its ratio to the bare steps of one round."""
    share = {"round": rounds, "bare_steps": rounds}
    wall_s = {arm: [t.wall_s / share.get(arm, 1) for t in seen] for arm, seen in timings.items()}
    cpu_s = {arm: [t.cpu_s / share.get(arm, 1) for t in seen] for arm, seen in timings.items()}
    return {
        "seconds": {arm: spread(seen) for arm, seen in wall_s.items()},
        "cpu_seconds": {arm: spread(seen) for arm, seen in cpu_s.items()},
        "over_bare_steps": _ratios(wall_s),
        "cpu_over_bare_steps": _ratios(cpu_s),
    }


def _ratios(seconds: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Repeat by repeat: neighbors in time are compared with each other; exports with the median."""
    bare = seconds["bare_steps"]
    ratios = {
        arm: [a / b for a, b in zip(seconds[arm], bare, strict=True)]
        for arm in seconds.keys() - {"bare_steps", "export"}
    }
    ratios["export"] = [export / statistics.median(bare) for export in seconds["export"]]
    return {arm: spread(seen) for arm, seen in sorted(ratios.items())}


def _facts(workload: Workload) -> dict[str, Any]:
    scenario = workload.scenario
    return {
        "name": scenario.name,
        "algorithm": scenario.algorithm,
        "clients": scenario.clients.n_clients,
        "train_windows": sum(len(client.train) for client in workload.data),
        "test_windows": sum(len(client.test) for client in workload.data),
        "local_steps": scenario.training.local_steps,
        "batch_size": scenario.training.batch_size,
        "width": scenario.model.width,
        "executor": scenario.compute.executor,
        "threads": scenario.compute.threads,
        "link": scenario.link.model_dump(mode="json"),
    }


def _workload(options: argparse.Namespace) -> Workload:
    chosen = {
        "clients.n_clients": options.clients,
        "world.duration_s": options.seconds,
        "model.width": options.width,
    }
    return Workload.of(
        {
            "seed": options.seed,
            "rounds": options.rounds,
            "compute.threads": options.threads,
            **{key: value for key, value in chosen.items() if value},
        }
    )


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2, help="per repeat")
    parser.add_argument("--repeats", type=int, default=5, help="of every arm")
    parser.add_argument("--exports", type=int, default=1, help="timings of the export, the first one cold")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=0, help="0: as many as the scenario has, 20")
    parser.add_argument("--seconds", type=float, default=0.0, help="of the recording; 0: as in the scenario, 300")
    parser.add_argument("--width", type=float, default=0.0, help="of the encoders; 0: as in the scenario, 0.25")
    parser.add_argument("--threads", type=int, default=2, help="of the pool")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()

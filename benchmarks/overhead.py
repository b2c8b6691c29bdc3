"""What the emulator costs: wall time of a run over lossy ZeroMQ links, divided by bare loops of the same mathematics.

    python benchmarks/overhead.py [--rounds N] [--repeats N] [--seed N] [--threads N]
        [--executors batched threads serial]

The run is the scenario beam_tracking: 20 base stations on simulated streets, Sheaf-DMFL-Att. Nobody is scored and
nothing is exported; what is timed starts after everything is built and ends with the last round. The arms take turns.
What each arm holds is in `ARMS`, and in the output. All run on one torch thread per job and the same pool of jobs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from sheafedge.benchmarks._bare_sheaf_dmfl import bare_clients, play_bare
from sheafedge.benchmarks._repeats import Arm, Timing, interleaved, spread
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.emulator.contracts import Learner, Message, NodeId
from sheafedge.emulator.nodes.compute_pool import ComputePool
from sheafedge.emulator.saved_state import Parts
from sheafedge.models.sharing.chained_learner import ChainedLearner
from sheafedge.models.training.local_training import LocalTraining
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.assembly import make_clients
from sheafedge.scenarios.wiring.data import ClientData, load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate
from sheafedge.scenarios.wiring.torch_setup import one_torch_thread
from torch import Tensor

ARMS = {
    "emulated": "the whole emulator: SimPy clock, base stations, recorder and trace hash, wire, ZeroMQ hub and worker"
    " over inproc, lossy links with retransmission and deadline; the learners' health is observed every round",
    "emulated_loss_free": "the same with a packet loss of 0: no partial encoders to average by mask",
    "bare_learners": "a loop over the same learners' compute and absorb, phase by phase in the same pool, so that with"
    " the executor 'batched' it is a batched loop; message objects change hands in memory; no clock, recorder, wire,"
    " transport, links or losses",
    "bare_torch": "the same equations in plain torch, client by client with every executor: nn.Sequential, fused Adam,"
    " averaged parameter vectors, tensors handed over; of the project only FactoredMaps, BatchOrder and normalizers",
}
BARE = ("bare_learners", "bare_torch")
#: Rounds after which the arms' models are compared.
AGREEMENT_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Workload:
    """What all arms are made from; every repeat builds its own models."""

    scenario: Scenario
    data: list[ClientData]

    def emulation(self, edits: Mapping[str, Any]) -> Emulation:
        """Everything of a run; its base stations report their health to nobody."""
        return build(self.scenario.edited(edits), self.data, lambda learner, _: learner.health(), lambda *_: None)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    machine = machine_facts()
    workload = _workload(options)
    executors = {}
    with one_torch_thread():
        say("comparing the arms' models")
        agreement = _agreement(workload)
        traffic = _traffic(workload, options.rounds)
        for executor in options.executors:
            say(f"executor {executor}")
            timings = interleaved(_arms(workload, executor, options.rounds), options.repeats)
            executors[executor] = _figures(timings, options.rounds)
    figures = {
        "options": vars(options),
        "scenario": _facts(workload),
        "arms": ARMS,
        "largest_difference": agreement,
        "traffic_per_round": traffic,
        "executors": executors,
    }
    print_report("overhead", machine, figures)


def play_learners(learners: Sequence[Learner], pool: ComputePool, rounds: int) -> None:
    """Rounds of learners that hear everything at once. Each job absorbs, then computes, as a base station's do."""
    for round_index in range(rounds):
        absorb: dict[NodeId, Callable[[], None]] = {}
        for phase in learners[0].phases(round_index):
            tickets = [
                pool.submit(partial(_turn, learner, absorb.get(learner.client_id), phase.name, round_index))
                for learner in learners
            ]
            inboxes: dict[NodeId, list[Message]] = {learner.client_id: [] for learner in learners}
            for ticket in tickets:
                for message in ticket.result():
                    inboxes[message.receiver].append(message)
            absorb = {
                learner.client_id: partial(learner.absorb, phase.name, round_index, inboxes[learner.client_id])
                for learner in learners
            }
        for last in [pool.submit(job) for job in absorb.values()]:
            last.result()


def _turn(learner: Learner, absorb: Callable[[], None] | None, phase: str, round_index: int) -> Sequence[Message]:
    if absorb is not None:
        absorb()
    return learner.compute(phase, round_index)


def _arms(workload: Workload, executor: str, rounds: int) -> dict[str, Arm]:
    chosen = {"compute.executor": executor}
    loss_free = {**chosen, "link.loss_probability": 0.0}
    return {
        "emulated": lambda: _emulated(workload, chosen, rounds),
        "bare_learners": lambda: _bare_learners(workload, chosen, rounds),
        "emulated_loss_free": lambda: _emulated(workload, loss_free, rounds),
        "bare_torch": lambda: _bare_torch(workload, chosen, rounds),
    }


@contextmanager
def _emulated(workload: Workload, edits: Mapping[str, Any], rounds: int) -> Iterator[Callable[[], None]]:
    emulation = workload.emulation({**edits, "network.transport": "zmq"})
    try:
        yield partial(emulate, emulation, rounds)
    finally:
        emulation.close()


@contextmanager
def _bare_learners(workload: Workload, edits: Mapping[str, Any], rounds: int) -> Iterator[Callable[[], None]]:
    emulation = workload.emulation({**edits, "network.transport": "memory"})  # its clock and transport stay unused
    try:
        yield partial(play_learners, emulation.learners, emulation.pool, rounds)
    finally:
        emulation.close()


@contextmanager
def _bare_torch(workload: Workload, edits: Mapping[str, Any], rounds: int) -> Iterator[Callable[[], None]]:
    emulation = workload.emulation({**edits, "network.transport": "memory"})  # for its graph and its pool
    clients, _ = make_clients(
        workload.scenario,
        workload.scenario.algorithm_spec,
        workload.data,
        torch.device("cpu"),
        torch.float32,
    )
    try:
        yield partial(play_bare, bare_clients(workload.scenario, clients, emulation.graph), emulation.pool, rounds)
    finally:
        emulation.close()


def _agreement(workload: Workload) -> dict[str, float]:
    """Largest difference of any parameter between the emulator on perfect links and each bare loop."""
    perfect = {"compute.executor": "serial", "link.loss_probability": 0.0, "network.missing": "wait"}
    emulated, learners = workload.emulation(perfect), workload.emulation(perfect)
    algorithm = workload.scenario.algorithm_spec
    models, _ = make_clients(workload.scenario, algorithm, workload.data, torch.device("cpu"), torch.float32)
    bare = bare_clients(workload.scenario, models, emulated.graph)
    try:
        emulate(emulated, AGREEMENT_ROUNDS)
        play_learners(learners.learners, learners.pool, AGREEMENT_ROUNDS)
        play_bare(bare, learners.pool, AGREEMENT_ROUNDS)
    finally:
        emulated.close()
        learners.close()
    expected = [_state(learner) for learner in emulated.learners]
    return {
        "rounds": AGREEMENT_ROUNDS,
        "bare_learners": _largest_difference(expected, [_state(learner) for learner in learners.learners]),
        "bare_torch": _largest_difference(expected, [client.state() for client in bare]),
    }


def _state(learner: Learner) -> Tensor:
    training = cast("LocalTraining", cast("Parts", cast("ChainedLearner", learner).parts)["training"])
    return torch.cat([*(flat.vector for flat in training.encoders.values()), training.head])


def _largest_difference(expected: Sequence[Tensor], found: Sequence[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(expected, found, strict=True))


def _traffic(workload: Workload, rounds: int) -> dict[str, Any]:
    """What crossed the lossy links, per round; the same in every repeat."""
    emulation = workload.emulation({})
    try:
        emulate(emulation, rounds)
    finally:
        emulation.close()
    counts = emulation.recorder.traffic.as_dict()
    return {name: count / rounds for name, count in counts.items() if name != "by_kind"}


def _figures(timings: Mapping[str, Sequence[Timing]], rounds: int) -> dict[str, Any]:
    return {
        "seconds_per_round": {arm: spread([t.wall_s / rounds for t in seen]) for arm, seen in timings.items()},
        "cpu_seconds_per_round": {arm: spread([t.cpu_s / rounds for t in seen]) for arm, seen in timings.items()},
        "overhead": _ratios(timings, lambda timing: timing.wall_s),
        "cpu_overhead": _ratios(timings, lambda timing: timing.cpu_s),
    }


def _ratios(timings: Mapping[str, Sequence[Timing]], of: Callable[[Timing], float]) -> dict[str, Any]:
    """Emulated over bare, repeat by repeat: neighbors in time are compared with each other."""
    return {
        f"{arm}/{bare}": spread([of(a) / of(b) for a, b in zip(timings[arm], timings[bare], strict=True)])
        for arm in timings
        if arm not in BARE
        for bare in BARE
    }


def _facts(workload: Workload) -> dict[str, Any]:
    scenario = workload.scenario
    return {
        "name": scenario.name,
        "algorithm": scenario.algorithm,
        "clients": scenario.clients.n_clients,
        "train_windows": sum(len(client.train) for client in workload.data),
        "local_steps": scenario.training.local_steps,
        "batch_size": scenario.training.batch_size,
        "link": scenario.link.model_dump(mode="json"),
        "missing": scenario.network.missing,
        "deadline_s": scenario.network.deadline_s,
    }


def _workload(options: argparse.Namespace) -> Workload:
    edits = {
        "seed": options.seed,
        "rounds": options.rounds,
        "compute.device": "cpu",
        "compute.threads": options.threads,
        "export.onnx": False,
        **({"clients.n_clients": options.clients} if options.clients else {}),
    }
    scenario = load_scenario("beam_tracking").edited(edits)
    return Workload(scenario, load_data(scenario).clients)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="per repeat")
    parser.add_argument("--repeats", type=int, default=7, help="of every arm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=0, help="0: as many as the scenario has, 20")
    parser.add_argument("--threads", type=int, default=2, help="of the executors 'threads' and 'batched'")
    executors = ("batched", "threads", "serial")
    parser.add_argument("--executors", nargs="+", choices=executors, default=executors)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()

"""Rounds per second of decentralized SGD on a ring, through the emulator and beside it as a bare loop.

    python benchmarks/ring_mlp.py [--rounds N] [--repeats N] [--seed N] [--clients N] [--threads N]

20 clients, each with 256 synthetic samples and an MLP 64-128-10 (9,610 parameters). A round is one local epoch of 8
minibatches of 32 with SGD 0.1, then an average with both neighbors, all weights 1/3. The emulator carries every model
over ZeroMQ and loss-free links. All arms start equal, see the same minibatches, and must end equal up to rounding.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from sheafedge.benchmarks._repeats import Arm, Timing, interleaved, spread
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.emulator.contracts import Learner, MessageKind, Modality, NodeId
from sheafedge.emulator.edge.device_profiles import DEVICE_PROFILES
from sheafedge.emulator.engine import Barrier, EmulatorEnvironment
from sheafedge.emulator.network.channels.packet_channel import LinkSettings, PacketChannel
from sheafedge.emulator.network.fifo import Fifo
from sheafedge.emulator.network.loss import IidLoss
from sheafedge.emulator.network.network import Network
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.zmq_transport import ZmqTransport
from sheafedge.emulator.nodes.base_station import BaseStation, play_rounds
from sheafedge.emulator.nodes.compute_pool import BatchedPool, ComputePool, SerialPool, ThreadPool
from sheafedge.emulator.nodes.inbox import Inbox
from sheafedge.emulator.nodes.learner_host import LocalHost
from sheafedge.emulator.nodes.missing import Wait
from sheafedge.emulator.nodes.station_context import StationContext
from sheafedge.emulator.random_streams import named_stream
from sheafedge.emulator.recorder import Recorder
from sheafedge.emulator.saved_state import Parts
from sheafedge.models.client_model import ClientModel
from sheafedge.models.objectives import OBJECTIVES
from sheafedge.models.settings import SheafSettings, TrainingSettings
from sheafedge.models.sharing.chained_learner import ChainedLearner, ChainPhase
from sheafedge.models.sharing.gossip import metropolis_hastings_weights
from sheafedge.models.sharing.vector_gossip import SharedVector, VectorGossip
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.training_rows import RowsInMemory
from sheafedge.models.training.whole_model import WholeModel
from sheafedge.scenarios.wiring.torch_setup import torch_threads
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

N_SAMPLES, N_FEATURES, N_HIDDEN, N_CLASSES = 256, 64, 128, 10
BATCH_SIZE, STEP_SIZE = 32, 0.1
STEPS_PER_EPOCH = N_SAMPLES // BATCH_SIZE
MIX = "mix"
#: What is classified are 64 numbers, like beam powers.
WHOLE: Modality = "rf"
KINDS = frozenset({MessageKind.MODEL})

ARMS = {
    "emulated_batched": "the emulator with the steps of all clients computed together: SimPy clock, base stations,"
    " ZeroMQ over inproc, links with rate and delay but no loss; one torch thread per batch",
    "emulated_threads": "the emulator with jobs on threads: SimPy clock, base stations, ZeroMQ over inproc, links with"
    " rate and delay but no loss; models are flat vectors, so a step of SGD is one call; one torch thread per job",
    "emulated_serial": "the same with every job on the engine's thread",
    "bare": "a plain loop, client after client: nn.Sequential and torch.optim.SGD each, then averages of parameter"
    " vectors; one torch thread",
    "bare_default_threads": "the plain loop with as many torch threads as torch takes by itself",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """What all arms share.

    Attributes:
        inputs: [n_clients, 256, 64].
        labels: [n_clients, 256].
        weights: [n_clients, n_clients] mixing matrix of the ring.
        default_threads: torch threads before the benchmark chose any.
    """

    seed: int
    rounds: int
    pool_threads: int
    inputs: Tensor
    labels: Tensor
    weights: NDArray[np.float64]
    default_threads: int

    def model(self) -> nn.Sequential:
        """The initial model, the same for every client and arm."""
        first, second = nn.Linear(N_FEATURES, N_HIDDEN), nn.Linear(N_HIDDEN, N_CLASSES)
        draws = torch.Generator().manual_seed(self.seed)
        for layer in (first, second):
            bound = layer.in_features**-0.5
            nn.init.uniform_(layer.weight, -bound, bound, generator=draws)
            nn.init.uniform_(layer.bias, -bound, bound, generator=draws)
        return nn.Sequential(first, nn.ReLU(), second)

    def batches(self, client: NodeId) -> np.random.Generator:
        """Stream that a client's minibatches come from."""
        return named_stream(self.seed, "batches", client)

    def neighbors(self, client: NodeId) -> dict[NodeId, float]:
        """Mixing weight of every neighbor."""
        return {int(j): float(self.weights[client, j]) for j in np.flatnonzero(self.weights[client]) if j != client}


@dataclass(slots=True)
class LastStates:
    """Where every arm leaves its models, for the comparison."""

    by_arm: dict[str, Tensor] = field(default_factory=dict)

    def largest_difference(self, reference: str) -> dict[str, float]:
        """Of any parameter of any client, to one arm."""
        expected = self.by_arm[reference]
        return {arm: float((s - expected).abs().max()) for arm, s in self.by_arm.items() if arm != reference}

    def largest_move(self, arm: str, start: Tensor) -> float:
        """Of any parameter of any client, from the initial model."""
        return float((self.by_arm[arm] - start).abs().max())


def ring_learner(client_id: NodeId, problem: Problem) -> tuple[WholeModel, Learner]:
    """Decentralized SGD for the emulator: an epoch, then the average of whole models."""
    start = problem.model()
    first, second = start[0], start[2]
    model = ClientModel(
        {WHOLE: nn.Identity()},
        {WHOLE: nn.Sequential(first, nn.ReLU())},
        fusion="mean",
        embedding_dim=N_HIDDEN,
        n_outputs=N_CLASSES,
    )
    model.head.data.copy_(parameters_to_vector(second.parameters()).detach())
    inputs, labels = problem.inputs[client_id].numpy(), problem.labels[client_id].numpy()
    setup = ClientSetup(
        client_id=client_id,
        group="all",
        models={"fused": model},
        rows=RowsInMemory({WHOLE: inputs}, labels),
        objective=OBJECTIVES["cross_entropy"],
        batch_draws={"fused": problem.batches(client_id)},
        training=TrainingSettings(local_steps=STEPS_PER_EPOCH, batch_size=BATCH_SIZE, model_step_size=STEP_SIZE),
        sheaf=SheafSettings(),
    )
    training = WholeModel(setup, "fused")
    shared = SharedVector(MessageKind.MODEL, None, training.vector, problem.neighbors(client_id))
    gossip = VectorGossip(client_id, [shared])
    phase = ChainPhase(MIX, [gossip], work=training.train, flops=lambda: STEPS_PER_EPOCH * training.flops_per_step)
    learner = ChainedLearner(
        client_id,
        [phase],
        parts=Parts(training=training, gossip=gossip),
        models=lambda inputs: {"fused": training.predict(inputs)},
        figures=dict,
    )
    return training, learner


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    machine = machine_facts()
    problem = ring_problem(options.seed, options.clients, options.rounds, options.threads)
    states = LastStates()
    arms: dict[str, Arm] = {
        "emulated_batched": lambda: emulated_arm(problem, batched_pool(problem), "emulated_batched", states),
        "emulated_threads": lambda: emulated_arm(problem, ThreadPool(problem.pool_threads), "emulated_threads", states),
        "bare": lambda: bare_arm(problem, 1, "bare", states),
        "emulated_serial": lambda: emulated_arm(problem, SerialPool(), "emulated_serial", states),
        "bare_default_threads": lambda: bare_arm(problem, problem.default_threads, "bare_default_threads", states),
    }
    say(f"{len(problem.inputs)} clients, {problem.rounds} rounds")
    timings = interleaved({name: arms[name] for name in arms if name in options.arms}, options.repeats)
    figures = {
        "options": vars(options),
        "parameters": sum(parameter.numel() for parameter in problem.model().parameters()),
        "arms": {name: ARMS[name] for name in timings},
        "largest_difference_to_bare": states.largest_difference("bare"),
        "largest_move": states.largest_move("bare", parameters_to_vector(problem.model().parameters()).detach()),
        "rounds_per_s": {arm: spread([options.rounds / t.wall_s for t in seen]) for arm, seen in timings.items()},
        "rounds_per_cpu_s": {arm: spread([options.rounds / t.cpu_s for t in seen]) for arm, seen in timings.items()},
        "speed_over_bare": _ratios(timings),
    }
    print_report("ring_mlp", machine, figures)


def batched_pool(problem: Problem) -> BatchedPool:
    """All clients together, on this many threads."""
    return BatchedPool(ThreadPool(problem.pool_threads))


@contextmanager
def emulated_arm(problem: Problem, pool: ComputePool, name: str, states: LastStates) -> Iterator[Callable[[], None]]:
    """The emulator, whose pool is closed in the end."""
    trainings, learners = zip(*(ring_learner(client, problem) for client in range(len(problem.inputs))), strict=True)
    env = EmulatorEnvironment(problem.seed)
    transport = ZmqTransport(Wire(KINDS))
    stations = _stations(problem, env, transport, pool, learners)
    with torch_threads(1):
        try:
            yield partial(play_rounds, env, stations, range(problem.rounds))
        finally:
            pool.close()
            transport.close()
    states.by_arm[name] = torch.stack([training.vector for training in trainings])


def _stations(
    problem: Problem,
    env: EmulatorEnvironment,
    transport: ZmqTransport,
    pool: ComputePool,
    learners: Sequence[Learner],
) -> list[BaseStation]:
    """Clock, loss-free links and base stations around the learners."""
    recorder = Recorder(KINDS, lambda *_: None)
    inboxes = {learner.client_id: Inbox(env, Wait(), recorder) for learner in learners}
    settings = LinkSettings(rate_bps=1e9, propagation_s=1e-3, retry_limit=None)
    links = {
        (client, peer): Fifo(env).link(PacketChannel(settings, IidLoss(0.0, env.stream("link", client, peer))))
        for client in inboxes
        for peer in problem.neighbors(client)
    }
    context = StationContext(
        env=env,
        network=Network(env, transport, links, {node: inbox.put for node, inbox in inboxes.items()}, recorder),
        barrier=Barrier(env, len(learners)),
        recorder=recorder,
        deadline_s=None,
    )
    device = DEVICE_PROFILES["edge_cpu"]
    hosts = [LocalHost(learner, pool, _observe) for learner in learners]
    return [BaseStation(host, device, inboxes[host.client_id], context) for host in hosts]


def _observe(learner: Learner, _round_index: int) -> Mapping[str, Any]:
    return learner.health()


@contextmanager
def bare_arm(problem: Problem, n_threads: int, name: str, states: LastStates) -> Iterator[Callable[[], None]]:
    """The plain loop."""
    models = [problem.model() for _ in problem.inputs]
    with torch_threads(n_threads):
        yield partial(_bare_loop, problem, models)
    states.by_arm[name] = torch.stack([parameters_to_vector(model.parameters()).detach() for model in models])


def _bare_loop(problem: Problem, models: Sequence[nn.Sequential]) -> None:
    """The same without an emulator, as one would write it."""
    optimizers = [torch.optim.SGD(model.parameters(), lr=STEP_SIZE) for model in models]
    draws = [problem.batches(client) for client in range(len(models))]
    neighbors = [problem.neighbors(client) for client in range(len(models))]
    for _ in range(problem.rounds):
        for client, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            order = torch.from_numpy(draws[client].permutation(N_SAMPLES))
            for batch in torch.split(order, BATCH_SIZE):
                optimizer.zero_grad()
                logits = model(problem.inputs[client][batch])
                functional.cross_entropy(logits, problem.labels[client][batch]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        with torch.no_grad():
            vectors = [parameters_to_vector(model.parameters()) for model in models]
            for client, model in enumerate(models):
                mixed = vectors[client] * (1.0 - sum(neighbors[client].values()))
                for peer, weight in neighbors[client].items():
                    mixed.add_(vectors[peer], alpha=weight)
                vector_to_parameters(mixed, model.parameters())


def _ratios(timings: Mapping[str, Sequence[Timing]]) -> dict[str, Any]:
    """Rounds per second of each emulated arm over each bare one, repeat by repeat."""
    return {
        f"{arm}/{bare}": spread([b.wall_s / a.wall_s for a, b in zip(timings[arm], timings[bare], strict=True)])
        for arm in sorted(timings.keys() - {"bare", "bare_default_threads"})
        for bare in sorted(timings.keys() & {"bare", "bare_default_threads"})
    }


def ring_problem(seed: int, n_clients: int, rounds: int, pool_threads: int) -> Problem:
    """Ten clusters in 64 dimensions, shared out at random."""
    draws = named_stream(seed, "samples")
    centers = draws.normal(size=(N_CLASSES, N_FEATURES))
    labels = draws.integers(N_CLASSES, size=(n_clients, N_SAMPLES))
    inputs = centers[labels] + draws.normal(scale=2.0, size=(n_clients, N_SAMPLES, N_FEATURES))
    ring = nx.to_numpy_array(nx.cycle_graph(n_clients), dtype=bool)
    return Problem(
        seed=seed,
        rounds=rounds,
        pool_threads=pool_threads,
        inputs=torch.from_numpy(inputs).float(),
        labels=torch.from_numpy(labels),
        weights=metropolis_hastings_weights(ring),
        default_threads=torch.get_num_threads(),
    )


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="per repeat")
    parser.add_argument("--repeats", type=int, default=11, help="of every arm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=20, help="on the ring; at least 3")
    parser.add_argument("--threads", type=int, default=2, help="of the emulator's pool")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), help="'bare' is always among them")
    options = parser.parse_args(argv)
    options.arms = sorted({*options.arms, "bare"})
    return options


if __name__ == "__main__":
    main()

"""Emulation of an assembly: base stations on a network and a clock, ready to run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import torch

from ...emulator.contracts import ConfigError, Learner, Link, NodeId, Transport
from ...emulator.engine import EmulatorEnvironment
from ...emulator.network.network import Network
from ...emulator.network.transport.errors import TransportError
from ...emulator.network.transport.wire import Wire
from ...emulator.network.transport.wire_transport import MemoryTransport
from ...emulator.network.transport.zmq_transport import ZmqTransport
from ...emulator.nodes.asynchronous_station import AsynchronousStation, play_at_own_pace
from ...emulator.nodes.base_station import Station, play_rounds
from ...emulator.nodes.compute_pool import ComputePool
from ...emulator.nodes.inbox import Inbox
from ...emulator.nodes.learner_host import LearnerHost, report_round
from ...emulator.recorder import ObservationSink, Recorder
from ..links.radio_links import RadioLinks
from ..schema.network_section import NetworkSection
from ..schema.scenario import Scenario
from ..sleeping.sleeping_nodes import SleepingNodes
from .assembly import Assembly, assemble
from .client import Client
from .data import ClientData
from .executors import Executor, choose_executor
from .pacing import Pacing
from .stations import Ground, all_awake, some_asleep
from .taking_part import TakingPart, taking_part

#: Clients that sleep and are woken together to be observed.
AWAKE_AT_ONCE = 256
#: New objects after which Python searches for garbage in a round; a client that wakes brings some hundred.
NEW_OBJECTS = 50_000
#: Hosts of learners that run in other processes, given what was built here.
Hosts = Callable[[Assembly], Sequence[LearnerHost]]


@dataclass(frozen=True, slots=True)
class Emulation:
    """All parts of a run, before its first event.

    Attributes:
        env: environment with clock and random streams.
        graph: graph along which messages are sent.
        group_names: names of all groups, in the order of the scenario.
        clients: clients of the run, ordered by client id.
        learners: learners of this process, last that of the server where there is one; where workers train, they get
            the trained states at the end.
        hosts: hosts of all learners.
        stations: stations that play their rounds in step; none in asynchronous mode.
        own_pace: stations of asynchronous mode, each at its own pace.
        recorder: recorder of traffic, trace and observations.
        links: sender and receiver -> link.
        inboxes: node -> inbox of a station in step.
        network: network that carries messages over links and transport.
        transport: transport of their bytes.
        executor: kind of the pool.
        pool: pool that runs the real computations.
        warnings: sentences about risky step sizes.
        notes: sentences about the coupling of whole models, for the head of the run.
        radio: band of all radio links; None where there are none.
        server: number of the server; None: the algorithm has none.
        taking_part: round -> nodes that take part in it; None: all nodes take part in all rounds.
        nodes: stations, inboxes and links of clients that sleep while they take no part, which then are not in
            `hosts` and `inboxes`; None: all are awake.
    """

    env: EmulatorEnvironment
    graph: nx.Graph[NodeId]
    group_names: tuple[str, ...]
    clients: tuple[Client, ...]
    learners: Sequence[Learner]
    hosts: tuple[LearnerHost, ...]
    stations: Sequence[Station]
    own_pace: tuple[AsynchronousStation, ...]
    recorder: Recorder
    links: Mapping[tuple[NodeId, NodeId], Link]
    inboxes: Mapping[NodeId, Inbox]
    network: Network
    transport: Transport
    executor: Executor
    pool: ComputePool
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    radio: RadioLinks | None = None
    server: NodeId | None = None
    taking_part: TakingPart | None = None
    nodes: SleepingNodes | None = None

    @property
    def client_learners(self) -> Sequence[Learner]:
        """Learners of the clients, in their order."""
        return self.learners[: len(self.clients)]

    @property
    def in_step(self) -> bool:
        """Whether rounds begin and end for all together."""
        return not self.own_pace

    @property
    def groups(self) -> dict[str, list[Client]]:
        """Clients by group, in the scenario's order; groups without clients are left out."""
        return self.groups_without(())

    def groups_without(self, absent: Collection[NodeId]) -> dict[str, list[Client]]:
        """Clients by group without the absent ones; groups without clients are left out."""
        present = [client for client in self.clients if client.client_id not in absent]
        return {name: members for name in self.group_names if (members := [c for c in present if c.group == name])}

    def close(self) -> None:
        """Free threads and sockets."""
        self.pool.close()
        self.transport.close()


def build(
    scenario: Scenario,
    data: list[ClientData],
    observe: Callable[[Learner, int], Mapping[str, Any]],
    on_observation: ObservationSink,
    *,
    dtype: torch.dtype = torch.float32,
    start_s: float | None = None,
    hosts: Hosts | None = None,
    pacing: Pacing | None = None,
) -> Emulation:
    """Emulation of a scenario, before its first event.

    Args:
        scenario: scenario to build.
        data: data of every client.
        observe: function that computes the figures of a learner at the end of a round.
        on_observation: called with these figures.
        dtype: type of models and messages; float64 serves exact tests.
        start_s: simulated instant at which the clock starts; None: when the scenario's first round may begin.
        hosts: maker of the hosts of all learners; None: they run in this process.
        pacing: pacing of the clock, and outside clients; None: as fast as possible.

    Raises:
        ConfigError: unknown names, an unstable coupling, or a graph that cannot carry the run.
    """
    # learners in workers, and clients that outside processes play, are where they are
    assembly = assemble(scenario, data, dtype=dtype, may_sleep=hosts is None and pacing is None)
    if start_s is None:
        start_s = scenario.live.warm_up_s if scenario.data.mode == "live" else 0.0
    env = EmulatorEnvironment(scenario.seed, start_s) if pacing is None else pacing.clock(scenario.seed, start_s)
    algorithm, clients = assembly.algorithm, assembly.clients
    # members of a group have one architecture, and those that sleep have no model to look at
    shown = clients if assembly.table is None else {client.group: client for client in reversed(clients)}.values()
    in_step = scenario.network.mode == "synchronous"
    executor = choose_executor(scenario.compute, shown, in_step=in_step, here=hosts is None)
    ground = Ground(
        scenario=scenario,
        env=env,
        assembly=assembly,
        recorder=Recorder(algorithm.kinds, on_observation, assembly.server),
        transport=make_transport(scenario.network, Wire(algorithm.kinds)),
        pool=executor.pool(),
        observe=observe,
        taking_part=taking_part(scenario),
    )
    try:
        if assembly.table is None:
            played = all_awake(ground, None if hosts is None else hosts(assembly), pacing)
        else:
            played = some_asleep(ground, assembly.table)
    except BaseException:
        ground.pool.close()
        ground.transport.close()
        raise
    return Emulation(
        env=env,
        graph=assembly.graph,
        group_names=tuple(group.name for group in scenario.clients.groups),
        clients=clients,
        learners=assembly.learners if assembly.table is None else assembly.table,
        hosts=played.hosts,
        stations=played.stations,
        own_pace=played.own_pace,
        recorder=ground.recorder,
        links=played.links,
        inboxes=played.inboxes,
        network=played.network,
        transport=ground.transport,
        executor=executor,
        pool=ground.pool,
        warnings=assembly.warnings,
        notes=assembly.notes,
        radio=played.radio,
        server=assembly.server,
        taking_part=ground.taking_part,
        nodes=played.nodes,
    )


def make_transport(section: NetworkSection, wire: Wire) -> Transport:
    """Transport that the network section names.

    Raises:
        ConfigError: its address cannot be used.
    """
    if section.transport == "memory":
        return MemoryTransport(wire)
    try:
        return ZmqTransport(wire, address=section.address or None)
    except TransportError as error:
        raise ConfigError(f"network.address: {error}") from None


def emulate(
    emulation: Emulation, rounds: int, first_round: int = 0, round_ended: Callable[[int], None] = lambda _: None
) -> None:
    """Play the simulated clock until every base station has finished its rounds; see `play_rounds`.

    Base stations that go at their own pace are played to their ends at once.
    """

    def ended(round_index: int) -> None:
        if emulation.nodes is not None:
            emulation.nodes.put_away(round_index)
        round_ended(round_index)

    with _few_searches():
        if emulation.in_step:
            played = range(first_round, rounds)
            play_rounds(emulation.env, emulation.stations, played, ended, emulation.taking_part)
        else:
            play_at_own_pace(emulation.env, emulation.own_pace, rounds)


@contextmanager
def _few_searches() -> Iterator[None]:
    """Context in which Python seldom searches for garbage: what a round makes lives on, or is freed at once."""
    young, *older = gc.get_threshold()
    gc.freeze()  # what is there now stays: searching all of torch for garbage would cost a tenth of a second each time
    if young > 0:  # 0: somebody has switched it off
        gc.set_threshold(max(young, NEW_OBJECTS), *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)
        gc.unfreeze()


def observe_resting(
    emulation: Emulation, round_index: int, observe: Callable[[Learner, int], Mapping[str, Any]]
) -> None:
    """Observe the nodes that took no part in this round, as they stand, in their order; nothing where all did."""
    if emulation.taking_part is None:
        return
    present, recorder, now_s = emulation.taking_part(round_index), emulation.recorder, emulation.env.now
    if (nodes := emulation.nodes) is not None:
        resting = [node for node in range(len(nodes)) if node not in present]
        for first in range(0, len(resting), AWAKE_AT_ONCE):
            few = resting[first : first + AWAKE_AT_ONCE]
            seen = [
                emulation.pool.submit(partial(report_round, emulation.learners[node], observe, None, round_index))
                for node in few
            ]
            for node, ticket in zip(few, seen, strict=True):
                recorder.observation(now_s, node, round_index, ticket.result())
        return
    reports = [(host, host.report(None, round_index)) for host in emulation.hosts if host.client_id not in present]
    for host, report in reports:
        recorder.observation(now_s, host.client_id, round_index, report.result())

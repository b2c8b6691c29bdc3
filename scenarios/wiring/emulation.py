"""Emulation of an assembly: base stations on a network and a clock, ready to run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import torch

from ...emulator.contracts import ConfigError, Learner, Link, Message, NodeId, Transport
from ...emulator.engine import Barrier, EmulatorEnvironment
from ...emulator.network.network import Network
from ...emulator.network.transport.errors import TransportError
from ...emulator.network.transport.wire import Wire
from ...emulator.network.transport.wire_transport import MemoryTransport
from ...emulator.network.transport.zmq_transport import ZmqTransport
from ...emulator.nodes.asynchronous_station import AsynchronousStation, play_at_own_pace
from ...emulator.nodes.base_station import BaseStation, Station, play_rounds
from ...emulator.nodes.compute_pool import ComputePool
from ...emulator.nodes.inbox import Inbox, Mailbox
from ...emulator.nodes.learner_host import LearnerHost, LocalHost, report_round
from ...emulator.nodes.missing import MISSING_POLICIES
from ...emulator.nodes.sensing import SensorClock, sensing
from ...emulator.nodes.station_context import RoundPace, StationContext
from ...emulator.recorder import ObservationSink, Recorder
from ..schema.network_section import NetworkSection
from ..schema.scenario import Scenario
from ..sleeping.learner_table import LearnerTable
from ..sleeping.sleeping_nodes import Deliveries, LinksOnDemand, SleepingNodes
from .assembly import Assembly, assemble
from .client import Client
from .data import ClientData
from .executors import Executor, choose_executor
from .links import LinkEnd, LinkMaker, make_links, radio_of
from .live import LiveRows
from .pacing import Pacing
from .radio_links import RadioLinks
from .senders import Cell
from .taking_part import TakingPart, taking_part

#: Clients that sleep and are woken together to be observed.
AWAKE_AT_ONCE = 256
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
    if assembly.table is not None:
        return _connect_sleeping(scenario, env, assembly, assembly.table, observe, on_observation)
    return _connect(scenario, env, assembly, observe, on_observation, hosts, pacing)


def _start_sensing(env: EmulatorEnvironment, client: Client, handover_s: float) -> Callable[[float], None] | None:
    """Start the sensors of a live client on the clock; returns the call that begins its rounds, None if not live."""
    rows = client.data.train
    if not isinstance(rows, LiveRows):
        return None
    clock = SensorClock(rows.world.rate_hz, rows.world.n_ticks, handover_s, first_tick=rows.n_sensed_ticks)
    env.process(sensing(env, rows.sensors, clock, rows.take_in))
    return rows.begin_round


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


def _connect(
    scenario: Scenario,
    env: EmulatorEnvironment,
    assembly: Assembly,
    observe: Callable[[Learner, int], Mapping[str, Any]],
    on_observation: ObservationSink,
    hosts_of: Hosts | None,
    pacing: Pacing | None,
) -> Emulation:
    """Emulation around an assembly: links, transport, inboxes, stations and sensors."""
    algorithm, graph, clients, learners = assembly.algorithm, assembly.graph, assembly.clients, assembly.learners
    live = scenario.live if scenario.data.mode == "live" else None
    recorder = Recorder(algorithm.kinds, on_observation, assembly.server)
    policy = MISSING_POLICIES[scenario.network.missing]
    in_step, playing = scenario.network.mode == "synchronous", taking_part(scenario)
    nodes = [learner.client_id for learner in learners]
    inboxes = {node: Inbox(env, policy(), recorder) for node in nodes if in_step}
    mailboxes = {node: Mailbox(policy(), recorder) for node in nodes if not in_step}
    deliver: dict[NodeId, Callable[[Message], None]] = {node: box.put for node, box in (inboxes | mailboxes).items()}
    ends = {client.client_id: LinkEnd(client.group, client.data.blocked) for client in clients}
    cell = None if assembly.server is None else Cell(assembly.server, scenario.server)
    radio = radio_of(scenario.links, graph, env, ends, cell)
    # only live rounds begin at fixed times; otherwise the length of a run depends on its links
    run_s = None if live is None else live.warm_up_s + scenario.rounds * live.round_every_s
    links = make_links(
        scenario.links, scenario.link, graph, env, ends, radio, cell, until_delivered=policy.waits, run_s=run_s
    )
    transport = make_transport(scenario.network, Wire(algorithm.kinds))
    executor = choose_executor(scenario.compute, clients, in_step=in_step, here=hosts_of is None)
    pool = executor.pool()
    context = StationContext(
        env=env,
        network=Network(env, transport, links, deliver, recorder, assembly.faults),
        # where nodes take part in some rounds only, they come to the barrier when they play one
        barrier=Barrier(env, len(nodes) if playing is None else 0),
        recorder=recorder,
        # a policy that waits repeats lost packets without limit, so that every message arrives
        deadline_s=None if policy.waits else scenario.network.deadline_s,
        pace=None if live is None else RoundPace(live.warm_up_s, live.round_every_s),
        faults=assembly.faults,
        neighbors_at=_neighbors_at(assembly, playing),
        taking_part=playing,
    )
    hosts: tuple[LearnerHost, ...]
    # the server's learner lives here, wherever those of the clients do
    local = [LocalHost(learner, pool, observe) for learner in learners]
    hosts = tuple([*hosts_of(assembly), *local[len(clients) :]] if hosts_of else local)
    begins = [_start_sensing(env, client, scenario.live.handover_s) for client in clients]
    begins += [None] * (len(nodes) - len(clients))
    return Emulation(
        env=env,
        graph=graph,
        group_names=tuple(group.name for group in scenario.clients.groups),
        clients=clients,
        learners=learners,
        hosts=hosts,
        stations=_stations(assembly, hosts, inboxes, context, begins, pacing) if in_step else (),
        own_pace=() if in_step else _own_pace(assembly, hosts, mailboxes, context, begins),
        recorder=recorder,
        links=links,
        inboxes=inboxes,
        network=context.network,
        transport=transport,
        executor=executor,
        pool=pool,
        warnings=assembly.warnings,
        notes=assembly.notes,
        radio=radio,
        server=assembly.server,
        taking_part=playing,
    )


def _connect_sleeping(
    scenario: Scenario,
    env: EmulatorEnvironment,
    assembly: Assembly,
    table: LearnerTable,
    observe: Callable[[Learner, int], Mapping[str, Any]],
    on_observation: ObservationSink,
) -> Emulation:
    """Emulation whose clients have links, inboxes and stations in the rounds in which they take part."""
    recorder = Recorder(assembly.algorithm.kinds, on_observation, assembly.server)
    policy, playing = MISSING_POLICIES[scenario.network.missing], taking_part(scenario)
    assert playing is not None, "some take no part, or nobody could sleep"
    ends = {client.client_id: LinkEnd(client.group, client.data.blocked) for client in assembly.clients}
    cell = None if assembly.server is None else Cell(assembly.server, scenario.server)
    maker = LinkMaker(scenario.links, scenario.link, env, ends, cell=cell, until_delivered=policy.waits)
    links = LinksOnDemand(env, assembly.graph, maker)
    transport = make_transport(scenario.network, Wire(assembly.algorithm.kinds))
    # members of a group have one architecture
    architectures = {client.group: client for client in reversed(assembly.clients)}
    executor = choose_executor(scenario.compute, architectures.values(), in_step=True, here=True)
    pool = executor.pool()

    def host(node: NodeId) -> LearnerHost:
        return LocalHost(table.wake(node), pool, observe)

    nodes = SleepingNodes(table, links, host, assembly.devices, policy, recorder, playing)
    nodes.context = context = StationContext(
        env=env,
        network=Network(env, transport, links, Deliveries(nodes), recorder, assembly.faults),
        barrier=Barrier(env, 0),
        recorder=recorder,
        deadline_s=None if policy.waits else scenario.network.deadline_s,
        faults=assembly.faults,
        neighbors_at=_neighbors_at(assembly, playing),
        taking_part=playing,
    )
    return Emulation(
        env=env,
        graph=assembly.graph,
        group_names=tuple(group.name for group in scenario.clients.groups),
        clients=assembly.clients,
        learners=table,
        hosts=(),
        stations=nodes,
        own_pace=(),
        recorder=recorder,
        links=links,
        inboxes={},
        network=context.network,
        transport=transport,
        pool=pool,
        executor=executor,
        warnings=assembly.warnings,
        notes=assembly.notes,
        server=assembly.server,
        taking_part=playing,
        nodes=nodes,
    )


def _neighbors_at(
    assembly: Assembly, playing: TakingPart | None
) -> Callable[[NodeId, int, float], frozenset[NodeId]] | None:
    """The neighbors of a client in a round: in range, and taking part; None: always the same, or the server alone."""
    moving, graph = assembly.moving, assembly.graph
    if assembly.server is not None or (moving is None and playing is None):
        return None

    def neighbors(client: NodeId, round_index: int, now_s: float) -> frozenset[NodeId]:
        near = frozenset(graph[client]) if moving is None else moving.begin_round(client, now_s)
        return near if playing is None else near & playing(round_index)

    return neighbors


#: Called with the simulated time when a client begins a round; None: there is nothing to do.
_Begin = Callable[[float], None] | None


def _stations(
    assembly: Assembly,
    hosts: Sequence[LearnerHost],
    inboxes: Mapping[NodeId, Inbox],
    context: StationContext,
    begins: Sequence[_Begin],
    pacing: Pacing | None,
) -> tuple[Station, ...]:
    """Base stations that play their rounds in step; those of outside clients wait for outside processes."""
    outside = {} if pacing is None else pacing.stations(assembly, inboxes, context)
    return tuple(
        outside[node]
        if (node := host.client_id) in outside
        else BaseStation(host, assembly.devices[node], inboxes[node], context, begin)
        for host, begin in zip(hosts, begins, strict=True)
    )


def _own_pace(
    assembly: Assembly,
    hosts: Sequence[LearnerHost],
    mailboxes: Mapping[NodeId, Mailbox],
    context: StationContext,
    begins: Sequence[_Begin],
) -> tuple[AsynchronousStation, ...]:
    """Base stations of asynchronous mode, each at its own pace."""
    return tuple(
        AsynchronousStation(host, assembly.devices[host.client_id], mailboxes[host.client_id], context, begin)
        for host, begin in zip(hosts, begins, strict=True)
    )


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

    gc.freeze()  # what is there now stays: searching all of torch for garbage would cost a tenth of a second each time
    try:
        if emulation.in_step:
            played = range(first_round, rounds)
            play_rounds(emulation.env, emulation.stations, played, ended, emulation.taking_part)
        else:
            play_at_own_pace(emulation.env, emulation.own_pace, rounds)
    finally:
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

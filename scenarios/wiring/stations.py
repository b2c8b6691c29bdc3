"""Base stations of a run with their links and inboxes: all awake from its beginning, or each while it takes part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...emulator.contracts import Learner, Link, Message, NodeId, Transport
from ...emulator.engine import Barrier, EmulatorEnvironment
from ...emulator.network.network import Network
from ...emulator.nodes.asynchronous_station import AsynchronousStation
from ...emulator.nodes.base_station import BaseStation, Station
from ...emulator.nodes.compute_pool import ComputePool
from ...emulator.nodes.inbox import Inbox, Mailbox
from ...emulator.nodes.learner_host import LearnerHost, LocalHost
from ...emulator.nodes.missing import MISSING_POLICIES, MissingPolicy
from ...emulator.nodes.sensing import SensorClock, sensing
from ...emulator.nodes.station_context import RoundPace, StationContext
from ...emulator.recorder import Recorder
from ...emulator.world.weather import CLEAR
from ..links.link_maker import LinkEnd, LinkMaker, make_links, radio_of
from ..links.radio_links import RadioLinks
from ..links.senders import Cell
from ..schema.scenario import Scenario
from ..sleeping.learner_table import LearnerTable
from ..sleeping.sleeping_nodes import Deliveries, LinksOnDemand, SleepingNodes
from .assembly import Assembly
from .client import Client
from .live import LiveRows
from .pacing import Pacing
from .taking_part import TakingPart


@dataclass(frozen=True, slots=True)
class Ground:
    """What stations stand on, whether or not some of them sleep.

    Attributes:
        scenario: of the run.
        env: clock and random streams.
        assembly: clients and learners.
        recorder: recorder of traffic, trace and observations.
        transport: transport of bytes.
        pool: runs the real computations.
        observe: function that computes the figures of a learner at the end of a round.
        taking_part: round -> nodes that take part in it; None: all nodes take part in all rounds.
    """

    scenario: Scenario
    env: EmulatorEnvironment
    assembly: Assembly
    recorder: Recorder
    transport: Transport
    pool: ComputePool
    observe: Callable[[Learner, int], Mapping[str, Any]]
    taking_part: TakingPart | None

    @property
    def policy(self) -> Callable[[], MissingPolicy]:
        """Makes the policy of an inbox for missing messages."""
        return MISSING_POLICIES[self.scenario.network.missing]

    @property
    def until_delivered(self) -> bool:
        """Whether lost packets are repeated without limit."""
        return MISSING_POLICIES[self.scenario.network.missing].waits

    @property
    def ends(self) -> Mapping[NodeId, LinkEnd]:
        """Client -> its end of links."""
        return {client.client_id: LinkEnd(client.group, client.data.blocked) for client in self.assembly.clients}

    @property
    def cell(self) -> Cell | None:
        """The server; None: there is none."""
        server = self.assembly.server
        return None if server is None else Cell(server, self.scenario.server)

    def host(self, learner: Learner) -> LearnerHost:
        """Host of a learner of this process."""
        return LocalHost(learner, self.pool, self.observe)

    def context(
        self,
        links: Mapping[tuple[NodeId, NodeId], Link],
        deliver: Mapping[NodeId, Callable[[Message], None]],
        pace: RoundPace | None = None,
    ) -> StationContext:
        """What all stations share.

        Args:
            links: sender and receiver -> link.
            deliver: receiver -> function that takes its messages.
            pace: fixed times of rounds; None: a round follows the other.
        """
        assembly, playing = self.assembly, self.taking_part
        return StationContext(
            env=self.env,
            network=Network(self.env, self.transport, links, deliver, self.recorder, assembly.faults),
            # where nodes take part in some rounds only, they come to the barrier when they play one
            barrier=Barrier(self.env, len(assembly.learners) if playing is None else 0),
            recorder=self.recorder,
            # a policy that waits repeats lost packets without limit, so that every message arrives
            deadline_s=None if self.until_delivered else self.scenario.network.deadline_s,
            pace=pace,
            faults=assembly.faults,
            neighbors_at=_neighbors_at(assembly, playing),
            taking_part=playing,
        )


@dataclass(frozen=True, slots=True)
class Played:
    """Stations of a run, and what belongs to each; see the same attributes of `Emulation`."""

    network: Network
    links: Mapping[tuple[NodeId, NodeId], Link]
    hosts: tuple[LearnerHost, ...] = ()
    stations: Sequence[Station] = ()
    own_pace: tuple[AsynchronousStation, ...] = ()
    inboxes: Mapping[NodeId, Inbox] = field(default_factory=dict)
    radio: RadioLinks | None = None
    nodes: SleepingNodes | None = None


def all_awake(ground: Ground, elsewhere: Sequence[LearnerHost] | None, pacing: Pacing | None) -> Played:
    """Stations, links and sensors that are there from the first round to the last.

    Args:
        ground: what they stand on.
        elsewhere: hosts of the clients' learners in other processes; None: they live in this one.
        pacing: pacing of the clock, and outside clients; None: as fast as possible.
    """
    scenario, env, assembly, recorder = ground.scenario, ground.env, ground.assembly, ground.recorder
    clients, graph, policy = assembly.clients, assembly.graph, ground.policy
    live = scenario.live if scenario.data.mode == "live" else None
    in_step = scenario.network.mode == "synchronous"
    numbers = [learner.client_id for learner in assembly.learners]
    inboxes = {node: Inbox(env, policy(), recorder) for node in numbers if in_step}
    mailboxes = {node: Mailbox(policy(), recorder) for node in numbers if not in_step}
    deliver: dict[NodeId, Callable[[Message], None]] = {node: box.put for node, box in (inboxes | mailboxes).items()}
    ends, cell = ground.ends, ground.cell
    weather = CLEAR if scenario.world is None else scenario.world.weather
    radio = radio_of(scenario.links, graph, env, ends, cell, weather)
    links = make_links(
        scenario.links,
        scenario.link,
        graph,
        env,
        ends,
        radio,
        cell,
        until_delivered=ground.until_delivered,
        # only live rounds begin at fixed times; otherwise the length of a run depends on its links
        run_s=None if live is None else live.warm_up_s + scenario.rounds * live.round_every_s,
    )
    context = ground.context(links, deliver, None if live is None else RoundPace(live.warm_up_s, live.round_every_s))
    # the server's learner lives here, wherever those of the clients do
    here = [ground.host(learner) for learner in assembly.learners[0 if elsewhere is None else len(clients) :]]
    hosts = (*(elsewhere or ()), *here)
    begins = [_start_sensing(env, client, scenario.live.handover_s) for client in clients]
    begins += [None] * (len(numbers) - len(clients))
    return Played(
        context.network,
        links,
        hosts,
        stations=_in_step(assembly, hosts, inboxes, context, begins, pacing) if in_step else (),
        own_pace=() if in_step else _own_pace(assembly, hosts, mailboxes, context, begins),
        inboxes=inboxes,
        radio=radio,
    )


def some_asleep(ground: Ground, table: LearnerTable) -> Played:
    """Stations whose clients have links, inboxes and learners in the rounds in which they take part."""
    scenario, assembly, playing = ground.scenario, ground.assembly, ground.taking_part
    assert playing is not None, "some take no part, or nobody could sleep"
    maker = LinkMaker(
        scenario.links,
        scenario.link,
        ground.env,
        ground.ends,
        cell=ground.cell,
        until_delivered=ground.until_delivered,
    )
    links = LinksOnDemand(ground.env, assembly.graph, maker)
    nodes = SleepingNodes(
        table,
        links,
        lambda node: ground.host(table.wake(node)),
        assembly.devices,
        ground.policy,
        ground.recorder,
        playing,
    )
    nodes.context = context = ground.context(links, Deliveries(nodes))
    return Played(context.network, links, stations=nodes, nodes=nodes)


def _start_sensing(env: EmulatorEnvironment, client: Client, handover_s: float) -> Callable[[float], None] | None:
    """Start the sensors of a live client on the clock; returns the call that begins its rounds, None if not live."""
    rows = client.data.train
    if not isinstance(rows, LiveRows):
        return None
    clock = SensorClock(rows.world.rate_hz, rows.world.n_ticks, handover_s, first_tick=rows.n_sensed_ticks)
    env.process(sensing(env, rows.sensors, clock, rows.take_in))
    return rows.begin_round


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


def _in_step(
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

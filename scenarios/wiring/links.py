"""From what a scenario says about its links to channels, queues and radios: one line of `MODELS` per model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import networkx as nx
import numpy as np

from ...emulator.contracts import Channel, ConfigError, Link, NodeId
from ...emulator.engine import EmulatorEnvironment
from ...emulator.network.channels.fibre import fibre_channel
from ...emulator.network.channels.packet_channel import IdealChannel, PacketChannel
from ...emulator.network.channels.recorded_blockage import BlockedTimes, ShadowedLoss
from ...emulator.network.channels.sidelink import sidelink_channel
from ...emulator.network.channels.xn import xn_channel
from ...emulator.network.fifo import Fifo
from ...emulator.network.loss import IidLoss, LossProcess
from ...emulator.network.medium import Medium, OwnMedium, ProcessorSharing, RoundRobin
from ...emulator.network.port import Port
from ..schema.link_section import (
    ASKED_AT_START,
    WIRED,
    EdgeModel,
    EdgeSection,
    LinkModel,
    LinksSection,
    TraceSection,
    edge_model,
)
from ..schema.scenario import Scenario
from .link_replays import TraceShelf
from .radio_links import RadioLinks, make_radio_links


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """What a link knows of the client at one of its ends.

    Attributes:
        group: name of its group.
        blocked: when its line of sight is blocked; None: nobody knows.
    """

    group: str
    blocked: BlockedTimes | None = None


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of an edge, and all that a maker of its channel may look at.

    Attributes:
        env: clock and streams.
        scenario: the whole of it.
        edge: what is said about this edge.
        sender, receiver: node ids.
        ends: of all nodes.
        traces: recorded links that were read before.
        radio: the band of all edges with that model; None where there is none.
        until_delivered: repeat without limit.
    """

    env: EmulatorEnvironment
    scenario: Scenario
    edge: EdgeModel
    sender: NodeId
    receiver: NodeId
    ends: Mapping[NodeId, LinkEnd]
    traces: TraceShelf
    radio: RadioLinks | None
    until_delivered: bool

    def stream(self, name: str) -> np.random.Generator:
        """A random stream of this direction alone."""
        return self.env.stream(name, self.sender, self.receiver)


def _ideal(of: Direction) -> Channel:
    return IdealChannel(of.edge.link.packet_bytes)


def _constant(of: Direction) -> Channel:
    return _lossy(of, IidLoss(of.edge.link.loss_probability, of.stream("link")))


def _gilbert_elliott(of: Direction) -> Channel:
    bursts = of.edge.bursts
    return _constant(of) if bursts is None else _lossy(of, bursts.process(of.stream("link")))


def _lossy(of: Direction, loss: LossProcess) -> Channel:
    return PacketChannel(of.edge.link.settings(until_delivered=of.until_delivered), _with_shadows(of, loss))


def _radio(of: Direction) -> Channel:
    assert of.radio is not None, "made wherever an edge may ask for it"
    return of.radio.channel(of.sender, of.receiver, until_delivered=of.until_delivered)


def _fibre(of: Direction) -> Channel:
    return fibre_channel(of.edge.fibre, of.edge.link.packet_bytes, of.stream("latency"))


def _xn(of: Direction) -> Channel:
    repeats = of.edge.link.settings(until_delivered=of.until_delivered)
    return xn_channel(of.edge.xn, repeats, of.stream("link"), of.stream("latency"))


def _sidelink(of: Direction) -> Channel:
    return sidelink_channel(
        of.edge.sidelink,
        _with_shadows(of, IidLoss(of.edge.sidelink.transmission_loss, of.stream("link"))),
        of.edge.link.packet_bytes,
        of.stream("latency"),
        until_delivered=of.until_delivered,
    )


def _trace(of: Direction) -> Channel:
    section = of.edge.trace
    replay = of.traces.replay(section, _stretch_s(of.scenario, section), of.stream("trace"))
    loss = IidLoss(of.edge.link.loss_probability, of.stream("link")) if replay.loss is None else replay.loss
    settings = of.edge.link.settings(until_delivered=of.until_delivered)
    return PacketChannel(settings, _with_shadows(of, loss), replay.pace, replay.latency)


#: Model -> maker of the channel of one direction.
MODELS: Mapping[LinkModel, Callable[[Direction], Channel]] = {
    "ideal": _ideal,
    "constant": _constant,
    "gilbert_elliott": _gilbert_elliott,
    "radio": _radio,
    "fibre": _fibre,
    "xn": _xn,
    "sidelink": _sidelink,
    "trace": _trace,
}


def radio_of(
    scenario: Scenario, graph: nx.Graph[NodeId], env: EmulatorEnvironment, ends: Mapping[NodeId, LinkEnd]
) -> RadioLinks | None:
    """The band of all edges that follow the model "radio"; None where none does. Arguments as for `make_links`."""
    if "radio" not in scenario.links.models:
        return None
    return make_radio_links(scenario.links.radio, graph, env, {node: end.blocked for node, end in ends.items()})


def make_links(
    scenario: Scenario,
    graph: nx.Graph[NodeId],
    env: EmulatorEnvironment,
    ends: Mapping[NodeId, LinkEnd],
    radio: RadioLinks | None = None,
    *,
    until_delivered: bool,
) -> dict[tuple[NodeId, NodeId], Link]:
    """One link per direction of every edge, each with its own streams.

    Args:
        scenario: says what they are like.
        graph: the edges.
        env: clock and streams.
        ends: what is known of every node.
        radio: what `radio_of` made of the same.
        until_delivered: repeat lost packets without limit.

    Raises:
        ConfigError: blockers are to darken links, but nobody knows when they stand in the way; an exception that names
            no edge.
        DataError: a trace that cannot be read.
    """
    _check_exceptions(scenario.links, graph)
    senders, traces = _Senders(env, scenario.links), TraceShelf()
    links: dict[tuple[NodeId, NodeId], Link] = {}
    for sender, receiver in sorted([*graph.edges, *((b, a) for a, b in graph.edges)]):
        exception = _exception(scenario.links, ends, sender, receiver)
        edge = edge_model(scenario.links, scenario.link, exception)
        direction = Direction(env, scenario, edge, sender, receiver, ends, traces, radio, until_delivered)
        links[sender, receiver] = senders.of(direction).link(MODELS[edge.model](direction))
    return links


class _Senders:
    """The queues before the channels: one per direction, or one per radio."""

    def __init__(self, env: EmulatorEnvironment, section: LinksSection) -> None:
        self._env, self._section = env, section
        self._limit_bytes = section.queue_bytes or math.inf
        self._goes_by_events = section.priorities or not section.models.isdisjoint(ASKED_AT_START)
        self._own: Medium = OwnMedium(env)
        self._shared = _shared_medium(env, section)
        self._radios: dict[NodeId, Fifo | Port] = {}

    def of(self, direction: Direction) -> Fifo | Port:
        """Who sends in this direction."""
        is_wired = direction.edge.model in WIRED
        medium = self._own if is_wired or self._shared is None else self._shared
        if is_wired or self._section.transmitter == "per_edge":
            return self._new(medium)
        if direction.sender not in self._radios:
            self._radios[direction.sender] = self._new(medium)
        return self._radios[direction.sender]

    def _new(self, medium: Medium) -> Fifo | Port:
        """Whatever nobody can overtake or slow down is computed ahead, and the rest event by event."""
        has_classes = self._section.priorities
        if medium is self._own and not self._goes_by_events:
            return Fifo(self._env, self._limit_bytes)
        chunk_packets = self._section.chunk_packets if has_classes else None
        return Port(
            self._env, medium, limit_bytes=self._limit_bytes, has_classes=has_classes, chunk_packets=chunk_packets
        )


def _shared_medium(env: EmulatorEnvironment, section: LinksSection) -> Medium | None:
    if section.medium == "processor_sharing":
        return ProcessorSharing(env)
    if section.medium == "round_robin":
        return RoundRobin(env, section.blocks.slot_s, section.blocks.n_blocks)
    return None


def _exception(links: LinksSection, ends: Mapping[NodeId, LinkEnd], one: NodeId, other: NodeId) -> EdgeSection | None:
    """The last one that names this edge."""
    groups = sorted((ends[one].group, ends[other].group)) if links.edges else []
    return next((edge for edge in reversed(links.edges) if edge.joins(frozenset((one, other)), groups)), None)


def _check_exceptions(links: LinksSection, graph: nx.Graph[NodeId]) -> None:
    for index, exception in enumerate(links.edges):
        if exception.clients is not None and not graph.has_edge(*exception.clients):
            one, other = exception.clients
            near = ", ".join(str(node) for node in sorted(graph[one])) or "nobody"
            raise ConfigError(
                f"links.edges.{index}: clients {one} and {other} are no neighbors; {one} has edges to {near}"
            )


def _stretch_s(scenario: Scenario, section: TraceSection) -> float | None:
    """Simulated duration of one replay; None: as recorded."""
    if section.at_end == "loop" or section.stretch_to_s is not None:
        return section.stretch_to_s
    live = scenario.live
    return live.warm_up_s + scenario.rounds * live.round_every_s


def _with_shadows(of: Direction, clear: LossProcess) -> LossProcess:
    """Losses that also follow the blockers that the sensors see, where links are to."""
    blocked_loss = of.edge.link.blocked_loss_probability
    if blocked_loss == 0.0:
        return clear
    ends = [_times(of.ends, end) for end in (of.sender, of.receiver)]
    share = 1.0 - math.prod(1.0 - end.share for end in ends)
    env = of.env
    return ShadowedLoss(clear, blocked_loss, lambda: any(end(env.now) for end in ends), share, of.stream("shadow"))


def _times(ends: Mapping[NodeId, LinkEnd], node: NodeId) -> BlockedTimes:
    times = ends[node].blocked
    if times is None:
        raise ConfigError(
            "link.blocked_loss_probability needs recordings that say when the line of sight is blocked; that of client"
            f" {node} does not, so set link.blocked_loss_probability = 0"
        )
    return times

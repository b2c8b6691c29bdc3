"""From `[link]`, `[links]` and `[server]` of a scenario to links."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import networkx as nx
import numpy as np

from ...emulator.contracts import Channel, ConfigError, Link, NodeId
from ...emulator.engine import EmulatorEnvironment
from ...emulator.network.channels.packet_channel import LinkSettings, PacketChannel
from ...emulator.network.channels.recorded_blockage import BlockedTimes, ShadowedLoss
from ...emulator.network.loss import IidLoss, LossProcess
from ...emulator.world.weather import CLEAR, Weather
from ..schema.link_numbers import LinkSection, TraceSection
from ..schema.link_section import EdgeModel, EdgeSection, EdgeSettings, LinksSection, edge_model
from .link_replays import TraceFiles
from .radio_links import RadioLinks, make_radio_links
from .senders import Cell, Senders, link_models


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """End of a link: the properties of a node that its links depend on.

    Attributes:
        group: name of the node's group.
        blocked: instants at which its line of sight is blocked; None: not recorded.
    """

    group: str
    blocked: BlockedTimes | None = None


@dataclass(frozen=True, slots=True)
class _Shared:
    """Parts that all links of a run share.

    Attributes:
        env: clock and streams.
        ends: node -> its end of links.
        traces: trace files that were read before.
        radio: band of all edges with the model "radio"; None where there is none.
        until_delivered: whether lost packets are repeated without limit.
        run_s: simulated length of the run in s; None: not known.
        streams: names of the streams that the channel of a direction was given, while it is made.
    """

    env: EmulatorEnvironment
    ends: Mapping[NodeId, LinkEnd]
    traces: TraceFiles
    radio: RadioLinks | None
    until_delivered: bool
    run_s: float | None
    streams: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Direction:
    """One direction of an edge; see `link_models.Direction` for what makers of channels may use."""

    sender: NodeId
    receiver: NodeId
    edge: EdgeModel
    packets: LinkSettings
    shared: _Shared

    @property
    def link(self) -> LinkSection:
        return self.edge.link

    @property
    def until_delivered(self) -> bool:
        return self.shared.until_delivered

    def stream(self, name: str) -> np.random.Generator:
        self.shared.streams.append(name)
        return self.shared.env.stream(name, self.sender, self.receiver)

    def blocked(self, clear: LossProcess) -> LossProcess:
        blocked_loss = self.edge.link.blocked_loss_probability
        if blocked_loss == 0.0:
            return clear
        # only clients have a line of sight to a user that something may block
        sighted = [end for end in (self.sender, self.receiver) if end in self.shared.ends]
        ends = [_blocked_times(self.shared.ends, end) for end in sighted]
        # either end suffices: one minus the probability that neither is blocked, if they are independent
        share = 1.0 - math.prod(1.0 - end.share for end in ends)
        env = self.shared.env
        return ShadowedLoss(
            clear, blocked_loss, lambda: any(end(env.now) for end in ends), share, self.stream("shadow")
        )

    def radio_channel(self) -> Channel:
        assert self.shared.radio is not None, "made wherever an edge may have this model"
        return self.shared.radio.channel(self.sender, self.receiver, until_delivered=self.until_delivered)

    def trace_channel(self, settings: TraceSection) -> Channel:
        replay_s = settings.stretch_to_s
        # without a length of its own the trace covers the whole run, where its length is known
        if settings.at_end == "stretch" and replay_s is None:
            replay_s = self.shared.run_s
        replay = self.shared.traces.replay(settings, replay_s, self.stream("trace"))
        # a trace without losses leaves those of [link]
        loss = IidLoss(self.link.loss_probability, self.stream("link")) if replay.loss is None else replay.loss
        return PacketChannel(self.packets, self.blocked(loss), replay.pace, replay.latency)


def _blocked_times(ends: Mapping[NodeId, LinkEnd], node: NodeId) -> BlockedTimes:
    times = ends[node].blocked
    if times is None:
        raise ConfigError(
            "link.blocked_loss_probability needs recordings that say when the line of sight is blocked; that of client"
            f" {node} does not, so set link.blocked_loss_probability = 0"
        )
    return times


def radio_of(
    links: LinksSection,
    graph: nx.Graph[NodeId],
    env: EmulatorEnvironment,
    ends: Mapping[NodeId, LinkEnd],
    cell: Cell | None = None,
    weather: Weather = CLEAR,
) -> RadioLinks | None:
    """Band of all edges that follow the model "radio", in some weather; None where none does.

    Other arguments as for `make_links`.
    """
    if "radio" not in link_models(links, cell):
        return None
    blocked = {node: ends[node].blocked if node in ends else None for node in graph}
    return make_radio_links(links.settings_of("radio"), graph, env, blocked, weather)


def make_links(
    links: LinksSection,
    link: LinkSection,
    graph: nx.Graph[NodeId],
    env: EmulatorEnvironment,
    ends: Mapping[NodeId, LinkEnd],
    radio: RadioLinks | None = None,
    cell: Cell | None = None,
    *,
    until_delivered: bool,
    run_s: float | None = None,
) -> dict[tuple[NodeId, NodeId], Link]:
    """(Sender, receiver) -> link; one per direction of every edge, each with its own random streams.

    Args:
        graph: graph whose edges get links.
        others: as for `LinkMaker`.

    Raises:
        ConfigError, DataError: as `LinkMaker.made`.
    """
    maker = LinkMaker(links, link, env, ends, radio, cell, until_delivered=until_delivered, run_s=run_s)
    # the order decides in which order senders are made, so it is that of checkpoints
    return {ends: maker.made(*ends).link for ends in sorted([*graph.edges, *((b, a) for a, b in graph.edges)])}


class MadeLink(NamedTuple):
    """A link, and what to put away with it.

    Attributes:
        link: one direction of an edge.
        streams: names of the random streams of its channel.
    """

    link: Link
    streams: tuple[str, ...]


class LinkMaker:
    """Maker of the links of a run, in any order.

    Args:
        links, link: sections with the settings of the links.
        env: clock and streams.
        ends: client -> its end of links.
        cell: the server; None: there is none.
        radio: result of `radio_of` for the same arguments.
        until_delivered: whether lost packets are repeated without limit.
        run_s: simulated length of the run, which traces can be stretched to; None: not known.

    Attributes:
        senders: queues before the channels.
    """

    def __init__(
        self,
        links: LinksSection,
        link: LinkSection,
        env: EmulatorEnvironment,
        ends: Mapping[NodeId, LinkEnd],
        radio: RadioLinks | None = None,
        cell: Cell | None = None,
        *,
        until_delivered: bool,
        run_s: float | None = None,
    ) -> None:
        self.senders = Senders(env, links, cell)
        self._links, self._link, self._ends, self._cell = links, link, ends, cell
        self._edges: dict[int | None, tuple[EdgeModel, LinkSettings]] = {}
        self._shared = _Shared(env, ends, TraceFiles(), radio, until_delivered, run_s)

    def made(self, sender: NodeId, receiver: NodeId) -> MadeLink:
        """The link of one direction of an edge.

        Raises:
            ConfigError: losses are to follow blockages, but a recording does not say when the line of sight is blocked.
            DataError: a trace that cannot be read.
        """
        edge, packets = self._edge(sender, receiver)
        self._shared.streams.clear()
        channel = edge.model.channel(edge.settings, _Direction(sender, receiver, edge, packets, self._shared))
        link = self.senders.of(sender, receiver, is_wired=edge.model.is_wired).link(channel)
        return MadeLink(link, tuple(self._shared.streams))

    def _edge(self, sender: NodeId, receiver: NodeId) -> tuple[EdgeModel, LinkSettings]:
        """Model and numbers of an edge, and what they come to for its packets."""
        exception: EdgeSettings | None
        if self._cell is not None and self._cell.server in (sender, receiver):
            exception = self._cell.section.link
        else:
            exception = _exception(self._links, self._ends, sender, receiver)
        # edges of one exception are alike, and sections take longer to copy than links to make
        key = None if exception is None else id(exception)
        if key not in self._edges:
            edge = edge_model(self._links, self._link, exception)
            self._edges[key] = edge, edge.link.settings(until_delivered=self._shared.until_delivered)
        return self._edges[key]


def _exception(links: LinksSection, ends: Mapping[NodeId, LinkEnd], one: NodeId, other: NodeId) -> EdgeSection | None:
    """Last entry of `[[links.edges]]` that names this edge; None: there is none."""
    groups = sorted((ends[one].group, ends[other].group)) if links.edges else []
    return next((edge for edge in reversed(links.edges) if edge.joins(frozenset((one, other)), groups)), None)

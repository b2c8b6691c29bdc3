"""What a scenario can say about its links: which model each edge has, its numbers, and the queues before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import pydantic
from pydantic import Field

from ...emulator.contracts import ConfigError, NodeId
from ...emulator.network.channels.fibre import FibreSettings
from ...emulator.network.channels.gilbert_elliott import BURST_PRESETS, BurstSettings, bursts_of
from ...emulator.network.channels.packet_channel import LinkSettings
from ...emulator.network.channels.radio_settings import RadioSettings
from ...emulator.network.channels.sidelink import SidelinkSettings
from ...emulator.network.channels.xn import XnSettings
from .section import Probability, Section

#: Every model has a maker in `scenarios.links.MODELS`.
LinkModel = Literal["ideal", "constant", "gilbert_elliott", "radio", "fibre", "xn", "sidelink", "trace"]
#: Wires: no radio, no medium to share, no blockers.
WIRED: frozenset[LinkModel] = frozenset({"ideal", "fibre", "xn"})
#: Models that depend on who else sends at that moment: a sender must not ask them ahead of time.
ASKED_AT_START: frozenset[LinkModel] = frozenset({"radio"})


class LinkSection(Section):
    """The numbers of every direction of every edge, as far as its model does not bring its own.

    Attributes:
        rate_bps, propagation_s, processing_s, packet_bytes, retry_limit, retry_interval_s: see `LinkSettings`.
        loss_probability: share of transmissions lost in the long run.
        mean_burst_packets: how many are lost in a row where `links.model` is "gilbert_elliott".
        blocked_loss_probability: share of the others that is lost while something blocks the line of sight of one of
            the two base stations, in the world that the sensors see; 0: blockages have no effect. Wires are never
            affected.
    """

    rate_bps: float = 1e8
    propagation_s: float = 0.005
    processing_s: float = 0.001
    packet_bytes: int = 1200
    retry_limit: Annotated[int, Field(le=1000)] = 1
    retry_interval_s: float = 0.008
    loss_probability: Probability = 0.0
    mean_burst_packets: Annotated[float, Field(ge=1.0)] = 4.0
    blocked_loss_probability: Probability = 0.0

    @pydantic.model_validator(mode="after")
    def _is_possible(self) -> Self:
        self.settings()
        return self

    def settings(self, *, until_delivered: bool = False) -> LinkSettings:
        """Timing of a link; `until_delivered` lifts the retry limit."""
        return LinkSettings(
            rate_bps=self.rate_bps,
            propagation_s=self.propagation_s,
            processing_s=self.processing_s,
            packet_bytes=self.packet_bytes,
            retry_limit=None if until_delivered else self.retry_limit,
            retry_interval_s=self.retry_interval_s,
        )


class BurstSection(Section):
    """Bursts of losses; nothing set: those that `link.loss_probability` and `link.mean_burst_packets` describe.

    Attributes:
        preset: "light" or "mobile".
        p, r, loss_bad, loss_good: see `BurstSettings`; netem's p, r, 1-h and 1-k.
    """

    preset: Literal["", "light", "mobile"] = ""
    p: Probability | None = None
    r: Probability | None = None
    loss_bad: Probability = 1.0
    loss_good: Probability = 0.0

    @pydantic.model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.p is None) != (self.r is None):
            raise ConfigError("gilbert_elliott.p and gilbert_elliott.r belong together; set both, or a preset")
        if self.preset and self.p is not None:
            raise ConfigError(f"gilbert_elliott.preset = {self.preset!r} has its own p and r; set one or the other")
        if self.p == self.r == 0.0:
            raise ConfigError("gilbert_elliott.p and gilbert_elliott.r are both 0, so it never moves; set r above 0")
        return self

    def settings(self, link: LinkSection) -> BurstSettings | None:
        """What a link of these numbers gets; None where it has no state to be in because its losses are all or none."""
        if self.preset:
            return BURST_PRESETS[self.preset]
        if self.p is not None and self.r is not None:
            return BurstSettings(self.p, self.r, self.loss_bad, self.loss_good)
        if link.loss_probability in (0.0, 1.0):
            return None
        return bursts_of(link.loss_probability, link.mean_burst_packets)


class TraceSection(Section):
    """What to replay.

    Attributes:
        files: traces; every direction of an edge draws one of them.
        format: "mahimahi" (capacity, packet by packet), "pensieve" (capacity, second by second), "cicv5g" (delays) or
            "reception" (which packets arrive; every direction draws a row).
        at_end: "loop" begins anew, "stretch" makes one replay last `stretch_to_s`, and begins anew then.
        stretch_to_s: simulated seconds; may be left out with `data.mode = "live"`, whose runs have a known length.
        random_start: every direction begins somewhere else; else all begin at the beginning.
        one_way_share: of a recorded round trip.
    """

    files: tuple[str, ...] = ()
    format: Literal["mahimahi", "pensieve", "cicv5g", "reception"] = "mahimahi"
    at_end: Literal["loop", "stretch"] = "loop"
    stretch_to_s: Annotated[float, Field(gt=0.0)] | None = None
    random_start: bool = False
    one_way_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5

    @pydantic.model_validator(mode="after")
    def _ends_somehow(self) -> Self:
        if self.at_end == "stretch" and self.format == "reception":
            raise ConfigError(
                "trace.at_end = 'stretch' needs a trace with times, which format = 'reception' has not; use 'loop'"
            )
        if self.at_end == "loop" and self.stretch_to_s is not None:
            raise ConfigError(
                f"trace.stretch_to_s = {self.stretch_to_s:g} has no meaning with trace.at_end = 'loop'; use 'stretch'"
            )
        return self


class BlocksSection(Section):
    """Resource blocks of a shared medium.

    Attributes:
        slot_s: length of a slot.
        n_blocks: per slot.
    """

    slot_s: Annotated[float, Field(gt=0.0)] = 0.0005
    n_blocks: Annotated[int, Field(ge=1, le=100_000)] = 50


class EdgeSection(Section):
    """Edges that are not like the others; what is not set is as for them.

    Attributes:
        clients: two client ids, in any order.
        groups: two groups, or the same one twice: all edges between their members.
        model: of both directions.
        rate_bps, propagation_s, processing_s, retry_limit, retry_interval_s, loss_probability, mean_burst_packets,
            blocked_loss_probability: see `LinkSection`.
        gilbert_elliott, fibre, xn, sidelink, trace: see `LinksSection`.
    """

    clients: Annotated[tuple[NodeId, ...], Field(min_length=2, max_length=2)] | None = None
    groups: Annotated[tuple[str, ...], Field(min_length=2, max_length=2)] | None = None
    model: LinkModel | None = None
    rate_bps: float | None = None
    propagation_s: float | None = None
    processing_s: float | None = None
    retry_limit: Annotated[int, Field(le=1000)] | None = None
    retry_interval_s: float | None = None
    loss_probability: Probability | None = None
    mean_burst_packets: Annotated[float, Field(ge=1.0)] | None = None
    blocked_loss_probability: Probability | None = None
    gilbert_elliott: BurstSection | None = None
    fibre: FibreSettings | None = None
    xn: XnSettings | None = None
    sidelink: SidelinkSettings | None = None
    trace: TraceSection | None = None

    @pydantic.model_validator(mode="after")
    def _names_edges(self) -> Self:
        if (self.clients is None) == (self.groups is None):
            raise ConfigError('links.edges needs clients = [i, j] or groups = ["a", "b"], one of the two')
        if self.clients is not None and self.clients[0] == self.clients[1]:
            raise ConfigError(f"links.edges: clients = {list(self.clients)} is no edge; give two clients")
        return self

    def joins(self, ends: frozenset[NodeId], groups: list[str]) -> bool:
        """Whether an edge is meant, by its ends and the sorted groups of its ends."""
        return ends == frozenset(self.clients) if self.clients is not None else groups == sorted(self.groups or ())


class LinksSection(Section):
    """Which model every edge has, and what its messages queue for.

    Attributes:
        model: of every edge that `edges` does not name.
        gilbert_elliott, fibre, xn, sidelink, trace: numbers of the models.
        queue_bytes: of messages that may wait at a sender; further ones are dropped. 0: no limit.
        radio: of all edges whose model is "radio"; they share one band.
        transmitter: "per_edge", every direction sends when it likes; "per_node", a node sends one thing at a time.
        medium: "own"; or all radios share one, by "processor_sharing" or in "round_robin" over `blocks`.
        blocks: of the medium, for "round_robin".
        priorities: head and map vectors go before encoders, which are sent in chunks.
        chunk_packets: of these chunks.
        edges: exceptions, the last that names an edge counts.
    """

    model: LinkModel = "constant"
    gilbert_elliott: BurstSection = BurstSection()
    fibre: FibreSettings = FibreSettings()
    xn: XnSettings = XnSettings()
    sidelink: SidelinkSettings = SidelinkSettings()
    trace: TraceSection = TraceSection()
    queue_bytes: Annotated[int, Field(ge=0)] = 0
    radio: RadioSettings = RadioSettings()
    transmitter: Literal["per_edge", "per_node"] = "per_edge"
    medium: Literal["own", "processor_sharing", "round_robin"] = "own"
    blocks: BlocksSection = BlocksSection()
    priorities: bool = False
    chunk_packets: Annotated[int, Field(ge=1)] = 16
    edges: tuple[EdgeSection, ...] = ()

    @property
    def models(self) -> frozenset[LinkModel]:
        """All that some edge may have."""
        return frozenset({self.model, *(edge.model for edge in self.edges if edge.model is not None)})


@dataclass(frozen=True, slots=True)
class EdgeModel:
    """All that is said about one edge, exceptions applied.

    Attributes:
        model: of both directions.
        link: numbers that the model does not bring itself.
        gilbert_elliott, fibre, xn, sidelink, trace: numbers of the models.
    """

    model: LinkModel
    link: LinkSection
    gilbert_elliott: BurstSection
    fibre: FibreSettings
    xn: XnSettings
    sidelink: SidelinkSettings
    trace: TraceSection

    @property
    def bursts(self) -> BurstSettings | None:
        """Of "gilbert_elliott"."""
        return self.gilbert_elliott.settings(self.link)


#: What an exception may set of `[link]`, and which tables of `[links]`.
_LINK_FIELDS = tuple(field for field in LinkSection.model_fields if field in EdgeSection.model_fields)
_MODEL_TABLES = ("gilbert_elliott", "fibre", "xn", "sidelink", "trace")


def edge_model(links: LinksSection, link: LinkSection, exception: EdgeSection | None = None) -> EdgeModel:
    """What an edge is like that falls under an exception, or under none.

    Raises:
        ConfigError: numbers of the exception that are impossible together with the rest.
    """
    if exception is None:
        return EdgeModel(links.model, link, *(getattr(links, table) for table in _MODEL_TABLES))
    changes = {field: value for field in _LINK_FIELDS if (value := getattr(exception, field)) is not None}
    numbers = link.model_copy(update=changes)
    numbers.settings()  # checks them
    tables = (
        own if (own := getattr(exception, table)) is not None else getattr(links, table) for table in _MODEL_TABLES
    )
    return EdgeModel(exception.model or links.model, numbers, *tables)


def check_links(
    links: LinksSection, link: LinkSection, *, n_clients: int, groups: Sequence[str], waits: bool, is_live: bool
) -> None:
    """Refuse links that the rest of the scenario cannot have.

    Args:
        links, link: the two tables.
        n_clients, groups: who is there.
        waits: a missing message is repeated until it is delivered.
        is_live: the run's length is known.

    Raises:
        ConfigError: in one sentence, the first thing that is wrong.
    """
    if waits and links.queue_bytes > 0:
        raise ConfigError(
            f"network.missing = 'wait' never ends for a message that a queue of links.queue_bytes = {links.queue_bytes}"
            " refuses; set it to 0, or use 'skip'"
        )
    for where, model in _models(links, link, n_clients, groups):
        try:
            _check_model(model, waits=waits, is_live=is_live)
        except ConfigError as error:
            raise ConfigError(f"{where}{error}") from None


def _models(
    links: LinksSection, link: LinkSection, n_clients: int, groups: Sequence[str]
) -> Iterator[tuple[str, EdgeModel]]:
    """Everything that an edge can be, and where it is said."""
    yield "", edge_model(links, link)
    for index, exception in enumerate(links.edges):
        where = f"links.edges.{index}: "
        for client in exception.clients or ():
            if not 0 <= client < n_clients:
                raise ConfigError(f"{where}there is no client {client}; give ids from 0 to {n_clients - 1}")
        for group in exception.groups or ():
            if group not in groups:
                raise ConfigError(f"{where}there is no group {group!r}; choose among {', '.join(groups)}")
        try:
            yield where, edge_model(links, link, exception)
        except ConfigError as error:
            raise ConfigError(f"{where}{error}") from None


def _check_model(edge: EdgeModel, *, waits: bool, is_live: bool) -> None:
    if edge.model == "gilbert_elliott":
        _ = edge.bursts  # raises where bursts cannot be that short
    if edge.model == "trace" and not edge.trace.files:
        raise ConfigError("links.trace.files is empty; name the files to replay: --set 'links.trace.files=[\"FILE\"]'")
    if edge.model == "trace" and edge.trace.at_end == "stretch" and edge.trace.stretch_to_s is None and not is_live:
        raise ConfigError(
            "links.trace.at_end = 'stretch' needs to know for how long; set links.trace.stretch_to_s to simulated"
            " seconds, such as the virtual time that an earlier run took"
        )
    if not waits:
        return
    if edge.model == "sidelink" and not edge.sidelink.in_range:
        raise ConfigError(
            f"network.missing = 'wait' never ends with links.sidelink.distance_m = {edge.sidelink.distance_m:g} beyond"
            f" range_m = {edge.sidelink.range_m:g}; use 'skip', or a smaller distance"
        )
    if edge.link.loss_probability >= 1.0:
        raise ConfigError(
            "network.missing = 'wait' never ends with link.loss_probability = 1; use 'skip' or lower the loss"
        )
    if edge.link.blocked_loss_probability >= 1.0:
        raise ConfigError(
            "network.missing = 'wait' never ends for a message that meets link.blocked_loss_probability = 1; use 'skip'"
            " or lower it"
        )

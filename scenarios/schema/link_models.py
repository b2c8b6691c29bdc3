"""The link models that a scenario can name. A new one is a channel in `emulator/network/channels/` and a row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ...emulator.contracts import Channel, ConfigError
from ...emulator.network.channels.fibre import FibreSettings, fibre_channel
from ...emulator.network.channels.packet_channel import IdealChannel, LinkSettings, PacketChannel
from ...emulator.network.channels.radio_settings import RadioSettings
from ...emulator.network.channels.sidelink import SidelinkSettings, sidelink_channel
from ...emulator.network.channels.xn import XnSettings, xn_channel
from ...emulator.network.loss import IidLoss, LossProcess
from .link_numbers import BurstSection, LinkSection, TraceSection

#: Settings of a model: the content of its table `[links.NAME]`.
S = TypeVar("S")


class Direction(Protocol):
    """One direction of an edge, with what the channel of any model may need."""

    @property
    def link(self) -> LinkSection:
        """Numbers of the edge that its model does not bring itself."""
        ...

    @property
    def packets(self) -> LinkSettings:
        """The same as settings of a channel; without a retry limit where messages are repeated until delivered."""
        ...

    @property
    def until_delivered(self) -> bool:
        """Whether lost packets are repeated without limit."""
        ...

    def stream(self, name: str) -> np.random.Generator:
        """A random stream of this direction alone."""
        ...

    def blocked(self, clear: LossProcess) -> LossProcess:
        """These losses, and more while something blocks the line of sight of either end; see
        `link.blocked_loss_probability`.
        """
        ...

    def radio_channel(self) -> Channel:
        """This direction in the band that all radio links of the run share."""
        ...

    def trace_channel(self, settings: TraceSection) -> Channel:
        """A channel that replays recorded links; each file is read once per run."""
        ...


class EdgeUse(NamedTuple):
    """What a check may use about an edge, beside the settings of its model.

    Attributes:
        link: its numbers.
        waits: a missing message is repeated until it is delivered.
        is_live: the simulated length of the run is known.
    """

    link: LinkSection
    waits: bool
    is_live: bool


def _anything_goes(_settings: Any, _use: EdgeUse) -> None:
    return None


@dataclass(frozen=True, slots=True)
class LinkModel(Generic[S]):
    """One link model.

    Attributes:
        settings: class of its table `[links.NAME]`; NoneType: `[link]` has all its numbers.
        channel: makes the channel of one direction.
        check: refuses, with a ConfigError, settings that cannot work.
        is_wired: no radio, no medium to share, no blockers.
        depends_on_load: a transmission depends on the others on air when it starts, so it cannot be computed ahead.
        is_shared: its settings hold for all edges of the model; `links.edges` cannot change them.
    """

    settings: type[S]
    channel: Callable[[S, Direction], Channel]
    check: Callable[[S, EdgeUse], None] = _anything_goes
    is_wired: bool = False
    depends_on_load: bool = False
    is_shared: bool = False


def _iid_channel(_settings: None, of: Direction) -> Channel:
    return PacketChannel(of.packets, of.blocked(IidLoss(of.link.loss_probability, of.stream("link"))))


def _burst_channel(settings: BurstSection, of: Direction) -> Channel:
    bursts = settings.settings(of.link)
    if bursts is None:
        return _iid_channel(None, of)
    return PacketChannel(of.packets, of.blocked(bursts.process(of.stream("link"))))


def _check_bursts(settings: BurstSection, use: EdgeUse) -> None:
    settings.settings(use.link)  # raises where bursts cannot be that short


def _sidelink_channel(settings: SidelinkSettings, of: Direction) -> Channel:
    loss = of.blocked(IidLoss(settings.transmission_loss, of.stream("link")))
    return sidelink_channel(
        settings, loss, of.link.packet_bytes, of.stream("latency"), until_delivered=of.until_delivered
    )


def _check_sidelink(settings: SidelinkSettings, use: EdgeUse) -> None:
    if use.waits and not settings.in_range:
        raise ConfigError(
            f"network.missing = 'wait' never ends with links.sidelink.distance_m = {settings.distance_m:g} beyond"
            f" range_m = {settings.range_m:g}; use 'skip', or a smaller distance"
        )


def _check_trace(settings: TraceSection, use: EdgeUse) -> None:
    if not settings.files:
        raise ConfigError("links.trace.files is empty; name the files to replay: --set 'links.trace.files=[\"FILE\"]'")
    if settings.at_end == "stretch" and settings.stretch_to_s is None and not use.is_live:
        raise ConfigError(
            "links.trace.at_end = 'stretch' needs to know for how long; set links.trace.stretch_to_s to simulated"
            " seconds, such as the virtual time that an earlier run took"
        )


#: Name -> model. Written scenarios hold the tables in this order.
LINK_MODELS: dict[str, LinkModel[Any]] = {
    "ideal": LinkModel(NoneType, lambda _, of: IdealChannel(of.link.packet_bytes), is_wired=True),
    "constant": LinkModel(NoneType, _iid_channel),
    "gilbert_elliott": LinkModel(BurstSection, _burst_channel, _check_bursts),
    "fibre": LinkModel(
        FibreSettings,
        lambda settings, of: fibre_channel(settings, of.link.packet_bytes, of.stream("latency")),
        is_wired=True,
    ),
    "xn": LinkModel(
        XnSettings,
        lambda settings, of: xn_channel(settings, of.packets, of.stream("link"), of.stream("latency")),
        is_wired=True,
    ),
    "sidelink": LinkModel(SidelinkSettings, _sidelink_channel, _check_sidelink),
    "trace": LinkModel(TraceSection, lambda settings, of: of.trace_channel(settings), _check_trace),
    "radio": LinkModel(RadioSettings, lambda _, of: of.radio_channel(), depends_on_load=True, is_shared=True),
}

"""Numbers of links: the table `[link]`, and those tables of `[links]` that need more than a settings class."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import pydantic
from pydantic import Field

from ...emulator.contracts import ConfigError
from ...emulator.network.channels.gilbert_elliott import BURST_PRESETS, BurstSettings, bursts_of
from ...emulator.network.channels.packet_channel import LinkSettings
from .section import Probability, Section


class LinkSection(Section):
    """Numbers of every direction of every edge, unless its model has its own.

    Attributes:
        rate_bps: bits per second on the air.
        propagation_s, processing_s, packet_bytes, retry_interval_s: see `LinkSettings`.
        retry_limit: largest number of repeats of a lost packet; 0: none.
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
        # the settings class checks the ranges of its numbers itself
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
        # a chain that never leaves one state has no mean length of bursts
        if link.loss_probability in (0.0, 1.0):
            return None
        return bursts_of(link.loss_probability, link.mean_burst_packets)


class TraceSection(Section):
    """Recorded links to replay.

    Attributes:
        files: traces; every direction of an edge draws one of them.
        format: "mahimahi" (capacity, packet by packet), "pensieve" (capacity, second by second), "gnettrack" (the same,
            in the CSV logs of G-NetTrack), "cicv5g" (delays) or "reception" (which packets arrive; every direction
            draws a row).
        direction: which rate of a log of G-NetTrack is taken.
        at_end: "loop" begins anew, "stretch" makes one replay last `stretch_to_s`, and begins anew then.
        stretch_to_s: simulated seconds; may be left out with `data.mode = "live"`, whose runs have a known length.
        random_start: every direction begins somewhere else; else all begin at the beginning.
        one_way_share: share of a recorded round trip that is the delay of one direction.
    """

    files: tuple[str, ...] = ()
    format: Literal["mahimahi", "pensieve", "gnettrack", "cicv5g", "reception"] = "mahimahi"
    direction: Literal["downlink", "uplink"] = "downlink"
    at_end: Literal["loop", "stretch"] = "loop"
    stretch_to_s: Annotated[float, Field(gt=0.0)] | None = None
    random_start: bool = False
    one_way_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5

    @pydantic.model_validator(mode="after")
    def _ends_somehow(self) -> Self:
        if self.direction != "downlink" and self.format != "gnettrack":
            raise ConfigError(
                f"trace.direction = {self.direction!r} needs trace.format = 'gnettrack', whose rows have both, got"
                f" {self.format!r}; leave it out"
            )
        if self.at_end == "stretch" and self.format == "reception":
            raise ConfigError(
                "trace.at_end = 'stretch' needs a trace with times, which format = 'reception' has not; use 'loop'"
            )
        if self.at_end == "loop" and self.stretch_to_s is not None:
            raise ConfigError(
                f"trace.stretch_to_s = {self.stretch_to_s:g} has no meaning with trace.at_end = 'loop'; use 'stretch'"
            )
        return self

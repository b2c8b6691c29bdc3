"""The Xn interface between base stations: fast, with a latency that varies and light bursts of losses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...contracts import ConfigError
from .gilbert_elliott import BURST_PRESETS
from .packet_channel import LinkSettings, PacketChannel

#: The 95 % quantile of a standard normal variable.
_QUANTILE_95 = 1.6448536269514722


@dataclass(frozen=True, slots=True)
class XnSettings:
    """Rate and latency of an Xn interface.

    Attributes:
        median_s, p95_s: one-way latency that half and 95 % of the messages stay below; lognormal.
        rate_bps: bits per second.

    Raises:
        ConfigError: a value is impossible.

    Source: our default profile within the 5 to 20 ms that Xn transport is usually budgeted with.
    """

    median_s: float = 0.008
    p95_s: float = 0.020
    rate_bps: float = 1e9

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        if not 0.0 < self.median_s <= self.p95_s < math.inf:
            raise ConfigError(
                f"xn.median_s = {self.median_s} and xn.p95_s = {self.p95_s} must be above 0, the second no less than"
                " the first; 0.008 and 0.02 are usual"
            )
        if not self.rate_bps > 0.0:
            raise ConfigError(f"xn.rate_bps must be above 0, got {self.rate_bps}; 1e9 is one gigabit per second")


def xn_channel(
    settings: XnSettings, repeats: LinkSettings, loss_draws: np.random.Generator, latency_draws: np.random.Generator
) -> PacketChannel:
    """One direction of an Xn interface.

    Args:
        settings: rate and latency.
        repeats: packets and their repeats; its rate and delays are not used.
        loss_draws, latency_draws: the link's own streams.

    Raises:
        ConfigError: repeats would never end.
    """
    # The 95 % quantile of a lognormal is its median times e^(1.645 sigma).
    log_median, spread = math.log(settings.median_s), math.log(settings.p95_s / settings.median_s) / _QUANTILE_95

    def latency_s(_start_s: float) -> float:
        return float(latency_draws.lognormal(log_median, spread))

    own = replace(repeats, rate_bps=settings.rate_bps, propagation_s=0.0, processing_s=0.0)
    return PacketChannel(own, BURST_PRESETS["light"].process(loss_draws), latency=latency_s)

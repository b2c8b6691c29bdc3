"""NR sidelink between neighbors in sight of each other, by its service classes; no radio physics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...contracts import ConfigError
from ..loss import LossProcess
from .packet_channel import LinkSettings, PacketChannel

#: Service class -> packet delay budget in seconds, packet error rate. Source: TS 23.287 Table 5.4.4-1.
PQI_CLASSES: dict[int, tuple[float, float]] = {
    21: (20e-3, 1e-4),
    23: (100e-3, 1e-4),
    90: (10e-3, 1e-4),
    91: (3e-3, 1e-5),
}
#: Transmissions of a packet, the first included.
N_HARQ = 4
#: From a transmission to its repeat: eight slots of 1/8 ms at 120 kHz subcarrier spacing.
HARQ_ROUND_TRIP_S = 1e-3


@dataclass(frozen=True, slots=True)
class SidelinkSettings:
    """Service class, rate and range of a sidelink.

    Attributes:
        pqi: service class; sets the delay budget and the share of packets that stay lost.
        rate_bps: bits per second over 100 MHz at the efficiency of a mid CQI.
        range_m: largest distance at which anything is received.
        distance_m: between sender and receiver.

    Raises:
        ConfigError: a value is impossible.
    """

    pqi: Literal[21, 23, 90, 91] = 21
    # 2.4 bit/s/Hz, the efficiency of CQI 9 in TS 38.214, Table 5.2.2.1-2.
    rate_bps: float = 2.4e8
    range_m: float = 150.0
    distance_m: float = 100.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        for name in ("rate_bps", "range_m"):
            if not getattr(self, name) > 0.0:
                raise ConfigError(f"sidelink.{name} must be above 0, got {getattr(self, name)}")
        if not self.distance_m >= 0.0:
            raise ConfigError(f"sidelink.distance_m must be 0 or more, got {self.distance_m}")

    @property
    def in_range(self) -> bool:
        """Whether the receiver is in range."""
        return self.distance_m <= self.range_m

    @property
    def transmission_loss(self) -> float:
        """Share of single transmissions lost, such that `N_HARQ` of them miss the error rate of the class together."""
        _, error_rate = PQI_CLASSES[self.pqi]
        # Transmissions are lost independently, so the shares multiply.
        return float(error_rate ** (1.0 / N_HARQ)) if self.in_range else 1.0


def sidelink_channel(
    settings: SidelinkSettings,
    loss: LossProcess,
    packet_bytes: int,
    latency_draws: np.random.Generator,
    *,
    until_delivered: bool = False,
) -> PacketChannel:
    """One direction of a sidelink; latency is uniform in the upper half of the delay budget.

    Args:
        settings: service class, rate and range.
        loss: losses of single transmissions; by itself `IidLoss` of `settings.transmission_loss`.
        packet_bytes: size of packets.
        latency_draws: the link's own stream.
        until_delivered: repeats without limit instead of `N_HARQ` transmissions.

    Raises:
        ConfigError: repeats would never end, because the receiver is out of range.
    """
    budget_s, _ = PQI_CLASSES[settings.pqi]
    own = LinkSettings(
        settings.rate_bps,
        packet_bytes=packet_bytes,
        retry_limit=None if until_delivered else N_HARQ - 1,
        retry_interval_s=HARQ_ROUND_TRIP_S,
    )

    def latency_s(_start_s: float) -> float:
        return float(latency_draws.uniform(0.5 * budget_s, budget_s))

    return PacketChannel(own, loss, latency=latency_s)

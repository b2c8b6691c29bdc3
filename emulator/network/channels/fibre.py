"""Fibre between sites: no losses, and a latency that one link keeps for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...contracts import ConfigError
from ..loss import Lossless
from .packet_channel import LinkSettings, PacketChannel

#: Light in glass.
SECONDS_PER_KM = 5e-6

FibreGrade = Literal["length", "ideal", "class_1", "class_2", "class_3"]
#: Grade -> lowest and highest one-way latency in seconds, and bits per second.
#: Source: non-ideal and ideal backhaul of TR 36.932; the rate is the upper end of what the classes span.
FIBRE_GRADES: dict[FibreGrade, tuple[float, float, float]] = {
    "ideal": (2.5e-6, 2.5e-6, 1e10),
    "class_1": (10e-3, 30e-3, 1e10),
    "class_2": (5e-3, 10e-3, 1e9),
    "class_3": (2e-3, 5e-3, 1e10),
}


@dataclass(frozen=True, slots=True)
class FibreSettings:
    """Grade, length and rate of a fibre.

    Attributes:
        grade: a backhaul class, whose latency is drawn once per link; "length" counts kilometres.
        length_km: length of the fibre, for "length".
        rate_bps: bits per second; not set: that of the grade, 10 Gbit/s for "length".

    Raises:
        ConfigError: a value is impossible.
    """

    grade: FibreGrade = "length"
    length_km: float = 1.0
    rate_bps: float | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        if not 0.0 <= self.length_km <= 40_000.0:
            raise ConfigError(f"fibre.length_km must lie in [0, 40000], got {self.length_km}")
        if self.rate_bps is not None and not self.rate_bps > 0.0:
            raise ConfigError(f"fibre.rate_bps must be above 0, got {self.rate_bps}; 1e10 is ten gigabit per second")


def fibre_channel(settings: FibreSettings, packet_bytes: int, draws: np.random.Generator) -> PacketChannel:
    """One direction of a fibre.

    Args:
        settings: grade, length and rate of the fibre.
        packet_bytes: size of packets.
        draws: decides about the latency, once.
    """
    low_s, high_s, rate_bps = FIBRE_GRADES.get(settings.grade, (0.0, 0.0, 1e10))
    # Only grades draw, and once per link, whose latency never changes afterwards.
    latency_s = settings.length_km * SECONDS_PER_KM if settings.grade == "length" else draws.uniform(low_s, high_s)
    rate_bps = rate_bps if settings.rate_bps is None else settings.rate_bps
    return PacketChannel(LinkSettings(rate_bps, propagation_s=latency_s, packet_bytes=packet_bytes), Lossless())

"""The numbers that most channels have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...contracts import ConfigError


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """What one direction of an edge is like.

    Attributes:
        rate_bps: bits per second on the air; `math.inf` for a link that costs no airtime.
        propagation_s, processing_s: fixed delays after the last bit; they do not keep the link busy.
        packet_bytes: size of all packets but a message's last; a multiple of 8, so that no number is cut in two.
        retry_limit: how often a lost packet is repeated: 0 never, None until it arrives.
        retry_interval_s: from the end of a round until its sender knows what was lost and repeats it.

    Raises:
        ConfigError: a value is impossible.
    """

    rate_bps: float
    propagation_s: float = 0.0
    processing_s: float = 0.0
    packet_bytes: int = 1200
    retry_limit: int | None = 0
    retry_interval_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.rate_bps > 0.0:  # NaN fails too
            raise ConfigError(f"link.rate_bps must be above 0, got {self.rate_bps}; 1e9 is one gigabit per second")
        for name in ("propagation_s", "processing_s", "retry_interval_s"):
            value = getattr(self, name)
            if not (value >= 0.0 and math.isfinite(value)):
                raise ConfigError(f"link.{name} must be 0 or a finite number of seconds above it, got {value}")
        if self.packet_bytes < 8 or self.packet_bytes % 8:
            raise ConfigError(f"link.packet_bytes must be a positive multiple of 8, got {self.packet_bytes}; try 1200")
        if self.retry_limit is not None and self.retry_limit < 0:
            raise ConfigError(f"link.retry_limit must be 0 or more, got {self.retry_limit}; 0 means no retransmission")

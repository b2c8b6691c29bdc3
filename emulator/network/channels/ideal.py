"""The channel of a first experiment: everything arrives at once."""

from __future__ import annotations

from ...contracts import Transmission
from ..loss import NO_PACKETS


class IdealChannel:
    """No airtime, no delay, no loss.

    Args:
        packet_bytes: size of the packets that it counts.
    """

    def __init__(self, packet_bytes: int = 1200) -> None:
        self.packet_bytes = packet_bytes

    def transmit(self, start_s: float, size_bytes: int) -> Transmission:
        """All of it is there at once."""
        return Transmission(0.0, 0.0, NO_PACKETS, -(-size_bytes // self.packet_bytes) or 1, 0)

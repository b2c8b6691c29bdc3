"""The fate of a message that a full queue refuses."""

from __future__ import annotations

import numpy as np

from ..contracts import Delivery


def refused(now_s: float, size_bytes: int, packet_bytes: int) -> Delivery:
    """Nothing of it is ever sent: all its packets are lost, now.

    Args:
        now_s: simulated instant of the refusal.
        size_bytes: of the message.
        packet_bytes: of its packets.
    """
    n_packets = -(-size_bytes // packet_bytes) or 1
    return Delivery(now_s, np.arange(n_packets, dtype=np.int64), n_packets, 0, 0.0, dropped=True)

"""First-in-first-out queue of a sender with a medium of its own: every fate is known when a message is offered."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
import simpy

from ..contracts import Channel, Delivery, State
from ..saved_state import SavedState


class Fifo:
    """A sender that serves its links in the order of offers; every fate is computed when the message is offered.

    Because no other sender shares its medium, it needs no events on the clock: the fastest of the queues.

    Args:
        env: the simulated clock.
        limit_bytes: most bytes of waiting messages, without the one being sent; a message that does not fit is refused.

    Attributes:
        free_at_s: simulated instant at which all that was accepted is sent.

    >>> from sheafedge.emulator.network.channels.packet_channel import IdealChannel
    >>> decisions = []
    >>> Fifo(simpy.Environment()).link(IdealChannel(packet_bytes=1200)).offer(2400, 0, decisions.append)
    >>> decisions[0].arrival_s, decisions[0].n_packets
    (0.0, 2)
    """

    def __init__(self, env: simpy.Environment, limit_bytes: float = math.inf) -> None:
        self.env, self.limit_bytes = env, limit_bytes
        self.free_at_s = 0.0
        self._waiting: deque[tuple[float, int]] = deque()  # when each starts, and its bytes
        self._waiting_bytes = 0

    def link(self, channel: Channel) -> FifoLink:
        """One more link that this sender serves."""
        return FifoLink(self, channel)

    def fits(self, now_s: float, size_bytes: int) -> bool:
        """Whether a message of this size may wait; messages that were started by now no longer do."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= now_s:
            self._waiting_bytes -= waiting.popleft()[1]
        return self.free_at_s <= now_s or self._waiting_bytes + size_bytes <= self.limit_bytes

    def state(self) -> State:
        return {
            "free_at_s": self.free_at_s,
            "waiting": [list(message) for message in self._waiting],
            "waiting_bytes": self._waiting_bytes,
        }

    def restore(self, saved: SavedState) -> None:
        self.free_at_s, self._waiting_bytes = saved.part("free_at_s").number(), saved.part("waiting_bytes").count()
        waiting = [one.listed(2) for one in saved.part("waiting").listed()]
        self._waiting = deque((start_s.number(), size_bytes.count()) for start_s, size_bytes in waiting)

    def joined(self, start_s: float, size_bytes: int, end_s: float) -> None:
        """Add an accepted message, sent from `start_s` to `end_s`."""
        self.free_at_s = end_s
        if self.limit_bytes < math.inf:  # without a limit nothing has to be counted
            self._waiting.append((start_s, size_bytes))
            self._waiting_bytes += size_bytes


class FifoLink:
    """One direction of an edge: a channel behind a `Fifo`, its `sender`."""

    def __init__(self, sender: Fifo, channel: Channel) -> None:
        self.sender, self.channel = sender, channel
        self.packet_bytes = channel.packet_bytes

    def offer(self, size_bytes: int, priority: int, decided: Callable[[Delivery], None]) -> None:
        """Decide at once about a message; there are no classes of priority here."""
        sender = self.sender
        now_s = sender.env.now
        if not sender.fits(now_s, size_bytes):
            decided(refused(now_s, size_bytes, self.packet_bytes))
            return
        start_s = max(now_s, sender.free_at_s)
        sent = self.channel.transmit(start_s, size_bytes)
        end_s = start_s + sent.airtime_s
        sender.joined(start_s, size_bytes, end_s)
        decided(
            Delivery(sent.arrival_s(end_s), sent.lost_packets, sent.n_packets, sent.n_retransmissions, sent.airtime_s)
        )


def refused(now_s: float, size_bytes: int, packet_bytes: int) -> Delivery:
    """The fate of a message that a full queue refuses: all of its packets are lost, now.

    Args:
        now_s: simulated instant of the refusal.
        size_bytes: size of the message.
        packet_bytes: size of its packets.
    """
    n_packets = -(-size_bytes // packet_bytes) or 1
    return Delivery(now_s, np.arange(n_packets, dtype=np.int64), n_packets, 0, 0.0, dropped=True)

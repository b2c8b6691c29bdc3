"""Counters of a run: traffic in total, by kind, by edge and by way, staleness, and what the time of a node went to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .contracts import Delivery, State
from .saved_state import SavedState


@dataclass(slots=True)
class KindTraffic:
    """Counters of one message kind."""

    messages: int = 0
    bytes: int = 0
    lost_messages: int = 0


@dataclass(slots=True)
class Traffic:
    """Counters of the messages of a run.

    Attributes:
        messages, bytes: offered to links; retransmissions are not counted in `bytes`.
        waiting_messages: offered, and not decided so far; in a queue when the run ended.
        lost_messages: never arrived, or too broken to use.
        dropped_messages: those of them that a full queue refused; their packets count as lost.
        dropped_by_faults: those of them that met an edge that was down, or a node that was off.
        corrupted_messages: those of them that arrived with bits flipped, and were refused.
        partial_messages: arrived with some packets missing, and were used.
        late_messages: arrived after their phase had ended.
        overtaken_messages: never used in asynchronous mode, because a newer one had come.
        lost_packets, retransmissions: after and during the link's own repeats.
        by_kind: kind -> counters.
    """

    messages: int = 0
    bytes: int = 0
    waiting_messages: int = 0
    lost_messages: int = 0
    dropped_messages: int = 0
    dropped_by_faults: int = 0
    corrupted_messages: int = 0
    partial_messages: int = 0
    late_messages: int = 0
    overtaken_messages: int = 0
    lost_packets: int = 0
    retransmissions: int = 0
    by_kind: dict[str, KindTraffic] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self)


@dataclass(slots=True)
class Transfers:
    """Messages of one way between a server and its clients.

    Attributes:
        messages, bytes: offered to links.
        lost_messages: lost on their way, by links or faults.
        total_s: sum of the times from offer to arrival of those that were delivered: waiting for a queue or a medium,
            airtime, repeats and delays.
        largest_s: largest of these times.
    """

    messages: int = 0
    bytes: int = 0
    lost_messages: int = 0
    total_s: float = 0.0
    largest_s: float = 0.0

    def decided(self, size_bytes: int, delay_s: float, *, delivered: bool) -> None:
        """Count a message of this size that took so long, if it arrived."""
        self.messages += 1
        self.bytes += size_bytes
        if delivered:
            self.total_s += delay_s
            self.largest_s = max(self.largest_s, delay_s)
        else:
            self.lost_messages += 1

    def restore(self, saved: SavedState) -> None:
        """Continue from a state."""
        parts = saved.parts(*(one.name for one in fields(self)))
        for name in ("messages", "bytes", "lost_messages"):
            setattr(self, name, parts[name].count())
        for name in ("total_s", "largest_s"):
            setattr(self, name, parts[name].number())

    def as_dict(self) -> dict[str, float]:
        """Counts, mean and largest time."""
        n_delivered = self.messages - self.lost_messages
        return {
            "messages": self.messages,
            "bytes": self.bytes,
            "lost_messages": self.lost_messages,
            "mean_s": self.total_s / n_delivered if n_delivered else 0.0,
            "max_s": self.largest_s,
        }


@dataclass(slots=True)
class Staleness:
    """Staleness of the messages used in asynchronous mode: round of the receiver minus round of the sender.

    Attributes:
        used: number of messages, each counted as often as it was used.
        total: sum of their staleness, in rounds; below 0 where senders were ahead.
        largest: largest staleness; None: no message was used.
    """

    used: int = 0
    total: int = 0
    largest: int | None = None

    def as_dict(self) -> dict[str, float]:
        """Number used, mean and largest staleness; the number alone where it is 0."""
        if self.largest is None:
            return {"used": 0}
        return {"used": self.used, "mean": self.total / self.used, "max": self.largest}


@dataclass(slots=True)
class EdgeTraffic:
    """Messages of one direction of an edge.

    Attributes:
        messages, bytes: offered to the link.
        lost_messages: lost on their way, by the link or by faults, or refused by the receiver.
        arrived_messages: that came to the receiver, those that it refused included.
        packets, lost_packets: of the messages that the link has decided about; lost after its repeats.
        sent_bytes: of those of these messages that were sent, which are all but those that a full queue refused.
        airtime_s: time that sending them took, repeats included and without waiting for others.
        delay_s: sum of the times from offer to arrival of those that arrived.
    """

    messages: int = 0
    bytes: int = 0
    lost_messages: int = 0
    arrived_messages: int = 0
    packets: int = 0
    lost_packets: int = 0
    sent_bytes: int = 0
    airtime_s: float = 0.0
    delay_s: float = 0.0

    def decided(self, size_bytes: int, delivery: Delivery, delay_s: float, *, delivered: bool) -> None:
        """Count the fate of a message of this size that took so long, if it arrived."""
        self.packets += delivery.n_packets
        self.lost_packets += delivery.lost_packets.size
        if not delivery.dropped:
            self.sent_bytes += size_bytes
            self.airtime_s += delivery.airtime_s
        if delivered:
            self.arrived_messages += 1
            self.delay_s += delay_s
        else:
            self.lost_messages += 1

    def as_dict(self) -> dict[str, float | None]:
        """Counts, mean delay in s, and bits per second on the air; None where nothing arrived, or took no airtime."""
        return {
            "messages": self.messages,
            "bytes": self.bytes,
            "lost_messages": self.lost_messages,
            "packets": self.packets,
            "lost_packets": self.lost_packets,
            "mean_delay_s": self.delay_s / self.arrived_messages if self.arrived_messages else None,
            "rate_bps": 8 * self.sent_bytes / self.airtime_s if self.airtime_s > 0.0 else None,
        }

    def state(self) -> State:
        return [getattr(self, one.name) for one in fields(self)]

    @classmethod
    def restored(cls, saved: SavedState) -> EdgeTraffic:
        """Counters of a state."""
        edge, values = cls(), saved.listed(len(fields(cls)))
        for one, value in zip(fields(cls), values, strict=True):
            setattr(edge, one.name, value.number() if one.name.endswith("_s") else value.count())
        return edge


@dataclass(slots=True)
class NodeTimes:
    """What simulated time of a node went to since its last observation, in s; sending goes on beside the other two.

    Attributes:
        compute_s: work on its device.
        airtime_s: its transmissions, repeats included, of messages that links have decided about since.
        waiting_s: waits for messages, and for the other nodes at the end of a phase.
    """

    compute_s: float = 0.0
    airtime_s: float = 0.0
    waiting_s: float = 0.0

    def as_dict(self) -> dict[str, float]:
        """Seconds by name."""
        return asdict(self)

    def state(self) -> State:
        return [self.compute_s, self.airtime_s, self.waiting_s]

    @classmethod
    def restored(cls, saved: SavedState) -> NodeTimes:
        """Times of a state."""
        return cls(*(one.number() for one in saved.listed(3)))

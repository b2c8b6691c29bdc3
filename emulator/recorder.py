"""Record of a run: traffic counters, observations of the clients, and one hash over all events."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .contracts import Delivery, InFlight, Message, MessageKind, MessageSlot, NodeId, State
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


#: Called with every observation: client, round, simulated instant, values.
ObservationSink = Callable[[NodeId, int, float, Mapping[str, Any]], None]


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


class Recorder:
    """Recorder of a run: the network and the nodes report to it, and it never influences them.

    Args:
        kinds: kinds of messages that the algorithm declares.
        on_observation: called with every observation.
        server: node whose messages are also counted by their way; None: there is none.

    Attributes:
        traffic, staleness: counters.
        up, down: messages to the server and from it, decided by their links so far.
        bytes_sent: node -> bytes that it has offered to links.
        busy_s: node -> simulated time that it has spent on computing.
        energy_j: node -> energy that it has spent on it, in joules.
    """

    def __init__(
        self, kinds: frozenset[MessageKind], on_observation: ObservationSink, server: NodeId | None = None
    ) -> None:
        self.traffic = Traffic(by_kind={str(kind): KindTraffic() for kind in sorted(kinds)})
        self.staleness = Staleness()
        self.bytes_sent: dict[NodeId, int] = defaultdict(int)
        self.busy_s: dict[NodeId, float] = defaultdict(float)
        self.energy_j: dict[NodeId, float] = defaultdict(float)
        self.up, self.down = Transfers(), Transfers()
        self._server = server
        self._on_observation = on_observation
        self._trace = b""

    @property
    def trace_hash(self) -> str:
        """Hash over every message (when, whose, what, its fate) and every observation, in order.

        Each link of the chain is the hash of the one before and of what happened next, so that a run can go on with it.
        """
        return self._trace.hex()

    def state(self) -> State:
        """Counters, and the hash so far."""
        return {
            "traffic": self.traffic.as_dict(),
            "bytes_sent": {str(node): sent for node, sent in self.bytes_sent.items()},
            "energy_j": {str(node): spent for node, spent in self.energy_j.items()},
            "trace": self._trace.hex(),
            **self._server_state(),
        }

    def restore(self, saved: SavedState) -> None:
        """Continue from a state."""
        traffic = saved.part("traffic").named()
        by_kind = {kind: KindTraffic(**_counts(one)) for kind, one in traffic.pop("by_kind").named().items()}
        self.traffic = Traffic(**{name: count.count() for name, count in traffic.items()}, by_kind=by_kind)
        self.bytes_sent.update({int(node): sent for node, sent in _counts(saved.part("bytes_sent")).items()})
        self.energy_j.update({int(node): spent.number() for node, spent in saved.part("energy_j").named().items()})
        if self._server is not None:
            of_server = saved.part("server").parts("busy_s", "up", "down")
            self.busy_s[self._server] = of_server["busy_s"].number()
            self.up.restore(of_server["up"])
            self.down.restore(of_server["down"])
        self._trace = bytes.fromhex(saved.part("trace").text())

    def offered(self, in_flight: InFlight) -> None:
        """Count a message that is offered to its link."""
        kind = self.traffic.by_kind[str(in_flight.slot.kind)]
        self.traffic.messages += 1
        self.traffic.waiting_messages += 1
        self.traffic.bytes += in_flight.size_bytes
        kind.messages += 1
        kind.bytes += in_flight.size_bytes
        self.bytes_sent[in_flight.slot.sender] += in_flight.size_bytes

    def message(
        self, offered_s: float, in_flight: InFlight, delivery: Delivery, delivered: bool, *, by_fault: bool = False
    ) -> None:
        """Record the fate of a message that was `offered` at this instant; `by_fault`: not its link lost it."""
        slot, n_lost = in_flight.slot, len(delivery.lost_packets)
        self.traffic.waiting_messages -= 1
        self.traffic.lost_packets += n_lost
        self.traffic.retransmissions += delivery.n_retransmissions
        self.traffic.lost_messages += not delivered
        self.traffic.dropped_messages += delivery.dropped
        self.traffic.dropped_by_faults += by_fault
        self.traffic.partial_messages += delivered and n_lost > 0
        self.traffic.by_kind[str(slot.kind)].lost_messages += not delivered
        if self._server is not None:
            way = self.down if slot.sender == self._server else self.up
            way.messages += 1
            way.bytes += in_flight.size_bytes
            way.lost_messages += not delivered
            if delivered:
                way.total_s += delivery.arrival_s - offered_s
                way.largest_s = max(way.largest_s, delivery.arrival_s - offered_s)
        self._happened(  # field by field: a dataclass's own repr costs more than the hash
            f"{offered_s!r} {slot.round_index} {slot.phase} {slot.sender} {slot.kind} {slot.modality}"
            f" {in_flight.receiver} {in_flight.size_bytes} {in_flight.checksum}"
            f" {delivery.arrival_s!r} {delivered} {n_lost}/{delivery.n_packets} {delivery.n_retransmissions} "
            f"{'dropped ' if delivery.dropped else ''}".encode()
            + delivery.lost_packets.tobytes()
        )

    def refused(self, in_flight: InFlight) -> None:
        """Record a message that arrived damaged and was refused by its receiver."""
        # Its link had delivered it, so that `message` did not count it as lost.
        self.traffic.lost_messages += 1
        self.traffic.corrupted_messages += 1
        self.traffic.by_kind[str(in_flight.slot.kind)].lost_messages += 1
        self._happened(f"refused {_slot_text(in_flight.slot)} {in_flight.receiver}".encode())

    def late(self, message: Message) -> None:
        """Record a message that arrived after its phase had ended."""
        self.traffic.late_messages += 1
        self._happened(f"late {_slot_text(message.slot)} {message.receiver}".encode())

    def overtaken(self, message: Message) -> None:
        """Record a message that was never used, because a newer one about the same topic had arrived."""
        self.traffic.overtaken_messages += 1
        self._happened(f"overtaken {_slot_text(message.slot)} {message.receiver}".encode())

    def used(self, ages: Sequence[int]) -> None:
        """Count messages of this staleness in rounds, used by a node in asynchronous mode."""
        self.staleness.used += len(ages)
        self.staleness.total += sum(ages)
        # None until something was used, because 0 is a staleness that occurs.
        if ages:
            self.staleness.largest = max(ages) if self.staleness.largest is None else max(self.staleness.largest, *ages)

    def computed(self, node: NodeId, seconds: float, power_w: float) -> None:
        """Count time that a node has spent on computing, and its energy."""
        self.busy_s[node] += seconds
        self.energy_j[node] += seconds * power_w

    def observation(self, now_s: float, node: NodeId, round_index: int, values: Mapping[str, Any]) -> None:
        """Record the observation of a client at the end of a round."""
        # Sorted: the order in which fields were put together is not part of the trace.
        self._happened(f"{now_s!r} {node} {round_index} {json.dumps(values, sort_keys=True)}".encode())
        self._on_observation(node, round_index, now_s, values)

    def _server_state(self) -> dict[str, State]:
        """What is counted of a server alone; nothing without one, as in checkpoints of before there were servers."""
        if self._server is None:
            return {}
        return {"server": {"busy_s": self.busy_s[self._server], "up": asdict(self.up), "down": asdict(self.down)}}

    def _happened(self, what: bytes) -> None:
        self._trace = hashlib.blake2b(self._trace + what, digest_size=16).digest()


def _slot_text(slot: MessageSlot) -> str:
    """A slot as it stands in the trace, in words of its own: a field that gets another name moves no trace hash."""
    return (
        f"MessageSlot(round_index={slot.round_index!r}, phase={slot.phase!r}, sender={slot.sender!r},"
        f" kind=<MessageKind.{slot.kind.name}: {slot.kind.value!r}>, modality={slot.modality!r})"
    )


def _counts(saved: SavedState) -> dict[str, int]:
    return {name: count.count() for name, count in saved.named().items()}

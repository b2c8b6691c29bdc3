"""Record of a run: traffic counters, observations of the clients, and one hash over all events."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from .contracts import Delivery, InFlight, Message, MessageKind, MessageSlot, NodeId, State
from .counters import EdgeTraffic, KindTraffic, NodeTimes, Staleness, Traffic, Transfers
from .saved_state import SavedState

#: Figures of an observation that are not part of the trace: what a report shows must not change the hash of a run.
UNTRACED = frozenset({"residuals", "consensus_distance", "held_out_loss", "train_loss", "train_models"})

#: Called with every observation: client, round, simulated instant, values.
ObservationSink = Callable[[NodeId, int, float, Mapping[str, Any]], None]


class Fate(NamedTuple):
    """Fate of a message.

    Attributes:
        offered_s: simulated instant at which it was offered to its link.
        in_flight: the message.
        delivery: decision of its link.
        delivered: whether it will arrive, whole or in part.
        by_fault: whether a fault lost it, and not its link.
    """

    offered_s: float
    in_flight: InFlight
    delivery: Delivery
    delivered: bool
    by_fault: bool = False


class Recorder:
    """Recorder of a run: the network and the nodes report to it, and it never influences them.

    Args:
        kinds: kinds of messages that the algorithm declares.
        on_observation: called with every observation.
        server: node whose messages are also counted by their way; None: there is none.

    Attributes:
        traffic, staleness: counters.
        up, down: messages to the server and from it, decided by their links so far.
        edges: sender and receiver -> counters of that direction; only those along which something was sent.
        counts_edges: whether they are those of the whole run; a checkpoint of before they were counted has none.
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
        self.edges: dict[tuple[NodeId, NodeId], EdgeTraffic] = defaultdict(EdgeTraffic)
        self.counts_edges = True
        self._times: dict[NodeId, NodeTimes] = defaultdict(NodeTimes)
        self._server = server
        self._on_observation = on_observation
        self._trace = b""

    @property
    def traffic_figures(self) -> dict[str, Any]:
        """Counters of messages and packets; packets that were sent only where all of the run's were counted."""
        packets = {"packets": sum(edge.packets for edge in self.edges.values())} if self.counts_edges else {}
        return {**self.traffic.as_dict(), **packets}

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
            "edges": {f"{sender}-{receiver}": one.state() for (sender, receiver), one in self.edges.items()},
            # Between two rounds these are transmissions that ended after their node was observed.
            "times": {str(node): times.state() for node, times in self._times.items()},
            **self._server_state(),
        }

    def restore(self, saved: SavedState) -> None:
        """Continue from a state."""
        traffic = saved.part("traffic").named()
        by_kind = {kind: KindTraffic(**_counts(one)) for kind, one in traffic.pop("by_kind").named().items()}
        self.traffic = Traffic(**{name: count.count() for name, count in traffic.items()}, by_kind=by_kind)
        self.bytes_sent.update({int(node): sent for node, sent in _counts(saved.part("bytes_sent")).items()})
        self.energy_j.update({int(node): spent.number() for node, spent in saved.part("energy_j").named().items()})
        self._restore_edges(saved.named())
        if self._server is not None:
            of_server = saved.part("server").parts("busy_s", "up", "down")
            self.busy_s[self._server] = of_server["busy_s"].number()
            self.up.restore(of_server["up"])
            self.down.restore(of_server["down"])
        self._trace = bytes.fromhex(saved.part("trace").text())

    def offered(self, in_flights: Sequence[InFlight]) -> None:
        """Count messages that are offered to their links."""
        traffic = self.traffic
        traffic.messages += len(in_flights)
        traffic.waiting_messages += len(in_flights)
        for slot, receiver, size_bytes, _, _ in in_flights:
            kind = traffic.by_kind[slot.kind]
            traffic.bytes += size_bytes
            kind.messages += 1
            kind.bytes += size_bytes
            self.bytes_sent[slot.sender] += size_bytes
            edge = self.edges[slot.sender, receiver]
            edge.messages += 1
            edge.bytes += size_bytes

    def decided(self, fates: Sequence[Fate]) -> None:
        """Record the fates of messages that were `offered`, in order."""
        traffic, trace = self.traffic, self._trace
        traffic.waiting_messages -= len(fates)
        slot, offered_s, sender, begin, times = None, math.nan, -1, "", NodeTimes()
        for fate in fates:
            sent_s, (now_slot, receiver, size_bytes, checksum, _), delivery, delivered, _ = fate
            arrival_s, lost_packets, n_packets, n_retransmissions, airtime_s, dropped = delivery
            n_lost = lost_packets.size
            if n_lost or n_retransmissions or not delivered:
                self._count_losses(fate, n_lost)
            # Messages of a broadcast have their slot in common, and a phase is sent at one instant.
            if now_slot != slot or sent_s != offered_s:
                slot, offered_s, sender = now_slot, sent_s, now_slot.sender
                times = self._times[sender]
                begin = f"{sent_s!r} {slot.round_index} {slot.phase} {sender} {slot.kind} {slot.modality}"
            self.edges[sender, receiver].decided(size_bytes, delivery, arrival_s - sent_s, delivered=delivered)
            times.airtime_s += airtime_s
            if self._server is not None:
                way = self.down if sender == self._server else self.up
                way.decided(size_bytes, arrival_s - sent_s, delivered=delivered)
            what = (  # field by field: a dataclass's own repr costs more than the hash
                f"{begin} {receiver} {size_bytes} {checksum} {arrival_s!r} {delivered} {n_lost}/{n_packets}"
                f" {n_retransmissions} {'dropped ' if dropped else ''}"
            ).encode()
            trace = _next_link(trace, what + lost_packets.tobytes() if n_lost else what)
        self._trace = trace

    def refused(self, in_flight: InFlight) -> None:
        """Record a message that arrived damaged and was refused by its receiver."""
        # Its link had delivered it, so that `message` did not count it as lost.
        self.traffic.lost_messages += 1
        self.traffic.corrupted_messages += 1
        self.traffic.by_kind[str(in_flight.slot.kind)].lost_messages += 1
        self.edges[in_flight.slot.sender, in_flight.receiver].lost_messages += 1
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
        self._times[node].compute_s += seconds

    def waited(self, node: NodeId, seconds: float) -> None:
        """Count time in which a node waited for messages and for the others."""
        self._times[node].waiting_s += seconds

    def times_since(self, node: NodeId) -> dict[str, float]:
        """What the time of a node went to since this was last asked, see `NodeTimes`."""
        return self._times.pop(node, NodeTimes()).as_dict()

    def observation(self, now_s: float, node: NodeId, round_index: int, values: Mapping[str, Any]) -> None:
        """Record the observation of a client at the end of a round."""
        traced = {name: value for name, value in values.items() if name not in UNTRACED}
        # Sorted: the order in which fields were put together is not part of the trace.
        self._happened(f"{now_s!r} {node} {round_index} {json.dumps(traced, sort_keys=True)}".encode())
        self._on_observation(node, round_index, now_s, values)

    def _restore_edges(self, named: Mapping[str, SavedState]) -> None:
        """Counters by edge, and times; those of a checkpoint of before they were counted begin anew."""
        self.counts_edges = "edges" in named
        if self.counts_edges:
            edges = named["edges"].named()
            self.edges.update({_ends(name): EdgeTraffic.restored(one) for name, one in edges.items()})
            self._times.update({int(node): NodeTimes.restored(one) for node, one in named["times"].named().items()})

    def _server_state(self) -> dict[str, State]:
        """What is counted of a server alone; nothing without one, as in checkpoints of before there were servers."""
        if self._server is None:
            return {}
        return {"server": {"busy_s": self.busy_s[self._server], "up": asdict(self.up), "down": asdict(self.down)}}

    def _count_losses(self, fate: Fate, n_lost: int) -> None:
        """Count what a message lost on its way, packets or all of it."""
        traffic, delivery = self.traffic, fate.delivery
        traffic.lost_packets += n_lost
        traffic.retransmissions += delivery.n_retransmissions
        traffic.dropped_messages += delivery.dropped
        traffic.dropped_by_faults += fate.by_fault
        if fate.delivered:
            traffic.partial_messages += n_lost > 0
        else:
            traffic.lost_messages += 1
            traffic.by_kind[fate.in_flight.slot.kind].lost_messages += 1

    def _happened(self, what: bytes) -> None:
        self._trace = _next_link(self._trace, what)


def _next_link(trace: bytes, what: bytes) -> bytes:
    """Next link of the chain of hashes."""
    return hashlib.blake2b(trace + what, digest_size=16).digest()


def _slot_text(slot: MessageSlot) -> str:
    """A slot as it stands in the trace, in words of its own: a field that gets another name moves no trace hash."""
    return (
        f"MessageSlot(round_index={slot.round_index!r}, phase={slot.phase!r}, sender={slot.sender!r},"
        f" kind=<MessageKind.{slot.kind.name}: {slot.kind.value!r}>, modality={slot.modality!r})"
    )


def _ends(name: str) -> tuple[NodeId, NodeId]:
    sender, receiver = name.split("-")
    return int(sender), int(receiver)


def _counts(saved: SavedState) -> dict[str, int]:
    return {name: count.count() for name, count in saved.named().items()}

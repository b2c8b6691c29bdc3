"""The network of a run: bytes of a message in, decision of its link, bytes out to the receiver's inbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

import numpy as np

from ..contracts import (
    DIVISIBLE_KINDS,
    Arrival,
    Delivery,
    InFlight,
    Link,
    Message,
    MessageKind,
    NodeId,
    State,
    TopologyError,
    Transport,
)
from ..engine import EmulatorEnvironment
from ..faults.fault_plan import NO_FAULTS, FaultPlan
from ..recorder import Fate, Recorder
from ..saved_state import SavedState
from .port import Offer
from .transport.errors import WireError

#: Encoders are long; where a link has classes, all others go before them.
_SECOND_CLASS = frozenset({MessageKind.ENCODER})


class _Passage:
    """A message between its offer and its arrival; its link calls it with the decision, within the offer or later.

    Attributes:
        number: of the offer.
        offered_s: simulated instant of the offer.
        in_flight: the message at the hub.
        packet_bytes: size of its packets.
        delivery: decision of its link; None: there is none yet.
        decided_later: called with the decision where it was not made within the offer.
        message: what its receiver reads, where it has crossed ahead of its arrival.
    """

    __slots__ = ("decided_later", "delivery", "in_flight", "message", "number", "offered_s", "packet_bytes")

    def __init__(self, number: int, offered_s: float, in_flight: InFlight, packet_bytes: int) -> None:
        self.number, self.offered_s, self.in_flight, self.packet_bytes = number, offered_s, in_flight, packet_bytes
        self.delivery: Delivery | None = None
        self.decided_later: Callable[[_Passage, Delivery], None] | None = None
        self.message: Message | None = None

    def __call__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        if self.decided_later is not None:
            self.decided_later(self, delivery)

    @property
    def arrival_s(self) -> float:
        """Simulated instant of its arrival, if its link lets it through."""
        assert self.delivery is not None, "only what was decided is on air"
        return self.delivery.arrival_s

    @property
    def arrival(self) -> Arrival:
        """What its link lets through."""
        assert self.delivery is not None, "only what was decided is on air"
        return Arrival(self.in_flight, self.delivery.lost_packets, self.packet_bytes)


class Network:
    """All links of a run over one transport.

    Args:
        env: the simulated clock.
        transport: carries the bytes.
        links: (sender, receiver) -> link of that direction.
        deliver: receiver -> function that takes its messages when they arrive.
        recorder: counts every message and its fate.
        faults: failures of edges and nodes, and damage, beside the losses of links.
    """

    def __init__(
        self,
        env: EmulatorEnvironment,
        transport: Transport,
        links: Mapping[tuple[NodeId, NodeId], Link],
        deliver: Mapping[NodeId, Callable[[Message], None]],
        recorder: Recorder,
        faults: FaultPlan = NO_FAULTS,
    ) -> None:
        self._env, self._transport, self._links = env, transport, links
        self._deliver, self._recorder, self._faults = deliver, recorder, faults
        self._numbers = count()
        # Offers have numbers, because a checkpoint cannot hold the callbacks that wait for them.
        self._offers: dict[int, _Passage] = {}
        self._on_air: dict[_Passage, None] = {}  # in the order in which their links decided
        self._to_forward: dict[_Passage, None] = {}  # those of them that may cross ahead, and have not

    def send(self, messages: Sequence[Message]) -> None:
        """Offer messages to their links, in order; each arrives later, in parts, or never.

        Raises:
            TopologyError: one goes to a node that is no neighbor of its sender; none was sent.
        """
        links = [self._link(message.sender, message.receiver) for message in messages]
        in_flights = self._transport.submit(messages)
        self._recorder.offered(in_flights)
        now_s = self._env.now
        fates = []
        for link, in_flight in zip(links, in_flights, strict=True):
            passage = _Passage(next(self._numbers), now_s, in_flight, link.packet_bytes)
            link.offer(in_flight.size_bytes, int(in_flight.slot.kind in _SECOND_CLASS), passage)
            if passage.delivery is None:
                self._wait(passage)
            else:
                # Its arrival is put on the clock before the next offer is made: the order decides ties.
                fates.append(self._fate(passage, passage.delivery))
        self._recorder.decided(fates)

    def state(self) -> State:
        """Messages that wait in queues and messages on air, both in the order in which they got there."""
        offers = [
            {
                **self._kept(passage.in_flight),
                "number": passage.number,
                "offered_s": passage.offered_s,
                "packet_bytes": passage.packet_bytes,
            }
            for passage in self._offers.values()
        ]
        flights = [
            {
                **self._kept(passage.in_flight),
                "arrival_s": passage.arrival_s,
                "lost_packets": passage.arrival.lost_packets,
                "packet_bytes": passage.packet_bytes,
            }
            for passage in self._on_air
        ]
        return {"offers": offers, "flights": flights}

    def restore(self, saved: SavedState) -> Mapping[int, Offer]:
        """Let messages fly that were on air; those that waited are for the queues to take back, by their numbers."""
        for kept in saved.part("flights").listed():
            flight = _Passage(next(self._numbers), 0.0, self._found(kept), kept.part("packet_bytes").count())
            lost_packets = kept.part("lost_packets").array(np.dtype(np.int64), None)
            # Of a decision that was counted before the checkpoint, only what is still to come matters.
            flight.delivery = Delivery(kept.part("arrival_s").number(), lost_packets, 0, 0, 0.0)
            self._fly(flight, flight.delivery)
        for kept in saved.part("offers").listed():
            number, offered_s = kept.part("number").count(), kept.part("offered_s").number()
            self._wait(_Passage(number, offered_s, self._found(kept), kept.part("packet_bytes").count()))
        # Numbers of new offers must differ from those that the queues of a checkpoint name.
        self._numbers = count(1 + max(self._offers, default=-1))
        return dict(self._offers)

    def _kept(self, in_flight: InFlight) -> dict[str, State]:
        header, payload = self._transport.packed(in_flight)
        return {"header": np.frombuffer(header, dtype=np.uint8), "payload": np.frombuffer(payload, dtype=np.uint8)}

    def _found(self, kept: SavedState) -> InFlight:
        header, payload = (kept.part(name).array(np.dtype(np.uint8), None) for name in ("header", "payload"))
        return self._transport.unpacked(header.tobytes(), payload.tobytes())

    def _link(self, sender: NodeId, receiver: NodeId) -> Link:
        try:
            return self._links[sender, receiver]
        except KeyError:
            raise TopologyError(f"node {sender} sent to {receiver}, which is not its neighbor") from None

    def _wait(self, passage: _Passage) -> None:
        self._offers[passage.number] = passage
        passage.decided_later = self._decided_later

    def _decided_later(self, passage: _Passage, delivery: Delivery) -> None:
        del self._offers[passage.number]
        self._recorder.decided([self._fate(passage, delivery)])

    def _fate(self, passage: _Passage, delivery: Delivery) -> Fate:
        """The fate of a message that its link has decided about; what arrives of it is on air from now on."""
        in_flight, offered_s = passage.in_flight, passage.offered_s
        slot, n_lost = in_flight.slot, delivery.lost_packets.size
        # A vector with gaps is of use only where its coordinates mean something one by one.
        usable = n_lost == 0 or (slot.kind in DIVISIBLE_KINDS and n_lost < delivery.n_packets)
        # Only of what the link delivered, so that every lost message has one cause.
        cut_off = usable and self._faults.loses(slot.sender, in_flight.receiver, offered_s, delivery.arrival_s)
        if usable and not cut_off:
            self._fly(passage, delivery)
        return Fate(offered_s, in_flight, delivery, usable and not cut_off, cut_off)

    def _fly(self, passage: _Passage, delivery: Delivery) -> None:
        self._on_air[passage] = None
        if self._transport.forwards_ahead:
            self._to_forward[passage] = None
        self._env.call_at(delivery.arrival_s, lambda _: self._arrive(passage))

    def _arrive(self, passage: _Passage) -> None:
        flipped_bits = self._faults.flipped_bits(passage.in_flight, passage.arrival_s)
        if flipped_bits is None:
            message = passage.message or self._forwarded(passage)
            del self._on_air[passage]
        else:
            del self._on_air[passage]
            self._to_forward.pop(passage, None)
            try:
                message = self._transport.forward_damaged(passage.arrival, flipped_bits)
            except WireError:
                self._recorder.refused(passage.in_flight)
                return
        self._deliver[message.receiver](message)

    def _forwarded(self, passage: _Passage) -> Message:
        """The message as its receiver reads it; where they may, all others that are on air cross with it."""
        together = [passage]
        if self._transport.forwards_ahead:
            together, self._to_forward = list(self._to_forward), {}
        for one, message in zip(together, self._transport.forward([one.arrival for one in together]), strict=True):
            one.message = message
        assert passage.message is not None, "what is on air waits to be forwarded"
        return passage.message

"""The network of a run: bytes of a message in, decision of its link, bytes out to the receiver's inbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..contracts import (
    DIVISIBLE_KINDS,
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
from ..recorder import Recorder
from ..saved_state import SavedState
from .port import Offer
from .transport.errors import WireError

#: Encoders are long; where a link has classes, all others go before them.
_SECOND_CLASS = frozenset({MessageKind.ENCODER})


class _Flight(NamedTuple):
    """A message on air, its arrival, and the packets that it has lost."""

    in_flight: InFlight
    arrival_s: float
    lost_packets: NDArray[np.int64]
    packet_bytes: int


class _Offered:
    """A message that its link has yet to decide about; the link calls it with the decision."""

    __slots__ = ("_decided", "in_flight", "number", "offered_s", "packet_bytes")

    def __init__(
        self,
        decided: Callable[[_Offered, Delivery], None],
        number: int,
        offered_s: float,
        in_flight: InFlight,
        packet_bytes: int,
    ) -> None:
        self._decided, self.number, self.offered_s = decided, number, offered_s
        self.in_flight, self.packet_bytes = in_flight, packet_bytes

    def __call__(self, delivery: Delivery) -> None:
        self._decided(self, delivery)


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
        self._numbers, self._flight_numbers = count(), count()
        # Offers and flights have numbers, because a checkpoint cannot hold the callbacks that wait for them.
        self._offers: dict[int, _Offered] = {}
        self._on_air: dict[int, _Flight] = {}

    def send(self, message: Message) -> None:
        """Offer a message to its link; it arrives later, in parts, or never."""
        link = self._links.get((message.sender, message.receiver))
        if link is None:
            raise TopologyError(f"node {message.sender} sent to {message.receiver}, which is not its neighbor")
        in_flight = self._transport.submit(message)
        self._recorder.offered(in_flight)
        # Registered before it is offered: the link may decide within the call.
        offer = self._offer(next(self._numbers), self._env.now, in_flight, link.packet_bytes)
        link.offer(in_flight.size_bytes, int(message.kind in _SECOND_CLASS), offer)

    def state(self) -> State:
        """Messages that wait in queues and messages on air, both in the order in which they got there."""
        offers = [
            {
                **self._kept(offer.in_flight),
                "number": offer.number,
                "offered_s": offer.offered_s,
                "packet_bytes": offer.packet_bytes,
            }
            for offer in self._offers.values()
        ]
        flights = [
            {
                **self._kept(flight.in_flight),
                "arrival_s": flight.arrival_s,
                "lost_packets": flight.lost_packets,
                "packet_bytes": flight.packet_bytes,
            }
            for flight in self._on_air.values()
        ]
        return {"offers": offers, "flights": flights}

    def restore(self, saved: SavedState) -> Mapping[int, Offer]:
        """Let messages fly that were on air; those that waited are for the queues to take back, by their numbers."""
        for kept in saved.part("flights").listed():
            arrival_s, lost_packets = kept.part("arrival_s").number(), kept.part("lost_packets")
            lost = lost_packets.array(np.dtype(np.int64), None)
            self._fly(_Flight(self._found(kept), arrival_s, lost, kept.part("packet_bytes").count()))
        for kept in saved.part("offers").listed():
            number, offered_s = kept.part("number").count(), kept.part("offered_s").number()
            self._offer(number, offered_s, self._found(kept), kept.part("packet_bytes").count())
        # Numbers of new offers must differ from those that the queues of a checkpoint name.
        self._numbers = count(1 + max(self._offers, default=-1))
        return dict(self._offers)

    def _kept(self, in_flight: InFlight) -> dict[str, State]:
        header, payload = self._transport.packed(in_flight)
        return {"header": np.frombuffer(header, dtype=np.uint8), "payload": np.frombuffer(payload, dtype=np.uint8)}

    def _found(self, kept: SavedState) -> InFlight:
        header, payload = (kept.part(name).array(np.dtype(np.uint8), None) for name in ("header", "payload"))
        return self._transport.unpacked(header.tobytes(), payload.tobytes())

    def _offer(self, number: int, offered_s: float, in_flight: InFlight, packet_bytes: int) -> _Offered:
        self._offers[number] = offer = _Offered(self._decided, number, offered_s, in_flight, packet_bytes)
        return offer

    def _decided(self, offer: _Offered, delivery: Delivery) -> None:
        del self._offers[offer.number]
        in_flight, slot, n_lost = offer.in_flight, offer.in_flight.slot, len(delivery.lost_packets)
        # A vector with gaps is of use only where its coordinates mean something one by one.
        usable = n_lost == 0 or (slot.kind in DIVISIBLE_KINDS and n_lost < delivery.n_packets)
        # Only of what the link delivered, so that every lost message has one cause.
        cut_off = usable and self._faults.loses(slot.sender, in_flight.receiver, offer.offered_s, delivery.arrival_s)
        self._recorder.message(offer.offered_s, in_flight, delivery, usable and not cut_off, by_fault=cut_off)
        if usable and not cut_off:
            self._fly(_Flight(in_flight, delivery.arrival_s, delivery.lost_packets, offer.packet_bytes))

    def _fly(self, flight: _Flight) -> None:
        number = next(self._flight_numbers)
        self._on_air[number] = flight
        arrival = self._env.at(flight.arrival_s)
        arrival.callbacks.append(lambda _: self._arrive(number))

    def _arrive(self, number: int) -> None:
        flight = self._on_air.pop(number)
        in_flight, arrival_s, lost_packets, packet_bytes = flight
        flipped_bits = self._faults.flipped_bits(in_flight, arrival_s)
        if flipped_bits is None:
            message = self._transport.forward(in_flight, lost_packets, packet_bytes)
        else:
            try:
                message = self._transport.forward_damaged(in_flight, lost_packets, packet_bytes, flipped_bits)
            except WireError:
                self._recorder.refused(in_flight)
                return
        self._deliver[in_flight.receiver](message)

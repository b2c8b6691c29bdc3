"""Where a message meets its link: bytes in, the link's decision, bytes out to the receiver's inbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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
from ..recorder import Recorder

#: Encoders are long; where a link has classes, all others go before them.
_SECOND_CLASS = frozenset({MessageKind.ENCODER})


class _Flight(NamedTuple):
    """A message on air, and what of it will be there when."""

    in_flight: InFlight
    arrival_s: float
    lost_packets: NDArray[np.int64]
    packet_bytes: int


class Network:
    """All links of a run over one transport.

    Args:
        env: the clock.
        transport: carries bytes.
        links: (sender, receiver) -> link of that direction.
        deliver: receiver -> where its messages go when they arrive.
        recorder: told of every message and its fate.
    """

    def __init__(
        self,
        env: EmulatorEnvironment,
        transport: Transport,
        links: Mapping[tuple[NodeId, NodeId], Link],
        deliver: Mapping[NodeId, Callable[[Message], None]],
        recorder: Recorder,
    ) -> None:
        self._env, self._transport, self._links = env, transport, links
        self._deliver, self._recorder = deliver, recorder
        self._numbers = count()
        self._on_air: dict[int, _Flight] = {}

    def send(self, message: Message) -> None:
        """Offer a message to its link; it arrives later, in parts, or never."""
        link = self._links.get((message.sender, message.receiver))
        if link is None:
            raise TopologyError(f"node {message.sender} sent to {message.receiver}, which is not its neighbor")
        in_flight = self._transport.submit(message)
        self._recorder.offered(in_flight)
        decided = partial(self._decided, self._env.now, in_flight, link.packet_bytes)
        link.offer(in_flight.size_bytes, int(message.kind in _SECOND_CLASS), decided)

    def _decided(self, offered_s: float, in_flight: InFlight, packet_bytes: int, delivery: Delivery) -> None:
        n_lost = len(delivery.lost_packets)
        usable = n_lost == 0 or (in_flight.slot.kind in DIVISIBLE_KINDS and n_lost < delivery.n_packets)
        self._recorder.message(offered_s, in_flight, delivery, usable)
        if usable:
            self._fly(_Flight(in_flight, delivery.arrival_s, delivery.lost_packets, packet_bytes))

    def state(self) -> State:
        """Messages on air, in the order in which they were sent."""
        flights = []
        for flight in self._on_air.values():
            header, payload = self._transport.packed(flight.in_flight)
            flights.append(
                {
                    "header": np.frombuffer(header, dtype=np.uint8),
                    "payload": np.frombuffer(payload, dtype=np.uint8),
                    "arrival_s": flight.arrival_s,
                    "lost_packets": flight.lost_packets,
                    "packet_bytes": flight.packet_bytes,
                }
            )
        return flights

    def restore(self, state: State) -> None:
        """Let messages fly that were on air."""
        for flight in state:
            in_flight = self._transport.unpacked(flight["header"].tobytes(), flight["payload"].tobytes())
            self._fly(_Flight(in_flight, flight["arrival_s"], flight["lost_packets"], flight["packet_bytes"]))

    def _fly(self, flight: _Flight) -> None:
        number = next(self._numbers)
        self._on_air[number] = flight
        arrival = self._env.at(flight.arrival_s)
        arrival.callbacks.append(lambda _: self._arrive(number))

    def _arrive(self, number: int) -> None:
        flight = self._on_air.pop(number)
        message = self._transport.forward(flight.in_flight, flight.lost_packets, flight.packet_bytes)
        self._deliver[flight.in_flight.receiver](message)

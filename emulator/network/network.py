"""Where a message meets its link: bytes in, the link's decision, bytes out to the receiver's inbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import simpy

from ..contracts import DIVISIBLE_KINDS, Delivery, InFlight, Link, Message, NodeId, TopologyError, Transport
from ..recorder import Recorder


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
        env: simpy.Environment,
        transport: Transport,
        links: Mapping[tuple[NodeId, NodeId], Link],
        deliver: Mapping[NodeId, Callable[[Message], None]],
        recorder: Recorder,
    ) -> None:
        self._env, self._transport, self._links = env, transport, links
        self._deliver, self._recorder = deliver, recorder

    def send(self, message: Message) -> None:
        """Offer a message to its link; it arrives later, in parts, or never."""
        link = self._links.get((message.sender, message.receiver))
        if link is None:
            raise TopologyError(f"node {message.sender} sent to {message.receiver}, which is not its neighbor")
        in_flight = self._transport.submit(message)
        delivery = link.decide(self._env.now, in_flight.size_bytes)
        n_lost = len(delivery.lost_packets)
        usable = n_lost == 0 or (message.kind in DIVISIBLE_KINDS and n_lost < delivery.n_packets)
        self._recorder.message(self._env.now, in_flight, delivery, usable)
        if usable:
            arrival = self._env.timeout(max(0.0, delivery.arrival_s - self._env.now))
            arrival.callbacks.append(lambda _: self._arrive(in_flight, delivery, link.packet_bytes))

    def _arrive(self, in_flight: InFlight, delivery: Delivery, packet_bytes: int) -> None:
        message = self._transport.forward(in_flight, delivery.lost_packets, packet_bytes)
        self._deliver[in_flight.receiver](message)

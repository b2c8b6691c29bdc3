"""One message at a time through transports, hubs and workers, which carry many at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sheafedge.emulator.contracts import Arrival, InFlight, Message, Transport
from sheafedge.emulator.network.transport.envelope import Envelope
from sheafedge.emulator.network.transport.hub import Hub
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.zmq_transport import Worker

NOTHING_LOST: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


def submitted(transport: Transport, message: Message) -> InFlight:
    """The message at the hub."""
    (in_flight,) = transport.submit([message])
    return in_flight


def forwarded(
    transport: Transport, in_flight: InFlight, lost: NDArray[np.int64] = NOTHING_LOST, packet_bytes: int = 1200
) -> Message:
    """The message as its receiver reads it."""
    (message,) = transport.forward([Arrival(in_flight, lost, packet_bytes)])
    return message


def envelope_of(wire: Wire, *messages: Message) -> Envelope:
    """Messages in the one envelope that they need."""
    (envelope,) = wire.envelopes(wire.encode_all(messages))
    return envelope


def frames_of(envelope: Envelope) -> list[bytes]:
    """An envelope as bytes."""
    return [envelope.head, *map(bytes, envelope.payloads)]


def sent(worker: Worker, message: Message) -> tuple[bytes, int]:
    """Head and number of payloads of the envelope that the worker has sent."""
    (envelope,) = worker.envelopes([message])
    worker.send(envelope)
    return envelope.head, len(envelope.payloads)


def passed_on(hub: Hub, wire: Wire, worker: bytes, *in_flights: InFlight) -> tuple[bytes, int]:
    """Head and number of payloads of the envelope that the hub has forwarded to a worker."""
    (envelope,) = wire.envelopes([in_flight.frames for in_flight in in_flights])
    hub.forward(worker, envelope)
    return envelope.head, len(envelope.payloads)


def only(messages: Sequence[Message]) -> Message:
    """The one message that came."""
    (message,) = messages
    return message

"""Carries messages inside one process without sockets: the same bytes, checks and results as ZeroMQ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...contracts import InFlight, Message
from .wire_transport import WireTransport, in_flight_of


class MemoryTransport(WireTransport):
    """A `Transport` that hands the frames over; payloads are views of the sender's array, which must not change.

    Args:
        wire: what may cross.
    """

    def submit(self, message: Message) -> InFlight:
        """Encode the message as its sender would, and read its header as the hub would.

        Raises:
            WireError: the message must not cross.
            TransportError: the transport was closed.
        """
        self._check_open()
        frames = self._wire.encode(message)
        return in_flight_of(self._wire.read_header(frames.header, frames.payload.nbytes), frames)

    def forward(self, in_flight: InFlight, lost_packets: NDArray[np.int64], packet_bytes: int) -> Message:
        """Remove the lost packets as the hub would, and decode the rest as the receiver would.

        Raises:
            WireError: the frames are damaged, or of no use unless whole.
            TransportError: the transport was closed.
        """
        self._check_open()
        frames = self._wire.without_packets(in_flight.frames, lost_packets, packet_bytes)
        return self._wire.decode(frames.header, frames.payload)

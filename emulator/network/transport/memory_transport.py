"""Carries messages inside one process without sockets: the same bytes, checks and results as ZeroMQ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...contracts import InFlight, Message
from .damage import decode_damaged
from .errors import TransportError
from .wire import Header, Wire, WireFrames


class MemoryTransport:
    """A `Transport` that hands the frames over; payloads are views of the sender's array, which must not change."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._is_closed = False

    def submit(self, message: Message) -> InFlight:
        """Encode the message as its sender would, and read its header as the hub would.

        Raises:
            WireError: the message must not cross.
            TransportError: the transport was closed.
        """
        self._check_open()
        frames = self._wire.encode(message)
        return at_hub(self._wire.read_header(frames.header, frames.payload.nbytes), frames, frames)

    def forward(self, in_flight: InFlight, lost_packets: NDArray[np.int64], packet_bytes: int) -> Message:
        """Remove the lost packets as the hub would, and decode the rest as the receiver would.

        Raises:
            WireError: the frames are damaged, or of no use unless whole.
            TransportError: the transport was closed.
        """
        self._check_open()
        frames = self._wire.without_packets(in_flight.frames, lost_packets, packet_bytes)
        return self._wire.decode(frames.header, frames.payload)

    def packed(self, in_flight: InFlight) -> tuple[bytes, bytes]:
        header, payload = in_flight.frames
        return header, bytes(payload)

    def unpacked(self, header: bytes, payload: bytes) -> InFlight:
        frames = WireFrames(header, memoryview(payload))
        return at_hub(self._wire.read_header(header, len(payload)), frames, frames)

    def forward_damaged(
        self, in_flight: InFlight, lost_packets: NDArray[np.int64], packet_bytes: int, flipped_bits: NDArray[np.int64]
    ) -> Message:
        """As `forward`, with bits flipped behind the hub.

        Raises:
            WireError: the receiver has noticed.
            TransportError: the transport was closed.
        """
        self._check_open()
        return decode_damaged(self._wire, in_flight.frames, lost_packets, packet_bytes, flipped_bits)

    def close(self) -> None:
        """Refuse further messages; safe to call twice."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise TransportError("transport is closed; build a new one for another run")


def at_hub(header: Header, frames: WireFrames, carried: object) -> InFlight:
    """What the hub lets a link know about frames that it has received and checked.

    Args:
        header: what they say.
        frames: as they came.
        carried: what the transport needs to forward them.
    """
    return InFlight(header.slot, header.receiver, frames.size_bytes, header.payload_checksum, carried)

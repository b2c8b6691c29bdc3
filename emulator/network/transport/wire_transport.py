"""What every transport of wire frames does beside carrying them: keep, take back and damage messages at the hub.

`MemoryTransport` adds nothing but the way inside one process, without sockets: the same bytes, checks and results as
over ZeroMQ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ...contracts import Arrival, InFlight, Message
from .errors import TransportError
from .wire import Wire, WireFrames, messages_of


class WireTransport:
    """Base of the transports, whose messages wait at the hub as `WireFrames`.

    A transport adds `submit` and `forward`, see `emulator.contracts.Transport`.

    Args:
        wire: wire format, with the kinds of messages that may cross.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._is_closed = False

    def packed(self, in_flight: InFlight) -> tuple[bytes, bytes]:
        """Header and payload of a message at the hub, for a checkpoint."""
        frames: WireFrames = in_flight.frames
        return frames.header, bytes(frames.payload)

    def unpacked(self, header: bytes, payload: bytes) -> InFlight:
        """The message of a checkpoint, at the hub again."""
        return in_flight_of(WireFrames(header, memoryview(payload), self._wire.read_header(header, len(payload))))

    def forward_damaged(self, arrival: Arrival, flipped_bits: NDArray[np.int64]) -> Message:
        """Message as the receiver reads it after bits of its payload were flipped behind the hub.

        No socket carries it, because a receiver does not report what it refuses.

        Args:
            arrival: the message at the hub, and losses beside the flipped bits.
            flipped_bits: [n] numbers of bits, counted modulo the length of what is left of the payload.

        Raises:
            WireError: the receiver has noticed; always, but for one in 2^64 that happen to fit the checksum.
            TransportError: the transport was closed.
        """
        self._check_open()
        # Bits are flipped behind the hub, so that the checksum of what is left is right and the receiver has to notice.
        (left,) = self._left(arrival)
        return self._wire.decode(left.header, with_flipped_bits(left.payload, flipped_bits))

    def close(self) -> None:
        """Refuse further messages; safe to call twice."""
        self._is_closed = True

    def _left(self, *arrivals: Arrival) -> Iterator[WireFrames]:
        """What survived of messages, one after the other as they are asked for."""
        for in_flight, lost_packets, packet_bytes in arrivals:
            frames: WireFrames = in_flight.frames
            yield self._wire.without_packets(frames, lost_packets, packet_bytes) if lost_packets.size else frames

    def _check_open(self) -> None:
        if self._is_closed:
            raise TransportError("transport is closed; build a new one for another run")


def in_flight_of(frames: WireFrames) -> InFlight:
    """A message at the hub: what its link may know about it, and the frames to forward."""
    found = frames.found
    return InFlight(found.slot, found.receiver, frames.size_bytes, found.payload_checksum, frames)


def with_flipped_bits(payload: memoryview, flipped_bits: NDArray[np.int64]) -> bytes:
    """A copy of a payload in which these bits are flipped, each once however often it is named."""
    values = np.frombuffer(payload, dtype=np.uint8).copy()
    if values.size:
        # Unique, since a bit that is flipped twice would be sound again.
        bits = np.unique(flipped_bits % (8 * values.size))
        np.bitwise_xor.at(values, bits // 8, (1 << (bits % 8)).astype(np.uint8))
    return values.tobytes()


class MemoryTransport(WireTransport):
    """A `Transport` that hands the frames over; payloads are views of the sender's array, which must not change.

    Args:
        wire: wire format, with the kinds of messages that may cross.
    """

    #: What it hands over is checked when it arrives: a sender must not have changed it by then.
    forwards_ahead = False

    def submit(self, messages: Sequence[Message]) -> list[InFlight]:
        """Encode messages as their senders would.

        Raises:
            WireError: a message must not cross; none of them has.
            TransportError: the transport was closed.
        """
        self._check_open()
        return [in_flight_of(frames) for frames in self._wire.encode_all(messages)]

    def forward(self, arrivals: Sequence[Arrival]) -> list[Message]:
        """Remove the lost packets as the hub would, and decode the rest as the receiver would.

        Raises:
            WireError: the frames are damaged, or of no use unless whole.
            TransportError: the transport was closed.
        """
        self._check_open()
        return messages_of([self._wire.verified(frames) for frames in self._left(*arrivals)])

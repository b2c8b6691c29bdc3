"""Bits that are flipped between the hub and a receiver, and what the receiver's wire says to them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...contracts import Message
from .wire import Wire, WireFrames


def decode_damaged(
    wire: Wire,
    frames: WireFrames,
    lost_packets: NDArray[np.int64],
    packet_bytes: int,
    flipped_bits: NDArray[np.int64],
) -> Message:
    """What a receiver reads of a message after some of its payload's bits were flipped.

    Args:
        wire: of the receiver.
        frames: as the hub has them.
        lost_packets, packet_bytes: what was lost beside, see `Wire.without_packets`.
        flipped_bits: [n] numbers of bits, counted modulo the length of what is left of the payload.

    Raises:
        WireError: the receiver has noticed; always, but for one in 2^64 that happen to fit the checksum.
    """
    left = wire.without_packets(frames, lost_packets, packet_bytes)
    return wire.decode(left.header, with_flipped_bits(left.payload, flipped_bits))


def with_flipped_bits(payload: memoryview, flipped_bits: NDArray[np.int64]) -> bytes:
    """A copy of a payload in which these bits are others, each once however often it is named."""
    values = np.frombuffer(payload, dtype=np.uint8).copy()
    if values.size:
        bits = np.unique(flipped_bits % (8 * values.size))
        np.bitwise_xor.at(values, bits // 8, (1 << (bits % 8)).astype(np.uint8))
    return values.tobytes()

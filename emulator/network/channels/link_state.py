"""State of a radio link while it carried a message, put together from the message's stretches of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...contracts import NodeId
from ...radio.waves import Array


class LinkState(NamedTuple):
    """State of a link while it carried one message.

    Attributes:
        time_s: start of the transmission.
        sender, receiver: ends of the link.
        size_bytes, airtime_s: size and airtime of the message.
        sinr_db: mean over its blocks' first copies.
        sender_fade_db, receiver_fade_db: loss to what stands before either end, the largest while it lasted.
        interference_db: rise of the noise by other transmissions, the largest that first copies met.
        cqi: mean indicator, 1 to 15.
        rate_bps: bits that its blocks have room for, over airtime: repeats count, a last block half full does not.
        n_blocks, n_failed_blocks, n_lost_blocks: all blocks; those whose first copy failed; those never decoded.
        n_packets, n_lost_packets: number of packets of the message, and of those that were lost.
    """

    time_s: float
    sender: NodeId
    receiver: NodeId
    size_bytes: int
    airtime_s: float
    sinr_db: float
    sender_fade_db: float
    receiver_fade_db: float
    interference_db: float
    cqi: float
    rate_bps: float
    n_blocks: int
    n_failed_blocks: int
    n_lost_blocks: int
    n_packets: int
    n_lost_packets: int


class Stretch(NamedTuple):
    """Consecutive blocks of one message that were sent at one rate.

    Attributes:
        rate: index of it.
        block_bytes: capacity of each block.
        copies: [n] sent of each block.
        lost: [n] never decoded.
        sinr_db: [n] of first copies.
        fade_db: [2] largest of sender and receiver.
        interference_db: rise of the noise.
        airtime_s: airtime of all copies.
        decoded_s: instant at which the last of its blocks is decoded or given up.
    """

    rate: int
    block_bytes: int
    copies: NDArray[np.int64]
    lost: NDArray[np.bool_]
    sinr_db: Array
    fade_db: Array
    interference_db: float
    airtime_s: float
    decoded_s: float

    @property
    def failed(self) -> NDArray[np.bool_]:
        """[n] whose first copy was not decoded."""
        return (self.copies > 1) | self.lost


def lost_packets(stretches: Sequence[Stretch], size_bytes: int, packet_bytes: int) -> NDArray[np.int64]:
    """[n_lost] indices of the packets of a message of which a part was in a lost block, ascending."""
    lost = np.concatenate([stretch.lost for stretch in stretches])
    if not lost.any():
        return np.empty(0, dtype=np.int64)
    sizes = np.concatenate([np.full(len(stretch.lost), stretch.block_bytes) for stretch in stretches])
    end = np.cumsum(sizes)
    last_byte = max(size_bytes - 1, 0)  # the last block may have room beyond the message
    # Blocks and packets do not align: a lost block takes every packet that it holds a byte of.
    first = (end - sizes)[lost] // packet_bytes
    last = np.minimum(end[lost] - 1, last_byte) // packet_bytes
    # +1 where a lost block begins and -1 behind its end: a packet is lost where the running sum is above 0.
    change = np.zeros(last_byte // packet_bytes + 2, dtype=np.int64)  # of the number of lost blocks a packet is part of
    np.add.at(change, first, 1)
    np.add.at(change, last + 1, -1)
    return np.flatnonzero(np.cumsum(change))


def link_state(
    start_s: float, ends: tuple[NodeId, NodeId], size_bytes: int, stretches: Sequence[Stretch], packets: tuple[int, int]
) -> LinkState:
    """State of a link over the stretches of one message.

    Args:
        start_s: simulated start of its transmission.
        ends: sender and receiver.
        size_bytes: size of the message.
        stretches: stretches of blocks that it took.
        packets: number of its packets, and of those that were lost.
    """
    n_blocks = sum(len(stretch.copies) for stretch in stretches)
    room_bytes = sum(len(stretch.copies) * stretch.block_bytes for stretch in stretches)
    airtime_s = sum(stretch.airtime_s for stretch in stretches)
    return LinkState(
        time_s=start_s,
        sender=ends[0],
        receiver=ends[1],
        size_bytes=size_bytes,
        airtime_s=airtime_s,
        sinr_db=sum(float(stretch.sinr_db.sum()) for stretch in stretches) / n_blocks,
        sender_fade_db=max(float(stretch.fade_db[0]) for stretch in stretches),
        receiver_fade_db=max(float(stretch.fade_db[1]) for stretch in stretches),
        interference_db=max(stretch.interference_db for stretch in stretches),
        cqi=sum((stretch.rate + 1) * len(stretch.copies) for stretch in stretches) / n_blocks,
        rate_bps=8 * room_bytes / airtime_s,
        n_blocks=n_blocks,
        n_failed_blocks=sum(int(np.count_nonzero(stretch.failed)) for stretch in stretches),
        n_lost_blocks=sum(int(np.count_nonzero(stretch.lost)) for stretch in stretches),
        n_packets=packets[0],
        n_lost_packets=packets[1],
    )

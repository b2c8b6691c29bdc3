"""Payloads with gaps: which bytes lost packets take away, and where those that are left belong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .wire_header import DTYPES, Header


def removed_bytes(lost_packets: NDArray[np.int64], packet_bytes: int, full_bytes: int) -> int:
    """Payload bytes that lost packets (all inside the payload) take away; only the last one can be short."""
    if lost_packets.size == 0:
        return 0
    overhang = max(0, (int(lost_packets[-1]) + 1) * packet_bytes - full_bytes)
    return lost_packets.size * packet_bytes - overhang


def kept_parts(lost_packets: NDArray[np.int64], elements_per_packet: int, n_elements: int) -> list[slice]:
    """The stretches of elements between the lost packets, in order."""
    stretches, start = [], 0
    for index in lost_packets.tolist():
        if index * elements_per_packet > start:
            stretches.append(slice(start, index * elements_per_packet))
        start = (index + 1) * elements_per_packet
    if start < n_elements:
        stretches.append(slice(start, n_elements))
    return stretches


def with_gaps(header: Header, payload: memoryview) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """[n_elements] payload with zeros where packets are missing, and [n_elements] False at those."""
    arrived = np.frombuffer(payload, dtype=DTYPES[header.dtype])
    values = np.zeros(header.n_elements, dtype=arrived.dtype)
    received = np.zeros(header.n_elements, dtype=np.bool_)
    used = 0
    for part in kept_parts(header.lost_packets, header.packet_bytes // arrived.itemsize, header.n_elements):
        length = part.stop - part.start
        values[part] = arrived[used : used + length]
        received[part] = True
        used += length
    values.flags.writeable = received.flags.writeable = False
    return values, received

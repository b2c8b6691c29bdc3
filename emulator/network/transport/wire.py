"""Wire format between nodes: two frames per message, a checked header and the raw numbers. Never pickle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from ...contracts import DIVISIBLE_KINDS, Message, MessageKind, Modality, NodeId
from .errors import WireError
from .wire_header import DTYPES, MAX_HEADER_BYTES, Header, describe, header_bytes, pack_header, unpack_header

__all__ = ["Header", "Wire", "WireError", "WireFrames", "header_bytes", "message_bytes"]

_REMEMBERED = 8  # a client broadcasts at most one array per modality and phase; twice that is plenty
_REMEMBERED_HEADERS = 4096  # at least so many messages in flight at a time; forgetting one costs a parse, no more
_REMEMBERED_BYTES = 4096  # of a header; longer ones list losses, are rare, and would fill the memory


class WireFrames(NamedTuple):
    """A message as bytes.

    Attributes:
        header, payload: the two frames; the payload is often a view of the sender's array.
        carrier: frame of the transport that holds the payload, to be sent on without a copy; None: there is none.
    """

    header: bytes
    payload: memoryview
    carrier: Any = None

    @property
    def size_bytes(self) -> int:
        """Number of bytes that a link has to carry."""
        return len(self.header) + self.payload.nbytes


def message_bytes(kind: MessageKind, phase: str, modality: Modality | None, n_elements: int, dtype: str = "<f4") -> int:
    """Size on the wire of any such message, the formula that byte audits use."""
    return header_bytes(kind, phase, modality) + n_elements * DTYPES[dtype].itemsize


class Wire:
    """Turns messages into frames and back, and refuses everything that was not declared.

    Args:
        allowed_kinds: kinds that the algorithm may send; any other kind is refused on both sides.
        max_payload_bytes: longest vector, in bytes; nothing larger is sent, or allocated for on arrival.

    Attributes:
        max_frame_bytes: longest frame of any message.

    >>> wire = Wire(frozenset({MessageKind.HEAD}))
    >>> frames = wire.encode(Message(MessageKind.HEAD, 0, 1, 7, "mix", np.ones(2, np.float32)))
    >>> wire.decode(frames.header, frames.payload).payload
    array([1., 1.], dtype=float32)
    """

    def __init__(self, allowed_kinds: frozenset[MessageKind], max_payload_bytes: int = 1 << 30) -> None:
        self._allowed_kinds = allowed_kinds
        self._max_payload_bytes = max_payload_bytes
        self.max_frame_bytes = max(max_payload_bytes, MAX_HEADER_BYTES)
        # Checksums of the last arrays sent; holding the array keeps its id from being given to another one.
        self._known: dict[int, tuple[NDArray[Any], int, str, int]] = {}
        # A parsed header depends on its bytes alone: sender, hub and receiver of one process parse them once.
        self._headers: dict[bytes, Header] = {}
        self._earlier_headers: dict[bytes, Header] = {}

    def encode(self, message: Message) -> WireFrames:
        """Frames of a message; the payload is a read-only view of its array, copied only if not contiguous.

        Raises:
            WireError: undeclared kind, wrong dtype or shape, too large, or a message that has already lost packets.
        """
        self._check_kind(message.kind, message.sender)
        payload = message.payload
        if payload.dtype.str not in DTYPES or payload.ndim != 1:
            found = f"{payload.dtype.str} of shape {payload.shape}"
            raise WireError(f"payload of {message.kind} must be a vector of one of {', '.join(DTYPES)}, got {found}")
        self._check_size(payload.nbytes, message.kind)
        if message.received is not None:
            raise WireError(f"{message.kind} from {message.sender} has lost coordinates; send only what is whole")
        # Read-only: in one process the receiver's payload is a view of this memory.
        raw = np.ascontiguousarray(payload).view(np.uint8).data.toreadonly()
        return WireFrames(self._packed(describe(message, payload.dtype.str, self._checksum(message, raw))), raw)

    def read_header(self, header: bytes, payload_bytes: int) -> Header:
        """The header of a message whose payload frame has this many bytes; the payload stays unread.

        Raises:
            WireError: the header is malformed or undeclared, or does not fit the size of the payload.
        """
        found = self._headers.get(header) or self._earlier_headers.get(header)
        if found is None:
            found = self._remembered(header, unpack_header(header))
        full_bytes = found.full_bytes
        # Checked behind the cache, which also holds headers that are refused here.
        self._check_kind(found.kind, found.sender)
        self._check_size(full_bytes, found.kind)
        if found.lost_packets.size and found.kind not in DIVISIBLE_KINDS:
            raise WireError(f"{found.kind} from {found.sender} lost packets, but is of no use unless whole")
        expected = full_bytes - _removed_bytes(found.lost_packets, found.packet_bytes, full_bytes)
        if payload_bytes != expected:
            raise WireError(f"payload from {found.sender} has {payload_bytes} bytes, its header says {expected}")
        return found

    def read_verified(self, header: bytes, payload: memoryview) -> Header:
        """The header of a message, where the payload is the one that it was made for.

        Raises:
            WireError: the header is refused, or the payload was damaged.
        """
        found = self.read_header(header, payload.nbytes)
        if xxhash.xxh3_64_intdigest(payload) != found.payload_checksum:
            raise WireError(
                f"payload of {found.kind} from {found.sender} does not match its checksum; "
                "it was damaged on its way, or its sender changed the array after sending it"
            )
        return found

    def decode(self, header: bytes, payload: memoryview | bytes) -> Message:
        """The message in two frames; its payload is read-only and a view of the frame where nothing was lost.

        Raises:
            WireError: the frames are not what an `encode` made.
        """
        raw = memoryview(payload)
        found = self.read_verified(header, raw)
        if found.lost_packets.size:
            values, received = _with_gaps(found, raw)
        else:
            values, received = np.frombuffer(raw, dtype=DTYPES[found.dtype]), None
            if not values.flags.aligned:  # ZeroMQ may hand out small frames at any address; torch wants aligned ones
                values = values.copy()
        values.flags.writeable = False
        return Message(
            found.kind, found.sender, found.receiver, found.round_index, found.phase, values, found.modality, received
        )

    def without_packets(self, frames: WireFrames, lost_packets: NDArray[np.int64], packet_bytes: int) -> WireFrames:
        """The frames of a message without these packets: a shorter payload and a header that lists the losses.

        Packet k holds payload bytes [k * packet_bytes, (k + 1) * packet_bytes); the header's own bytes count behind
        the payload, and the header always arrives, so losing a packet beyond the payload removes nothing.

        Args:
            lost_packets: [n_lost] ascending indices.
            packet_bytes: a multiple of 8, so that no number is cut in two.

        Raises:
            WireError: the message is of no use unless whole, has lost packets before, or is not a message at all.
        """
        if lost_packets.size == 0:
            return frames
        found = self.read_verified(frames.header, frames.payload)
        if found.kind not in DIVISIBLE_KINDS or found.lost_packets.size:
            raise WireError(f"{found.kind} from {found.sender} cannot lose packets and go on; drop it")
        if packet_bytes <= 0 or packet_bytes % 8:
            raise WireError(f"packet_bytes must be a positive multiple of 8, got {packet_bytes}")
        lost = lost_packets[lost_packets * packet_bytes < found.full_bytes]
        if lost.size == 0:
            return frames
        values = np.frombuffer(frames.payload, dtype=DTYPES[found.dtype])
        kept = [values[part] for part in _kept(lost, packet_bytes // values.itemsize, values.size)]
        left = np.concatenate(kept or [values[:0]]).view(np.uint8).data.toreadonly()
        checksum = xxhash.xxh3_64_intdigest(left)
        header = found._replace(payload_checksum=checksum, packet_bytes=packet_bytes, lost_packets=lost)
        return WireFrames(self._packed(header), left)

    def _checksum(self, message: Message, raw: memoryview) -> int:
        """xxh3_64 of a payload, once per broadcast: the same array in the same round and phase is not read again.

        A later phase reads it again, so that a sender may reuse its array once a phase is over.
        """
        payload, round_index, phase = message.payload, message.round_index, message.phase
        known = self._known.get(id(payload))
        if known is not None and known[1:3] == (round_index, phase):
            return known[3]
        checksum: int = xxhash.xxh3_64_intdigest(raw)
        # Re-inserted at the end, because the first entry is the one that is dropped.
        self._known.pop(id(payload), None)
        if len(self._known) == _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[id(payload)] = (payload, round_index, phase, checksum)
        return checksum

    def _packed(self, header: Header) -> bytes:
        frame = pack_header(header)
        self._remembered(frame, header)
        return frame

    def _remembered(self, frame: bytes, header: Header) -> Header:
        if len(frame) > _REMEMBERED_BYTES:
            return header
        if len(self._headers) == _REMEMBERED_HEADERS:  # one by one would search past all that were forgotten before
            self._earlier_headers, self._headers = self._headers, {}
        self._headers[frame] = header
        return header

    def _check_kind(self, kind: MessageKind, sender: NodeId) -> None:
        if kind not in self._allowed_kinds:
            declared = ", ".join(sorted(self._allowed_kinds)) or "none"
            raise WireError(
                f"node {sender} sends {kind.value!r}, which the algorithm did not declare; declared: {declared}"
            )

    def _check_size(self, n_bytes: int, kind: MessageKind) -> None:
        if n_bytes > self._max_payload_bytes:
            raise WireError(f"payload of {kind} would have {n_bytes} bytes; the limit is {self._max_payload_bytes}")


def _removed_bytes(lost_packets: NDArray[np.int64], packet_bytes: int, full_bytes: int) -> int:
    """Payload bytes that lost packets (all inside the payload) take away; only the last one can be short."""
    if lost_packets.size == 0:
        return 0
    overhang = max(0, (int(lost_packets[-1]) + 1) * packet_bytes - full_bytes)
    return lost_packets.size * packet_bytes - overhang


def _kept(lost_packets: NDArray[np.int64], elements_per_packet: int, n_elements: int) -> list[slice]:
    """The stretches of elements between the lost packets, in order."""
    stretches, start = [], 0
    for index in lost_packets.tolist():
        if index * elements_per_packet > start:
            stretches.append(slice(start, index * elements_per_packet))
        start = (index + 1) * elements_per_packet
    if start < n_elements:
        stretches.append(slice(start, n_elements))
    return stretches


def _with_gaps(header: Header, raw: memoryview) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """[n_elements] payload with zeros where packets are missing, and [n_elements] False at those."""
    arrived = np.frombuffer(raw, dtype=DTYPES[header.dtype])
    values = np.zeros(header.n_elements, dtype=arrived.dtype)
    received = np.zeros(header.n_elements, dtype=np.bool_)
    used = 0
    for part in _kept(header.lost_packets, header.packet_bytes // arrived.itemsize, header.n_elements):
        length = part.stop - part.start
        values[part] = arrived[used : used + length]
        received[part] = True
        used += length
    received.flags.writeable = False
    return values, received

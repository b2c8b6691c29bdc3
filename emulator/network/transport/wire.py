"""Wire format between nodes: a checked header and the raw numbers per message, in envelopes of many. Never pickle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from ...contracts import DIVISIBLE_KINDS, Message, MessageKind, Modality, NodeId
from .envelope import MAX_HEAD_BYTES, Draft, Envelope, unpack_head
from .errors import WireError
from .gaps import kept_parts, removed_bytes, with_gaps
from .wire_header import DTYPES, Header, HeaderForm, header_bytes, pack_header, unpack_header

__all__ = ["Header", "Wire", "WireError", "WireFrames", "header_bytes", "message_bytes"]


class WireFrames(NamedTuple):
    """A message as bytes.

    Attributes:
        header, payload: its two parts; the payload is often a view of the sender's array.
        found: what the header says.
        carrier: frame of the transport that holds the payload, to be sent on without a copy; None: there is none.
    """

    header: bytes
    payload: memoryview
    found: Header
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
        self.max_frame_bytes = max(max_payload_bytes, MAX_HEAD_BYTES)
        # What the envelope that was packed last says: in one process its reader need not parse it.
        self._last: tuple[bytes, Sequence[WireFrames], Sequence[int]] | None = None

    def encode(self, message: Message) -> WireFrames:
        """Frames of a message; the payload is a read-only view of its array, copied only if not contiguous.

        Raises:
            WireError: undeclared kind, wrong dtype or shape, too large, or a message that has already lost packets.
        """
        return self.encode_all([message])[0]

    def encode_all(self, messages: Sequence[Message]) -> list[WireFrames]:
        """Frames of messages as of `encode`; an array that several of them share is read once, and is one payload."""
        # By identity: the messages keep their arrays alive, so that no id stands for two.
        known: dict[int, tuple[memoryview, HeaderForm]] = {}
        frames = []
        for message in messages:
            before = known.get(id(message.payload))
            if before is None or message.received is not None or message.slot != before[1].header.slot:
                before = known[id(message.payload)] = self._form(message, None if before is None else before[0])
            raw, form = before
            frames.append(WireFrames(form.packed(message.receiver), raw, form.of(message.receiver)))
        return frames

    def envelopes(self, frames: Iterable[WireFrames]) -> Iterator[Envelope]:
        """Messages in as few envelopes as their limits allow, in order; each is to be read before the next is made."""
        draft, inside = Draft(), list[WireFrames]()
        for one in frames:
            part = one.payload if one.carrier is None else one.carrier
            if not draft.add(one.header, part, one.payload.nbytes):
                yield self._packed(draft, inside)
                draft, inside = Draft(), []
                draft.add(one.header, part, one.payload.nbytes)
            inside.append(one)
        if inside:
            yield self._packed(draft, inside)

    def opened(self, head: bytes, payloads: Sequence[memoryview], carriers: Sequence[Any]) -> list[WireFrames]:
        """The messages of an envelope, each checked as of `read_verified`; a payload of several is read once.

        Args:
            head: first frame of the envelope.
            payloads, carriers: content of its other frames, and what the transport sends them on as.

        Raises:
            WireError: the envelope is malformed, or one of its messages is refused.
        """
        entries, places = self._entries(head)
        if max(places) + 1 != len(payloads):
            raise WireError(f"an envelope has {len(payloads)} payloads, its head names {max(places) + 1}")
        checksums = [xxhash.xxh3_64_intdigest(payload) for payload in payloads]
        frames = []
        for (header, found), place in zip(entries, places, strict=True):
            self._check(found, payloads[place].nbytes)
            if checksums[place] != found.payload_checksum:
                raise _damaged(found)
            frames.append(WireFrames(header, payloads[place], found, carriers[place]))
        return frames

    def read_header(self, header: bytes, payload_bytes: int) -> Header:
        """The header of a message whose payload frame has this many bytes; the payload stays unread.

        Raises:
            WireError: the header is malformed or undeclared, or does not fit the size of the payload.
        """
        found = unpack_header(header)
        self._check(found, payload_bytes)
        return found

    def read_verified(self, header: bytes, payload: memoryview) -> Header:
        """The header of a message, where the payload is the one that it was made for.

        Raises:
            WireError: the header is refused, or the payload was damaged.
        """
        found = self.read_header(header, payload.nbytes)
        if xxhash.xxh3_64_intdigest(payload) != found.payload_checksum:
            raise _damaged(found)
        return found

    def decode(self, header: bytes, payload: memoryview | bytes) -> Message:
        """The message in two frames; its payload is read-only and a view of the frame where nothing was lost.

        Raises:
            WireError: the frames are not what an `encode` made.
        """
        raw = memoryview(payload)
        return messages_of([WireFrames(header, raw, self.read_verified(header, raw))])[0]

    def verified(self, frames: WireFrames) -> WireFrames:
        """The same frames, if their payload still is the one that the header was made for.

        Raises:
            WireError: it was changed.
        """
        if xxhash.xxh3_64_intdigest(frames.payload) != frames.found.payload_checksum:
            raise _damaged(frames.found)
        return frames

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
        found = self.verified(frames).found
        if found.slot.kind not in DIVISIBLE_KINDS or found.lost_packets.size:
            raise WireError(f"{found.slot.kind} from {found.slot.sender} cannot lose packets and go on; drop it")
        if packet_bytes <= 0 or packet_bytes % 8:
            raise WireError(f"packet_bytes must be a positive multiple of 8, got {packet_bytes}")
        lost = lost_packets[lost_packets * packet_bytes < found.full_bytes]
        if lost.size == 0:
            return frames
        values = np.frombuffer(frames.payload, dtype=DTYPES[found.dtype])
        kept = [values[part] for part in kept_parts(lost, packet_bytes // values.itemsize, values.size)]
        left = np.concatenate(kept or [values[:0]]).view(np.uint8).data.toreadonly()
        checksum = xxhash.xxh3_64_intdigest(left)
        found = found._replace(payload_checksum=checksum, packet_bytes=packet_bytes, lost_packets=lost)
        return WireFrames(pack_header(found), left, found)

    def _form(self, message: Message, raw: memoryview | None) -> tuple[memoryview, HeaderForm]:
        """Bytes of a payload, which may be known, and the form of the headers of all messages that hold it."""
        self._check_kind(message.kind, message.sender)
        payload = message.payload
        dtype = payload.dtype.str
        if dtype not in DTYPES or payload.ndim != 1:
            found = f"{dtype} of shape {payload.shape}"
            raise WireError(f"payload of {message.kind} must be a vector of one of {', '.join(DTYPES)}, got {found}")
        self._check_size(payload.nbytes, message.kind)
        if message.received is not None:
            raise WireError(f"{message.kind} from {message.sender} has lost coordinates; send only what is whole")
        if raw is None:  # read-only: in one process the receiver's payload is a view of this memory
            raw = np.ascontiguousarray(payload).view(np.uint8).data.toreadonly()
        checksum = xxhash.xxh3_64_intdigest(raw)
        return raw, HeaderForm(Header(message.slot, message.receiver, dtype, payload.size, checksum))

    def _packed(self, draft: Draft, frames: Sequence[WireFrames]) -> Envelope:
        envelope = draft.envelope()
        self._last = envelope.head, frames, draft.places
        return envelope

    def _entries(self, head: bytes) -> tuple[Sequence[tuple[bytes, Header]], Sequence[int]]:
        """Headers of an envelope, as bytes and as what they say, and the places of their payloads."""
        if self._last is not None and head == self._last[0]:
            _, frames, places = self._last
            self._last = None  # an envelope is read once, and payloads are not kept longer than that
            return [(one.header, one.found) for one in frames], places
        headers, places = unpack_head(head)
        return [(header, unpack_header(header)) for header in headers], places

    def _check(self, found: Header, payload_bytes: int) -> None:
        """Refuse a header that was not declared, or does not fit a payload of this size."""
        kind, sender = found.slot.kind, found.slot.sender
        self._check_kind(kind, sender)
        full_bytes = found.full_bytes
        self._check_size(full_bytes, kind)
        if found.lost_packets.size:
            if kind not in DIVISIBLE_KINDS:
                raise WireError(f"{kind} from {sender} lost packets, but is of no use unless whole")
            full_bytes -= removed_bytes(found.lost_packets, found.packet_bytes, full_bytes)
        if payload_bytes != full_bytes:
            raise WireError(f"payload from {sender} has {payload_bytes} bytes, its header says {full_bytes}")

    def _check_kind(self, kind: MessageKind, sender: NodeId) -> None:
        if kind not in self._allowed_kinds:
            declared = ", ".join(sorted(self._allowed_kinds)) or "none"
            raise WireError(
                f"node {sender} sends {kind.value!r}, which the algorithm did not declare; declared: {declared}"
            )

    def _check_size(self, n_bytes: int, kind: MessageKind) -> None:
        if n_bytes > self._max_payload_bytes:
            raise WireError(f"payload of {kind} would have {n_bytes} bytes; the limit is {self._max_payload_bytes}")


def messages_of(frames: Sequence[WireFrames]) -> list[Message]:
    """The messages in frames that were checked, in order; payloads are read-only.

    Where nothing was lost, a payload is a view of its frame, and one array for all messages that share the frame.
    """
    arrays: dict[tuple[int, str], NDArray[Any]] = {}
    messages = []
    for _, raw, found, _ in frames:
        received = None
        if found.lost_packets.size:
            values, received = with_gaps(found, raw)
        elif (known := arrays.get((id(raw), found.dtype))) is not None:
            values = known
        else:
            values = arrays[id(raw), found.dtype] = _whole(found, raw)
        round_index, phase, sender, kind, modality = found.slot
        messages.append(Message(kind, sender, found.receiver, round_index, phase, values, modality, received))
    return messages


def _damaged(found: Header) -> WireError:
    return WireError(
        f"payload of {found.slot.kind} from {found.slot.sender} does not match its checksum; "
        "it was damaged on its way, or its sender changed the array after sending it"
    )


def _whole(found: Header, raw: memoryview) -> NDArray[Any]:
    """[n_elements] payload of a message that has lost nothing."""
    values = np.frombuffer(raw, dtype=DTYPES[found.dtype])
    if not values.flags.aligned:  # ZeroMQ may hand out small frames at any address; torch wants aligned ones
        values = values.copy()
    values.flags.writeable = False
    return values

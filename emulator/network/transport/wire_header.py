"""Header frame of a message: a msgpack map that describes the payload, with checksums of both frames.

Integers are packed at full width, so that a header's length depends on kind, phase and modality alone and bytes on
the wire follow a formula (`header_bytes`). Any msgpack library reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgpack
import numpy as np
import xxhash
from numpy.typing import NDArray

from ...contracts import MODALITIES, MessageKind, MessageSlot, Modality, NodeId
from .errors import WireError
from .packed_limits import unpack_limited

WIRE_VERSION = 1
#: Longest header; a quarter of a million lost packets fit, and what an unknown sender can make msgpack build is small.
MAX_HEADER_BYTES = 1 << 20

#: What may be in a payload, by the name it has in the header: little-endian, whatever the machine.
DTYPES: Mapping[str, np.dtype[Any]] = {name: np.dtype(name) for name in ("<f2", "<f4", "<f8", "<u8")}

_UINT64, _BIN32 = b"\xcf", b"\xc6"  # msgpack's markers for full-width integers and byte strings
_INDEX = np.dtype("<u4")
_FIELDS: Mapping[str, tuple[type, ...]] = {
    "version": (int,),
    "kind": (str,),
    "phase": (str,),
    "modality": (str, type(None)),
    "dtype": (str,),
    "sender": (int,),
    "receiver": (int,),
    "round": (int,),
    "n_elements": (int,),
    "payload_checksum": (int,),
    "packet_bytes": (int,),
    "lost_packets": (bytes,),
    "header_checksum": (int,),
}
_KEY: Mapping[str, bytes] = {name: msgpack.packb(name) for name in _FIELDS}
_COUNTED = ("sender", "receiver", "round", "n_elements", "payload_checksum", "packet_bytes")
_COUNTS = struct.Struct(">" + "".join(f"{len(_KEY[name])}scQ" for name in _COUNTED))  # key, marker, number


NOTHING_LOST: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
NOTHING_LOST.flags.writeable = False


class Header(NamedTuple):
    """Description of a payload, for the hub and the receiver.

    Attributes:
        slot: slot under which the receiver files the message.
        receiver: as of `Message`.
        dtype: type of the payload's numbers, a key of `DTYPES`.
        n_elements: length of the vector that was sent, lost coordinates included.
        payload_checksum: xxh3_64 of the payload frame that travels with this header.
        packet_bytes: size of the packets that `lost_packets` counts; 0 when nothing was lost.
        lost_packets: [n_lost] ascending indices of packets that are missing in the payload frame.
    """

    slot: MessageSlot
    receiver: NodeId
    dtype: str
    n_elements: int
    payload_checksum: int
    packet_bytes: int = 0
    lost_packets: NDArray[np.int64] = NOTHING_LOST

    @property
    def full_bytes(self) -> int:
        """Size of the payload when no packet is missing."""
        return self.n_elements * DTYPES[self.dtype].itemsize


def header_bytes(kind: MessageKind, phase: str, modality: Modality | None = None) -> int:
    """Length of the header frame of any message of this kind, phase and modality that has lost no packet."""
    return len(pack_header(Header(MessageSlot(0, phase, 0, kind, modality), 0, "<f4", 0, 0)))


def pack_header(header: Header) -> bytes:
    """The header as a frame.

    Raises:
        WireError: an id, the round or a packet index does not fit its field, or there are too many of the latter.
    """
    body = _body(header)
    if len(body) + 8 > MAX_HEADER_BYTES:
        raise WireError(
            f"{header.slot.kind} from {header.slot.sender} lost {header.lost_packets.size} packets, more than its"
            " header can list; raise link.packet_bytes"
        )
    return body + xxhash.xxh3_64_digest(body)


class HeaderForm:
    """Headers of the messages of a broadcast, which differ in their receivers only.

    Args:
        header: that of any of them; nothing was lost.

    Raises:
        WireError: an id or the round does not fit its field.
    """

    def __init__(self, header: Header) -> None:
        self.header = header
        body = _body(header)
        at = len(body) - len(_NOTHING_LOST_PART) - _COUNTS.size + _RECEIVER_AT
        self._before, self._behind = body[:at], body[at + 8 :]

    def of(self, receiver: NodeId) -> Header:
        """The header for this receiver."""
        slot, _, dtype, n_elements, payload_checksum, _, _ = self.header
        return Header(slot, receiver, dtype, n_elements, payload_checksum)

    def packed(self, receiver: NodeId) -> bytes:
        """What `pack_header` makes for this receiver.

        Raises:
            WireError: the receiver does not fit its field.
        """
        try:
            body = self._before + _RECEIVER.pack(receiver) + self._behind
        except struct.error as error:
            raise _without_header(self.header.slot.sender, receiver, error) from None
        return body + xxhash.xxh3_64_digest(body)


def unpack_header(frame: bytes) -> Header:
    """The header in a frame, checked field by field.

    Raises:
        WireError: the frame is anything but what `pack_header` makes.
    """
    if len(frame) > MAX_HEADER_BYTES:
        raise WireError(f"header of {len(frame)} bytes is longer than {MAX_HEADER_BYTES}, which no header is")
    # The fast path answers None for anything unusual, and the slow one then finds out what is wrong.
    return unpack_usual(frame) or unpack_map(frame)


def unpack_map(frame: bytes) -> Header:
    """The header of a frame as msgpack reads it, checked field by field; errors as of `unpack_header`."""
    fields = _fields(frame)
    if int.from_bytes(frame[-8:], "big") != xxhash.xxh3_64_intdigest(frame[:-8]):
        raise WireError("header does not match its checksum; it was changed or cut on its way")
    header = Header(
        slot=MessageSlot(
            round_index=_count(fields, "round"),
            phase=fields["phase"],
            sender=_count(fields, "sender"),
            kind=_kind(fields["kind"]),
            modality=_modality(fields["modality"]),
        ),
        receiver=_count(fields, "receiver"),
        dtype=_dtype(fields["dtype"]),
        n_elements=_count(fields, "n_elements"),
        payload_checksum=_count(fields, "payload_checksum"),
        packet_bytes=_count(fields, "packet_bytes"),
        lost_packets=_lost_packets(fields["lost_packets"]),
    )
    if header.lost_packets.size:
        _check_losses(header)
    return header


def unpack_usual(frame: bytes) -> Header | None:
    """The header of a message that has lost nothing, cut at fixed places, which takes a fifth of the time.

    None for every frame that `pack_header` would not make to the byte.
    """
    start = len(frame) - _USUAL_END
    first = _parsed_first_part(frame[:start]) if 0 < start <= _LONGEST_FIRST_PART else None
    if first is None or frame[start + _COUNTS.size : -8] != _NOTHING_LOST_PART:
        return None
    # Groups of three: key, marker, number.
    counts = _COUNTS.unpack_from(frame, start)
    if counts[::3] != _COUNTED_KEYS or counts[1::3] != _COUNTED_MARKERS:
        return None
    if int.from_bytes(frame[-8:], "big") != xxhash.xxh3_64_intdigest(frame[:-8]):
        return None
    kind, phase, modality, dtype = first
    sender, receiver, round_index, n_elements, checksum, packet_bytes = counts[2::3]
    return Header(
        MessageSlot(round_index, phase, sender, kind, modality), receiver, dtype, n_elements, checksum, packet_bytes
    )


@lru_cache(maxsize=256)
def _parsed_first_part(part: bytes) -> tuple[MessageKind, str, Modality | None, str] | None:
    """Kind, phase, modality and dtype that `_static_part` has made this part of; None where it has not."""
    try:
        fields = msgpack.unpackb(bytes([0x80 | len(_FIRST)]) + part[1:])  # a map of these alone
        first = _kind(fields["kind"]), fields["phase"], _modality(fields["modality"]), _dtype(fields["dtype"])
        # Packed again and compared: msgpack has several encodings of one value, and only ours may pass here.
        return first if type(first[1]) is str and _static_part(*first) == part else None
    except (WireError, ValueError, TypeError, KeyError, OverflowError, msgpack.UnpackException):
        return None


def _fields(frame: bytes) -> dict[str, Any]:
    """The header's map, with exactly the known keys and a value of the right type under each."""
    fields = unpack_limited(memoryview(frame), MAX_HEADER_BYTES)
    as_ever = isinstance(fields, dict) and tuple(fields) == _NAMES and tuple(map(type, fields.values())) in _TYPES
    if as_ever and fields["version"] == WIRE_VERSION:
        return cast("dict[str, Any]", fields)  # the checks that follow only word the error
    if not isinstance(fields, dict) or "version" not in fields:
        raise WireError(f"header is not a map with a version but a {type(fields).__name__}")
    found = fields["version"]
    if type(found) is not int or found != WIRE_VERSION:
        raise WireError(f"frame speaks wire version {found!r}, this node {WIRE_VERSION}; run both from one release")
    if tuple(fields) != tuple(_FIELDS):
        wrong = sorted(map(repr, fields.keys() ^ _FIELDS.keys())) or "their order"
        raise WireError(f"header has missing or unknown keys: {wrong}")
    for (name, value), expected in zip(fields.items(), _FIELDS.values(), strict=True):
        if type(value) not in expected:  # exactly: a bool is no number here
            raise WireError(f"header field {name} must be {expected[0].__name__}, got {type(value).__name__}")
    return fields


def _kind(value: str) -> MessageKind:
    try:
        return MessageKind(value)
    except ValueError:
        raise WireError(f"unknown message kind {value!r}; known: {', '.join(MessageKind)}") from None


def _modality(value: Any) -> Modality | None:
    if value is not None and value not in MODALITIES:
        raise WireError(f"unknown modality {value!r}; known: {', '.join(MODALITIES)}, or none")
    return cast("Modality | None", value)


def _dtype(value: str) -> str:
    if value not in DTYPES:
        raise WireError(f"payload dtype must be one of {', '.join(DTYPES)}, got {value!r}")
    return value


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = int(fields[name])
    if value < 0:
        raise WireError(f"header field {name} must not be negative, got {value}")
    return value


def _lost_packets(packed: bytes) -> NDArray[np.int64]:
    if len(packed) % _INDEX.itemsize:
        raise WireError(f"lost_packets must hold 4 bytes per packet, got {len(packed)} bytes")
    if not packed:
        return NOTHING_LOST
    indices = np.frombuffer(packed, dtype=_INDEX).astype(np.int64)
    indices.flags.writeable = False
    return indices


def _check_losses(header: Header) -> None:
    """Packets were lost: they must be countable, in order, and inside the payload."""
    lost, packet_bytes = header.lost_packets, header.packet_bytes
    if packet_bytes == 0 or packet_bytes % 8:
        raise WireError(f"packet_bytes must be a positive multiple of 8 where packets are lost, got {packet_bytes}")
    if (np.diff(lost) <= 0).any():
        raise WireError("lost_packets must be in ascending order without repetition")
    if int(lost[-1]) * packet_bytes >= header.full_bytes:
        raise WireError(f"lost packet {lost[-1]} lies beyond the payload of {header.full_bytes} bytes")


@lru_cache(maxsize=256)
def _static_part(kind: MessageKind, phase: str, modality: Modality | None, dtype: str) -> bytes:
    """The header's first bytes, the same for all messages of a phase."""
    values = {"version": WIRE_VERSION, "kind": kind.value, "phase": phase, "modality": modality, "dtype": dtype}
    pairs = b"".join(_KEY[name] + msgpack.packb(value) for name, value in values.items())
    return bytes([0x80 | len(_FIELDS)]) + pairs  # a msgpack map of this many pairs


def _body(header: Header) -> bytes:
    """A header without its checksum."""
    slot = header.slot
    try:
        return (
            _static_part(slot.kind, slot.phase, slot.modality, header.dtype)
            + _COUNTS.pack(
                _KEY["sender"], _UINT64, slot.sender,
                _KEY["receiver"], _UINT64, header.receiver,
                _KEY["round"], _UINT64, slot.round_index,
                _KEY["n_elements"], _UINT64, header.n_elements,
                _KEY["payload_checksum"], _UINT64, header.payload_checksum,
                _KEY["packet_bytes"], _UINT64, header.packet_bytes,
            )
            + _indices(header.lost_packets)
        )  # fmt: skip
    except (struct.error, ValueError, TypeError, OverflowError) as error:
        raise _without_header(slot.sender, header.receiver, error) from None


def _without_header(sender: object, receiver: object, error: Exception) -> WireError:
    return WireError(f"message from {sender!r} to {receiver!r} has no header: {error}")


def _indices(lost_packets: NDArray[np.int64]) -> bytes:
    """Lost packets, and the key of the checksum that ends the header."""
    packed = lost_packets.astype(_INDEX).tobytes() if lost_packets.size else b""
    return _KEY["lost_packets"] + _BIN32 + struct.pack(">I", len(packed)) + packed + _KEY["header_checksum"] + _UINT64


_NOTHING_LOST_PART = _indices(NOTHING_LOST)
_RECEIVER = struct.Struct(">Q")
#: Of the receiver's number, in the part of the header that counts.
_RECEIVER_AT = sum(len(_KEY[name]) + 1 for name in ("sender", "receiver")) + 8
_USUAL_END = _COUNTS.size + len(_NOTHING_LOST_PART) + 8
_COUNTED_KEYS = tuple(_KEY[name] for name in _COUNTED)
_COUNTED_MARKERS = (_UINT64,) * len(_COUNTED)
_FIRST = ("version", "kind", "phase", "modality", "dtype")
_LONGEST_FIRST_PART = 512  # bytes that are worth remembering; an unknown sender may send longer ones
_NAMES = tuple(_FIELDS)
#: Types of all values in order; a modality may be none.
_TYPES = frozenset(
    tuple(modality if name == "modality" else expected for name, expected in _FIELDS.items())
    for modality in (str, type(None))
)

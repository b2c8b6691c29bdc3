"""Packets between the engine and remote processes: a checked msgpack header, and frames of raw numbers. Never pickle.

`docs/protocol.md` describes the protocol; the tables below define it. A packet of a type has exactly the fields of
that type; only those that a protocol lists as optional may be left out. Any msgpack library reads and writes it, and
CRC-32 is in every standard library.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgpack

from .errors import WireError
from .packed_limits import unpack_limited

PACKET_VERSION = 1

Frame = bytes | memoryview
#: A header holds no numbers of models; a thousand neighbors take a quarter of this.
MOST_HEADER_BYTES = 1 << 21
#: ZeroMQ closes the connection of a sender that announces a longer frame, before it allocates memory for it.
MOST_FRAME_BYTES = 1 << 30

_TICKET: Mapping[str, tuple[type, ...]] = {"ticket": (int,)}
_CALL: Mapping[str, tuple[type, ...]] = {"ticket": (int,), "client": (int,)}
_WORK: Mapping[str, tuple[type, ...]] = {**_CALL, "round": (int,), "arrived": (list, type(None)), "messages": (list,)}
_TREE: Mapping[str, tuple[type, ...]] = {"tree": (str,), "arrays": (list,)}

#: Type of a packet -> its fields and their types, beside version, type and checksum.
FIELDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    # a worker joins
    "hello": {"release": (str, type(None)), "name": (str,), "seat": (int, type(None))},
    "welcome": {
        "scenario": (str,),
        "clients": (list,),
        "seat": (int,),
        "beat_s": (float,),
        "silence_s": (float,),
    },
    "refused": {"sentence": (str,)},
    "ready": {"clients": (list,), "starts": (list,)},
    # an outside client joins, see outside_place.py
    "join": {"name": (str,), "client": (int,)},
    "place": {
        "client": (int,),
        "rounds": (int,),
        "speed": (float,),
        "deadline_s": (float,),
        "silence_s": (float,),
        "neighbors": (list,),
        "phases": (list,),
        "shared": (list,),
    },
    # heartbeat, both ways
    "alive": {},
    # calls of the engine
    "phases": {**_CALL, "round": (int,)},
    "turn": {**_WORK, "phase": (str,)},
    "look": _WORK,
    "state": _CALL,
    "restore": {**_CALL, **_TREE},
    "stop": {},
    # replies of the worker
    "phases_done": {**_TICKET, "phases": (list,)},
    "turn_done": {**_TICKET, "messages": (list,), "expected": (list,)},
    "look_done": {**_TICKET, "row": (dict,), "phases": (list,)},
    "state_done": {**_TICKET, **_TREE},
    "restore_done": _TICKET,
    "failed": {"ticket": (int, type(None)), "error": (str,), "sentence": (str,)},
    "leaving": {"sentence": (str,)},
}


class PacketSchema(NamedTuple):
    """Types of packets of one protocol.

    Attributes:
        version: version of the protocol; that of both ends must be the same.
        fields: type of a packet -> its fields and their types, as `FIELDS`.
        most_header_bytes: longest header of a packet.
        optional: type of a packet -> fields that it may have beside those.
    """

    version: int
    fields: Mapping[str, Mapping[str, tuple[type, ...]]]
    most_header_bytes: int = MOST_HEADER_BYTES
    optional: Mapping[str, Mapping[str, tuple[type, ...]]] = {}


#: Protocol between the engine and its workers or outside clients.
WORKER_PACKETS = PacketSchema(PACKET_VERSION, FIELDS)


class Packet(NamedTuple):
    """One packet.

    Attributes:
        type: a name of the schema's fields.
        fields: exactly those of its type.
        frames: raw numbers that fields refer to by their place.
    """

    type: str
    fields: Mapping[str, Any]
    frames: Sequence[Frame] = ()


def pack_packet(packet: Packet, schema: PacketSchema = WORKER_PACKETS) -> list[Frame]:
    """Header and frames.

    Raises:
        WireError: its fields are not those of its type, or cannot be written.
    """
    _check_fields(packet.type, packet.fields, schema)
    header = {"version": schema.version, "type": packet.type, "checksum": _checksum(packet.frames), **packet.fields}
    try:
        return [msgpack.packb(header), *packet.frames]
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError(f"packet {packet.type!r} cannot be written: {error}") from None


def unpack_packet(parts: Sequence[Frame], schema: PacketSchema = WORKER_PACKETS) -> Packet:
    """The packet in these frames; the contents of messages, trees and slots in its fields are not checked yet.

    Raises:
        OverLimitError: the header is too long, too deep, or has too many items.
        WireError: they are anything but what `pack_packet` makes.
    """
    if not parts:
        raise WireError("a packet has a header")
    header = unpack_limited(memoryview(parts[0]), schema.most_header_bytes)
    if type(header) is not dict or "version" not in header:
        raise WireError("header is not a map with a version")
    if type(header["version"]) is not int or header["version"] != schema.version:
        raise WireError(
            f"packet speaks version {str(header['version'])[:20]!r}, this end {schema.version}; use one release"
        )
    kind, checksum = header.pop("type", None), header.pop("checksum", None)
    del header["version"]
    _check_fields(kind, header, schema)
    if type(checksum) is not int or checksum != _checksum(parts[1:]):
        raise WireError(f"frames of a packet {kind!r} do not match its checksum")
    return Packet(cast("str", kind), header, list(parts[1:]))


def _checksum(frames: Sequence[Frame]) -> int:
    checksum = 0
    for frame in frames:
        checksum = zlib.crc32(frame, checksum)
    return checksum


def _check_fields(kind: object, fields: Mapping[str, Any], schema: PacketSchema) -> None:
    if type(kind) is not str or kind not in schema.fields:
        raise WireError(f"no packet is of type {str(kind)[:20]!r}")
    expected, optional = schema.fields[kind], schema.optional.get(kind)
    if optional is not None:
        expected = {**expected, **{name: types for name, types in optional.items() if name in fields}}
    if fields.keys() != expected.keys():
        wrong = ", ".join(sorted(str(name)[:20] for name in fields.keys() ^ expected.keys()))
        raise WireError(f"packet {kind!r} has missing or unknown fields: {wrong}")
    for name, types in expected.items():
        if type(fields[name]) not in types:  # exactly: a bool is no number here
            raise WireError(f"field {name} of {kind!r} must be {types[0].__name__}, got {type(fields[name]).__name__}")

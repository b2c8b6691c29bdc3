"""Envelopes: many messages as one ZeroMQ message, whose first frame, the head, holds all headers; payloads follow.

A head is a version and a number of messages, then for each the length of its header and the place of its payload among
the frames behind the head, then all headers. Messages of a broadcast name one payload, which crosses once. Every header
has a checksum of its own, and one of its payload, so that nothing here needs another.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from .errors import WireError
from .wire_header import MAX_HEADER_BYTES

ENVELOPE_VERSION = 1
_START = struct.Struct(">BI")  # version, number of messages
_ENTRY_BYTES = 8  # length of a header, place of a payload
#: Longest head; a message whose header lists very many losses has an envelope of its own.
MAX_HEAD_BYTES = MAX_HEADER_BYTES + _START.size + _ENTRY_BYTES
#: Of all payloads of an envelope, unless it holds a single message.
MAX_PAYLOADS_BYTES = 1 << 24


class Envelope(NamedTuple):
    """Messages that cross together.

    Attributes:
        head: first frame.
        payloads: the other frames, at most one per message.
    """

    head: bytes
    payloads: Sequence[Any]


class Draft:
    """An envelope in the making.

    Attributes:
        places: [n_messages] frame of the payload of each, behind the head.
    """

    __slots__ = ("_head_bytes", "_headers", "_parts", "_payloads_bytes", "_place_of", "places")

    def __init__(self) -> None:
        self.places: list[int] = []
        self._headers: list[bytes] = []
        self._parts: list[Any] = []
        self._place_of: dict[int, int] = {}  # by identity of the parts, which are kept here
        self._head_bytes, self._payloads_bytes = _START.size, 0

    def add(self, header: bytes, part: Any, payload_bytes: int) -> bool:
        """Put a message in, if it fits, as the first one always does; the same part again is no further frame."""
        head_bytes = self._head_bytes + len(header) + _ENTRY_BYTES
        place = self._place_of.get(id(part))
        if place is None:
            place = len(self._parts)
            payloads_bytes = self._payloads_bytes + payload_bytes
            if place and (payloads_bytes > MAX_PAYLOADS_BYTES or head_bytes > MAX_HEAD_BYTES):
                return False
            self._payloads_bytes, self._place_of[id(part)] = payloads_bytes, place
            self._parts.append(part)
        elif head_bytes > MAX_HEAD_BYTES:
            return False
        self._head_bytes = head_bytes
        self._headers.append(header)
        self.places.append(place)
        return True

    def envelope(self) -> Envelope:
        """All that was put in."""
        n_messages = len(self._headers)
        numbers = [n for header, place in zip(self._headers, self.places, strict=True) for n in (len(header), place)]
        table = struct.pack(f">{2 * n_messages}I", *numbers)
        return Envelope(b"".join((_START.pack(ENVELOPE_VERSION, n_messages), table, *self._headers)), self._parts)


def unpack_head(head: bytes) -> tuple[list[bytes], list[int]]:
    """Headers of an envelope, unread, and the places of their payloads.

    Raises:
        WireError: the head is anything but what a `Draft` makes.
    """
    if len(head) > MAX_HEAD_BYTES:
        raise WireError(f"head of {len(head)} bytes is longer than {MAX_HEAD_BYTES}, which no head is")
    if len(head) < _START.size:
        raise WireError(f"an envelope's head has {_START.size} bytes or more, got {len(head)}")
    version, n_messages = _START.unpack_from(head)
    if version != ENVELOPE_VERSION:
        raise WireError(f"envelope is of version {version}, this node speaks {ENVELOPE_VERSION}; use one release")
    begin = _START.size + _ENTRY_BYTES * n_messages
    # Before the table is built: a few bytes may announce four billion messages.
    if n_messages == 0 or begin > len(head):
        raise WireError(f"an envelope's head of {len(head)} bytes announces {n_messages} messages")
    numbers = struct.unpack_from(f">{2 * n_messages}I", head, _START.size)
    lengths, places = numbers[::2], list(numbers[1::2])
    if begin + sum(lengths) != len(head):
        raise WireError(f"headers of an envelope have {len(head) - begin} bytes, its head says {sum(lengths)}")
    n_seen = 0
    for place in places:
        if place > n_seen:
            raise WireError("payloads of an envelope are numbered in the order in which messages name them")
        n_seen += place == n_seen
    return [head[start:end] for start, end in pairwise(accumulate(lengths, initial=begin))], places

"""Hostile packets for any protocol of msgpack headers and raw frames: valid ones mutated, and new ones by structure.

A packet is the list of its ZeroMQ parts, the header first. Nothing here knows what a field means: field names and
values come from valid packets that the caller captured, and `seal` repairs the checksum of a forged header, so that
an attack reaches what lies behind the checksum.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np

#: The header first, then raw frames.
Parts = list[bytes]

_INTEGERS = (0, 1, -1, 7, 255, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 0.5, -1.0, 1e300, -1e300, 5e-324, float("nan"), float("inf"), float("-inf"))
_WORDS = ("", "\0", "x" * 129, "x" * 60_000, "../../etc/passwd", "a\nb", "\u202e", "nan", "1", "|O", "sonar")
_BYTES = (b"", b"\0", b"\xff" * 33, b"\x00" * 60_000)
#: Headers whose announced sizes are far beyond their bytes: array, map, text, binary and extension types of msgpack.
_ANNOUNCED = (
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"),
    *(b"\xc9\xff\xff\xff\xff\x01", b"\xdc\xff\xff", b"\xde\xff\xff", b"\xc1", b"\xd4\xff\x00"),
)
#: Depths of nested arrays around the limits of msgpack and of Python's stack.
_DEPTHS = (2, 64, 511, 512, 1024, 5_000, 60_000)


def sealed_by_crc(header: Mapping[str, Any], frames: Sequence[bytes]) -> bytes:
    """Header with the checksum of the protocol in `docs/protocol.md`: CRC-32 over all frames."""
    checksum = 0
    for frame in frames:
        checksum = zlib.crc32(frame, checksum)
    packed: bytes = msgpack.packb({**header, "checksum": checksum})
    return packed


class FrameAttacks:
    """An endless, repeatable source of hostile packets.

    Args:
        captured: valid packets.
        seed: seed of the draws; the same seed makes the same packets.
        seal: packs a header and its checksum, given the frames behind it.
        most_header_bytes: limit of the protocol; headers just below, at and beyond it are made.

    Attributes:
        made: way -> number of packets made so.
    """

    def __init__(
        self,
        captured: Sequence[Sequence[bytes]],
        seed: int,
        seal: Callable[[Mapping[str, Any], Sequence[bytes]], bytes] = sealed_by_crc,
        most_header_bytes: int = 1 << 16,
    ) -> None:
        self._captured = [list(map(bytes, parts)) for parts in captured]
        self._seal, self._most_header_bytes = seal, most_header_bytes
        self._draws = np.random.default_rng(seed)
        self._ways: dict[str, Callable[[Parts], Parts]] = {
            # mutation: bytes are changed, whatever they mean
            "flipped": self._flipped,
            "cut": self._cut,
            "extended": self._extended,
            "spliced": self._spliced,
            "rearranged": self._rearranged,
            "replayed": list,
            "noise": self._noise,
            # structure: headers that msgpack reads, with other contents
            "field_forged": self._field_forged,
            "field_missing": self._field_missing,
            "field_added": self._field_added,
            "deep": self._deep,
            "announced": self._announced,
            "long_header": self._long_header,
            "not_a_map": self._not_a_map,
            "many_parts": self._many_parts,
        }
        self.made = dict.fromkeys(self._ways, 0)

    def packet(self) -> Parts:
        """The next hostile packet; one in fifteen is a valid one, sent again."""
        way = self._one_of(tuple(self._ways))
        self.made[way] += 1
        return self._ways[way](self._one_of(self._captured))

    def _one_of(self, choices: Sequence[Any]) -> Any:
        return choices[int(self._draws.integers(len(choices)))]

    def _below(self, n: int) -> int:
        return int(self._draws.integers(max(1, n)))

    # --- mutation -----------------------------------------------------------------------------------------------------

    def _in_place(self, parts: Parts, change: Callable[[bytes], bytes]) -> Parts:
        place = self._below(len(parts))
        return [*parts[:place], change(parts[place]), *parts[place + 1 :]]

    def _flipped(self, parts: Parts) -> Parts:
        def flip(content: bytes) -> bytes:
            flipped = bytearray(content or b"\0")
            for bit in self._draws.integers(8 * len(flipped), size=self._draws.integers(1, 4)):
                flipped[bit // 8] ^= 1 << (bit % 8)
            return bytes(flipped)

        return self._in_place(parts, flip)

    def _cut(self, parts: Parts) -> Parts:
        return self._in_place(parts, lambda content: content[: self._below(len(content))])

    def _extended(self, parts: Parts) -> Parts:
        return self._in_place(parts, lambda content: content + self._draws.bytes(1 + self._below(64)))

    def _spliced(self, parts: Parts) -> Parts:
        """The beginning of one part, the end of another packet's."""
        other = self._one_of(self._one_of(self._captured))
        return self._in_place(parts, lambda content: content[: self._below(len(content))] + other[self._below(99) :])

    def _rearranged(self, parts: Parts) -> Parts:
        other = self._one_of(self._captured)
        choices: tuple[Parts, ...] = (
            [b""],
            parts[1:] or [b""],
            parts[::-1],
            [b"", *parts],
            [*parts, b""],
            parts[:1],
            [*parts, *other],
            [parts[0], *other[1:]],
        )
        return list(self._one_of(choices))

    def _noise(self, _parts: Parts) -> Parts:
        return [self._draws.bytes(int(size)) for size in self._draws.integers(0, 300, size=1 + self._below(4))]

    # --- structure ----------------------------------------------------------------------------------------------------

    def _field_forged(self, parts: Parts) -> Parts:
        """One field, or one inside it, is something else; the checksum fits."""
        return self._resealed(parts, lambda header: self._forged_in(header, self._one_of(tuple(header))))

    def _forged_in(self, container: Any, key: Any) -> Any:
        """A copy of a map or list in which one value, at any depth below this key, is another."""
        inner = container[key]
        if isinstance(inner, dict | list) and inner and self._below(3):
            deeper = self._below(len(inner)) if isinstance(inner, list) else self._one_of(tuple(inner))
            value = self._forged_in(inner, deeper)
        else:
            value = self._any_value(inner)
        changed = container.copy()
        changed[key] = value
        return changed

    def _any_value(self, old: object) -> Any:
        choices = (
            self._one_of(_INTEGERS),
            self._one_of(_FLOATS),
            self._one_of(_WORDS),
            self._one_of(_BYTES),
            self._one_of((None, True, False, [], {}, [[[[]]]], [None] * 1000, {"": ""})),
            [old, old],
            {"a": old},
        )
        if isinstance(old, bool) or not isinstance(old, int):
            return self._one_of(choices)
        near = old + self._one_of((-1000, -1, 1, 50, 100_000))
        return self._one_of((*choices, max(-(2**63), min(near, 2**64 - 1))))

    def _field_missing(self, parts: Parts) -> Parts:
        def without_one(header: dict[str, Any]) -> dict[str, Any]:
            gone = self._one_of(tuple(header))
            return {name: value for name, value in header.items() if name != gone}

        return self._resealed(parts, without_one)

    def _field_added(self, parts: Parts) -> Parts:
        name = self._one_of(("x", "", "version ", "y" * 1000, 7, None))
        return self._resealed(parts, lambda header: {**header, name: self._any_value(None)})

    def _resealed(self, parts: Parts, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Parts:
        header = msgpack.unpackb(parts[0])
        return [self._seal(change(header), parts[1:]), *parts[1:]]

    def _deep(self, parts: Parts) -> Parts:
        """Arrays or maps in each other, alone or as the value of a field."""
        depth = self._one_of(_DEPTHS)
        nested = b"\x91" * depth + b"\x90" if self._below(2) else b"\x81\xa1a" * (depth // 3) + b"\x80"
        name = msgpack.packb(self._one_of(tuple(msgpack.unpackb(parts[0]))))
        return [self._one_of((nested, b"\x81" + name + nested)), *parts[1:]]

    def _announced(self, parts: Parts) -> Parts:
        announced = self._one_of(_ANNOUNCED)
        return [self._one_of((announced, b"\x81\xa7version" + announced, parts[0] + announced)), *parts[1:]]

    def _long_header(self, parts: Parts) -> Parts:
        """A valid map with one more field that brings it to about the limit."""
        most = self._most_header_bytes + self._one_of((-200, -1, 0, 1, 200))
        header = msgpack.unpackb(parts[0])
        padding = max(0, most - len(parts[0]) - 8)
        return [self._seal({**header, "p": "x" * padding}, parts[1:]), *parts[1:]]

    def _not_a_map(self, parts: Parts) -> Parts:
        value = self._one_of((None, 1, "frames", [], [1, 2], {}, {1: 2}, b"x", 0.5, list(msgpack.unpackb(parts[0]))))
        return [msgpack.packb(value), *parts[1:]]

    def _many_parts(self, parts: Parts) -> Parts:
        return [*parts, *[self._one_of((b"", b"x", parts[-1]))] * self._one_of((8, 64, 1000))]

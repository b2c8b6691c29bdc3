"""Frames as an attacker makes them: real ones, changed in every way that somebody who knows the format can think of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgpack
import numpy as np
import xxhash

Frames = list[bytes]
_INTEGERS = (0, 1, 7, 8, 2**31, 2**32 - 1, 2**53, 2**63, 2**64 - 1)
_COUNTS = ("sender", "receiver", "round", "n_elements", "payload_checksum", "packet_bytes")


class Mutator:
    """An endless source of bad frames.

    Args:
        captured: header and payload of real messages, in the order in which a run sends them.
        seed: of the attacker.
    """

    def __init__(self, captured: Sequence[tuple[bytes, bytes]], seed: int) -> None:
        self._captured = captured
        self._draws = np.random.default_rng(seed)
        self._ways: tuple[Callable[[bytes, bytes], Frames], ...] = (
            self._flipped_header,
            self._flipped_payload,
            self._truncated,
            self._extended,
            self._other_frames,
            self._forged_count,
            self._forged_word,
            self._forged_losses,
            self._forged_content,
            self._replayed,
            self._noise,
        )

    def next(self, header: bytes, payload: bytes) -> Frames:
        """Something bad made of these frames, or of those that were captured."""
        while True:
            made = self._ways[self._draws.integers(len(self._ways))](header, payload)
            if made != [header, payload]:  # the message itself, sent twice, would be a good one
                return made

    def of_the_captured(self) -> Frames:
        """Something bad made of any real message."""
        return self.next(*self._captured[self._draws.integers(len(self._captured))])

    def _flipped(self, content: bytes) -> bytes:
        flipped = bytearray(content or b"\0")
        for place in self._draws.integers(8 * len(flipped), size=self._draws.integers(1, 4)):
            flipped[place // 8] ^= 1 << (place % 8)
        return bytes(flipped) if bytes(flipped) != content else bytes([flipped[0] ^ 1, *flipped[1:]])

    def _flipped_header(self, header: bytes, payload: bytes) -> Frames:
        return [self._flipped(header), payload]

    def _flipped_payload(self, header: bytes, payload: bytes) -> Frames:
        return [header, self._flipped(payload)]

    def _truncated(self, header: bytes, payload: bytes) -> Frames:
        if self._draws.random() < 0.5 or not payload:
            return [header[: self._draws.integers(len(header))], payload]
        return [header, payload[: self._draws.integers(len(payload))]]

    def _extended(self, header: bytes, payload: bytes) -> Frames:
        more = self._draws.bytes(int(self._draws.integers(1, 64)))
        return [header + more, payload] if self._draws.random() < 0.5 else [header, payload + more]

    def _other_frames(self, header: bytes, payload: bytes) -> Frames:
        choices: tuple[Frames, ...] = (
            [header],
            [b""],
            [payload, header],
            [b"", header, payload],
            [header, payload, b""],
            [header, payload] * 20,
        )
        return choices[self._draws.integers(len(choices))]

    def _forged_count(self, header: bytes, payload: bytes) -> Frames:
        name = _COUNTS[self._draws.integers(len(_COUNTS))]
        return [forged(header, **{name: _INTEGERS[self._draws.integers(len(_INTEGERS))]}), payload]

    def _forged_word(self, header: bytes, payload: bytes) -> Frames:
        words: tuple[tuple[str, object], ...] = (
            ("version", 0),
            ("version", 2),
            ("version", "1"),
            ("dtype", "<f8"),
            ("dtype", ">f4"),
            ("dtype", "|O"),
            ("kind", "head"),
            ("kind", "labels"),
            ("phase", "p" * 5000),
            ("phase", ""),
            ("modality", "sonar"),
            ("modality", [[[[]]]]),
            ("sender", -1),
            ("round", 0.5),
            ("n_elements", None),
        )
        name, value = words[self._draws.integers(len(words))]
        return [forged(header, **{name: value}), payload]

    def _forged_losses(self, header: bytes, payload: bytes) -> Frames:
        lost = self._draws.integers(0, 4, size=self._draws.integers(1, 4)).astype("<u4")
        packet_bytes = (8, 16, 128, 2**40)[self._draws.integers(4)]
        return [forged(header, lost_packets=lost.tobytes(), packet_bytes=packet_bytes), payload[packet_bytes:]]

    def _forged_content(self, header: bytes, payload: bytes) -> Frames:
        """A flawless message of the same slot with other numbers: only who knows what was sent can tell."""
        other = self._draws.normal(size=len(payload) // 4).astype("<f4").tobytes()
        other += payload[len(other) :]
        return [forged(header, payload_checksum=xxhash.xxh3_64_intdigest(other)), other]

    def _replayed(self, header: bytes, payload: bytes) -> Frames:
        """An old or, because the attacker has seen the run before, a future message, unchanged."""
        return list(self._captured[self._draws.integers(len(self._captured))])

    def _noise(self, header: bytes, payload: bytes) -> Frames:
        return [self._draws.bytes(int(size)) for size in self._draws.integers(0, 300, size=2)]


def forged(header: bytes, **changes: object) -> bytes:
    """A header with other fields and a checksum that fits them, packed as ours are where that can be."""
    fields = msgpack.unpackb(header) | changes
    del fields["header_checksum"]
    packed = bytes([0x80 | (len(fields) + 1)])
    for name, value in fields.items():
        packed += msgpack.packb(name) + _packed(name, value)
    body = packed + msgpack.packb("header_checksum") + b"\xcf"
    return body + xxhash.xxh3_64_intdigest(body).to_bytes(8, "big")


def _packed(name: str, value: object) -> bytes:
    if name in _COUNTS and isinstance(value, int) and value >= 0:
        return b"\xcf" + value.to_bytes(8, "big")
    if isinstance(value, bytes):
        return b"\xc6" + len(value).to_bytes(4, "big") + value
    packed: bytes = msgpack.packb(value)
    return packed

"""Frames as an attacker makes them: real ones, changed in every way that somebody who knows the format can think of."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import msgpack
import numpy as np
import xxhash
from sheafedge.emulator.network.transport.envelope import ENVELOPE_VERSION, unpack_head

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
            try:
                made = self._ways[self._draws.integers(len(self._ways))](header, payload)
            except (ValueError, KeyError, TypeError):  # no header that can be forged
                continue
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


class EnvelopeMutator:
    """An endless source of bad envelopes: with a bad message in a sound envelope, or bad themselves.

    Args:
        captured: frames of real envelopes, in the order in which a run sends them.
        seed: of the attacker.
    """

    def __init__(self, captured: Sequence[Sequence[bytes]], seed: int) -> None:
        self._captured = [list(frames) for frames in captured]
        self._draws = np.random.default_rng(seed)
        self._messages = Mutator([one for frames in captured for one in _messages_in(frames)], seed)
        self._ways: tuple[Callable[[Frames], Frames], ...] = (
            self._bad_message,
            self._bad_message,
            self._bad_head,
            self._other_frames,
            self._other_places,
            self._replayed,
        )

    def next(self, frames: Sequence[bytes]) -> Frames:
        """Something bad made of these frames, or of those that were captured."""
        while True:
            made = self._ways[self._draws.integers(len(self._ways))](list(frames))
            if made != list(frames):  # the envelope itself, sent twice, would be a good one
                return made

    def of_the_captured(self) -> Frames:
        """Something bad made of any real envelope."""
        return self.next(self._captured[self._draws.integers(len(self._captured))])

    def _bad_message(self, frames: Frames) -> Frames:
        headers, places = unpack_head(frames[0])
        payloads, index = frames[1:], int(self._draws.integers(len(headers)))
        made = self._messages.next(headers[index], payloads[places[index]])
        if len(made) != 2:
            return made
        headers[index], payloads[places[index]] = made
        return [_head(headers, places), *payloads]

    def _bad_head(self, frames: Frames) -> Frames:
        made = self._messages.next(frames[0], frames[1])
        return [*made, *frames[2:]]

    def _other_frames(self, frames: Frames) -> Frames:
        choices: tuple[Frames, ...] = (
            frames[:1],
            frames[:-1],
            [*frames, b""],
            frames[::-1],
            [b"", *frames],
            frames * 5,
        )
        return choices[self._draws.integers(len(choices))]

    def _other_places(self, frames: Frames) -> Frames:
        headers, places = unpack_head(frames[0])
        index = int(self._draws.integers(len(places)))
        places[index] = (0, 1, places[index] + 1, 2**32 - 1)[self._draws.integers(4)]
        return [_head(headers, places), *frames[1:]]

    def _replayed(self, frames: Frames) -> Frames:
        return list(self._captured[self._draws.integers(len(self._captured))])


def _messages_in(frames: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    headers, places = unpack_head(frames[0])
    return [(header, frames[1 + place]) for header, place in zip(headers, places, strict=True)]


def _head(headers: Sequence[bytes], places: Sequence[int]) -> bytes:
    """A head of any headers and places, whether they fit each other or not."""
    table = b"".join(struct.pack(">II", len(header), place) for header, place in zip(headers, places, strict=True))
    return struct.pack(">BI", ENVELOPE_VERSION, len(headers)) + table + b"".join(headers)


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

"""Envelopes: the messages that go in come out in order, payloads of broadcasts cross once, all else is refused."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xxhash
from doubles.carried import envelope_of, frames_of
from doubles.mutated_frames import EnvelopeMutator
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.contracts import Message, MessageKind
from sheafedge.emulator.network.transport import envelope as envelopes
from sheafedge.emulator.network.transport.envelope import MAX_HEAD_BYTES, Envelope, unpack_head
from sheafedge.emulator.network.transport.errors import WireError
from sheafedge.emulator.network.transport.wire import Wire, messages_of

LIMIT_BYTES = 1 << 12


def wire(kinds: frozenset[MessageKind] = frozenset(MessageKind)) -> Wire:
    return Wire(kinds, LIMIT_BYTES)


def broadcast(n_receivers: int, n: int = 10, sender: int = 1) -> list[Message]:
    values = np.arange(n, dtype=np.float32)
    return [Message(MessageKind.ENCODER, sender, 2 + k, 0, "mix", values, "rf") for k in range(n_receivers)]


def opened(reader: Wire, frames: Sequence[bytes]) -> list[Message]:
    head, *payloads = frames
    views = [memoryview(payload) for payload in payloads]
    return messages_of(reader.opened(head, views, views))


def told(message: Message) -> tuple[Any, ...]:
    return message.slot, message.receiver, message.payload.dtype.str, message.payload.tobytes()


payloads = st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["<f2", "<f4", "<f8"])), min_size=1, max_size=4).map(
    lambda made: [np.arange(n).astype(dtype) for n, dtype in made]
)


@st.composite
def outputs(draw: st.DrawFn) -> list[Message]:
    """Messages of a node, some of which share an array, in any order of kinds and receivers."""
    arrays = draw(payloads)
    return [
        Message(
            draw(st.sampled_from([MessageKind.HEAD, MessageKind.ENCODER, MessageKind.PROTOTYPES])),
            draw(st.integers(0, 2**63)),
            draw(st.integers(0, 2**63)),
            draw(st.integers(0, 3)),
            draw(st.sampled_from(["mix", "project"])),
            arrays[draw(st.integers(0, len(arrays) - 1))],
            draw(st.sampled_from([None, "rf"])),
        )
        for _ in range(draw(st.integers(1, 12)))
    ]


@given(messages=outputs())
def test_messages_come_out_as_they_went_in_whoever_reads_them(messages: list[Message]) -> None:
    packer = wire()
    envelope = envelope_of(packer, *messages)
    assert len(envelope.payloads) == len({id(message.payload) for message in messages})
    expected = [told(message) for message in messages]
    assert [told(one) for one in opened(packer, frames_of(envelope))] == expected  # as its own packer remembers them
    assert [told(one) for one in opened(packer, frames_of(envelope))] == expected  # and read again
    assert [told(one) for one in opened(wire(), frames_of(envelope))] == expected


@given(messages=outputs())
def test_headers_of_many_messages_are_those_of_each_alone(messages: list[Message]) -> None:
    """So that a link carries the same bytes, and a checkpoint holds them, however many messages cross together."""
    together, alone = wire().encode_all(messages), [wire().encode(message) for message in messages]
    assert [(one.header, one.found) for one in together] == [(one.header, one.found) for one in alone]
    assert [one.size_bytes for one in together] == [one.size_bytes for one in alone]
    for one in together:
        assert wire().read_header(one.header, one.payload.nbytes) == one.found


def test_a_payload_of_many_messages_is_read_once_at_each_end(monkeypatch: pytest.MonkeyPatch) -> None:
    n_reads = 0
    digest = xxhash.xxh3_64_intdigest

    def counted(content: Any) -> int:
        nonlocal n_reads
        n_reads += len(memoryview(content)) == 400
        return digest(content)

    monkeypatch.setattr(xxhash, "xxh3_64_intdigest", counted)
    envelope = envelope_of(wire(), *broadcast(20, n=100))
    assert n_reads == 1
    arrived = opened(wire(), frames_of(envelope))
    assert n_reads == 2
    assert len({id(one.payload) for one in arrived}) == 1, "receivers share the array, which nobody can write"


def test_messages_beyond_the_limits_of_an_envelope_go_into_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelopes, "MAX_PAYLOADS_BYTES", 100)
    packer = wire()
    different = [broadcast(1, n=n)[0] for n in (10, 10, 10, 200, 5)]  # 40, 40, 40, 800 and 20 bytes
    sizes = [len(opened(packer, frames_of(one))) for one in packer.envelopes(packer.encode_all(different))]
    assert sizes == [2, 1, 1, 1]
    assert len(list(packer.envelopes(packer.encode_all(broadcast(50, n=200))))) == 1, "one payload of many is no limit"
    monkeypatch.setattr(envelopes, "MAX_HEAD_BYTES", 1000)
    made = list(packer.envelopes(packer.encode_all(broadcast(10))))
    assert all(len(one.head) <= 1000 for one in made)
    assert [told(one) for each in made for one in opened(packer, frames_of(each))] == list(map(told, broadcast(10)))


def head_of(version: int, lengths: Sequence[int], places: Sequence[int], behind: bytes) -> bytes:
    table = b"".join(struct.pack(">II", *entry) for entry in zip(lengths, places, strict=True))
    return struct.pack(">BI", version, len(lengths)) + table + behind


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"", "5 bytes or more, got 0"),
        (b"\1\0\0\0", "5 bytes or more, got 4"),
        (head_of(1, [], [], b""), "announces 0 messages"),
        (head_of(2, [1], [0], b"x"), "version 2, this node speaks 1"),
        (b"\1\xff\xff\xff\xff", "announces 4294967295 messages"),
        (head_of(1, [2], [0], b"x"), "have 1 bytes, its head says 2"),
        (head_of(1, [1], [0], b"xy"), "have 2 bytes, its head says 1"),
        (head_of(1, [1, 1], [0, 2], b"xy"), "in the order in which"),
        (head_of(1, [1, 1], [1, 0], b"xy"), "in the order in which"),
        (bytes(MAX_HEAD_BYTES + 1), "which no head is"),
    ],
)
def test_malformed_heads_are_refused_with_a_reason(head: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        unpack_head(head)
    with pytest.raises(WireError, match=reason):
        wire().opened(head, [memoryview(b"")], [b""])


def changed(envelope: Envelope, place: int, content: bytes) -> list[bytes]:
    frames = frames_of(envelope)
    frames[place] = content
    return frames


def test_damage_undeclared_kinds_and_payloads_that_nobody_names_are_refused() -> None:
    packer = wire()
    for reader in (packer, wire()):  # the one that remembers what it has packed, and one that does not
        envelope = envelope_of(packer, *broadcast(2), *broadcast(2, n=12))
        with pytest.raises(WireError, match="does not match its checksum"):
            opened(reader, changed(envelope, 2, bytes(48)))
    for frames, reason in (
        (changed(envelope, 2, bytes(44)), "has 44 bytes, its header says 48"),
        (frames_of(envelope)[:2], "has 1 payloads, its head names 2"),
        ([*frames_of(envelope), b""], "has 3 payloads, its head names 2"),
    ):
        with pytest.raises(WireError, match=reason):
            opened(wire(), frames)
    with pytest.raises(WireError, match="did not declare"):
        opened(wire(frozenset({MessageKind.HEAD})), frames_of(envelope))
    assert len(opened(wire(), frames_of(envelope))) == 4  # the control


def test_nothing_is_packed_where_one_message_must_not_cross() -> None:
    good = broadcast(3)
    bad = replace(good[1], received=np.ones(10, dtype=np.bool_))
    with pytest.raises(WireError, match="has lost coordinates"):
        wire().encode_all([good[0], bad, good[2]])  # its array was seen before


def test_bad_envelopes_are_messages_or_refusals() -> None:
    """A forged header that says the truth about its payload passes here; the hub compares it with what is to come."""
    real = [frames_of(envelope_of(wire(), *broadcast(3, n=n), *broadcast(1, n=5, sender=n))) for n in range(1, 6)]
    mutator, n_refused = EnvelopeMutator(real, seed=3), 0
    for _ in range(3000):
        try:
            opened(wire(), mutator.of_the_captured())
        except WireError:
            n_refused += 1
    assert n_refused > 1500

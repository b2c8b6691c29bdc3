"""The wire format: what goes in comes out, losses leave gaps where they should, and everything else is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import MODALITIES, Message, MessageKind, SheafedgeError
from sheafedge.emulator.network.transport.wire import Wire, WireError, WireFrames, header_bytes, message_bytes
from sheafedge.emulator.network.transport.wire_header import Header, unpack_header, unpack_map, unpack_usual

ALL_KINDS = frozenset(MessageKind)
LIMIT_BYTES = 1 << 16
DTYPES = ("<f2", "<f4", "<f8", "<u8")


def wire(kinds: frozenset[MessageKind] = ALL_KINDS, limit_bytes: int = LIMIT_BYTES) -> Wire:
    return Wire(kinds, limit_bytes)


def encoder_message(n: int = 100, dtype: str = "<f4", **changes: Any) -> Message:
    values = np.random.default_rng(n).normal(size=n)
    values = values.view(dtype) if dtype == "<u8" else values.astype(dtype)  # words hold anything
    message = Message(MessageKind.ENCODER, 3, 8, 12, "mix", values, "rf")
    return replace(message, **changes)


def assert_same(one: Message, other: Message) -> None:
    assert (one.slot, one.receiver) == (other.slot, other.receiver)
    assert one.payload.dtype == other.payload.dtype
    assert one.payload.tobytes() == other.payload.tobytes()  # bit for bit, NaN included
    assert (one.received is None) == (other.received is None)
    if one.received is not None and other.received is not None:
        assert_array_equal(one.received, other.received)


def lossy(message: Message, lost: list[int], packet_bytes: int) -> Message:
    border = wire()
    frames = border.without_packets(border.encode(message), np.array(lost, dtype=np.int64), packet_bytes)
    return border.decode(frames.header, frames.payload)


def forged(changes: dict[str, Any], message: Message | None = None, drop: str = "") -> WireFrames:
    """Frames of somebody who knows the format, checksums included, and writes what they like into it."""
    frames = wire().encode(message or encoder_message())
    fields = msgpack.unpackb(frames.header) | changes
    del fields["header_checksum"]
    fields.pop(drop, None)
    packer = msgpack.Packer(autoreset=False)
    packer.pack_map_header(len(fields) + 1)
    for name, value in fields.items():
        packer.pack(name)
        packer.pack(value)
    packer.pack("header_checksum")
    body = packer.bytes() + b"\xcf"
    return WireFrames(body + xxhash.xxh3_64_intdigest(body).to_bytes(8, "big"), frames.payload, frames.found)


def payload_of(values: list[float], dtype: str) -> Any:
    if dtype == "<u8":  # words of a codec; anything may be in them
        return np.array(values, dtype="<f8").view(dtype)
    with np.errstate(over="ignore"):
        return np.array(values, dtype=dtype)


messages = st.builds(
    Message,
    kind=st.sampled_from(MessageKind),
    sender=st.integers(0, 2**40),
    receiver=st.integers(0, 2**40),
    round_index=st.integers(0, 2**40),
    phase=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    payload=st.builds(
        payload_of,
        st.lists(st.floats(width=32), max_size=50),
        st.sampled_from(DTYPES),
    ),
    modality=st.none() | st.sampled_from(MODALITIES),
)


@given(message=messages)
def test_a_message_comes_out_as_it_went_in(message: Message) -> None:
    border = wire()
    frames = border.encode(message)
    assert_same(border.decode(frames.header, frames.payload), message)


@given(message=messages)
def test_the_hub_reads_from_the_header_what_the_message_is(message: Message) -> None:
    frames = wire().encode(message)
    header = wire().read_header(frames.header, frames.payload.nbytes)
    assert (header.slot, header.receiver) == (message.slot, message.receiver)
    assert header.payload_checksum == xxhash.xxh3_64_intdigest(message.payload.tobytes())


@given(message=messages)
def test_the_size_on_the_wire_is_a_formula(message: Message) -> None:
    expected = message_bytes(
        message.kind, message.phase, message.modality, message.payload.size, message.payload.dtype.str
    )
    assert wire().encode(message).size_bytes == expected


def test_the_size_does_not_depend_on_round_ids_or_content() -> None:
    sizes = {
        wire().encode(encoder_message(sender=sender, receiver=receiver, round_index=round_index)).size_bytes
        for sender, receiver, round_index in [(0, 0, 0), (1, 127, 128), (2**16, 2**31, 2**32), (2**40, 5, 2**63)]
    }
    assert sizes == {header_bytes(MessageKind.ENCODER, "mix", "rf") + 400}


def test_any_msgpack_library_reads_the_header() -> None:
    fields = msgpack.unpackb(wire().encode(encoder_message()).header)
    assert fields["version"] == 1
    assert (fields["kind"], fields["modality"], fields["dtype"]) == ("encoder", "rf", "<f4")
    assert (fields["sender"], fields["receiver"], fields["round"], fields["phase"]) == (3, 8, 12, "mix")
    assert (fields["n_elements"], fields["lost_packets"]) == (100, b"")


def test_contiguous_arrays_cross_without_a_copy_and_cannot_be_written() -> None:
    message = encoder_message()
    frames = wire().encode(message)
    out = wire().decode(frames.header, frames.payload)
    assert np.shares_memory(out.payload, message.payload)
    assert not out.payload.flags.writeable
    assert message.payload.flags.writeable  # the sender keeps its rights
    with pytest.raises(ValueError, match="read-only"):
        out.payload[0] = 1.0


def test_every_second_coordinate_crosses_too() -> None:
    message = encoder_message(payload=np.arange(20.0)[::2])
    frames = wire().encode(message)
    assert_same(wire().decode(frames.header, frames.payload), message)


def test_unaligned_frames_give_aligned_payloads() -> None:
    frames = wire().encode(encoder_message(dtype="<f8"))
    shifted = memoryview(bytearray(b"x" + bytes(frames.payload)))[1:]
    out = wire().decode(frames.header, shifted)
    assert out.payload.flags.aligned
    assert_same(out, encoder_message(dtype="<f8"))


def test_not_a_number_may_cross() -> None:
    message = encoder_message(payload=np.array([math.nan, math.inf, -0.0]))
    frames = wire().encode(message)
    assert_same(wire().decode(frames.header, frames.payload), message)


def test_a_broadcast_is_read_once_and_an_array_reused_later_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    n_reads = 0
    digest = xxhash.xxh3_64_intdigest

    def counted(content: Any) -> int:
        nonlocal n_reads
        n_reads += len(memoryview(content)) == 400
        return digest(content)

    monkeypatch.setattr(xxhash, "xxh3_64_intdigest", counted)
    border, message = wire(), encoder_message()
    border.encode_all([replace(message, receiver=receiver) for receiver in range(5)])
    assert n_reads == 1
    message.payload[:] = 0.0
    frames = border.encode(replace(message, round_index=13))
    assert n_reads == 2
    assert_same(border.decode(frames.header, frames.payload), replace(message, round_index=13))


def test_checksums_are_right_however_many_arrays_are_sent() -> None:
    border = wire()
    for n in [*range(30), *range(30)]:
        message = encoder_message(n)  # a new array each time: ids are given again, checksums must not be
        frames = border.encode(message)
        assert_same(border.decode(frames.header, frames.payload), message)


def test_a_sender_that_changes_what_it_sent_is_noticed() -> None:
    message = encoder_message()
    frames = wire().encode(message)
    message.payload[0] += 1.0
    with pytest.raises(WireError, match="its sender changed the array after sending it"):
        wire().decode(frames.header, frames.payload)


@given(
    n=st.integers(1, 200),
    dtype=st.sampled_from(DTYPES),
    packet_bytes=st.integers(1, 40).map(lambda k: 8 * k),
    data=st.data(),
)
def test_lost_packets_leave_gaps_exactly_where_they_were(
    n: int, dtype: str, packet_bytes: int, data: st.DataObject
) -> None:
    message = encoder_message(n, dtype)
    size_bytes = wire().encode(message).size_bytes
    n_packets = -(-size_bytes // packet_bytes)
    lost = sorted(data.draw(st.sets(st.integers(0, n_packets - 1))))
    out = lossy(message, lost, packet_bytes)
    packet_of = np.arange(n) * message.payload.itemsize // packet_bytes
    received = ~np.isin(packet_of, lost)
    assert_array_equal(out.payload, np.where(received, message.payload, message.payload.dtype.type(0)))
    assert out.payload.dtype == message.payload.dtype
    assert not out.payload.flags.writeable
    if received.all():
        assert out.received is None
    else:
        assert_array_equal(out.received, received)


def test_lost_packets_by_hand() -> None:
    """Five float64 in packets of two; packet 0 and the short packet 2 are lost."""
    out = lossy(encoder_message(payload=np.arange(1.0, 6.0)), [0, 2], 16)
    assert_array_equal(out.payload, [0.0, 0.0, 3.0, 4.0, 0.0])
    assert_array_equal(out.received, [False, False, True, True, False])


def test_packets_behind_the_payload_hold_the_header_and_take_nothing_away() -> None:
    border, message = wire(), encoder_message(10)
    frames = border.encode(message)
    assert border.without_packets(frames, np.array([1, 5]), 40) is frames
    assert border.without_packets(frames, np.array([], dtype=np.int64), 40) is frames


def test_lost_packets_do_not_cross() -> None:
    frames = wire().encode(encoder_message(100))
    left = wire().without_packets(frames, np.array([1, 2]), 80)
    assert left.payload.nbytes == 400 - 160
    assert wire().read_header(left.header, left.payload.nbytes).full_bytes == 400


def test_vectors_that_mean_something_only_whole_cannot_lose_packets() -> None:
    kind = MessageKind.PROTOTYPES
    with pytest.raises(WireError, match=f"{kind} from 3 cannot lose packets"):
        lossy(encoder_message(kind=kind, modality=None), [0], 80)
    whole = forged({"kind": kind.value, "lost_packets": b"\0\0\0\0", "packet_bytes": 400})
    with pytest.raises(WireError, match="of no use unless whole"):
        wire().decode(whole.header, b"")


def test_a_message_does_not_lose_packets_twice() -> None:
    left = wire().without_packets(wire().encode(encoder_message()), np.array([0]), 80)
    with pytest.raises(WireError, match="cannot lose packets and go on"):
        wire().without_packets(left, np.array([1]), 80)


def test_damage_is_found_before_packets_are_taken_away() -> None:
    frames = wire().encode(encoder_message())
    damaged = frames._replace(payload=memoryview(bytes(400)))
    with pytest.raises(WireError, match="does not match its checksum"):
        wire().without_packets(damaged, np.array([0]), 80)


@pytest.mark.parametrize("packet_bytes", [0, -8, 12])
def test_packets_that_cut_numbers_in_two_are_refused(packet_bytes: int) -> None:
    with pytest.raises(WireError, match="packet_bytes must be a positive multiple of 8"):
        lossy(encoder_message(), [0], packet_bytes)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"payload": np.zeros(3, dtype="<i4")},
            "payload of encoder must be a vector of one of <f2, <f4, <f8, <u8, got <i4",
        ),
        ({"payload": np.zeros(3, dtype=">f4")}, "must be a vector of one of <f2, <f4, <f8, <u8, got >f4"),
        ({"payload": np.zeros((2, 2))}, r"must be a vector .* shape \(2, 2\)"),
        ({"payload": np.zeros(LIMIT_BYTES)}, f"would have {8 * LIMIT_BYTES} bytes; the limit is {LIMIT_BYTES}"),
        ({"received": np.ones(100, dtype=bool)}, "has lost coordinates"),
        ({"sender": -1}, "message from -1 to 8 has no header"),
        ({"round_index": 2**64}, "has no header"),
        ({"phase": "\ud800"}, "has no header"),
    ],
)
def test_messages_that_must_not_cross_are_refused_at_the_sender(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        wire().encode(encoder_message(**changes))


def test_undeclared_kinds_are_refused_at_the_sender_the_hub_and_the_receiver() -> None:
    strict = wire(frozenset({MessageKind.PROJECTION}))
    complaint = "node 3 sends 'encoder', which the algorithm did not declare; declared: projection"
    frames = wire().encode(encoder_message())
    with pytest.raises(WireError, match=complaint):
        strict.encode(encoder_message())
    with pytest.raises(WireError, match=complaint):
        strict.read_header(frames.header, frames.payload.nbytes)
    with pytest.raises(WireError, match=complaint):
        strict.decode(frames.header, frames.payload)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"version": 2}, "frame speaks wire version 2, this node 1; run both from one release"),
        ({"version": True}, "wire version True"),
        ({"kind": "labels"}, "unknown message kind 'labels'; known: projection, reprojection, encoder"),
        ({"kind": 3}, "header field kind must be str, got int"),
        ({"modality": "sonar"}, "unknown modality 'sonar'"),
        ({"modality": ["rf"]}, "header field modality must be str, got list"),
        ({"dtype": "<i4"}, "payload dtype must be one of <f2, <f4, <f8, <u8, got '<i4'"),
        ({"dtype": "|O"}, "payload dtype"),
        ({"n_elements": 101}, "payload from 3 has 400 bytes, its header says 404"),
        ({"n_elements": 2**60}, "the limit is"),
        ({"n_elements": -1}, "n_elements must not be negative"),
        ({"n_elements": math.inf}, "n_elements must be int, got float"),
        ({"n_elements": math.nan}, "n_elements must be int, got float"),
        ({"n_elements": True}, "n_elements must be int, got bool"),
        ({"sender": None}, "sender must be int, got NoneType"),
        ({"phase": b"mix"}, "phase must be str, got bytes"),
        ({"payload_checksum": 7}, "does not match its checksum"),
        ({"label": 1}, "unknown keys: .*label"),
        ({"lost_packets": b"\0\0\0"}, "4 bytes per packet, got 3"),
        ({"lost_packets": "\0\0\0\0"}, "lost_packets must be bytes, got str"),
        ({"lost_packets": b"\0\0\0\0"}, "packet_bytes must be a positive multiple of 8 where packets are lost, got 0"),
        ({"lost_packets": b"\0\0\0\0", "packet_bytes": 80}, "has 400 bytes, its header says 320"),
        ({"lost_packets": b"\5\0\0\0", "packet_bytes": 80}, "lost packet 5 lies beyond the payload of 400 bytes"),
        ({"lost_packets": b"\1\0\0\0\0\0\0\0", "packet_bytes": 80}, "ascending order"),
        ({"lost_packets": b"\1\0\0\0\1\0\0\0", "packet_bytes": 80}, "ascending order"),
    ],
)
def test_forged_headers_are_refused_with_a_reason(changes: dict[str, Any], complaint: str) -> None:
    frames = forged(changes)
    with pytest.raises(WireError, match=complaint):
        wire().decode(frames.header, frames.payload)


def test_the_forger_can_also_write_the_truth() -> None:
    """Negative control: forged headers are refused for what they say, not for how they were made."""
    frames = forged({"sender": 4})
    assert wire().decode(frames.header, frames.payload).sender == 4


@pytest.mark.parametrize("field", ["version", "kind", "n_elements", "lost_packets"])
def test_a_missing_field_is_refused(field: str) -> None:
    frames = forged({}, drop=field)
    with pytest.raises(WireError, match=r"version|missing or unknown keys"):
        wire().decode(frames.header, frames.payload)


def test_a_header_that_is_not_a_map_is_refused() -> None:
    for content in ([1, 2], 3, "version", None):
        with pytest.raises(WireError, match="header is not a map with a version"):
            wire().decode(msgpack.packb(content), b"")


def test_wire_errors_are_user_errors() -> None:
    assert issubclass(WireError, SheafedgeError)


def decoded(header: bytes, payload: bytes) -> Message | None:
    """The message, None where the wire refuses; any other exception fails the test."""
    border = wire()
    try:
        message = border.decode(header, payload)
    except WireError:
        return None
    return message


@given(header=st.binary(max_size=200), payload=st.binary(max_size=50))
def test_noise_is_refused(header: bytes, payload: bytes) -> None:
    assert decoded(header, payload) is None


@given(message=messages, where=st.data())
def test_damaged_frames_are_refused(message: Message, where: st.DataObject) -> None:
    frames = wire().encode(message)
    parts = [bytearray(frames.header), bytearray(frames.payload)]
    part = parts[where.draw(st.integers(0, 1 if parts[1] else 0))]
    change = where.draw(st.sampled_from(["flip", "cut", "grow", "insert"]))
    position = where.draw(st.integers(0, len(part) - 1))
    if change == "flip":
        part[position] ^= where.draw(st.integers(1, 255))
    elif change == "cut":
        del part[position:]
    elif change == "grow":
        part += where.draw(st.binary(min_size=1, max_size=20))
    else:
        part.insert(position, where.draw(st.integers(0, 255)))
    out = decoded(bytes(parts[0]), bytes(parts[1]))
    assert out is None or parts == [frames.header, frames.payload]  # inserting may restore what was there


def verdict(unpack: Callable[[bytes], Header], frame: bytes) -> tuple[Any, ...] | str:
    """What a frame says by one way of reading it, or that it says nothing."""
    try:
        header = unpack(frame)
    except WireError:
        return "refused"
    fields = (*header.slot, *header[1:-1])
    return (*fields, header.lost_packets.tolist(), *map(type, fields))


def sealed(body: bytes) -> bytes:
    """A header frame with the right checksum, whatever it says."""
    return body + xxhash.xxh3_64_intdigest(body).to_bytes(8, "big")


@given(message=messages, where=st.data())
def test_a_header_says_the_same_cut_at_fixed_places_and_read_as_a_map(message: Message, where: st.DataObject) -> None:
    frame = wire().encode(message).header
    usual = unpack_usual(frame)
    assert usual is not None, "what senders make is read the fast way"
    assert verdict(lambda _: usual, frame) == verdict(unpack_map, frame)
    body = bytearray(frame[:-8])
    for _ in range(where.draw(st.integers(1, 3))):
        body[where.draw(st.integers(0, len(body) - 1))] = where.draw(st.integers(0, 255))
    assert verdict(unpack_header, sealed(bytes(body))) == verdict(unpack_map, sealed(bytes(body)))
    assert verdict(unpack_header, bytes(body)) == "refused"


def test_what_only_looks_like_a_usual_header_is_not_read_as_one() -> None:
    body = wire().encode(encoder_message()).header[:-8]
    assert unpack_usual(sealed(body)) is not None
    changes = [(b"\xa3mix", b"\xc4\x03mix"), (b"encoder", b"labels!"), (b"\xa3<f4", b"\xa3|O4"), (b"\x8d", b"\x8c")]
    for found, instead in changes:
        assert body.count(found) == 1
        frame = sealed(body.replace(found, instead))
        assert unpack_usual(frame) is None
        assert verdict(unpack_header, frame) == "refused"
    for size in range(len(body)):
        assert unpack_usual(sealed(body[:size])) is None


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars | st.binary(max_size=12), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner)
)
FIELDS = list(msgpack.unpackb(Wire(ALL_KINDS).encode(encoder_message()).header))[:-1]


@given(changes=st.dictionaries(st.sampled_from(FIELDS), anything, min_size=1), payload=st.none() | st.binary())
def test_headers_with_any_content_give_a_message_or_a_refusal(changes: dict[str, Any], payload: bytes | None) -> None:
    frames = forged(changes)
    decoded(frames.header, bytes(frames.payload) if payload is None else payload)


@given(
    lost=st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 12), max_size=6).map(sorted),
    packet_bytes=st.integers(0, 2**64 - 1) | st.integers(0, 60).map(lambda k: 8 * k),
    n_elements=st.integers(0, 300),
    payload=st.binary(max_size=1300),
)
def test_lost_packets_of_any_kind_give_a_message_or_a_refusal(
    lost: list[int], packet_bytes: int, n_elements: int, payload: bytes
) -> None:
    frames = forged(
        {
            "lost_packets": np.array(lost, dtype="<u4").tobytes(),
            "packet_bytes": packet_bytes,
            "n_elements": n_elements,
            "payload_checksum": xxhash.xxh3_64_intdigest(payload),
        }
    )
    out = decoded(frames.header, payload)
    assert out is None or out.payload.size == n_elements

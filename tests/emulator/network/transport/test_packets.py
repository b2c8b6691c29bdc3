"""What engine and workers say: what goes in comes out, to the bit, and nothing but packets comes out at all."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest
from doubles.emulation import message
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import Message, MessageKind, MessageSlot, Phase, State
from sheafedge.emulator.network.transport.errors import WireError
from sheafedge.emulator.network.transport.packed_messages import (
    pack_messages,
    pack_phases,
    pack_slots,
    unpack_messages,
    unpack_phases,
    unpack_slots,
)
from sheafedge.emulator.network.transport.packed_trees import ARRAY_DTYPES, check_row, pack_tree, unpack_tree
from sheafedge.emulator.network.transport.packets import (
    FIELDS,
    PACKET_VERSION,
    Frame,
    Packet,
    pack_packet,
    unpack_packet,
)

KINDS = frozenset({MessageKind.ENCODER, MessageKind.PROJECTION})
N_MUTATIONS = 3000


def crossed(packet: Packet) -> Packet:
    return unpack_packet([bytes(part) for part in pack_packet(packet)])


def tree_crossed(tree: State) -> State:
    frames: list[Frame] = []
    packed = pack_tree(tree, frames)
    packet = crossed(Packet("state_done", {"ticket": 1, **packed}, frames))
    return unpack_tree(packet.fields, packet.frames)


def messages_crossed(messages: list[Message]) -> list[Message]:
    frames: list[Frame] = []
    packed = pack_messages(messages, frames)
    packet = crossed(Packet("turn_done", {"ticket": 1, "messages": packed, "expected": []}, frames))
    return unpack_messages(packet.fields["messages"], packet.frames, KINDS)


def same(one: State, other: State) -> bool:
    """Equal to the bit and in type; not a number equals itself."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one.hex() == other.hex()
    return type(one) is type(other) and bool(one == other)


arrays = st.sampled_from(sorted(ARRAY_DTYPES)).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | arrays
trees = st.recursive(leaves, lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(), part, max_size=4))


@settings(max_examples=40)
@given(tree=trees)
def test_a_tree_comes_out_as_it_went_in(tree: State) -> None:
    assert same(tree_crossed(tree), tree)


def test_what_is_not_finite_crosses_too() -> None:
    for value in (math.nan, math.inf, -math.inf):
        assert same(tree_crossed(value), value)


def test_numbers_in_another_byte_order_cross_as_numbers() -> None:
    crossed_array = tree_crossed(np.array([1.5, -2.0], dtype=">f8"))
    assert isinstance(crossed_array, np.ndarray)
    assert_array_equal(crossed_array, [1.5, -2.0])


@pytest.mark.parametrize(
    "tree", [{1, 2}, b"bytes", {1: 2}, np.array(["a"]), np.array([object()]), np.array([1j]), object()]
)
def test_nothing_but_a_plain_tree_goes_in(tree: Any) -> None:
    with pytest.raises(WireError):
        pack_tree({"part": tree}, [])


ONE = [["<f4", [1]]]


@pytest.mark.parametrize(
    ("text", "arrays", "frames"),
    [
        ("", [], []),
        ("[1]", [], []),
        ('["array", 1]', ONE, [bytes(4)]),
        ('["array", 0.0]', ONE, [bytes(4)]),
        ("[" * 10_000, [], []),
        ("null", [], [b"nobody's"]),
        ("null", ONE, []),
        ("null", ONE, [bytes(8)]),
        ("null", ["<f4"], [bytes(4)]),
        ("null", [["<f4", [1], 0]], [bytes(4)]),
        ("null", [["<f4", [-1]]], [bytes(4)]),
        ("null", [["<f4", [1.0]]], [bytes(4)]),
        ("null", [["<f4", [2**62, 4]]], [b""]),
        ("null", [["<f4", [1] * 40]], [bytes(4)]),
        ("null", [["|O", [1]]], [bytes(8)]),
        ("\ud800", [], []),
    ],
)
def test_nothing_but_a_plain_tree_comes_out(text: str, arrays: list[Any], frames: list[Frame]) -> None:
    assert isinstance(unpack_tree({"tree": '["array", 0]', "arrays": ONE}, [bytes(4)]), np.ndarray)
    with pytest.raises(WireError):
        unpack_tree({"tree": text, "arrays": arrays}, frames)


def deep(levels: int) -> Any:
    return 0 if levels == 0 else [deep(levels - 1)]


@pytest.mark.parametrize("row", [{"a": {1}}, {"a": b"b"}, {1: 2}, {"a": np.zeros(1)}, {"a": (1,)}, {"a": deep(20)}])
def test_a_row_holds_named_numbers_and_nothing_else(row: Any) -> None:
    check_row({"loss": 0.5, "models": {"fused": {"top1": math.nan, "rounds": [1, None, True]}}})
    with pytest.raises(WireError):
        check_row(row)


# --- messages ---------------------------------------------------------------------------------------------------------


def assert_same(one: Message, other: Message) -> None:
    assert (one.slot, one.receiver, one.payload.dtype) == (other.slot, other.receiver, other.payload.dtype)
    assert one.payload.tobytes() == other.payload.tobytes()
    assert (one.received is None) == (other.received is None)
    if one.received is not None and other.received is not None:
        assert_array_equal(one.received, other.received)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1000])
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_a_message_crosses_with_its_mask(n: int, dtype: str) -> None:
    draws = np.random.default_rng(n)
    whole = replace(message(), payload=draws.normal(size=n).astype(dtype))
    torn = replace(whole, received=draws.random(n) < 0.5)
    for sent, arrived in zip([whole, torn], messages_crossed([whole, torn]), strict=True):
        assert_same(arrived, sent)
        assert not arrived.payload.flags.writeable


def test_a_broadcast_crosses_once() -> None:
    sent = message(0, 1)
    frames: list[Frame] = []
    pack_messages([sent, replace(sent, receiver=2), replace(sent, receiver=3)], frames)
    assert len(frames) == 1
    one, other, _ = messages_crossed([sent, replace(sent, receiver=2), replace(sent, receiver=3)])
    assert one.payload is other.payload


def test_slots_and_phases_cross() -> None:
    slots = frozenset(
        {MessageSlot(3, "mix", 1, MessageKind.ENCODER, "gps"), MessageSlot(3, "mix", 0, MessageKind.PROJECTION)}
    )
    phases = (Phase("mix", 1e9), Phase("rest"))
    assert unpack_slots(pack_slots(slots)) == slots
    assert unpack_phases(pack_phases(phases)) == phases


GOOD = ["encoder", 0, 1, 0, "mix", "gps", "<f4", 0, None]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, "letter"), (0, "head"), (0, 1), (1, -1), (1, True), (2, "1"), (3, 0.0), (4, None), (5, "sonar"), (6, "|O"),
        (7, 1), (7, -1), (8, 0), (8, 5),
    ],
)  # fmt: skip
def test_a_malformed_message_is_refused(place: int, value: Any) -> None:
    assert len(unpack_messages([GOOD], [bytes(16)], KINDS)) == 1
    with pytest.raises(WireError):
        unpack_messages([[*GOOD[:place], value, *GOOD[place + 1 :]]], [bytes(16)], KINDS)


@pytest.mark.parametrize(
    ("read", "packed"),
    [
        (unpack_slots, [[0, "mix", 1, "encoder"]]),
        (unpack_slots, [[0, "mix", -1, "encoder", None]]),
        (unpack_slots, ["slot"]),
        (unpack_phases, [["mix", math.nan]]),
        (unpack_phases, [["mix", -1.0]]),
        (unpack_phases, [["mix", 1]]),
    ],
)
def test_malformed_slots_and_phases_are_refused(read: Callable[[Any], Any], packed: Any) -> None:
    with pytest.raises(WireError):
        read(packed)


# --- packets ----------------------------------------------------------------------------------------------------------


def test_every_type_has_fields_that_start_with_who_asked() -> None:
    """A question and its answer share a ticket, whatever the type."""
    for kind in ("phases", "turn", "look", "state", "restore"):
        assert {"ticket", "client"} <= FIELDS[kind].keys()
        assert "ticket" in FIELDS[f"{kind}_done"]


ALIVE: dict[str, Any] = {"version": PACKET_VERSION, "type": "alive", "checksum": 0}


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b""],
        [b"\xc1"],
        [msgpack.packb([1, 2])],
        [msgpack.packb({"type": "alive", "checksum": 0})],
        [msgpack.packb({**ALIVE, "version": PACKET_VERSION + 1})],
        [msgpack.packb({**ALIVE, "version": True})],
        [msgpack.packb({**ALIVE, "type": "dead"})],
        [msgpack.packb({**ALIVE, "type": ["alive"]})],
        [msgpack.packb({**ALIVE, "more": 1})],
        [msgpack.packb({**ALIVE, "type": "refused"})],
        [msgpack.packb({**ALIVE, "type": "refused", "sentence": 5})],
        [msgpack.packb({**ALIVE, "checksum": 1})],
        [msgpack.packb(ALIVE), b"a frame that the checksum does not know"],
        [msgpack.packb(ALIVE)[:-1]],
        [msgpack.packb(ALIVE) + b"\x00"],
    ],
)
def test_what_is_no_packet_is_refused(parts: list[Frame]) -> None:
    assert unpack_packet([msgpack.packb(ALIVE)]).type == "alive"
    with pytest.raises(WireError):
        unpack_packet(parts)


def test_packets_of_another_version_are_told_to_meet_in_one_release() -> None:
    with pytest.raises(WireError, match="use one release"):
        unpack_packet([msgpack.packb({**ALIVE, "version": 99})])


def test_fields_of_another_type_do_not_go_out() -> None:
    with pytest.raises(WireError, match="missing or unknown fields: sentence"):
        pack_packet(Packet("alive", {"sentence": "x"}))


def mutated(parts: list[bytes], draws: np.random.Generator) -> list[bytes]:
    """One part with a bit turned, bytes cut, added or doubled; or a part lost, doubled or moved."""
    parts = list(parts)
    index = int(draws.integers(len(parts)))
    part, how = parts[index], int(draws.integers(6))
    at = int(draws.integers(len(part) + 1))
    if how == 0 and part:
        flipped = bytearray(part)
        flipped[at % len(part)] ^= 1 << int(draws.integers(8))
        parts[index] = bytes(flipped)
    elif how == 1:
        parts[index] = part[:at]
    elif how == 2:
        parts[index] = part[:at] + draws.bytes(int(draws.integers(1, 9))) + part[at:]
    elif how == 3:
        parts[index] = part + part
    elif how == 4:
        del parts[index]
    else:
        parts.insert(int(draws.integers(len(parts) + 1)), part)
    return parts


def test_mutated_packets_are_refused_or_read_as_packets_and_never_worse() -> None:
    """A turned bit in a number of the header may make another packet, never another kind of thing."""
    draws = np.random.default_rng(11)
    frames: list[Frame] = []
    torn = replace(message(), received=np.array([True, False, True, False]))
    fields = {"ticket": 1, "client": 0, "round": 3, "phase": "mix", "arrived": ["mix", 2]}
    turn = pack_packet(Packet("turn", {**fields, "messages": pack_messages([message(), torn], frames)}, frames))
    arrays: list[Frame] = []
    tree = pack_tree({"head": np.arange(6.0).reshape(2, 3), "step": [1, None, "x"]}, arrays)
    state = pack_packet(Packet("state_done", {"ticket": 1, **tree}, arrays))
    refused = 0
    for _ in range(N_MUTATIONS):
        original = turn if draws.random() < 0.5 else state
        try:
            packet = unpack_packet(mutated([bytes(part) for part in original], draws))
            if packet.type == "turn":
                unpack_messages(packet.fields["messages"], packet.frames, KINDS)
            elif packet.type == "state_done":
                unpack_tree(packet.fields, packet.frames)
        except WireError:
            refused += 1
    assert refused > 0.5 * N_MUTATIONS  # else nothing would have been mutated


def test_the_checksum_is_that_of_every_standard_library() -> None:
    """So that a client in another language needs no library of ours."""
    header, frame = pack_packet(Packet("state_done", {"ticket": 1, "tree": "", "arrays": []}, [b"123456789"]))
    assert msgpack.unpackb(header)["checksum"] == zlib.crc32(frame) == 0xCBF43926


def test_a_truth_value_is_no_number_in_a_field() -> None:
    fields = {"messages": [], "expected": []}
    assert crossed(Packet("turn_done", {"ticket": 1, **fields})).fields["ticket"] == 1
    with pytest.raises(WireError, match="field ticket of 'turn_done' must be int, got bool"):
        crossed(Packet("turn_done", {"ticket": True, **fields}))

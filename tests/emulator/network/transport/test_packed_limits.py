"""Limits of msgpack headers: counted as msgpack counts, and refused before anything is built."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.network.transport.errors import OverLimitError, WireError
from sheafedge.emulator.network.transport.packed_limits import DEEPEST, unpack_limited

MOST_BYTES = 1 << 16
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20))
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=20), max_leaves=40
)


def levels(tree: Any) -> int:
    """Levels of lists and maps."""
    if isinstance(tree, dict):
        return 1 + max(map(levels, tree.values()), default=0)
    return 1 + max(map(levels, tree), default=0) if isinstance(tree, list) else 0


def nested(n_levels: int) -> bytes:
    return b"\x91" * n_levels + b"\x00"


@given(TREES)
def test_what_is_within_the_limits_is_read_as_msgpack_reads_it(tree: Any) -> None:
    packed = msgpack.packb(tree)
    if levels(tree) <= DEEPEST:
        assert unpack_limited(memoryview(packed), MOST_BYTES) == tree
    else:
        with pytest.raises(OverLimitError, match="levels of lists and maps"):
            unpack_limited(memoryview(packed), MOST_BYTES)


@given(TREES, st.data())
def test_a_part_of_a_header_is_refused(tree: Any, data: st.DataObject) -> None:
    packed = msgpack.packb(tree)
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(WireError):
        unpack_limited(memoryview(packed[:cut]), MOST_BYTES)


def test_the_deepest_header_is_read_and_one_level_more_is_not() -> None:
    assert levels(unpack_limited(memoryview(nested(DEEPEST)), MOST_BYTES)) == DEEPEST
    with pytest.raises(OverLimitError, match=f"more than {DEEPEST} levels"):
        unpack_limited(memoryview(nested(DEEPEST + 1)), MOST_BYTES)


def test_the_longest_header_is_read_and_one_byte_more_is_not() -> None:
    longest = msgpack.packb(bytes(MOST_BYTES - 3))
    assert len(longest) == MOST_BYTES
    assert unpack_limited(memoryview(longest), MOST_BYTES) == bytes(MOST_BYTES - 3)
    with pytest.raises(OverLimitError, match=f"is longer than {MOST_BYTES}"):
        unpack_limited(memoryview(longest + b"\0"), MOST_BYTES)


def test_as_many_items_as_the_limit_allows_are_read_and_one_more_is_not() -> None:
    most = MOST_BYTES // 16
    assert len(unpack_limited(memoryview(msgpack.packb([0] * most)), MOST_BYTES)) == most
    for too_many in ([0] * (most + 1), [[0, 0]] * (most // 3 + 1), {str(k): 0 for k in range(most // 2 + 1)}):
        with pytest.raises(OverLimitError, match="too many items"):
            unpack_limited(memoryview(msgpack.packb(too_many)), MOST_BYTES)


LIST, MAP = b"\xdd", b"\xdf"


@pytest.mark.parametrize("code", [LIST, MAP], ids=["list", "map"])
@pytest.mark.parametrize("announced", [1000, 60_000, 2**32 - 1])
def test_no_room_is_reserved_for_items_that_are_announced(code: bytes, announced: int) -> None:
    """msgpack alone reserves 8 bytes for each, at every level: half a gigabyte for this header of 60,000 announced."""
    header = (code + announced.to_bytes(4, "big")) * 8 + bytes(500)
    tracemalloc.start()
    with pytest.raises(WireError):
        unpack_limited(memoryview(header), MOST_BYTES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 18

"""Fewer bits: how exact each codec is, what it remembers, what a lost packet takes, and what arrives in the end."""

from __future__ import annotations

import numpy as np
import pytest
from doubles.carried import forwarded, submitted
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sheafedge.emulator.contracts import ConfigError, DataError, Message, MessageKind
from sheafedge.emulator.network.transport.wire import Wire, message_bytes
from sheafedge.emulator.network.transport.wire_header import header_bytes
from sheafedge.emulator.network.transport.wire_transport import MemoryTransport
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.codecs.codec import Codec
from sheafedge.models.codecs.codec_table import CODECS
from sheafedge.models.codecs.floats import Float16
from sheafedge.models.codecs.int8 import PER_WORD, Int8, from_words, to_words
from sheafedge.models.codecs.top_k import TopK
from sheafedge.models.settings import SharingSettings

N = 1000
#: Half a step of 8 bits, for a step that is the next power of two: at most a 127th of the largest number of a word.
HALF_STEP = 1.0 / 127.0
#: Half a unit in the last of 11 bits, and of the smallest half-precision number.
HALF_ULP, HALF_SMALLEST = 2.0**-11, 2.0**-25
#: One rounding of a float32 sum per round.
SINGLE = 2.0**-23

every_codec = pytest.mark.parametrize("name", CODECS)


def codec(name: str, start: NDArray[np.float32] | None = None, fraction: float = 0.1) -> Codec:
    return CODECS[name](np.zeros(N, dtype=np.float32) if start is None else start, SharingSettings(fraction=fraction))


def vectors(n: int, seed: int = 0) -> list[NDArray[np.float32]]:
    """A walk of this many steps, as training makes it."""
    draws = np.random.default_rng(seed)
    start, steps = draws.normal(size=N), draws.normal(scale=0.01, size=(n, N))
    return list((start + steps.cumsum(axis=0)).astype(np.float32))


def decoded(one: Codec, values: NDArray[np.float32]) -> NDArray[np.float32]:
    said, known = one.decode(one.encode(values), None, len(values))
    return said if known is None else np.where(known, said, np.nan)


# --- exactness ------------------------------------------------------------------------------------------------------


def test_float32_is_the_vector_itself() -> None:
    values = vectors(1)[0]
    assert codec("float32").encode(values) is values
    assert_array_equal(decoded(codec("float32"), values), values)


@given(arrays(np.float32, st.integers(0, 40), elements=st.floats(-65504, 65504, width=32)))
def test_float16_is_within_half_a_unit_of_its_last_digit(values: NDArray[np.float32]) -> None:
    bound = np.maximum(HALF_ULP * np.abs(values.astype(np.float64)), HALF_SMALLEST)
    assert (np.abs(decoded(Float16(), values) - values.astype(np.float64)) <= bound).all()


def test_float16_refuses_what_it_cannot_hold() -> None:
    values = np.array([1.0, -7e4], dtype=np.float32)
    with pytest.raises(ConfigError, match=r"float16' holds numbers up to 65504, but .* grown to -70000; use 'int8'"):
        Float16().encode(values)
    assert np.isinf(Float16().encode(np.array([np.inf], dtype=np.float32)))  # divergence is told elsewhere


@given(arrays(np.float32, st.integers(0, 40), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_int8_is_within_half_a_step_of_the_largest_of_seven(values: NDArray[np.float32]) -> None:
    back = from_words(to_words(values), len(values)).astype(np.float64)
    for at in range(0, len(values), PER_WORD):
        part = values[at : at + PER_WORD].astype(np.float64)
        bound = HALF_STEP * np.abs(part).max() + 2.0**-127
        assert (np.abs(back[at : at + PER_WORD] - part) <= bound).all()


@pytest.mark.parametrize("largest", [127.0, 127.0 * 2**-20, 127.0 * 2**60])
def test_int8_holds_multiples_of_its_step_exactly(largest: float) -> None:
    values = (largest / 127.0 * np.array([127, -127, 0, 1, -3, 64, 100])).astype(np.float32)
    assert_array_equal(from_words(to_words(values), PER_WORD), values)


def test_a_word_that_diverged_says_so_and_its_neighbors_do_not() -> None:
    values = np.arange(21, dtype=np.float32)
    values[8], values[15] = np.nan, np.inf
    assert_array_equal(np.isnan(from_words(to_words(values), 21)), np.arange(21) >= PER_WORD)


@pytest.mark.parametrize(("fraction", "n_sent"), [(0.1, 100), (0.5, 500), (0.0123, 12), (1e-9, 1)])
def test_top_k_sends_exactly_the_k_that_changed_most(fraction: float, n_sent: int) -> None:
    start, values = vectors(2)
    one = TopK(start, fraction)
    said = decoded(one, values)
    assert np.isfinite(said).sum() == n_sent
    changes = np.abs(values - start)
    assert changes[np.isfinite(said)].min() >= changes[np.isnan(said)].max()
    assert_array_equal(said[np.isfinite(said)], values[np.isfinite(said)])


@every_codec
@pytest.mark.parametrize("n", [0, 1, 7, 8, 41_250])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bytes_follow_the_formula_for_vectors_of_any_size(name: str, n: int, dtype: type) -> None:
    values = np.random.default_rng(n).normal(size=n).astype(dtype)
    one = CODECS[name](np.zeros_like(values), SharingSettings(fraction=0.1))
    payload = one.encode(values.copy())
    formula = {
        "float32": values.nbytes,
        "float16": 2 * n,
        "int8": 8 * -(-n // 7),
        "top_k": 8 * min(n, max(1, round(0.1 * n))),
    }
    assert payload.nbytes == formula[name]
    message = Message(MessageKind.ENCODER, 0, 1, 0, "mix", payload, "rf")
    size = submitted(MemoryTransport(Wire(frozenset({MessageKind.ENCODER}))), message).size_bytes
    assert size == header_bytes(MessageKind.ENCODER, "mix", "rf") + formula[name]
    assert size == message_bytes(MessageKind.ENCODER, "mix", "rf", payload.size, payload.dtype.str)
    assert one.decode(payload, None, n).values.shape == (n,)


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rounds", [1, 10, 300])
def test_int8_sends_in_sum_what_there_was_to_send(n_rounds: int) -> None:
    """The error does not grow with the rounds, because what is left out of one message is in the next."""
    one, walk = Int8(np.zeros(N, dtype=np.float32)), vectors(n_rounds)
    sent = sum(decoded(one, values).astype(np.float64) for values in walk)
    wanted = sum(values.astype(np.float64) for values in walk)
    rounding = n_rounds * SINGLE * np.abs(walk).max()
    assert_allclose(sent + one.state()["unsent"], wanted, atol=rounding)
    assert np.abs(one.state()["unsent"]).max() <= HALF_STEP * np.abs(walk).max()


def test_without_error_feedback_a_small_number_never_arrives() -> None:
    """The negative control of both memories: the same message again and again, and what it leaves out stays out."""
    values = np.zeros(N, dtype=np.float32)
    values[:2] = 1.0, 0.002  # an eighth of a step of their word
    forgetful = [from_words(to_words(values), N)[1] for _ in range(100)]
    one = Int8(values)
    remembering = [decoded(one, values)[1] for _ in range(100)]
    assert set(forgetful) == {0.0}
    assert np.mean(remembering) == pytest.approx(0.002, rel=0.05)  # one step in every eighth message

    alone = [decoded(TopK(np.zeros(N, dtype=np.float32), 0.001), values)[1] for _ in range(100)]
    patient = TopK(np.zeros(N, dtype=np.float32), 0.001)
    assert np.isnan(alone).all()
    assert [decoded(patient, values)[1] for _ in range(2)][1] == np.float32(0.002)


def test_top_k_delivers_a_vector_that_stands_still_within_n_over_k_rounds() -> None:
    one, values, heard = codec("top_k"), vectors(1)[0], np.zeros(N, dtype=np.float32)
    for round_index in range(10):
        assert (heard != values).sum() == N - 100 * round_index
        said = decoded(one, values)
        heard = np.where(np.isnan(said), heard, said)
    assert_array_equal(heard, values)


def test_what_top_k_has_not_said_is_what_it_remembers() -> None:
    """Neighbors that hear everything and keep the newest know the vector up to the memory, at any round."""
    walk = vectors(50)
    one, heard = TopK(walk[0], 0.05), walk[0].copy()
    for values in walk:
        said = decoded(one, values)
        heard = np.where(np.isnan(said), heard, said)
        assert_array_equal(one.state()["told"], heard)


@settings(max_examples=30)
@given(st.integers(0, 2**31))
def test_no_number_changes_its_sign_on_the_wire(seed: int) -> None:
    """A variance near zero stays one, also when the numbers beside it shrink and leave it a large memory."""
    draws = np.random.default_rng(seed)
    values = np.where(draws.random(N) < 0.5, 0.0, draws.exponential(size=N)).astype(np.float32)
    one = Int8(values)
    for _ in range(30):
        assert (decoded(one, values) >= 0.0).all()
        values *= draws.uniform(0.8, 1.1, size=N).astype(np.float32)


def test_plain_error_feedback_would_change_signs() -> None:
    """The negative control: a memory made at a large step is too large for a small one."""
    first, second = (np.array([top, 0.1, 0, 0, 0, 0, 0], dtype=np.float32) for top in (20.0, 0.2))
    unsent = first + np.float32(0.0) - from_words(to_words(first), 7)
    unsent[1] = -0.12  # as left by a round that rounded up
    assert from_words(to_words(second + unsent), 7)[1] < 0.0
    one = Int8(first)
    one.restore(SavedState({"unsent": unsent}))
    assert decoded(one, second)[1] == 0.0
    assert one.state()["unsent"][1] == pytest.approx(-0.02, abs=1e-6)  # and still owes it


@every_codec
def test_a_restored_codec_goes_on_to_the_last_bit(name: str) -> None:
    walk = vectors(20)
    one, other = codec(name, walk[0]), codec(name)
    for values in walk[:10]:
        one.encode(values)
    other.restore(SavedState(one.state()))
    for values in walk[10:]:
        assert_array_equal(one.encode(values), other.encode(values))
    assert bool(one.state()) == (name in {"int8", "top_k"})


def test_a_state_does_not_follow_its_codec() -> None:
    one, walk = codec("int8"), vectors(2)
    one.encode(walk[0])
    before = one.state()
    kept = before["unsent"].copy()
    one.encode(walk[1])
    assert_array_equal(before["unsent"], kept)
    assert not np.array_equal(one.state()["unsent"], kept)


# --- loss -----------------------------------------------------------------------------------------------------------


@every_codec
@pytest.mark.parametrize("packet_bytes", [8, 128, 1200])
def test_a_lost_packet_loses_its_own_coordinates_only(name: str, packet_bytes: int) -> None:
    """What arrives is what would have arrived in a whole message, for packets of any size."""
    values, draws = vectors(1)[0], np.random.default_rng(4)
    one = codec(name)
    message = Message(MessageKind.ENCODER, 0, 1, 0, "mix", one.encode(values), "rf")
    transport = MemoryTransport(Wire(frozenset({MessageKind.ENCODER})))
    n_packets = -(-message.payload.nbytes // packet_bytes)
    lost = np.flatnonzero(draws.random(n_packets) < 0.4)
    arrived = forwarded(transport, submitted(transport, message), lost if lost.size else np.array([0]), packet_bytes)
    whole = one.decode(message.payload, None, N)
    said, known = one.decode(arrived.payload, arrived.received, N)
    assert known is not None
    there = known if whole.known is None else whole.known
    assert (known <= there).all()
    assert_array_equal(said[known], whole.values[known])
    assert known.sum() < N
    per_element = {"float32": 1, "float16": 1, "int8": PER_WORD, "top_k": 1}[name]
    assert arrived.received is not None
    assert 0 <= arrived.received.sum() * per_element - known.sum() < PER_WORD  # the last word may be a short one


@pytest.mark.parametrize("name", ["int8", "top_k", "float16"])
def test_a_lost_message_spoils_none_that_follows(name: str) -> None:
    """A receiver that missed nine messages understands the tenth as one that missed none."""
    walk = vectors(10)
    sender, receiver = codec(name, walk[0]), codec(name)
    payloads = [sender.encode(values) for values in walk]
    one, other = sender.decode(payloads[-1], None, N), receiver.decode(payloads[-1], None, N)
    assert_array_equal(one.values, other.values)
    known = slice(None) if one.known is None else one.known
    step = HALF_STEP * np.abs(walk).max()
    assert_allclose(one.values[known], walk[-1][known], atol=2.0 * step)  # rounding, and what was owed before


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "int8", "top_k"])
@pytest.mark.parametrize("other", CODECS)
def test_the_message_of_another_codec_is_refused(name: str, other: str) -> None:
    if name == other:
        return
    payload = codec(other).encode(vectors(1)[0])
    with pytest.raises(DataError, match=r"a neighbor sent \d+ elements of type .* the same sharing.codec"):
        codec(name).decode(payload, None, N)


@pytest.mark.parametrize("indices", [[5, 5], [9, 2], [0, 1000], [0, 2**32 - 1]])
def test_coordinates_that_are_none_are_refused(indices: list[int]) -> None:
    entries = np.zeros(2, dtype=[("index", "<u4"), ("value", "<f4")])
    entries["index"] = indices
    with pytest.raises(DataError, match="ascending order within the 1000"):
        TopK(np.zeros(N, dtype=np.float32), 0.002).decode(entries.view("<u8"), None, N)

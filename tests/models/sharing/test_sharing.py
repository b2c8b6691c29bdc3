"""Averaging in fewer bits: what becomes of the mean, of agreement and of what was lost; rounds without exchange."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sheafedge.emulator.contracts import ConfigError, Message, MessageKind
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.codecs.codec_table import CODECS
from sheafedge.models.settings import SharingSettings
from sheafedge.models.sharing.gossip import metropolis_hastings_weights
from sheafedge.models.sharing.vector_gossip import SharedVector, VectorGossip
from torch import Tensor

N, N_CLIENTS = 210, 5
RING = np.roll(np.eye(N_CLIENTS, dtype=bool), 1, axis=0) | np.roll(np.eye(N_CLIENTS, dtype=bool), -1, axis=0)
#: Rounding of float32 averages, a few per round.
ROUNDING = 1e-5
#: The largest step of 8 bits, for numbers up to 1: two 127ths.
STEP = 2.0 / 127.0

every_codec = pytest.mark.parametrize("codec", CODECS)
Arrives = Callable[[list[Message]], list[Message]]


class Ring:
    """Clients that hold one vector each and average it; numbers lie within 1, and the first of every word is 1."""

    def __init__(self, codec: str, every: int = 1, spread: float = 0.0, top: bool = True) -> None:
        draws = np.random.default_rng(3)
        start = draws.uniform(-0.5, 0.5, size=N)
        self.vectors = [self._vector(start, top) for _ in range(N_CLIENTS)]
        weights = metropolis_hastings_weights(RING)
        self.gossip = [
            VectorGossip(
                i,
                [SharedVector(MessageKind.HEAD, None, v, {j: weights[i, j] for j in np.flatnonzero(RING[i]).tolist()})],
                SharingSettings(codec=codec, every=every, fraction=0.2),  # type: ignore[arg-type]
            )
            for i, v in enumerate(self.vectors)
        ]
        self.move(lambda _: draws.uniform(-spread, spread, size=N))

    @staticmethod
    def _vector(values: NDArray[np.float64], top: bool) -> Tensor:
        vector = torch.from_numpy(values.astype(np.float32))
        if top:
            vector[::7] = 1.0
        return vector

    def move(self, step: Callable[[int], NDArray[np.float64]]) -> None:
        for i, vector in enumerate(self.vectors):
            vector.add_(torch.from_numpy(np.where(np.arange(N) % 7, step(i), 0.0).astype(np.float32)))

    def mix(self, round_index: int = 0, arrives: Arrives = list) -> None:
        sent = [m for gossip in self.gossip for m in gossip.messages("mix", round_index)]
        for i, gossip in enumerate(self.gossip):
            gossip.absorb(arrives([m for m in sent if m.receiver == i]))

    @property
    def all(self) -> NDArray[np.float64]:
        """[n_clients, n]."""
        return np.stack([vector.numpy() for vector in self.vectors]).astype(np.float64)

    @property
    def mean(self) -> NDArray[np.float64]:
        return self.all.mean(axis=0)

    @property
    def disagreement(self) -> float:
        return float(np.abs(self.all - self.mean).max())


# --- the mean -------------------------------------------------------------------------------------------------------


def drift_of_the_mean(codec: str, n_rounds: int, forget: bool = False) -> NDArray[np.float64]:
    """How far the mean of all clients has moved when all train by a twentieth of a step per round, beside what it
    should have moved."""
    ring = Ring(codec)
    start, pace = ring.mean, STEP / 20.0
    for round_index in range(n_rounds):
        ring.move(lambda _: np.full(N, pace))
        if forget:
            for gossip in ring.gossip:
                left_out = {name: values for name, values in gossip.state().items() if isinstance(values, np.ndarray)}
                gossip.restore(SavedState({name: np.zeros_like(values) for name, values in left_out.items()}))
        ring.mix(round_index)
    return (ring.mean - start)[np.arange(N) % 7 != 0] - n_rounds * pace


@pytest.mark.parametrize("n_rounds", [10, 100, 200])
def test_whole_messages_keep_the_mean_and_int8_keeps_it_within_a_rounding_at_any_round(n_rounds: int) -> None:
    assert np.abs(drift_of_the_mean("float32", n_rounds)).max() < ROUNDING
    assert np.abs(drift_of_the_mean("int8", n_rounds)).max() <= STEP / 2.0 + ROUNDING


def test_without_error_feedback_training_would_stand_still() -> None:
    """The negative control: neighbors' rounded vectors pull everybody back to the last step."""
    assert np.abs(drift_of_the_mean("int8", 100, forget=True)).min() > 3.0 * STEP  # of five steps to go


@every_codec
def test_neighbors_come_to_agree(codec: str) -> None:
    ring = Ring(codec, spread=0.3, top=False)
    low, high, before = ring.all.min(axis=0), ring.all.max(axis=0), ring.disagreement
    for round_index in range(200):
        ring.mix(round_index)
    fine = {"float32": ROUNDING, "float16": 2.0**-11, "int8": STEP, "top_k": ROUNDING}[codec]
    assert ring.disagreement <= fine < 0.1 * before
    assert (ring.all >= low - fine).all()
    assert (ring.all <= high + fine).all()


# --- loss -----------------------------------------------------------------------------------------------------------


@every_codec
def test_agreement_comes_through_lost_messages_too(codec: str) -> None:
    """Half of all messages are lost while everybody trains; clients stay as close as their training steps let them."""
    ring, draws = Ring(codec, spread=0.3, top=False), np.random.default_rng(8)
    alone = Ring(codec, spread=0.3, top=False)
    for round_index in range(200):
        steps = draws.normal(scale=0.002, size=(N_CLIENTS, N))
        for one in (ring, alone):
            one.move(lambda i, steps=steps: steps[i])  # type: ignore[misc]
        ring.mix(round_index, lambda sent: [m for m in sent if draws.random() < 0.5])
    assert ring.disagreement < 0.3 * alone.disagreement


@pytest.mark.parametrize("codec", ["float32", "float16", "int8"])
def test_coordinates_of_lost_packets_keep_the_own_value(codec: str) -> None:
    ring = Ring(codec, spread=0.3)
    before = ring.all
    received_elements = {}

    def every_other(sent: list[Message]) -> list[Message]:
        gaps = []
        for message in sent:
            received = np.arange(message.payload.size) % 2 == 0
            received_elements[message.receiver] = received
            payload = np.where(received, message.payload, 0).astype(message.payload.dtype)
            gaps.append(replace(message, payload=payload, received=received))
        return gaps

    ring.mix(arrives=every_other)
    per_element = 7 if codec == "int8" else 1
    for i, received in received_elements.items():
        known = np.repeat(received, per_element)[:N]
        assert_array_equal(ring.all[i][~known], before[i][~known])
        assert (ring.all[i][known] != before[i][known]).mean() > 0.5


# --- every n-th round -----------------------------------------------------------------------------------------------


@every_codec
@pytest.mark.parametrize("every", [1, 2, 5])
def test_vectors_are_sent_at_the_end_of_every_so_many_rounds_and_expected_then(codec: str, every: int) -> None:
    ring = Ring(codec, every)
    exchanging = []
    for round_index in range(10):
        sent = [m for gossip in ring.gossip for m in gossip.messages("mix", round_index)]
        for i, gossip in enumerate(ring.gossip):
            assert gossip.expected("mix", round_index) == {m.slot for m in sent if m.receiver == i}
        exchanging += [round_index] if sent else []
    assert exchanging == list(range(every - 1, 10, every))


def test_a_round_without_exchange_leaves_vectors_and_memories_as_they_are() -> None:
    ring = Ring("int8", every=2, spread=0.3)
    before, memory = ring.all, ring.gossip[0].state()
    ring.mix(0)
    assert_array_equal(ring.all, before)
    assert_array_equal(ring.gossip[0].state()["head.all.unsent"], memory["head.all.unsent"])
    ring.mix(1)
    assert ring.disagreement < np.abs(before - before.mean(axis=0)).max()


# --- memory ---------------------------------------------------------------------------------------------------------


@every_codec
def test_a_restored_gossip_sends_the_same_to_the_last_bit(codec: str) -> None:
    ring, again, fresh = Ring(codec, spread=0.3), Ring(codec, spread=0.3), Ring(codec, spread=0.3)
    for round_index in range(5):
        ring.mix(round_index)
    for one, other, new in zip(ring.gossip, again.gossip, fresh.gossip, strict=True):
        other.restore(SavedState(one.state()))
        assert new.state().keys() == one.state().keys()
    for other in (again, fresh):
        for mine, theirs in zip(other.vectors, ring.vectors, strict=True):
            mine.copy_(theirs)
    for one in (ring, again, fresh):
        one.mix(5)
    assert_array_equal(ring.all, again.all)
    if codec in {"int8", "top_k"}:
        assert not np.array_equal(ring.all, fresh.all)  # the memory mattered


def test_the_memory_of_another_run_is_refused() -> None:
    int8, top_k, whole = (Ring(codec).gossip[0] for codec in ("int8", "top_k", "float32"))
    with pytest.raises(ConfigError):
        int8.restore(SavedState(top_k.state()))
    with pytest.raises(ConfigError):
        whole.restore(SavedState(int8.state()))
    with pytest.raises(ConfigError):
        top_k.restore(SavedState(whole.state()))
    with pytest.raises(ConfigError):
        int8.restore(SavedState({"head.all.unsent": np.zeros(N + 1, dtype=np.float32)}))


def test_a_vector_in_double_precision_is_averaged_as_well() -> None:
    for codec in CODECS:
        vector = torch.linspace(-1.0, 1.0, 30, dtype=torch.float64)
        gossip = VectorGossip(
            0, [SharedVector(MessageKind.HEAD, None, vector, {1: 0.5})], SharingSettings(codec=codec, fraction=0.5)
        )
        before = vector.clone()
        (message,) = gossip.messages("mix", 0)
        gossip.absorb([replace(message, sender=1, receiver=0)])
        assert_allclose(vector, before, atol=STEP)  # an average with itself
        assert vector.dtype == torch.float64

"""Pieces of a state by themselves: streams, arrays, numbers, optimizers, and taking back what was half taken in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.encoders.dropout import SeededDropout
from sheafedge.models.flat import FlatModule
from sheafedge.models.sheaf.restriction_maps import FactoredMaps
from sheafedge.models.state.module_state import module_state, optimizer_state, restore_module, restore_optimizer
from sheafedge.models.state.stream_states import numpy_stream_state, restore_numpy_stream
from sheafedge.models.state.tensors import restore_tensor, to_array
from sheafedge.models.training.minibatches import BatchOrder
from torch import nn

HEAD_DIM = 40


# --- streams --------------------------------------------------------------------------------------------------------


def test_a_stream_goes_on_in_the_middle_of_a_64_bit_draw() -> None:
    """Of which numpy keeps the second half for the next 32-bit draw."""
    draws, other = np.random.default_rng(1), np.random.default_rng(2)

    def drawn(stream: np.random.Generator) -> list[int]:
        numbers: list[int] = stream.integers(2**32, size=9, dtype=np.uint32).tolist()
        return numbers

    drawn(draws)
    state = numpy_stream_state(draws)
    assert isinstance(state, dict)
    assert state["has_half"] is True
    restore_numpy_stream(other, SavedState(state))
    assert drawn(draws) == drawn(other)
    restore_numpy_stream(draws, SavedState(state))
    restore_numpy_stream(other, SavedState({**state, "has_half": False}))
    assert drawn(draws) != drawn(other)


def test_a_stream_is_resumed_for_everybody_who_holds_it() -> None:
    draws = np.random.default_rng(1)
    order = BatchOrder(10, 4, draws)
    state = order.state()
    batches, number = [order.next(10) for _ in range(5)], draws.random()
    order.restore(SavedState(state))
    assert all(np.array_equal(batch, order.next(10)) for batch in batches)
    assert draws.random() == number


def test_dropout_drops_the_same_again() -> None:
    dropout = SeededDropout(0.5, torch.Generator().manual_seed(3))
    state = dropout.state()
    first, second = dropout(torch.ones(99)), dropout(torch.ones(99))
    dropout.restore(SavedState(state))
    assert torch.equal(dropout(torch.ones(99)), first)
    assert not torch.equal(first, second)


# --- networks, optimizers and maps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_an_optimizer_and_the_vector_that_it_steps_go_on(kind: type[torch.optim.Optimizer]) -> None:
    def made() -> tuple[nn.Module, FlatModule, torch.optim.Optimizer]:
        layer = nn.Linear(3, 2)
        for values in layer.parameters():
            values.data.fill_(0.5)
        flat = FlatModule(layer)
        return layer, flat, kind([flat.trainable], lr=0.1)

    def steps(made: tuple[nn.Module, FlatModule, torch.optim.Optimizer]) -> torch.Tensor:
        layer, flat, optimizer = made
        for _ in range(3):
            flat.gradient.zero_()
            layer(torch.ones(4, 3)).square().sum().backward()
            optimizer.step()
        return flat.vector.clone()

    one, other = made(), made()
    start, nothing_yet = module_state(one[0]), optimizer_state(one[2])
    steps(one)
    restore_module(other[0], SavedState(module_state(one[0])))
    restore_optimizer(other[2], SavedState(optimizer_state(one[2])))
    assert torch.equal(other[1].vector, one[1].vector)  # written in place: the vector sees its module's values
    assert torch.equal(steps(one), steps(other))
    restore_module(one[0], SavedState(start))
    restore_optimizer(one[2], SavedState(nothing_yet))
    assert torch.equal(steps(one), steps(made()))


@pytest.mark.parametrize("n_steps", [0, 3, 9, 20])
def test_a_history_of_maps_keeps_its_values_and_its_room(n_steps: int) -> None:
    """Room grows in strides; a run that was resumed must not report other memory."""
    draws = torch.Generator().manual_seed(5)
    starts = {1: torch.arange(30), 2: torch.arange(8)}
    maps, resumed = FactoredMaps(starts, HEAD_DIM), FactoredMaps(starts, HEAD_DIM)
    for _ in range(n_steps):
        maps.step(0.1 * torch.randn(38, generator=draws), torch.randn(HEAD_DIM, generator=draws))
    resumed.restore(SavedState(maps.state()))
    head = torch.randn(HEAD_DIM, generator=draws)
    assert torch.equal(resumed.project(head), maps.project(head))
    assert (resumed.n_terms, resumed.n_bytes) == (maps.n_terms, maps.n_bytes)


def test_what_was_folded_can_go_back_to_a_history() -> None:
    maps = FactoredMaps({1: torch.arange(30)}, HEAD_DIM)
    before, head = maps.state(), torch.ones(HEAD_DIM)
    maps.fold()
    maps.restore(SavedState(before))
    assert torch.equal(maps.project(head), torch.ones(30))
    assert maps.n_bytes < 30 * HEAD_DIM * 4


# --- tensors as arrays ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [">f4", "f8", "i4", "O", "U4"])
def test_an_array_of_another_type_is_refused(dtype: str) -> None:
    with pytest.raises(ConfigError, match=r"must be float32 of shape \[2\], got"):
        restore_tensor(torch.zeros(2), SavedState(np.zeros(2, dtype=dtype)))


def test_arrays_are_copies_in_row_order() -> None:
    values = torch.arange(6.0).view(2, 3).T
    array = to_array(values)
    assert array.flags.c_contiguous
    values.zero_()
    assert array.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]

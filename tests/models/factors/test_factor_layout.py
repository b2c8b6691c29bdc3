"""Where factors lie in the vectors that are exchanged."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.models.factors.factor_layout import FactorLayout, PartShapes
from sheafedge.models.factors.ranks import n_factor_values, rank_for

PARTS = [
    PartShapes(((6, 3, 2, 2), (6,), (5, 24), (5,))),
    PartShapes(((2, 9),), factored=False),
    PartShapes(((4, 5), (4,))),
]
LAYOUT = FactorLayout(PARTS, ratio=1.5)
N_DENSE = 72 + 6 + 120 + 5 + 18 + 20 + 4


def drawn(*lead: int) -> torch.Tensor:
    return torch.randn(*lead, LAYOUT.n_values, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_every_number_of_both_vectors_has_one_place() -> None:
    dense = [one.dense for one in LAYOUT.weights] + [place for place, _ in LAYOUT.rest]
    values = [one.values for one in LAYOUT.weights] + [place for _, place in LAYOUT.rest]
    for places, size in ((dense, N_DENSE), (values, LAYOUT.n_values)):
        covered = sorted(index for place in places for index in range(place.start, place.stop))
        assert covered == list(range(size))
    sizes = [part.stop - part.start for part in LAYOUT.parts]
    counted = [sum(n_factor_values(dims, 1.5) for dims in part.shapes) for part in (PARTS[0], PARTS[2])]
    assert sizes == [counted[0], 18, counted[1]]
    assert LAYOUT.n_dense == N_DENSE


def test_a_run_of_numbers_is_whole_rank_one_terms() -> None:
    """Losing the packet that holds the first term leaves the sum of the others."""
    values, (first, *_) = drawn(), LAYOUT.weights
    lost = values.clone()
    lost[first.values.start : first.values.start + sum(first.dims)] = 0.0
    others = [matrix[:, 1:] for matrix in first.factors(values)]
    found = first.weight(LAYOUT.compose(lost))
    assert_allclose(found, torch.einsum("az,bz,cz,dz->abcd", *others), atol=1e-10)
    assert first.rank == rank_for((6, 3, 2, 2), 1.5)


def test_what_stays_dense_is_as_it_was_given() -> None:
    values = drawn()
    dense = LAYOUT.compose(values)
    for place, kept in LAYOUT.rest:
        assert torch.equal(dense[place], values[kept])


@pytest.mark.parametrize("n_clients", [1, 3])
def test_the_gradient_is_that_of_autograd_for_any_number_of_clients(n_clients: int) -> None:
    values = drawn(n_clients)
    target = torch.randn(n_clients, LAYOUT.n_dense, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    free = values.clone().requires_grad_()
    composed = torch.stack([LAYOUT.compose(row) for row in free])
    (expected,) = torch.autograd.grad(0.5 * (target - composed).square().sum(), free)
    assert_allclose(LAYOUT.gradient(values, target), expected, atol=1e-10)
    assert_allclose(LAYOUT.compose(values), composed.detach(), atol=1e-12)


def test_a_start_has_the_variance_of_the_dense_weights_and_their_biases() -> None:
    layout = FactorLayout([PartShapes(((60, 50), (60,)))], ratio=2.0)
    dense = torch.full((3060,), 0.3, dtype=torch.float64)
    starts = [layout.compose(layout.initial(dense, torch.Generator().manual_seed(seed))) for seed in range(5)]
    weights = torch.stack(starts)[:, :3000]
    assert float(weights.square().mean()) == pytest.approx(0.09, rel=0.1)
    assert all(torch.equal(one[3000:], dense[3000:]) for one in starts)
    again = layout.compose(layout.initial(dense, torch.Generator().manual_seed(0)))
    assert torch.equal(again, starts[0])
    assert not torch.equal(starts[1], starts[0])

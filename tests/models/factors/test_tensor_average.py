"""What a server does that averages the tensors of factors, and what a lost packet costs it."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.models.factors.factor_layout import FactorLayout, PartShapes
from sheafedge.models.factors.tensor_average import tensor_average
from sheafedge.models.sharing.server_average import server_average
from torch import Tensor

EXACT = 1e-10
#: At this ratio a matrix has its full rank, so that every mean of tensors has exact factors.
LAYOUT = FactorLayout([PartShapes(((7, 4), (7,), (5, 3), (5,)))], ratio=0.5)
WEIGHTS = [1.0, 3.0]


def vectors(n_clients: int = 2, n_statistics: int = 2) -> tuple[Tensor, list[tuple[Tensor, Tensor | None]]]:
    draws = torch.Generator().manual_seed(3)
    own, *others = torch.randn(n_clients + 1, LAYOUT.n_values + n_statistics, generator=draws, dtype=torch.float64)
    return own, [(other, None) for other in others]


def dense(vector: Tensor) -> Tensor:
    return LAYOUT.compose(vector[: LAYOUT.n_values])


@pytest.mark.parametrize("mixing", [1.0, 0.5, 1.8])
def test_at_full_rank_it_is_the_average_of_dense_models(mixing: float) -> None:
    """Property 9; the average of factors is another model (negative control)."""
    own, arrived = vectors()
    found = tensor_average(LAYOUT).combine(mixing)(own, arrived, WEIGHTS)
    of_dense = [(dense(vector), None) for vector, _ in arrived]
    expected = server_average(mixing)(dense(own), of_dense, WEIGHTS)
    assert_allclose(dense(found), expected, atol=EXACT)
    of_factors = server_average(mixing)(own, arrived, WEIGHTS)
    assert float((dense(of_factors) - expected).abs().max()) > 0.1
    assert_allclose(found[LAYOUT.n_values :], of_factors[LAYOUT.n_values :], atol=EXACT)  # running statistics


def test_equal_clients_get_their_own_tensor_back() -> None:
    """Property 7, for both kinds of averages; the order of clients does not matter."""
    own, ((one, _), (other, _)) = vectors()
    twice: list[tuple[Tensor, Tensor | None]] = [(one, None), (one, None)]
    assert_allclose(dense(tensor_average(LAYOUT).combine(1.0)(own, twice, WEIGHTS)), dense(one), atol=EXACT)
    assert_allclose(server_average(1.0)(own, twice, WEIGHTS), one, atol=EXACT)
    forth = tensor_average(LAYOUT).combine(1.0)(own, [(one, None), (other, None)], [1.0, 3.0])
    back = tensor_average(LAYOUT).combine(1.0)(own, [(other, None), (one, None)], [3.0, 1.0])
    assert_allclose(dense(forth), dense(back), atol=EXACT)


def test_a_lost_number_voids_the_weight_of_its_client_and_nothing_else() -> None:
    own, ((one, _), (other, _)) = vectors()
    first, second = LAYOUT.weights
    mask = torch.ones(len(own), dtype=torch.bool)
    mask[first.values.start] = False
    lost = one.clone()
    lost[first.values.start] = torch.nan
    found = tensor_average(LAYOUT).combine(1.0)(own, [(lost, mask), (other, None)], WEIGHTS)
    whole = tensor_average(LAYOUT).combine(1.0)(own, [(one, None), (other, None)], WEIGHTS)
    assert_allclose(dense(found)[first.dense], dense(other)[first.dense], atol=EXACT)
    assert_allclose(dense(found)[second.dense], dense(whole)[second.dense], atol=EXACT)
    # the average of factors keeps the terms that came
    of_factors = server_average(1.0)(own, [(lost, mask), (other, None)], WEIGHTS)
    assert_allclose(of_factors[1:], server_average(1.0)(own, [(one, None), (other, None)], WEIGHTS)[1:], atol=EXACT)


def test_a_weight_that_nobody_was_heard_about_keeps_its_factors() -> None:
    own, arrived = vectors()
    (first, _), nothing = LAYOUT.weights, torch.zeros(len(own), dtype=torch.bool)
    for mask in (nothing, torch.arange(len(own)) >= first.values.stop):
        found = tensor_average(LAYOUT).combine(1.0)(own, [(vector, mask) for vector, _ in arrived], WEIGHTS)
        assert torch.equal(found[first.values], own[first.values])
    assert torch.equal(tensor_average(LAYOUT).combine(1.0)(own, [(own, nothing)], [1.0]), own)


def test_the_operations_of_a_factorization_come_once_and_those_of_a_product_per_client() -> None:
    flops = tensor_average(LAYOUT).flops
    assert flops(3) - flops(2) == flops(2) - flops(1) == sum(2 * w.rank * w.dims[0] * w.dims[1] for w in LAYOUT.weights)
    assert flops(0) > 0

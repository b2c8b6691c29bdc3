"""Canonical factors: their algebra against sums written out, and the gradient against two independent ones."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.models.factors.canonical import (
    Factors,
    gradient,
    gradient_flops,
    initial,
    khatri_rao,
    others_gram,
    others_product,
    to_dense,
    unfold,
)
from torch import Tensor

EQUATION = 1e-10
DIFFERENCES = 1e-6  # central differences with a step of 1e-5 in float64
SHAPES = [(5, 3), (4, 3, 2), (3, 4, 2, 2)]


def drawn(dims: tuple[int, ...], rank: int = 3, seed: int = 0) -> tuple[Tensor, list[Tensor]]:
    """A tensor and factors of one of its shape, unrelated."""
    draws = torch.Generator().manual_seed(seed)
    tensor = torch.randn(dims, generator=draws, dtype=torch.float64)
    return tensor, [torch.randn(size, rank, generator=draws, dtype=torch.float64) for size in dims]


def half_distance_sq(tensor: Tensor, factors: Factors) -> Tensor:
    return 0.5 * (tensor - to_dense(factors)).square().sum()


@pytest.mark.parametrize("dims", SHAPES)
def test_the_tensor_of_factors_is_a_sum_of_products(dims: tuple[int, ...]) -> None:
    _, factors = drawn(dims)
    found = to_dense(factors)
    for place in itertools.product(*(range(size) for size in dims)):
        terms = math.prod(factors[mode][i] for mode, i in enumerate(place))
        assert float(found[place]) == pytest.approx(float(torch.as_tensor(terms).sum()), abs=EQUATION)


def test_an_unfolding_has_the_lowest_remaining_mode_fastest() -> None:
    """The 3 x 4 x 2 example of Kolda and Bader, section 2.4."""
    tensor = torch.as_tensor(np.arange(1, 25).reshape((3, 4, 2), order="F"))
    assert unfold(tensor, 0, 3).tolist()[0] == [1, 4, 7, 10, 13, 16, 19, 22]
    assert unfold(tensor, 1, 3).tolist()[0] == [1, 2, 3, 13, 14, 15]
    assert unfold(tensor, 2, 3).tolist()[0] == list(range(1, 13))


@pytest.mark.parametrize("dims", SHAPES)
def test_unfolding_a_tensor_of_factors_is_a_product_of_matrices(dims: tuple[int, ...]) -> None:
    """[[A]]_(n) = A^(n) H_n^T; the paper leaves the transposition out. V_n = H_n^T H_n."""
    _, factors = drawn(dims)
    for mode, matrix in enumerate(factors):
        product = others_product(factors, mode)
        assert_allclose(unfold(to_dense(factors), mode, len(dims)), matrix @ product.mT, atol=EQUATION)
        assert_allclose(others_gram(factors, mode), product.mT @ product, atol=EQUATION)


@pytest.mark.parametrize("dims", SHAPES)
def test_the_gradient_is_that_of_autograd_and_of_finite_differences_and_the_printed_one_is_not(
    dims: tuple[int, ...],
) -> None:
    tensor, factors = drawn(dims)
    found = gradient(tensor, factors)
    free = [matrix.clone().requires_grad_() for matrix in factors]
    of_autograd = torch.autograd.grad(half_distance_sq(tensor, free), free)
    for mode, (mine, theirs) in enumerate(zip(found, of_autograd, strict=True)):
        assert_allclose(mine, theirs, atol=EQUATION)
        assert_allclose(mine, differences(tensor, factors, mode), atol=DIFFERENCES)
        printed = unfold(tensor, mode, len(dims)) @ others_product(factors, mode)
        printed = printed + factors[mode] @ others_gram(factors, mode)  # (17): no minus sign
        assert float((printed - mine).norm() / mine.norm()) > 0.1


def differences(tensor: Tensor, factors: Factors, mode: int, step: float = 1e-5) -> Tensor:
    """Central differences of the distance by every entry of one factor matrix."""
    found = torch.zeros_like(factors[mode])
    for place in itertools.product(*(range(size) for size in found.shape)):
        sides = []
        for sign in (1.0, -1.0):
            moved = [matrix.clone() for matrix in factors]
            moved[mode][place] += sign * step
            sides.append(float(half_distance_sq(tensor, moved)))
        found[place] = (sides[0] - sides[1]) / (2.0 * step)
    return found


@pytest.mark.parametrize("dims", SHAPES)
def test_several_tensors_at_once_are_each_by_itself(dims: tuple[int, ...]) -> None:
    pairs = [drawn(dims, seed=seed) for seed in range(3)]
    tensors = torch.stack([tensor for tensor, _ in pairs])
    factors = [torch.stack(matrices) for matrices in zip(*(one for _, one in pairs), strict=True)]
    assert_allclose(to_dense(factors), torch.stack([to_dense(one) for _, one in pairs]), atol=EQUATION)
    together = gradient(tensors, factors)
    for row, (tensor, own) in enumerate(pairs):
        for mine, alone in zip(together, gradient(tensor, own), strict=True):
            assert_allclose(mine[row], alone, atol=EQUATION)


@pytest.mark.parametrize("dims", SHAPES)
def test_plain_steps_along_the_gradient_bring_the_factors_nearer_and_long_ones_do_not(dims: tuple[int, ...]) -> None:
    tensor, factors = drawn(dims)

    def walked(step_size: float) -> list[float]:
        matrices, seen = factors, [float(half_distance_sq(tensor, factors))]
        for _ in range(17):
            slopes = gradient(tensor, matrices)
            matrices = [matrix - step_size * slope for matrix, slope in zip(matrices, slopes, strict=True)]
            seen.append(float(half_distance_sq(tensor, matrices)))
        return seen

    assert all(later <= earlier for earlier, later in itertools.pairwise(walked(1e-3)))
    assert walked(1.0)[1] > walked(1.0)[0]


@pytest.mark.parametrize(("dims", "rank"), [((100, 784), 44), ((32, 16, 3, 3), 40)])
def test_initial_factors_give_weights_of_the_wanted_variance(dims: tuple[int, ...], rank: int) -> None:
    """Over draws: the two small modes of a convolution have few entries, so that one draw may be far off."""
    variance, draws = 0.02, torch.Generator().manual_seed(0)
    found = torch.stack([to_dense(initial(dims, rank, variance, draws)) for _ in range(30)])
    assert float(found.square().mean()) == pytest.approx(variance, rel=0.05)
    assert abs(float(found.mean())) < 0.02 * variance**0.5


def test_columns_can_change_places_and_share_their_scale_but_not_before_an_average() -> None:
    """The gauge: what makes averages of factors need a common start (property 5 of the specification)."""
    _, factors = drawn((6, 5, 4), rank=3)
    order, scale = torch.tensor([2, 0, 1]), torch.tensor([2.0, 0.5, 4.0], dtype=torch.float64)
    other = [factors[0][:, order] * scale, factors[1][:, order] / scale, factors[2][:, order]]
    assert_allclose(to_dense(other), to_dense(factors), atol=EQUATION)
    mean = to_dense([(one + two) / 2.0 for one, two in zip(factors, other, strict=True)])
    assert float((mean - to_dense(factors)).norm() / to_dense(factors).norm()) > 0.3


def test_near_common_factors_the_mean_of_factors_is_the_mean_of_tensors_up_to_second_order() -> None:
    """Property 6: a tenth of the distance, a hundredth of the difference."""
    _, common = drawn((8, 6, 4), rank=5)
    moves = [drawn((8, 6, 4), rank=5, seed=seed)[1] for seed in (1, 2, 3)]

    def apart(distance: float) -> float:
        clients = [[a + distance * b for a, b in zip(common, move, strict=True)] for move in moves]
        mean = to_dense([torch.stack(list(each)).mean(dim=0) for each in zip(*clients, strict=True)])
        of_tensors = torch.stack([to_dense(one) for one in clients]).mean(dim=0)
        return float((mean - of_tensors).norm() / of_tensors.norm())

    assert apart(1e-2) / apart(1e-3) == pytest.approx(100.0, rel=0.1)
    assert apart(1e-1) < 0.05


def test_the_operations_of_a_gradient_are_counted() -> None:
    """Two products with the matrix and two with V_n, and two Gram matrices, each a multiplication and an addition."""
    assert gradient_flops((784, 100), 59) == 2 * 2 * 784 * 100 * 59 + 2 * 2 * 884 * 59 * 59


def test_a_khatri_rao_product_is_one_kronecker_product_per_column() -> None:
    _, (one, two) = drawn((4, 3))
    for column in range(3):
        assert_allclose(khatri_rao([one, two])[:, column], torch.kron(one[:, column], two[:, column]), atol=EQUATION)

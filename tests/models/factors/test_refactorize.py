"""Fits of factors: exact where the rank allows it, the best of its rank for matrices, never worse than their start."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.models.factors.canonical import initial, to_dense
from sheafedge.models.factors.refactorize import refactorized, refactorizing_flops
from torch import Tensor

EXACT = 1e-10


def tensor_of(dims: tuple[int, ...], rank: int | None = None) -> Tensor:
    draws = torch.Generator().manual_seed(1)
    if rank is None:
        return torch.randn(dims, generator=draws, dtype=torch.float64)
    return to_dense(initial(dims, rank, 1.0, draws))


def start_of(dims: tuple[int, ...], rank: int) -> list[Tensor]:
    return initial(dims, rank, 1.0, torch.Generator().manual_seed(2))


def test_a_matrix_is_exact_at_the_smaller_of_its_sizes_and_the_best_below() -> None:
    """Eckart and Young: what is left out are the smallest singular values."""
    matrix = tensor_of((9, 6))
    assert_allclose(to_dense(refactorized(matrix, start_of((9, 6), 6))), matrix, atol=EXACT)
    left_out = matrix - to_dense(refactorized(matrix, start_of((9, 6), 4)))
    assert float(left_out.norm()) == pytest.approx(float(torch.linalg.svdvals(matrix)[4:].norm()), abs=EXACT)


def test_a_rank_beyond_that_of_a_matrix_gives_columns_of_zeros() -> None:
    found = refactorized(tensor_of((4, 3)), start_of((4, 3), 5))
    assert [one.shape for one in found] == [(4, 5), (3, 5)]
    assert_allclose(to_dense(found), tensor_of((4, 3)), atol=EXACT)


def test_least_squares_find_a_tensor_of_their_rank_again_and_stay_where_they_are_right() -> None:
    tensor, right = tensor_of((6, 5, 4), rank=2), initial((6, 5, 4), 2, 1.0, torch.Generator().manual_seed(1))
    found = refactorized(tensor, start_of((6, 5, 4), 2), sweeps=200)
    assert_allclose(to_dense(found), tensor, atol=1e-5)
    assert_allclose(to_dense(refactorized(tensor, right, sweeps=1)), tensor, atol=1e-6)


def test_more_sweeps_fit_a_convolution_better() -> None:
    dims, start = (6, 5, 3, 3), start_of((6, 5, 3, 3), 8)
    tensor = tensor_of(dims)
    errors = [float((tensor - to_dense(refactorized(tensor, start, sweeps))).norm()) for sweeps in (0, 1, 5, 20)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.9 * errors[1] < 0.9 * float((tensor - to_dense(start)).norm())


def test_a_convolution_is_exact_at_the_product_of_all_sizes_but_the_largest() -> None:
    """Property 3: a rank that no longer compresses, 2 x 3 x 2 = 12 of 60 numbers with 12 * 12 of its factors."""
    tensor = tensor_of((5, 3, 2, 2))
    found = refactorized(tensor, start_of((5, 3, 2, 2), 12), sweeps=100)
    assert float((tensor - to_dense(found)).norm() / tensor.norm()) < 1e-3


def test_terms_share_their_scale_evenly_after_a_fit() -> None:
    found = refactorized(tensor_of((6, 5, 4)), start_of((6, 5, 4), 3))
    norms = torch.stack([one.norm(dim=0) for one in found])
    assert_allclose(norms, norms[:1].expand_as(norms), rtol=1e-10)


def test_operations_grow_with_the_sweeps_of_a_convolution_and_not_of_a_matrix() -> None:
    assert refactorizing_flops((5, 3, 2, 2), 4, sweeps=20) == 2 * refactorizing_flops((5, 3, 2, 2), 4, sweeps=10) > 0
    assert refactorizing_flops((9, 6), 4, sweeps=20) == refactorizing_flops((6, 9), 4, sweeps=10) > 0

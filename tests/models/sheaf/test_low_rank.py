"""Truncated sums of rank-one terms: exact where the rank allows it, and else as near as numpy's own SVD comes.

Source: Eckart and Young (1936): the best approximation of rank r keeps the r largest singular values, and its distance
is the norm of the others.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference.sheaves import any_case, normal
from sheafedge.models.sheaf.low_rank import LowRank, truncated
from torch import Tensor

EQUATION = 1e-11  # float64, sums of tens of products of numbers around 1
ORTHOGONAL = 1e-12  # float64, relative to the singular values
SINGLE = 3e-7  # of float32: two roundings of every factor, relative to the norm of the matrix


def made(heads: Tensor, residuals: Tensor, most_terms: int) -> LowRank:
    found = truncated(heads, residuals, most_terms)
    assert found is not None
    return found


def distance(found: LowRank, heads: Tensor, residuals: Tensor) -> float:
    """|D^T W - D'^T W'| in the Frobenius norm."""
    double = torch.float64
    exact = residuals.to(double).T @ heads.to(double)
    return float((exact - found.residuals.to(double).T @ found.heads.to(double)).norm())


@given(
    n_terms=st.integers(1, 12),
    head_dim=st.integers(1, 9),
    n_rows=st.integers(1, 9),
    most_terms=st.integers(1, 12),
    seed=st.integers(0, 99),
)
@any_case
def test_no_sum_of_as_many_terms_is_closer_and_the_distance_is_told(
    n_terms: int, head_dim: int, n_rows: int, most_terms: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    heads, residuals = normal(rng, n_terms, head_dim), normal(rng, n_terms, n_rows)
    found = made(heads, residuals, most_terms)
    sizes = np.linalg.svd((residuals.T @ heads).numpy(), compute_uv=False)
    assert len(found.heads) == len(found.residuals) <= min(most_terms, n_terms, head_dim, n_rows)
    assert_allclose(found.norm, np.linalg.norm(sizes[:most_terms]), atol=EQUATION)
    assert_allclose(found.dropped, np.linalg.norm(sizes[most_terms:]), atol=EQUATION)
    assert_allclose(distance(found, heads, residuals), found.dropped, atol=EQUATION)


def test_a_long_history_of_few_directions_is_kept_exactly() -> None:
    """96 heads in a space of 20 directions: 20 terms say as much as 96."""
    rng = np.random.default_rng(3)
    heads, residuals = normal(rng, 96, 20) @ normal(rng, 20, 150), normal(rng, 96, 130)
    found = made(heads, residuals, 48)
    assert len(found.heads) == 20
    assert distance(found, heads, residuals) < 1e-13 * found.norm
    assert found.dropped < 1e-13 * found.norm


def test_terms_are_orthogonal_and_in_descending_order_with_factors_of_one_size() -> None:
    rng = np.random.default_rng(5)
    found = made(normal(rng, 10, 40), normal(rng, 10, 30), 6)
    squares = found.heads @ found.heads.T
    assert_allclose(squares, torch.diag(squares.diagonal()), atol=ORTHOGONAL * float(squares.max()))
    assert_allclose(found.residuals @ found.residuals.T, squares, atol=ORTHOGONAL * float(squares.max()))
    assert bool((squares.diagonal().diff() <= 0.0).all())


def test_factors_of_single_precision_are_rounded_once_and_not_worked_in() -> None:
    """Columns as alike as heads of consecutive rounds: float32 arithmetic would lose the small terms."""
    rng = np.random.default_rng(7)
    heads = (normal(rng, 1, 300) + 1e-3 * normal(rng, 60, 300)).float()
    residuals = (normal(rng, 1, 200) + 1e-3 * normal(rng, 60, 200)).float()
    found = made(heads, residuals, 60)
    assert found.heads.dtype == found.residuals.dtype == torch.float32
    assert distance(found, heads, residuals) < SINGLE * found.norm


def test_nothing_at_all_has_no_terms() -> None:
    found = made(torch.ones(5, 3), torch.zeros(5, 4), 2)
    assert (found.heads.shape, found.residuals.shape) == ((0, 3), (0, 4))
    assert (found.norm, found.dropped) == (0.0, 0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_have_no_truncation(value: float) -> None:
    residuals = torch.ones(5, 4)
    residuals[2, 1] = value
    assert truncated(torch.ones(5, 3), residuals, 2) is None

"""Maps that are never built: rows of a randomized Hadamard transform."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.sheaf.hadamard_map import drawn_hadamard_map, hadamard_transform
from sheafedge.models.sheaf.map_starts import frobenius_sq, norm_sq_bound
from sheafedge.models.sheaf.restriction_maps import DenseMaps, FactoredMaps

EQUATION = 1e-10
SIZES = [1, 2, 3, 8, 11, 64, 100]


def kronecker_power(n: int) -> torch.Tensor:
    """The Hadamard matrix of Sylvester, by its definition."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < n:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64), matrix)
    return matrix / n**0.5


@pytest.mark.parametrize("n", [1, 2, 4, 32])
def test_the_transform_is_the_matrix_of_sylvester(n: int) -> None:
    values = torch.from_numpy(np.random.default_rng(n).normal(size=(3, n)))
    assert_allclose(hadamard_transform(values), values @ kronecker_power(n), atol=EQUATION)


@pytest.mark.parametrize("dim", SIZES)
@pytest.mark.parametrize("part", [False, True])
def test_rows_are_orthonormal_and_the_pull_is_the_transpose(dim: int, part: bool) -> None:
    draws = np.random.default_rng(dim)
    at = torch.from_numpy(np.sort(draws.choice(dim, size=max(1, dim // 2), replace=False))) if part else None
    m = dim if at is None else len(at)
    one = drawn_hadamard_map(dim, max(1, m // 3), draws, at)
    matrix = one.dense(torch.float64)
    assert matrix.shape == (len(one), dim)
    assert_allclose(matrix @ matrix.T, np.eye(len(one)), atol=EQUATION)
    vector, residual = (torch.from_numpy(draws.normal(size=size)) for size in (dim, len(one)))
    assert_allclose(one.project(vector), matrix @ vector, atol=EQUATION)
    assert_allclose(one.pull(residual), matrix.T @ residual, atol=EQUATION)
    if at is not None:
        assert not matrix[:, np.setdiff1d(np.arange(dim), at.numpy())].any()


def test_longer_rows_are_the_same_rows() -> None:
    one, longer = (drawn_hadamard_map(11, 4, np.random.default_rng(3), length=length) for length in (1.0, 2.5))
    assert_allclose(longer.dense(torch.float64), 2.5 * one.dense(torch.float64), atol=EQUATION)
    vector = torch.arange(11.0, dtype=torch.float64)
    assert_allclose(longer.to("cpu").project(vector), 2.5 * one.project(vector), atol=EQUATION)
    assert (frobenius_sq(longer), norm_sq_bound(longer)) == (4 * 2.5**2, 2.5**2)


def test_all_rows_together_lose_nothing() -> None:
    matrix = drawn_hadamard_map(11, 11, np.random.default_rng(0)).dense(torch.float64)
    assert_allclose(matrix.T @ matrix, np.eye(11), atol=EQUATION)


def test_in_the_mean_of_many_maps_every_coordinate_counts_alike_and_none_meets_another() -> None:
    dim, n_rows, draws = 11, 4, np.random.default_rng(1)
    squares = []
    for _ in range(3000):
        matrix = drawn_hadamard_map(dim, n_rows, draws).dense(torch.float64)
        squares.append(matrix.T @ matrix)
    mean, error = torch.stack(squares).mean(dim=0), torch.stack(squares).std(dim=0) / 3000**0.5
    gap = (mean - n_rows / dim * torch.eye(dim, dtype=torch.float64)).abs()
    assert bool((gap <= 5.0 * error + 1e-9).all())


def test_learned_hadamard_maps_are_their_dense_ones_through_history_truncation_and_restoring() -> None:
    draws = np.random.default_rng(2)
    starts = {j: drawn_hadamard_map(40, 6, draws) for j in (3, 1)}
    dense, factored = (kind(starts, 40, dtype=torch.float64) for kind in (DenseMaps, FactoredMaps))
    for step in range(9):
        residual, vector = (torch.from_numpy(draws.normal(size=size)) for size in (12, 40))
        for maps in (dense, factored):
            maps.step(0.1 * residual, vector)
        assert_allclose(factored.project(vector), dense.project(vector), atol=EQUATION)
        assert_allclose(factored.pull(residual), dense.pull(residual), atol=EQUATION)
        if step == 4:
            held = factored.state()
            assert held["index"] is None
            assert held["matrix"] is None  # what follows from the scenario is no part of a checkpoint
    again = FactoredMaps(starts, 40, dtype=torch.float64)
    again.restore(SavedState(factored.state()))
    assert_allclose(again.dense(3), dense.dense(3), atol=EQUATION)


def test_a_map_of_a_large_model_holds_bytes_per_coordinate_and_not_rows() -> None:
    maps = FactoredMaps({1: drawn_hadamard_map(34_826, 348, np.random.default_rng(0))}, 34_826)
    assert maps.n_bytes == 2 * 34_826 + 8 * 348  # a matrix holds 48 MB
    assert maps.product_flops < 2.0 * 34_826 * 348 / 10

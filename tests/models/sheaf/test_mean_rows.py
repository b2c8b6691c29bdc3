"""Maps whose rows are means of coordinates, alone and beside rows of the identity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.sheaf.map_starts import ImplicitStarts, MapStart, add_pull, frobenius_sq, norm_sq_bound
from sheafedge.models.sheaf.mean_rows import MeanRows
from sheafedge.models.sheaf.restriction_maps import DenseMaps, FactoredMaps

EQUATION = 1e-12


def drawn(dim: int, n_rows: int, k: int, draws: np.random.Generator) -> MeanRows:
    return MeanRows(dim, torch.from_numpy(draws.permutation(dim)[: n_rows * k].reshape(n_rows, k)))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_rows_are_orthogonal_means_and_the_pull_is_the_transpose(k: int) -> None:
    draws = np.random.default_rng(k)
    one = drawn(11, 2, k, draws)
    matrix = one.dense(torch.float64)
    assert_allclose(matrix @ matrix.T, np.eye(2) / k, atol=EQUATION)
    assert_allclose(matrix.sum(dim=1), np.ones(2), atol=EQUATION)
    vector, residual = (torch.from_numpy(draws.normal(size=size)) for size in (11, 2))
    assert_allclose(one.to("cpu").project(vector), matrix @ vector, atol=EQUATION)
    assert_allclose(one.pull(residual), matrix.T @ residual, atol=EQUATION)
    pulled = torch.zeros(11, dtype=torch.float64)
    add_pull(pulled, one, residual)
    assert torch.equal(pulled, one.pull(residual))
    assert frobenius_sq(one) == pytest.approx(2 / k)
    assert norm_sq_bound(one) == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)) ** 2)


def test_a_stack_of_means_and_of_rows_of_the_identity_is_its_dense_one_through_steps_and_restoring() -> None:
    draws = np.random.default_rng(2)
    starts: dict[int, MapStart] = {3: drawn(40, 6, 2, draws), 1: torch.tensor([5, 0, 39])}
    dense, factored = (kind(starts, 40, dtype=torch.float64) for kind in (DenseMaps, FactoredMaps))
    assert isinstance(factored._start, ImplicitStarts)
    vector = torch.from_numpy(draws.normal(size=40))
    assert_allclose(factored.project(vector)[factored.rows[1]], vector[[5, 0, 39]], atol=EQUATION)
    for _ in range(5):
        residual, vector = (torch.from_numpy(draws.normal(size=size)) for size in (9, 40))
        for maps in (dense, factored):
            maps.step(0.1 * residual, vector)
        assert_allclose(factored.project(vector), dense.project(vector), atol=EQUATION)
        assert_allclose(factored.pull(residual), dense.pull(residual), atol=EQUATION)
    again = FactoredMaps(starts, 40, dtype=torch.float64)
    again.restore(SavedState(factored.state()))
    assert torch.equal(again.project(vector), factored.project(vector))

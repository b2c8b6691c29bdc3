"""Ridge regression on pooled rows, against the formulas written out with whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.datasets.rows.pooled_ridge import PooledRidge, pooled_ridge

EXACT = 1e-8
N, COLUMNS = 60, 5


def fitted(noise: float, parts: int = 3) -> tuple[PooledRidge, np.ndarray, np.ndarray]:
    """Of rows in several parts, in columns far from 0 and of different sizes."""
    draws = np.random.default_rng(1)
    x = draws.normal(100.0, [0.1, 1.0, 10.0, 1.0, 1.0], (N, COLUMNS))
    y = x @ np.array([3.0, -2.0, 0.1, 0.0, 1.0]) + noise * draws.normal(size=N)
    scale = x.mean(axis=0), x.std(axis=0)
    return pooled_ridge(zip(np.array_split(x, parts), np.array_split(y, parts), strict=True), scale), x, y


def by_hand(x: np.ndarray, y: np.ndarray, strength: float) -> tuple[np.ndarray, float]:
    """Answers on the rows themselves, and the score of generalized cross-validation."""
    z = np.column_stack([np.ones(N), (x - x.mean(axis=0)) / x.std(axis=0)])
    hat = z @ np.linalg.solve(z.T @ z + strength * np.diag([0.0] + [1.0] * COLUMNS), z.T)
    return hat @ y, float(((y - hat @ y) ** 2).sum() / (N - np.trace(hat)) ** 2)


@pytest.mark.parametrize("noise", [0.1, 20.0])
def test_answers_and_strength_are_those_of_the_formulas(noise: float) -> None:
    ridge, x, y = fitted(noise)
    answers, score = by_hand(x, y, ridge.strength)
    assert_allclose(ridge.values(x), answers, rtol=EXACT)
    tried = N * np.logspace(-6.0, 2.0, 33)
    assert score == pytest.approx(min(by_hand(x, y, strength)[1] for strength in tried), rel=1e-6)


def test_noise_calls_for_a_stronger_penalty_and_the_parts_do_not_matter() -> None:
    assert fitted(20.0)[0].strength > 10.0 * fitted(0.1)[0].strength
    one, several = fitted(1.0, 1)[0], fitted(1.0, 7)[0]
    assert_allclose(one.weights, several.weights, rtol=EXACT)

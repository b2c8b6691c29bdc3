"""Biases fitted to a client's own rows: right on average, moved by nothing else, finite where nothing comes true."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.models.client_model import ClientModel
from sheafedge.models.training.fitted_biases import bias_shifts, shift_biases
from torch import nn

#: Halvings end below the rounding of float64 of a mean.
EXACT = 1e-12


def rows(n: int, wrong_by: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are off by a constant, and what came true under the right ones."""
    draws = np.random.default_rng(5)
    right = draws.normal(-2.0, 1.5, (n, 3))
    came_true = draws.random((n, 3)) < 1.0 / (1.0 + np.exp(-right))
    return right + wrong_by, came_true.astype(np.int64)


@pytest.mark.parametrize("wrong_by", [-3.0, 0.0, 2.0])
def test_mean_probabilities_are_the_shares_that_came_true(wrong_by: float) -> None:
    logits, labels = rows(400, wrong_by)
    odds = 1.0 / (1.0 + np.exp(-(logits + bias_shifts(logits, labels))))
    # one row that is half true is counted beside the rows
    assert_allclose(odds.mean(axis=0), (labels.sum(axis=0) + 0.5) / 401, atol=EXACT)


def test_a_constant_error_is_found() -> None:
    shifts = [bias_shifts(*rows(20_000, wrong_by)) for wrong_by in (0.0, 2.0)]
    assert_allclose(shifts[0] - shifts[1], 2.0, atol=EXACT)
    # a tenth is four standard errors of a bias over so many rows
    assert_allclose(shifts[1], -2.0, atol=0.1)


def test_no_other_shift_makes_the_rows_likelier() -> None:
    logits, labels = rows(5_000, 1.0)
    best = bias_shifts(logits, labels)

    def loss(shift: np.ndarray) -> np.ndarray:
        moved = logits + shift
        return (np.logaddexp(0.0, moved) - labels * moved).mean(axis=0)

    assert (loss(best) < loss(best + 0.1)).all()
    assert (loss(best) < loss(best - 0.1)).all()


def test_outputs_that_never_or_always_come_true_stay_finite() -> None:
    logits = np.linspace(-60.0, 60.0, 8)[:, None].repeat(2, axis=1)
    shifts = bias_shifts(logits, np.repeat([[0, 1]], 8, axis=0))
    assert np.isfinite(shifts).all()
    assert shifts[0] < 0.0 < shifts[1]


def test_biases_of_a_model_move_in_place_and_weights_stay() -> None:
    parts = {"gps": nn.Identity()}, {"gps": nn.Linear(2, 4)}
    model = ClientModel(*parts, fusion="mean", embedding_dim=4, n_outputs=3)
    view, x = model.head.detach(), {"gps": torch.ones(5, 2)}
    before, weights = model(x).detach(), view[:-3].clone()
    shift_biases(model, np.array([1.0, -2.0, 0.5]))
    assert_allclose((model(x).detach() - before).numpy(), np.tile([1.0, -2.0, 0.5], (5, 1)), atol=1e-6)
    assert torch.equal(view[:-3], weights)
    assert view[-3:].tolist() == [1.0, -2.0, 0.5]

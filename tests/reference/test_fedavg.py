"""The reference of federated averaging itself: what its equations imply."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.testing import assert_allclose
from reference.fedavg import FedAvgProblem, run_fedavg
from torch import Tensor

EQUATION = 1e-10
ROWS = {0: 4, 1: 8, 2: 12}


def least_squares(*, local_steps: int = 1, n_rounds: int = 3) -> FedAvgProblem:
    """Mean squared errors of linear models, over all rows in every step."""
    rng = np.random.default_rng(3)
    data = {
        k: (torch.from_numpy(rng.normal(size=(n, 5))), torch.from_numpy(rng.normal(size=n))) for k, n in ROWS.items()
    }

    def loss_of(k: int) -> object:
        x, y = data[k]
        return lambda _trained, _step, model: (x @ model["head"] - y).square().mean()

    return FedAvgProblem(
        losses={k: loss_of(k) for k in data},  # type: ignore[misc]  # a lambda has no annotated type
        start={k: {"head": torch.zeros(5, dtype=torch.float64)} for k in data},
        rows={k: float(n) for k, n in ROWS.items()},
        step_sizes={"head": 0.1},
        members=lambda _round: tuple(data),
        local_steps=local_steps,
        n_rounds=n_rounds,
    )


def pooled_loss(problem: FedAvgProblem, model: Tensor) -> Tensor:
    total = sum(problem.rows.values())
    return torch.as_tensor(
        sum(problem.rows[k] / total * loss(0, 0, {"head": model}) for k, loss in problem.losses.items())
    )


def test_with_one_full_step_a_round_is_gradient_descent_on_all_rows() -> None:
    """FedSGD of the paper's section 2; with more steps it is not."""
    problem = least_squares()
    model = problem.start[0]["head"]
    for state in run_fedavg(problem):
        free = model.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(pooled_loss(problem, free), [free])
        model = model - 0.1 * gradient
        assert_allclose(state.server["head"], model, atol=EQUATION)
    several = run_fedavg(replace(problem, local_steps=2))[-1].server["head"]
    assert float((several - model).abs().max()) > 1e-3


def test_a_client_that_is_never_heard_pulls_nowhere_and_its_weight_goes_to_the_others() -> None:
    problem = least_squares()
    deaf = replace(problem, up=lambda _t, k, _name, n: torch.full((n,), k != 2))
    without = replace(problem, members=lambda _round: (0, 1))
    for one, other in zip(run_fedavg(deaf), run_fedavg(without), strict=True):
        assert_allclose(one.server["head"], other.server["head"], atol=EQUATION)


def test_what_nobody_was_heard_about_stays() -> None:
    problem = replace(least_squares(), up=lambda _t, _k, _name, n: torch.arange(n) != 1)
    for state in run_fedavg(problem):
        assert state.server["head"][1] == 0.0
        assert (state.server["head"][[0, 2, 3, 4]] != 0.0).all()

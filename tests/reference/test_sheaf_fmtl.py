"""The reference of Sheaf-FMTL itself: what its equations imply."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.testing import assert_allclose
from reference.sheaf_fmtl import FmtlProblem, objective, run_dfedu, run_sheaf_fmtl
from reference.sheaves import normal
from torch import Tensor

EQUATION = 1e-10
SIZES = (5, 4, 6, 5)
EDGES = ((0, 1), (1, 2), (2, 3), (0, 3))


def quadratics(sizes: tuple[int, ...] = SIZES, seed: int = 3) -> FmtlProblem:
    """Strictly convex losses 1/2 |A theta - b|^2, maps with three rows."""
    rng = np.random.default_rng(seed)
    forms = {
        i: (torch.eye(size) + 0.1 * normal(rng, size, size), 2.0 * normal(rng, size)) for i, size in enumerate(sizes)
    }

    def loss_of(i: int) -> object:
        matrix, target = forms[i]
        return lambda _round, _step, theta: 0.5 * (matrix @ theta - target).square().sum()

    return FmtlProblem(
        losses={i: loss_of(i) for i in forms},  # type: ignore[misc]  # a lambda has no annotated type
        start={i: normal(rng, size) for i, size in enumerate(sizes)},
        edges=EDGES,
        alpha=0.01,
        coupling=0.3,
        maps={end: normal(rng, 3, sizes[end[0]]) for i, j in EDGES for end in ((i, j), (j, i))},
        eta=0.02,
    )


def test_a_round_descends_the_gradients_of_the_edge_once_objective() -> None:
    """S4: model step at the old maps, map step at the new models."""
    problem = replace(quadratics(), n_rounds=1)
    (after,) = run_sheaf_fmtl(problem)
    models = {i: model.clone().requires_grad_() for i, model in problem.start.items()}
    torch.autograd.backward(objective(problem, models, problem.maps))
    for i, model in models.items():
        assert model.grad is not None
        assert_allclose(problem.start[i] - after.models[i], problem.alpha * model.grad, atol=EQUATION)
    maps = {ends: one.clone().requires_grad_() for ends, one in problem.maps.items()}
    torch.autograd.backward(objective(problem, after.models, maps))
    for ends, one in maps.items():
        assert one.grad is not None
        assert_allclose(problem.maps[ends] - after.maps[ends], problem.eta * one.grad, atol=EQUATION)


def test_rotating_both_maps_of_an_edge_changes_no_model() -> None:
    """S5: only differences on an edge are seen."""
    problem, rng = quadratics(), np.random.default_rng(5)
    turned = dict(problem.maps)
    for i, j in EDGES:
        rotation, _ = torch.linalg.qr(normal(rng, 3, 3))
        turned[i, j], turned[j, i] = rotation @ turned[i, j], rotation @ turned[j, i]
    one, other = run_sheaf_fmtl(problem)[-1], run_sheaf_fmtl(replace(problem, maps=turned))[-1]
    for i, model in one.models.items():
        assert_allclose(other.models[i], model, atol=EQUATION)


def test_identity_maps_that_do_not_learn_are_dfedu() -> None:
    problem = quadratics((5, 5, 5, 5))
    identity = {ends: torch.eye(5, dtype=torch.float64) for ends in problem.maps}
    sheaf = run_sheaf_fmtl(replace(problem, maps=identity, eta=0.0))
    for state, other in zip(sheaf, run_dfedu(problem), strict=True):
        for i, model in state.models.items():
            assert_allclose(other.models[i], model, atol=EQUATION)


def test_with_learned_maps_every_client_ends_at_its_own_minimum_and_with_frozen_ones_it_does_not() -> None:
    """T5: stationary points with eta > 0 are those of local training."""
    problem = replace(quadratics(), alpha=0.2, eta=0.1, n_rounds=250)
    alone = run_sheaf_fmtl(replace(problem, coupling=0.0))[-1].models
    learned, frozen = (run_sheaf_fmtl(replace(problem, eta=eta))[-1].models for eta in (problem.eta, 0.0))

    def apart(one: dict[int, Tensor]) -> float:
        return max(float((one[i] - alone[i]).norm()) for i in one)

    assert apart(learned) < 1e-6
    assert apart(frozen) > 0.05


def minimum(problem: FmtlProblem) -> dict[int, Tensor]:
    """Exact minimum of a quadratic objective under maps that stay."""
    sizes = [len(problem.start[i]) for i in sorted(problem.start)]

    def of_stack(stacked: Tensor) -> Tensor:
        return objective(problem, dict(enumerate(torch.split(stacked, sizes))), problem.maps)

    zero = torch.zeros(sum(sizes), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(of_stack(zero), zero)
    curvature = torch.autograd.functional.hessian(of_stack, zero.detach())
    return dict(enumerate(torch.split(-torch.linalg.solve(curvature, slope), sizes)))


def test_maps_that_stay_lead_to_the_minimum_of_the_coupled_objective() -> None:
    problem = replace(quadratics(), alpha=0.2, eta=0.0, n_rounds=250)
    found, exact = run_sheaf_fmtl(problem)[-1].models, minimum(problem)
    assert max(float((found[i] - exact[i]).abs().max()) for i in found) < 1e-8


def test_a_strong_coupling_through_common_injective_maps_leads_to_the_pooled_minimum() -> None:
    """Conventional federated learning: the distance to it falls as 1 / lambda."""
    problem, rng = quadratics((5, 5, 5, 5)), np.random.default_rng(6)
    common = {(i, j): torch.linalg.qr(normal(rng, 7, 5))[0] for i, j in EDGES}
    maps = {end: common[i, j] for i, j in EDGES for end in ((i, j), (j, i))}

    def pooled(theta: Tensor) -> Tensor:
        return torch.as_tensor(sum(loss(0, 0, theta) for loss in problem.losses.values()))

    zero = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(pooled(zero), zero)
    of_all = -torch.linalg.solve(torch.autograd.functional.hessian(pooled, zero.detach()), slope)
    strengths = (100.0, 200.0, 400.0)
    apart = [
        max(float((model - of_all).norm()) for model in minimum(replace(problem, maps=maps, coupling=one)).values())
        for one in strengths
    ]
    assert apart[0] > 1e-4
    assert_allclose(apart[1:], np.array(apart[:-1]) / 2.0, rtol=0.02)


def test_on_a_star_with_selections_the_server_holds_the_mean_over_the_owners_of_every_coordinate() -> None:
    """Hybrid learning, at its stationary point."""
    owned = {1: (0, 1), 2: (1, 2, 3), 3: (1, 3)}
    problem = quadratics((5, 2, 3, 2))
    star = tuple((0, i) for i in owned)
    rows = torch.eye(5, dtype=torch.float64)
    maps = {(0, i): rows[list(at)] for i, at in owned.items()}
    maps |= {(i, 0): torch.eye(len(at), dtype=torch.float64) for i, at in owned.items()}
    losses = {**problem.losses, 0: lambda _round, _step, theta: 0.0 * theta.sum()}
    end = run_sheaf_fmtl(
        replace(problem, losses=losses, edges=star, maps=maps, eta=0.0, alpha=0.3, coupling=1.0, n_rounds=300)
    )[-1].models
    for coordinate in range(4):
        of_owners = [end[i][at.index(coordinate)] for i, at in owned.items() if coordinate in at]
        assert_allclose(end[0][coordinate], torch.stack(of_owners).mean(), atol=1e-8)
    assert end[0][4] == problem.start[0][4]  # nobody has it

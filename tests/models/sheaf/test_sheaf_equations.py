"""The sheaf coupling against the paper's equations, for any graph and any size.

Source: Ghalkha et al. 2025, (1), (2), (8), (11), (12); the step-size bounds are the corrected ones, with the curvature
of the coupling counted: the paper's own bound on the head step is shown to fail.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference.problems import FOUR_CLIENTS, random_problem
from reference.sheaf_dmfl import (
    Edge,
    coboundary,
    edge_step_size,
    run_reference,
    sheaf_energy,
    sheaf_laplacian,
    starting_state,
)
from reference.sheaves import Graph, Sheaf, any_case, graphs, normal, sheaves
from sheafedge.models.head import HeadLayout
from sheafedge.models.sheaf.equations import coupled_step, map_step_sizes, reproject_locally, structured_starts
from sheafedge.models.sheaf.restriction_maps import DenseMaps, FactoredMaps, RestrictionMaps
from torch import Tensor

EQUATION = 1e-10  # float64, numbers of order 1 to 100
COUPLINGS = st.floats(0.0, 3.0)
STEP_SIZES = st.floats(0.0, 1.0)

any_maps = pytest.mark.parametrize("maps_class", [DenseMaps, FactoredMaps])

MapsClass = type[DenseMaps] | type[FactoredMaps]
Residuals = dict[int, Tensor]


def maps_of(sheaf: Sheaf, maps_class: MapsClass) -> dict[int, RestrictionMaps]:
    """Every client's maps, started from the sheaf's matrices."""
    return {
        i: maps_class({j: sheaf.maps[i, j] for j in sheaf.graph.neighbors(i)}, len(head), dtype=torch.float64)
        for i, head in sheaf.heads.items()
    }


def residuals(maps: Mapping[int, RestrictionMaps], heads: Mapping[int, Tensor]) -> Residuals:
    """Of every client, stacked over its edges: own projection less the peer's."""
    images = {i: maps[i].project(head) for i, head in heads.items()}
    stacked = {}
    for i, image in images.items():
        stacked[i] = image.clone()
        for j, rows in maps[i].rows.items():
            stacked[i][rows] -= images[j][maps[j].rows[i]]
    return stacked


def energy(graph: Graph, maps: Mapping[int, RestrictionMaps], heads: Mapping[int, Tensor]) -> float:
    """(2) from what the clients compute; each undirected edge once."""
    of_all = residuals(maps, heads)
    return sum(float(of_all[i][maps[i].rows[j]].square().sum()) for i, j in graph.edges)


def stacked(vectors: Mapping[int, Tensor]) -> np.ndarray:
    """All nodes' vectors one below the other, ascending."""
    return torch.cat([vectors[i] for i in sorted(vectors)]).numpy()


def unstacked(vector: np.ndarray, sheaf: Sheaf) -> dict[int, Tensor]:
    """The inverse of `stacked`."""
    return dict(enumerate(torch.split(torch.from_numpy(vector), list(sheaf.sizes.values()))))


def flipped(edges: tuple[Edge, ...], mask: int) -> list[Edge]:
    """Edges with the orientation of some turned round."""
    return [(j, i) if mask >> place & 1 else (i, j) for place, (i, j) in enumerate(edges)]


# --- energy and Laplacian ---------------------------------------------------------------------------------------------


@any_maps
@given(sheaf=sheaves(), mask=st.integers(0, 2**10 - 1))
@any_case
def test_energy_of_the_edges_is_the_quadratic_form_of_the_laplacian(
    maps_class: MapsClass, sheaf: Sheaf, mask: int
) -> None:
    laplacian = sheaf_laplacian(sheaf.graph.edges, sheaf.maps, sheaf.sizes)
    w = stacked(sheaf.heads)
    assert_allclose(energy(sheaf.graph, maps_of(sheaf, maps_class), sheaf.heads), w @ laplacian @ w, atol=EQUATION)
    assert_allclose(laplacian, laplacian.T, atol=0.0)
    assert np.linalg.eigvalsh(laplacian).min() > -EQUATION
    turned = sheaf_laplacian(flipped(sheaf.graph.edges, mask), sheaf.maps, sheaf.sizes)
    assert_allclose(turned, laplacian, atol=EQUATION)


@any_maps
@given(sheaf=sheaves())
@any_case
def test_pulls_of_all_clients_are_the_laplacian_times_the_heads(maps_class: MapsClass, sheaf: Sheaf) -> None:
    maps = maps_of(sheaf, maps_class)
    of_all = residuals(maps, sheaf.heads)
    pulls = stacked({i: maps[i].pull(of_all[i]) for i in maps})
    laplacian = sheaf_laplacian(sheaf.graph.edges, sheaf.maps, sheaf.sizes)
    assert_allclose(pulls, laplacian @ stacked(sheaf.heads), atol=EQUATION)


@any_maps
@given(sheaf=sheaves(), coupling=COUPLINGS)
@any_case
def test_steps_11_and_12_descend_half_the_coupling_times_the_energy(
    maps_class: MapsClass, sheaf: Sheaf, coupling: float
) -> None:
    heads = {i: head.clone().requires_grad_() for i, head in sheaf.heads.items()}
    matrices = {ends: matrix.clone().requires_grad_() for ends, matrix in sheaf.maps.items()}
    once_counted = sheaf_energy(sheaf.graph.edges, matrices, heads) + 0.0 * sum(head.sum() for head in heads.values())
    torch.autograd.backward(0.5 * coupling * once_counted)
    maps = maps_of(sheaf, maps_class)
    of_all = residuals(maps, sheaf.heads)
    for i, head in sheaf.heads.items():
        still = torch.zeros_like(head)
        stepped = coupled_step(head, still, maps[i].pull(of_all[i]), step_size=1.0, coupling=coupling)
        slope = heads[i].grad
        assert slope is not None
        assert_allclose(head - stepped, slope, atol=EQUATION)
        maps[i].step(coupling * of_all[i], head)
        for j in maps[i].rows:
            slope = matrices[i, j].grad
            assert slope is not None
            assert_allclose(sheaf.maps[i, j] - maps[i].dense(j), slope, atol=EQUATION)


def test_an_energy_that_counts_each_edge_twice_would_pull_twice_as_hard() -> None:
    """Negative control: the paper's (9) and (10) sum over ordered pairs, its (11) and (12) do not."""
    rng = np.random.default_rng(3)
    head = normal(rng, 4).requires_grad_()
    sheaf = Sheaf(
        Graph(2, ((0, 1),)),
        {0: head.detach(), 1: normal(rng, 3)},
        {(0, 1): normal(rng, 2, 4), (1, 0): normal(rng, 2, 3)},
        {},
    )
    both = [(0, 1), (1, 0)]
    torch.autograd.backward(0.5 * sheaf_energy(both, sheaf.maps, {0: head, 1: sheaf.heads[1]}))
    maps = maps_of(sheaf, DenseMaps)
    pull = maps[0].pull(residuals(maps, sheaf.heads)[0])
    assert head.grad is not None
    assert_allclose(head.grad, 2.0 * pull, atol=EQUATION)
    assert pull.norm() > 0.1


@given(graph=graphs(max_nodes=5), width=st.integers(1, 4), n_outputs=st.integers(1, 3), seed=st.integers(0, 99))
@any_case
def test_full_structured_maps_give_the_ordinary_graph_laplacian(
    graph: Graph, width: int, n_outputs: int, seed: int
) -> None:
    layout, rng = HeadLayout(n_outputs, (("fused", width),)), np.random.default_rng(seed)
    starts = {edge: structured_starts(layout, layout, 1.0, rng) for edge in graph.edges}
    by_end = {(i, j): own for (i, j), (own, _) in starts.items()} | {
        (j, i): peer for (i, j), (_, peer) in starts.items()
    }
    heads = {i: normal(rng, layout.dim) for i in range(graph.n_nodes)}
    maps: dict[int, RestrictionMaps] = {
        i: FactoredMaps({j: by_end[i, j] for j in graph.neighbors(i)}, layout.dim, dtype=torch.float64) for i in heads
    }
    expected = sum(float((heads[i] - heads[j]).square().sum()) for i, j in graph.edges)
    assert_allclose(energy(graph, maps, heads), expected, atol=EQUATION)


@any_maps
@given(sheaf=sheaves(min_edges=1))
@any_case
def test_heads_in_the_kernel_of_the_laplacian_feel_no_pull(maps_class: MapsClass, sheaf: Sheaf) -> None:
    b = coboundary(sheaf.graph.edges, sheaf.maps, sheaf.sizes)
    w = stacked(sheaf.heads)
    w = w - np.linalg.pinv(b) @ (b @ w)
    heads = unstacked(w, sheaf)
    maps = maps_of(sheaf, maps_class)
    of_all = residuals(maps, heads)
    assert energy(sheaf.graph, maps, heads) < EQUATION
    assert all(maps[i].pull(of_all[i]).abs().max() < EQUATION for i in maps)


# --- the map step -----------------------------------------------------------------------------------------------------


def squared_norms(sheaf: Sheaf, edge: Edge) -> float:
    """s_e = |w_i|^2 + |w_j|^2."""
    return sum(float(sheaf.heads[end].square().sum()) for end in edge)


@any_maps
@given(sheaf=sheaves(min_edges=1), step_size=STEP_SIZES, coupling=COUPLINGS)
@any_case
def test_a_map_step_at_both_ends_contracts_every_edge_residual_by_the_exact_factor(
    maps_class: MapsClass, sheaf: Sheaf, step_size: float, coupling: float
) -> None:
    maps = maps_of(sheaf, maps_class)
    before = residuals(maps, sheaf.heads)
    for i in maps:
        maps[i].step(step_size * coupling * before[i], sheaf.heads[i])
    after = residuals(maps, sheaf.heads)
    for i, j in sheaf.graph.edges:
        rows, factor = maps[i].rows[j], 1.0 - step_size * coupling * squared_norms(sheaf, (i, j))
        assert_allclose(after[i][rows], factor * before[i][rows], rtol=EQUATION, atol=EQUATION)


def test_ends_that_step_one_after_another_do_not_contract_by_that_factor() -> None:
    """Negative control: both ends must use the residual of the same exchange."""
    rng = np.random.default_rng(5)
    sheaf = Sheaf(
        Graph(2, ((0, 1),)),
        {0: normal(rng, 3), 1: normal(rng, 3)},
        {(0, 1): normal(rng, 2, 3), (1, 0): normal(rng, 2, 3)},
        {},
    )
    maps, scale = maps_of(sheaf, DenseMaps), 0.1
    before = residuals(maps, sheaf.heads)[0]
    for i in maps:
        maps[i].step(scale * residuals(maps, sheaf.heads)[i], sheaf.heads[i])
    after = residuals(maps, sheaf.heads)[0]
    assert (after - (1.0 - scale * squared_norms(sheaf, (0, 1))) * before).norm() > 1e-3


@any_maps
@given(sheaf=sheaves(min_edges=1), step_size=STEP_SIZES, coupling=COUPLINGS)
@any_case
def test_a_map_changes_by_rank_one_along_the_head(
    maps_class: MapsClass, sheaf: Sheaf, step_size: float, coupling: float
) -> None:
    maps = maps_of(sheaf, maps_class)
    before = residuals(maps, sheaf.heads)
    for i, head in sheaf.heads.items():
        maps[i].step(step_size * coupling * before[i], head)
        direction = head / head.norm()
        for j in maps[i].rows:
            change = maps[i].dense(j) - sheaf.maps[i, j]
            assert_allclose(change, torch.outer(change @ direction, direction), atol=EQUATION)


@given(
    step_size=st.floats(0.0, 1e6),
    coupling=st.floats(0.0, 1e3),
    own=st.floats(0.0, 1e4),
    peers=st.lists(st.floats(0.0, 1e4), max_size=4),
)
@any_case
def test_the_clamped_step_keeps_every_residual_factor_between_0_and_1(
    step_size: float, coupling: float, own: float, peers: list[float]
) -> None:
    norms = torch.tensor(peers, dtype=torch.float64)
    steps = map_step_sizes(step_size, coupling, torch.tensor(own, dtype=torch.float64), norms)
    assert steps.shape == norms.shape
    problem = random_problem(map_step_size=step_size, coupling=coupling, clamp_map_step=True)
    for step, peer in zip(steps.tolist(), peers, strict=True):
        assert -EQUATION <= 1.0 - step * coupling * (own + peer) <= 1.0
        assert step <= step_size
        assert_allclose(step, edge_step_size(problem, own + peer), rtol=EQUATION)


@pytest.mark.parametrize(("fraction_of_limit", "grows"), [(0.99, False), (1.01, True)])
def test_beyond_twice_the_clamp_a_residual_grows_and_just_below_it_does_not(
    fraction_of_limit: float, grows: bool
) -> None:
    rng = np.random.default_rng(9)
    sheaf = Sheaf(
        Graph(2, ((0, 1),)),
        {0: normal(rng, 4), 1: normal(rng, 5)},
        {(0, 1): normal(rng, 3, 4), (1, 0): normal(rng, 3, 5)},
        {},
    )
    coupling = 0.4
    step_size = fraction_of_limit * 2.0 / (coupling * squared_norms(sheaf, (0, 1)))
    maps = maps_of(sheaf, FactoredMaps)
    before = residuals(maps, sheaf.heads)
    for i in maps:
        maps[i].step(step_size * coupling * before[i], sheaf.heads[i])
    after = residuals(maps, sheaf.heads)
    assert (after[0].norm() > before[0].norm()) == grows
    assert_allclose(after[0].norm() / before[0].norm(), abs(1.0 - 2.0 * fraction_of_limit), rtol=EQUATION)


@any_maps
@given(sheaf=sheaves(min_edges=1), step_size=STEP_SIZES, coupling=COUPLINGS)
@any_case
def test_the_projection_after_a_map_step_is_known_without_the_map(
    maps_class: MapsClass, sheaf: Sheaf, step_size: float, coupling: float
) -> None:
    maps = maps_of(sheaf, maps_class)
    before, images = residuals(maps, sheaf.heads), {i: maps[i].project(sheaf.heads[i]) for i in maps}
    for i, head in sheaf.heads.items():
        maps[i].step(step_size * coupling * before[i], head)
        known = reproject_locally(
            images[i], before[i], step_size=step_size, coupling=coupling, norm_sq=head.square().sum()
        )
        assert_allclose(known, maps[i].project(head), atol=EQUATION)


# --- what a zero switches off -----------------------------------------------------------------------------------------


@any_maps
@given(sheaf=sheaves(), step_size=STEP_SIZES)
@any_case
def test_without_coupling_heads_follow_plain_sgd_and_maps_stay(
    maps_class: MapsClass, sheaf: Sheaf, step_size: float
) -> None:
    maps = maps_of(sheaf, maps_class)
    of_all = residuals(maps, sheaf.heads)
    for i, head in sheaf.heads.items():
        parameter = head.clone().requires_grad_()
        parameter.grad = sheaf.gradients[i].clone()
        torch.optim.SGD([parameter], lr=step_size).step()
        stepped = coupled_step(head, sheaf.gradients[i], maps[i].pull(of_all[i]), step_size=step_size, coupling=0.0)
        assert_allclose(stepped, parameter.detach(), atol=EQUATION)
        maps[i].step(step_size * 0.0 * of_all[i], head)
        assert all(torch.equal(maps[i].dense(j), sheaf.maps[i, j]) for j in maps[i].rows)


@any_maps
@given(sheaf=sheaves(), coupling=COUPLINGS)
@any_case
def test_a_step_size_of_zero_leaves_heads_and_maps_where_they_are(
    maps_class: MapsClass, sheaf: Sheaf, coupling: float
) -> None:
    maps = maps_of(sheaf, maps_class)
    of_all = residuals(maps, sheaf.heads)
    for i, head in sheaf.heads.items():
        stepped = coupled_step(head, sheaf.gradients[i], maps[i].pull(of_all[i]), step_size=0.0, coupling=coupling)
        assert torch.equal(stepped, head)
        own_norm, peer_norms = head.square().sum(), torch.ones(len(maps[i].rows), dtype=torch.float64)
        assert torch.equal(map_step_sizes(0.0, coupling, own_norm, peer_norms), torch.zeros_like(peer_norms))
        maps[i].step(0.0 * of_all[i], head)
        assert all(torch.equal(maps[i].dense(j), sheaf.maps[i, j]) for j in maps[i].rows)


# --- a whole round of heads and maps ----------------------------------------------------------------------------------


@any_maps
def test_heads_and_maps_walk_with_the_reference_over_many_rounds(maps_class: MapsClass) -> None:
    """With one class the cross-entropy is flat, so only the sheaf moves heads and maps."""
    problem = random_problem(
        encoder_step_size=0.0, attention_step_size=0.0, n_classes=1, n_rounds=12, coupling=0.8, map_step_size=0.3
    )
    run, start = run_reference(problem), starting_state(problem)
    graph = Graph(4, tuple(problem.edges))
    sheaf = Sheaf(graph, start.heads, start.maps, {})
    maps, heads = maps_of(sheaf, maps_class), dict(start.heads)
    for state in run.states:
        pulls = {i: maps[i].pull(residual) for i, residual in residuals(maps, heads).items()}
        heads = {
            i: coupled_step(head, torch.zeros_like(head), pulls[i], step_size=0.05, coupling=0.8)
            for i, head in heads.items()
        }
        for i, residual in residuals(maps, heads).copy().items():
            maps[i].step(0.3 * 0.8 * residual, heads[i])
        for i in FOUR_CLIENTS:
            assert_allclose(heads[i], state.heads[i], atol=EQUATION)
            assert all(np.allclose(maps[i].dense(j), state.maps[i, j], rtol=0, atol=EQUATION) for j in maps[i].rows)
    assert (heads[1] - start.heads[1]).norm() > 0.1


# --- how large a head step may be -------------------------------------------------------------------------------------

CURVATURE = 1.3  # L of the quadratic losses f_i = L/2 |w_i - t_i|^2


def objective(sheaf: Sheaf, heads: Mapping[int, Tensor], coupling: float) -> float:
    """Psi: local losses around the drawn targets, and half the coupling times the energy."""
    loss = sum(0.5 * CURVATURE * float((heads[i] - t).square().sum()) for i, t in sheaf.gradients.items())
    return loss + 0.5 * coupling * float(sheaf_energy(sheaf.graph.edges, sheaf.maps, heads))


def stepped_heads(
    sheaf: Sheaf, heads: Mapping[int, Tensor], coupling: float, step_size: float, maps_class: MapsClass
) -> dict[int, Tensor]:
    """One simultaneous (11) of all clients on the quadratic losses."""
    maps = maps_of(sheaf, maps_class)
    of_all = residuals(maps, heads)
    return {
        i: coupled_step(
            head,
            CURVATURE * (head - sheaf.gradients[i]),
            maps[i].pull(of_all[i]),
            step_size=step_size,
            coupling=coupling,
        )
        for i, head in heads.items()
    }


@any_maps
@pytest.mark.parametrize("fraction_of_bound", [0.5, 0.99, 1.01, 1.2])
@given(sheaf=sheaves(min_edges=1), coupling=st.floats(0.01, 3.0))
@any_case
def test_the_objective_rises_just_above_the_head_step_bound_and_falls_just_below(
    maps_class: MapsClass, fraction_of_bound: float, sheaf: Sheaf, coupling: float
) -> None:
    """Along the stiffest direction the excess over the minimum is multiplied by (1 - alpha (L + lambda |L_F|))^2."""
    laplacian = sheaf_laplacian(sheaf.graph.edges, sheaf.maps, sheaf.sizes)
    values, vectors = np.linalg.eigh(laplacian)
    stiffness = CURVATURE + coupling * values[-1]
    hessian = CURVATURE * np.eye(len(values)) + coupling * laplacian
    minimum = np.linalg.solve(hessian, CURVATURE * stacked(sheaf.gradients))
    least = objective(sheaf, unstacked(minimum, sheaf), coupling)
    heads = unstacked(minimum + vectors[:, -1], sheaf)
    step_size = fraction_of_bound * 2.0 / stiffness
    after = stepped_heads(sheaf, heads, coupling, step_size, maps_class)
    excess, excess_after = (objective(sheaf, h, coupling) - least for h in (heads, after))
    assert (excess_after > excess) == (fraction_of_bound > 1.0)
    assert_allclose(excess_after / excess, (1.0 - 2.0 * fraction_of_bound) ** 2, rtol=1e-6, atol=1e-9)


@given(sheaf=sheaves(min_edges=1), coupling=st.floats(0.01, 3.0), fraction=st.floats(0.01, 0.999))
@any_case
def test_below_the_bound_the_objective_falls_by_at_least_what_theory_promises(
    sheaf: Sheaf, coupling: float, fraction: float
) -> None:
    laplacian = sheaf_laplacian(sheaf.graph.edges, sheaf.maps, sheaf.sizes)
    stiffness = CURVATURE + coupling * np.linalg.eigvalsh(laplacian)[-1]
    step_size = fraction * 2.0 / stiffness
    after = stepped_heads(sheaf, sheaf.heads, coupling, step_size, FactoredMaps)
    w, targets = stacked(sheaf.heads), stacked(sheaf.gradients)
    slope = CURVATURE * (w - targets) + coupling * laplacian @ w
    promised = step_size * (1.0 - stiffness * step_size / 2.0) * float(slope @ slope)
    fallen = objective(sheaf, sheaf.heads, coupling) - objective(sheaf, after, coupling)
    assert fallen >= promised - EQUATION * max(1.0, abs(promised))


@given(sheaf=sheaves(min_edges=1))
@any_case
def test_the_norm_of_the_laplacian_is_bounded_by_the_clients_own_maps(sheaf: Sheaf) -> None:
    """What a client can check without knowing the graph: |L_F| <= 2 max_i sum_j |P_ij|^2."""
    norm = float(np.linalg.eigvalsh(sheaf_laplacian(sheaf.graph.edges, sheaf.maps, sheaf.sizes))[-1])
    squares = {ends: float(torch.linalg.matrix_norm(matrix, 2)) ** 2 for ends, matrix in sheaf.maps.items()}
    own = [sum(squares[i, j] for j in sheaf.graph.neighbors(i)) for i in sheaf.heads]
    assert norm <= 2.0 * max(own) * (1.0 + EQUATION)


@given(sheaf=sheaves(min_edges=1), coupling=st.floats(0.5, 3.0))
@any_case
def test_the_papers_bound_on_the_head_step_lets_the_objective_rise(sheaf: Sheaf, coupling: float) -> None:
    """Negative control of the correction: alpha = 0.9 * 2 / L forgets the curvature of the coupling."""
    laplacian = sheaf_laplacian(sheaf.graph.edges, sheaf.maps, sheaf.sizes)
    values, vectors = np.linalg.eigh(laplacian)
    assume(coupling * values[-1] > 0.2 * CURVATURE)
    hessian = CURVATURE * np.eye(len(values)) + coupling * laplacian
    start = np.linalg.solve(hessian, CURVATURE * stacked(sheaf.gradients)) + vectors[:, -1]
    heads = unstacked(start, sheaf)
    after = stepped_heads(sheaf, heads, coupling, 0.9 * 2.0 / CURVATURE, DenseMaps)
    assert objective(sheaf, after, coupling) > objective(sheaf, heads, coupling)

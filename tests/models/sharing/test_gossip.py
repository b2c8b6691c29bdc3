"""Averaging of encoders: mixing weights of any graph, and what the mixing step keeps and shrinks.

Source: Ghalkha et al. 2025, (6), Lemma 1 and Assumptions 1 and 2.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from reference.sheaf_dmfl import is_connected, metropolis_hastings
from reference.sheaves import Graph, any_case, graphs, normal
from sheafedge.models.sharing.gossip import distance_to_mean, metropolis_hastings_weights, mix
from torch import Tensor

EXACT = 1e-12  # sums of at most seven weights
EQUATION = 1e-10


def second_modulus(mixing: NDArray[np.float64]) -> float:
    """|lambda_2|: the second largest modulus of the eigenvalues; 0 for a single client."""
    moduli = np.sort(np.abs(np.linalg.eigvalsh(mixing)))[::-1]
    return float(moduli[1]) if len(moduli) > 1 else 0.0


def mixed_by_all(graph: Graph, values: Tensor, lost: NDArray[np.bool_] | None = None) -> Tensor:
    """Every client's `mix` of the neighbors' rows of `values` [n, n_parameters]; `lost[i, j]`: j's never reached i."""
    mixing = metropolis_hastings_weights(graph.adjacency)
    rows = []
    for i in range(graph.n_nodes):
        heard = [j for j in graph.neighbors(i) if lost is None or not lost[i, j]]
        rows.append(mix(values[i], [(values[j], None) for j in heard], [float(mixing[i, j]) for j in heard]))
    return torch.stack(rows)


# --- the mixing matrix ------------------------------------------------------------------------------------------------


@given(graph=graphs())
@any_case
def test_mixing_weights_are_symmetric_averages_over_neighbors_only(graph: Graph) -> None:
    mixing = metropolis_hastings_weights(graph.adjacency)
    off_graph = ~graph.adjacency & ~np.eye(graph.n_nodes, dtype=bool)
    assert (mixing >= 0.0).all()
    assert (mixing[off_graph] == 0.0).all()
    assert (mixing[graph.adjacency] > 0.0).all()
    assert_allclose(mixing, mixing.T, atol=0.0)
    assert_allclose(mixing.sum(axis=0), 1.0, atol=EXACT)
    assert_allclose(mixing.sum(axis=1), 1.0, atol=EXACT)
    assert (np.diag(mixing) >= 1.0 / (1.0 + graph.adjacency.sum(axis=1)) - EXACT).all()


@given(graph=graphs())
@any_case
def test_mixing_weights_equal_the_formula_edge_by_edge(graph: Graph) -> None:
    assert_allclose(
        metropolis_hastings_weights(graph.adjacency), metropolis_hastings(range(graph.n_nodes), graph.edges), atol=EXACT
    )


@given(graph=graphs())
@any_case
def test_the_larger_degree_of_the_two_ends_counts(graph: Graph) -> None:
    mixing, degrees = metropolis_hastings_weights(graph.adjacency), graph.adjacency.sum(axis=1)
    uneven = {frozenset(edge) for edge in graph.edges if degrees[edge[0]] != degrees[edge[1]]}
    for i, j in map(sorted, uneven):
        assert 1.0 / (1.0 + min(degrees[i], degrees[j])) != mixing[i, j]


@given(graph=st.one_of(graphs(connected=True), graphs()))
@any_case
def test_disagreement_decays_if_and_only_if_the_graph_is_connected(graph: Graph) -> None:
    decays = second_modulus(metropolis_hastings_weights(graph.adjacency)) < 1.0 - EQUATION
    assert decays == is_connected(range(graph.n_nodes), graph.edges)


@pytest.mark.parametrize("n_clients", [1, 2, 3, 8])
def test_a_complete_graph_agrees_in_one_step(n_clients: int) -> None:
    mixing = metropolis_hastings_weights(~np.eye(n_clients, dtype=bool))
    assert_allclose(mixing, np.full((n_clients, n_clients), 1.0 / n_clients), atol=EXACT)


def test_weights_of_a_star_give_each_leaf_a_quarter_of_the_center() -> None:
    star = np.zeros((4, 4), dtype=bool)
    star[0, 1:] = star[1:, 0] = True
    expected = [[0.25, 0.25, 0.25, 0.25], [0.25, 0.75, 0, 0], [0.25, 0, 0.75, 0], [0.25, 0, 0, 0.75]]
    assert_allclose(metropolis_hastings_weights(star), expected, atol=EXACT)


# --- the mixing step --------------------------------------------------------------------------------------------------


@given(graph=graphs(), seed=st.integers(0, 99))
@any_case
def test_mixing_is_the_row_of_the_mixing_matrix_and_leaves_the_own_vector_alone(graph: Graph, seed: int) -> None:
    values = normal(np.random.default_rng(seed), graph.n_nodes, 5)
    kept = values.clone()
    mixing = metropolis_hastings_weights(graph.adjacency)
    assert_allclose(mixed_by_all(graph, values), mixing @ values.numpy(), atol=EXACT)
    assert torch.equal(values, kept)


@given(graph=graphs(), seed=st.integers(0, 99))
@any_case
def test_mixing_keeps_the_average(graph: Graph, seed: int) -> None:
    """Lemma 1: gossip brings clients together without moving their mean, on any graph."""
    values = normal(np.random.default_rng(seed), graph.n_nodes, 5)
    assert_allclose(mixed_by_all(graph, values).mean(dim=0), values.mean(dim=0), atol=EXACT)


@given(graph=graphs(), seed=st.integers(0, 99))
@any_case
def test_mixing_shrinks_disagreement_by_the_second_eigenvalue_or_more(graph: Graph, seed: int) -> None:
    values = normal(np.random.default_rng(seed), graph.n_nodes, 5)
    mixed, mean = mixed_by_all(graph, values), values.mean(dim=0)
    rate = second_modulus(metropolis_hastings_weights(graph.adjacency))
    assert float((mixed - mean).norm()) <= rate * float((values - mean).norm()) + EQUATION


def test_equal_shares_of_the_own_neighborhood_would_move_the_average() -> None:
    """Negative control: on a star 1 / (1 + degree) favors the center, so the test of the average can fail."""
    star = np.zeros((4, 4), dtype=bool)
    star[0, 1:] = star[1:, 0] = True
    closed = star | np.eye(4, dtype=bool)
    equal_shares = closed / closed.sum(axis=1, keepdims=True)
    values = np.array([1.0, 0.0, 0.0, 0.0])
    assert abs((equal_shares @ values).mean() - values.mean()) > 0.1


# --- lost messages ----------------------------------------------------------------------------------------------------


@given(graph=graphs(), seed=st.integers(0, 99))
@any_case
def test_a_lost_neighbor_leaves_its_weight_with_the_client_itself(graph: Graph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lost = rng.random((graph.n_nodes, graph.n_nodes)) < 0.5
    values = normal(rng, graph.n_nodes, 4)
    mixing = metropolis_hastings_weights(graph.adjacency)
    mixing[lost & graph.adjacency] = 0.0
    np.fill_diagonal(mixing, 0.0)
    np.fill_diagonal(mixing, 1.0 - mixing.sum(axis=1))
    assert_allclose(mixed_by_all(graph, values, lost), mixing @ values.numpy(), atol=EXACT)


@given(
    n_parameters=st.integers(1, 6),
    whole=st.lists(st.booleans(), max_size=4),
    seed=st.integers(0, 99),
)
@any_case
def test_lost_coordinates_are_mixed_one_by_one(n_parameters: int, whole: list[bool], seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, vectors = normal(rng, n_parameters), [normal(rng, n_parameters) for _ in whole]
    masks = [None if complete else torch.from_numpy(rng.random(n_parameters) < 0.5) for complete in whole]
    weights = [1.0 / (1.0 + len(whole))] * len(whole)
    mixed = mix(own, list(zip(vectors, masks, strict=True)), weights)
    for place in range(n_parameters):
        heard = [
            (float(vector[place]), weight)
            for vector, mask, weight in zip(vectors, masks, weights, strict=True)
            if mask is None or bool(mask[place])
        ]
        rest = 1.0 - sum(weight for _, weight in heard)
        expected = rest * float(own[place]) + sum(value * weight for value, weight in heard)
        assert_allclose(float(mixed[place]), expected, atol=EXACT)


def test_hearing_nobody_changes_nothing() -> None:
    own = normal(np.random.default_rng(1), 6)
    nothing = torch.zeros(6, dtype=torch.bool)
    assert torch.equal(mix(own, [], []), own)
    assert torch.equal(mix(own, [(own + 1.0, nothing)], [0.5]), own)


def test_the_mean_of_a_coordinate_is_over_the_vectors_that_it_came_with() -> None:
    own = torch.tensor([1.0, 0.0, 5.0])
    first = torch.tensor([5.0, 8.0, math.nan]), torch.tensor([True, True, False])
    second = torch.tensor([3.0, math.nan, math.nan]), torch.tensor([True, False, False])
    # 1 beside the mean of 5 and 3, 0 beside 8, and nothing beside 5
    assert distance_to_mean(own, [first, second]) == pytest.approx(math.hypot(3.0, 8.0))

"""Norms that the step-size limits need, against dense eigenvalues; `test_descent` tests the limits themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from doubles.random_maps import random_starts
from hypothesis import given
from hypothesis import strategies as st
from reference.sheaf_dmfl import sheaf_laplacian
from reference.sheaves import Graph, Sheaf, any_case, graphs, sheaves
from sheafedge.models.head import HeadLayout
from sheafedge.models.sheaf import stability
from sheafedge.models.sheaf.equations import structured_starts
from sheafedge.models.sheaf.hadamard_map import drawn_hadamard_map
from sheafedge.models.sheaf.map_starts import MapStart
from sheafedge.models.sheaf.restriction_maps import DenseMaps, FactoredMaps
from sheafedge.models.sheaf.stability import (
    largest_eigenvalue,
    map_norm_sq,
    map_step_limit,
    sheaf_laplacian_bound,
    sheaf_laplacian_limit,
    sheaf_laplacian_norm,
    step_limit,
)
from torch import Tensor

ASKED = 1e-8  # of the estimate, relative
EXACT = 1e-6  # where so much was asked
Starts = dict[int, dict[int, Tensor]]


def dense_norm(graph: Graph, maps: dict[tuple[int, int], Tensor], sizes: dict[int, int]) -> float:
    return float(np.linalg.eigvalsh(sheaf_laplacian(graph.edges, maps, sizes))[-1])


def by_client(graph: Graph, maps: dict[tuple[int, int], Tensor]) -> Starts:
    return {i: {j: maps[i, j] for j in graph.neighbors(i)} for i in range(graph.n_nodes)}


@given(sheaf=sheaves())
@any_case
def test_the_norm_of_any_sheaf_laplacian_is_its_largest_dense_eigenvalue(sheaf: Sheaf) -> None:
    found = sheaf_laplacian_norm(by_client(sheaf.graph, sheaf.maps), sheaf.sizes, tolerance=ASKED)
    assert found == pytest.approx(dense_norm(sheaf.graph, sheaf.maps, sheaf.sizes), rel=EXACT)


@pytest.mark.parametrize("start", [structured_starts, random_starts])
@pytest.mark.parametrize("compression", [0.2, 1.0])
@given(graph=graphs(min_nodes=2, max_nodes=6, connected=True), seed=st.integers(0, 99))
@any_case
def test_maps_as_scenarios_start_them_need_not_be_built(
    start: object, compression: float, graph: Graph, seed: int
) -> None:
    layouts = [HeadLayout(3, (("rf", 3),) if i % 2 else (("rf", 3), ("gps", 2))) for i in range(graph.n_nodes)]
    sizes, draws = {i: layout.dim for i, layout in enumerate(layouts)}, np.random.default_rng(seed)
    starts: dict[tuple[int, int], Tensor] = {}
    for i, j in graph.edges:
        starts[i, j], starts[j, i] = start(layouts[i], layouts[j], compression, draws)  # type: ignore[operator]
    maps = {(i, j): FactoredMaps({j: rows}, sizes[i], dtype=torch.float64).dense(j) for (i, j), rows in starts.items()}
    found = sheaf_laplacian_norm(by_client(graph, starts), sizes, tolerance=ASKED)
    assert found == pytest.approx(dense_norm(graph, maps, sizes), rel=EXACT)
    assert found <= sheaf_laplacian_bound(by_client(graph, starts)) * (1.0 + EXACT)


@given(sheaf=sheaves())
@any_case
def test_the_bound_lies_above_the_norm_of_any_sheaf_laplacian(sheaf: Sheaf) -> None:
    bound = sheaf_laplacian_bound(by_client(sheaf.graph, sheaf.maps))
    assert dense_norm(sheaf.graph, sheaf.maps, sheaf.sizes) <= bound * (1.0 + EXACT)


def test_the_bound_is_met_where_neighbors_disagree_and_counts_rows_that_are_there_twice() -> None:
    """An edge on which both ends see everything has |L_F| = 2 = 2 max degree, so that no smaller factor would do."""
    rows = torch.arange(3)
    pair = {0: {1: rows}, 1: {0: rows}}
    assert sheaf_laplacian_bound(pair) == pytest.approx(sheaf_laplacian_norm(pair, {0: 3, 1: 3}), rel=EXACT) == 2.0
    twice = {0: {1: torch.tensor([0, 0])}, 1: {0: torch.tensor([1, 1])}}
    assert sheaf_laplacian_bound(twice) == pytest.approx(sheaf_laplacian_norm(twice, {0: 3, 1: 3}), rel=EXACT) == 4.0
    assert sheaf_laplacian_bound({0: {}, 1: {}}) == 0.0


@given(sheaf=sheaves(min_edges=1), tolerance=st.sampled_from([0.5, 0.1, 1e-2, 1e-3]))
@any_case
def test_a_rough_estimate_lies_above_and_no_further_than_asked(sheaf: Sheaf, tolerance: float) -> None:
    true = dense_norm(sheaf.graph, sheaf.maps, sheaf.sizes)
    found = sheaf_laplacian_norm(by_client(sheaf.graph, sheaf.maps), sheaf.sizes, tolerance=tolerance)
    assert true * (1.0 - ASKED) <= found <= true * (1.0 + tolerance)


def test_a_few_plain_power_iterations_lie_below() -> None:
    """The negative control of the test above: a Rayleigh quotient alone is a lower bound."""
    matrix = torch.diag(torch.linspace(0.5, 1.0, 50, dtype=torch.float64))
    vector = torch.ones(50, dtype=torch.float64)
    for _ in range(5):
        vector = matrix @ vector / (matrix @ vector).norm()
    assert float(vector @ matrix @ vector) < 0.97
    assert largest_eigenvalue(lambda x: matrix @ x, 50, tolerance=1e-2) >= 1.0 - ASKED


def test_who_gives_up_early_still_estimates_from_above() -> None:
    matrix = torch.diag(torch.linspace(0.5, 1.0, 500, dtype=torch.float64))
    found = [largest_eigenvalue(lambda x: matrix @ x, 500, tolerance=0.0, most_products=n) for n in (5, 10, 20)]
    assert min(found) >= 1.0
    assert max(found) < 1.02


@pytest.mark.parametrize("maps_class", [DenseMaps, FactoredMaps])
@given(sheaf=sheaves(min_edges=1))
@any_case
def test_the_norm_of_a_clients_maps_is_their_largest_singular_value_squared(
    maps_class: type[DenseMaps] | type[FactoredMaps], sheaf: Sheaf
) -> None:
    for i, head in sheaf.heads.items():
        own = {j: sheaf.maps[i, j] for j in sheaf.graph.neighbors(i)}
        maps = maps_class(own, len(head), dtype=torch.float64) if own else DenseMaps({}, len(head))
        expected = float(np.linalg.norm(torch.cat(list(own.values())).numpy(), 2)) ** 2 if own else 0.0
        assert map_norm_sq(maps, head, tolerance=ASKED) == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("sizes", [(300, 300, 300, 300), (100, 100, 100, 400)])
def test_the_limit_of_large_models_is_found_from_one_client_and_lies_above_the_norm(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows as long as Gaussian ones: in the second case the largest client has the norm, and the others the rows."""
    edges, dims = [(0, 1), (0, 2), (0, 3), (1, 2)], dict(enumerate(sizes))
    starts: dict[int, dict[int, MapStart]] = {i: {} for i in dims}
    for i, j in edges:
        starts[i][j], starts[j][i] = (
            drawn_hadamard_map(dims[at], 40, np.random.default_rng([i, j, at]), length=dims[at] ** 0.5) for at in (i, j)
        )
    exact = sheaf_laplacian_limit(starts, dims)
    assert exact == sheaf_laplacian_norm(starts, dims)
    monkeypatch.setattr(stability, "MOST_COORDINATES", sum(sizes) - 1)
    found = sheaf_laplacian_limit(starts, dims)
    assert exact <= found <= 2.0 * exact
    assert found < 0.8 * sheaf_laplacian_bound(starts) or sizes[0] != sizes[-1]


def test_operators_without_finite_numbers_have_no_finite_norm() -> None:
    assert largest_eigenvalue(lambda x: x * math.nan, 4, tolerance=ASKED) == math.inf


def test_without_edges_or_without_maps_there_is_nothing_to_limit() -> None:
    assert sheaf_laplacian_norm({0: {}, 1: {}}, {0: 3, 1: 4}) == 0.0
    zero = torch.zeros(2, 3, dtype=torch.float64)
    assert sheaf_laplacian_norm({0: {1: zero}, 1: {0: zero}}, {0: 3, 1: 3}) == 0.0
    assert step_limit(0.0, 0.5, 0.0) == map_step_limit(0.0, 4.0) == math.inf
    assert step_limit(1.5, 0.5, 1.0) == 1.0
    assert map_step_limit(0.5, 4.0) == 1.0

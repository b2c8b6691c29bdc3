"""The sheaf of a server against the definition, and against the sheaf among peers; what diffusion does and leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from numpy.testing import assert_allclose
from reference.sheaves import Graph, any_case, graphs
from sheafedge.models.hyper.client_diffusion import (
    ClientDiffusion,
    SheafLayer,
    dirichlet_energy,
    normalized_product,
    sheaf_product,
)
from sheafedge.models.hyper_settings import HyperSettings
from sheafedge.models.sheaf.stability import sheaf_laplacian_norm
from torch import Tensor

EQUATION = 1e-10  # float64, numbers of order 1 to 100
SETTINGS = HyperSettings(stalk_dim=2, channels=3, sheaf_layers=3, dropout=0.0)


def ends_of(graph: Graph) -> Tensor:
    return torch.tensor(graph.edges, dtype=torch.int64).reshape(-1, 2).T


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng([seed, *shape]).normal(size=shape))


def dense(graph: Graph, maps: Tensor, *, normalized: bool) -> Tensor:
    """[N d, N d] matrix of a product, column by column."""
    n, d = graph.n_nodes, maps.shape[-1]
    product = normalized_product if normalized else sheaf_product
    basis = torch.eye(n * d, dtype=torch.float64).reshape(n * d, n, d, 1)
    return torch.stack([product(one, ends_of(graph), maps).reshape(-1) for one in basis], dim=1)


@any_case
@given(graph=graphs())
def test_the_product_is_that_of_the_coboundary_with_its_transpose(graph: Graph) -> None:
    d, n_edges = 2, len(graph.edges)
    maps = normal(2, n_edges, d)
    delta = torch.zeros(n_edges * d, graph.n_nodes * d, dtype=torch.float64)
    for e, (i, j) in enumerate(graph.edges):
        delta[e * d : (e + 1) * d, i * d : (i + 1) * d] = torch.diag(maps[0, e])
        delta[e * d : (e + 1) * d, j * d : (j + 1) * d] = -torch.diag(maps[1, e])
    matrix = dense(graph, maps, normalized=False)
    assert_allclose(matrix, delta.T @ delta, atol=EQUATION)
    degrees = torch.diagonal(delta.T @ delta)
    scale = torch.diag((degrees + 1.0) ** -0.5)
    assert_allclose(dense(graph, maps, normalized=True), scale @ delta.T @ delta @ scale, atol=EQUATION)


@any_case
@given(graph=graphs())
def test_normalized_eigenvalues_lie_between_0_and_2_and_sections_are_flat(graph: Graph) -> None:
    maps = 3.0 * normal(2, len(graph.edges), 2)
    eigenvalues = torch.linalg.eigvalsh(dense(graph, maps, normalized=True))
    assert eigenvalues.min() > -EQUATION
    assert eigenvalues.max() < 2.0
    ones = torch.ones(graph.n_nodes, 2, 1, dtype=torch.float64)
    alike = torch.ones(2, len(graph.edges), 2, dtype=torch.float64)
    assert float(sheaf_product(ones, ends_of(graph), alike).abs().max()) < EQUATION


@any_case
@given(graph=graphs())
def test_identity_maps_are_the_laplacian_of_the_graph_and_a_sign_makes_it_signed(graph: Graph) -> None:
    adjacency = torch.from_numpy(graph.adjacency.astype(np.float64))
    degrees = torch.diag(adjacency.sum(dim=1))
    ones = torch.ones(2, len(graph.edges), 2, dtype=torch.float64)
    identity = torch.eye(2, dtype=torch.float64)
    assert_allclose(dense(graph, ones, normalized=False), torch.kron(degrees - adjacency, identity), atol=EQUATION)
    ones[1] = -1.0
    assert_allclose(dense(graph, ones, normalized=False), torch.kron(degrees + adjacency, identity), atol=EQUATION)


@any_case
@given(graph=graphs())
def test_which_end_comes_first_and_the_order_of_edges_mean_nothing(graph: Graph) -> None:
    ends, maps, features = ends_of(graph), normal(2, len(graph.edges), 2), normal(graph.n_nodes, 2, 3)
    order = torch.arange(len(graph.edges) - 1, -1, -1)
    one = normalized_product(features, ends, maps)
    other = normalized_product(features, ends.flip(0)[:, order], maps.flip(0)[:, order])
    assert_allclose(one, other, atol=EQUATION)


@any_case
@given(graph=graphs())
def test_the_sheaf_among_peers_with_the_same_maps_has_the_same_laplacian(graph: Graph) -> None:
    """One equation for both: the largest eigenvalue that peers estimate is that of the server's matrix."""
    assume(graph.edges)
    maps = normal(2, len(graph.edges), 2)
    starts: dict[int, dict[int, Any]] = {}
    for e, (i, j) in enumerate(graph.edges):
        starts.setdefault(i, {})[j] = torch.diag(maps[0, e])
        starts.setdefault(j, {})[i] = torch.diag(maps[1, e])
    dims = dict.fromkeys(range(graph.n_nodes), 2)
    largest = float(torch.linalg.eigvalsh(dense(graph, maps, normalized=False)).max())
    assert sheaf_laplacian_norm(starts, dims, tolerance=1e-9) == pytest.approx(largest, rel=1e-6)


def test_energy_is_0_for_clients_that_agree_and_grows_where_they_do_not() -> None:
    ends = torch.tensor([[0], [1]])
    maps, one = torch.ones(2, 1, 1, dtype=torch.float64), torch.ones(2, 1, 1, dtype=torch.float64)
    assert float(dirichlet_energy(one, ends, maps)) == 0.0
    apart = torch.tensor([1.0, -1.0], dtype=torch.float64).reshape(2, 1, 1)
    assert float(dirichlet_energy(apart, ends, maps)) == pytest.approx(1.0)  # 4 / (1 + 1) over 2
    assert float(dirichlet_energy(0.0 * one, ends, maps)) == 0.0


# --- the networks -----------------------------------------------------------------------------------------------------

RING = Graph(4, ((0, 1), (1, 2), (2, 3), (0, 3)))


def network(settings: HyperSettings) -> ClientDiffusion:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return ClientDiffusion(5, settings, torch.Generator().manual_seed(1)).double()


def test_a_map_is_the_hyperbolic_tangent_of_both_ends_features_own_first() -> None:
    layer, features, ends = network(SETTINGS).layers[0], normal(4, 2, 3), ends_of(RING)
    assert isinstance(layer, SheafLayer)
    assert layer.maps is not None
    found = layer.restriction_maps(features, ends)
    for e, (i, j) in enumerate(RING.edges):
        for end, (own, other) in enumerate(((i, j), (j, i))):
            both = torch.cat([features[own].reshape(-1), features[other].reshape(-1)])
            assert_allclose(found[end, e].detach(), torch.tanh(layer.maps.weight @ both).detach(), atol=EQUATION)


def test_without_mixing_or_edges_layers_of_a_sheaf_change_nothing() -> None:
    embeddings, ends = normal(4, 5), ends_of(RING)
    net, idle = network(SETTINGS), network(replace(SETTINGS, maps="none"))
    assert len(idle.layers) == 0
    idle.load_state_dict({name: values for name, values in net.state_dict().items() if "layers" not in name})
    with torch.no_grad():
        untouched = idle(embeddings, ends)
        assert_allclose(net(embeddings, ends[:, :0]), untouched, atol=EQUATION)
        assert not torch.allclose(net(embeddings, ends), untouched, atol=1e-3)
        for layer in net.layers:
            assert isinstance(layer, SheafLayer)
            layer.left.zero_()
            layer.right.zero_()
        assert_allclose(net(embeddings, ends), untouched, atol=EQUATION)


@pytest.mark.parametrize("diffusion", ["sheaf", "gcn", "gat"])
def test_another_order_of_clients_gives_the_same_in_that_order(diffusion: Any) -> None:
    net = network(replace(SETTINGS, diffusion=diffusion))
    embeddings, order = normal(4, 5), torch.tensor([2, 0, 3, 1])
    place = torch.argsort(order)  # client i is at place[i]
    with torch.no_grad():
        one = net(embeddings, ends_of(RING))
        assert_allclose(net(embeddings[order], place[ends_of(RING)]), one[order], atol=EQUATION)
        apart = net(embeddings, torch.tensor([[0], [1]]))
    assert not torch.allclose(one, apart, atol=1e-3)  # edges count


def test_a_graph_convolution_is_the_printed_one() -> None:
    net = network(replace(SETTINGS, diffusion="gcn", sheaf_layers=1))
    features, (layer,) = normal(4, 2, 3), net.layers
    augmented = torch.from_numpy(RING.adjacency.astype(np.float64)) + torch.eye(4, dtype=torch.float64)
    scale = torch.diag(augmented.sum(dim=1) ** -0.5)
    mixed = scale @ augmented @ scale @ features.reshape(4, 6)
    weight: Any = layer.weight
    expected = torch.nn.functional.elu(mixed @ weight.weight.T + weight.bias)
    assert_allclose(layer(features, ends_of(RING)).reshape(4, 6).detach(), expected.detach(), atol=EQUATION)


def test_attention_on_a_graph_looks_at_neighbors_and_at_itself_alone() -> None:
    net = network(replace(SETTINGS, diffusion="gat", sheaf_layers=1))
    (layer,), features = net.layers, normal(4, 2, 3)
    path = torch.tensor([[0, 1], [1, 2]])
    with torch.no_grad():
        before = layer(features, path)
        features[3] += 1.0
        assert torch.equal(layer(features, path)[:3], before[:3])  # nobody is linked with client 3
        features[2] += 1.0
        after = layer(features, path)
    assert torch.equal(after[0], before[0])
    assert not torch.allclose(after[1], before[1])

"""Graph convolutions equal their equation on dense matrices, and hold nothing of the graph that could be shared."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.graph_convolution import (
    GraphConvolutions,
    LocalGraph,
    NodeFeatures,
    normalized_adjacency,
)
from sheafedge.models.flat import FlatModule
from sheafedge.models.training.training_rows import RowsInMemory
from torch import Tensor, nn

EXACT = 1e-10


def graph_of(seed: int, n: int = 12, n_features: int = 5) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    upper = np.triu(draws.random((n, n)) < 0.3, 1)
    return draws.normal(size=(n, n_features)).astype(np.float32), np.array(np.nonzero(upper | upper.T))


def encoder_of(seed: int, dropout: float = 0.0, **sizes: int) -> GraphConvolutions:
    features, edges = graph_of(seed, **sizes)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return GraphConvolutions(LocalGraph(features, edges), 7, 3, dropout, torch.Generator().manual_seed(seed))


def dense_adjacency(edges: np.ndarray, n: int) -> Tensor:
    whole = torch.eye(n, dtype=torch.float64)
    whole[edges[0], edges[1]] = 1.0
    root = torch.diag(whole.sum(dim=1) ** -0.5)
    return root @ whole @ root


@given(seed=st.integers(0, 500), n=st.integers(1, 20))
def test_the_normalized_adjacency_is_that_of_the_equation(seed: int, n: int) -> None:
    _, edges = graph_of(seed, n)
    found = normalized_adjacency(torch.from_numpy(edges), n).to_dense()
    assert torch.allclose(found, dense_adjacency(edges, n), atol=EXACT, rtol=0.0)


@given(seed=st.integers(0, 500))
def test_embeddings_and_gradients_are_those_of_dense_matrices(seed: int) -> None:
    features, edges = graph_of(seed)
    encoder = encoder_of(seed).double()
    adjacency, x = dense_adjacency(edges, 12), torch.from_numpy(features).double()
    first, second = encoder.first, encoder.second
    hidden = torch.relu(adjacency @ x @ first.weight.T + first.bias)
    expected = adjacency @ hidden @ second.weight.T + second.bias
    assert torch.allclose(encoder.node_embeddings(), expected, atol=EXACT, rtol=0.0)
    nodes = torch.tensor([[4.0], [0.0], [11.0], [4.0]], dtype=torch.float64)
    by_hand = torch.autograd.grad(torch.relu(expected)[[4, 0, 11, 4]].pow(2).sum(), list(encoder.parameters()))
    found = torch.autograd.grad(encoder(nodes).pow(2).sum(), list(encoder.parameters()))
    for one, other in zip(found, by_hand, strict=True):
        assert torch.allclose(one, other, atol=EXACT, rtol=0.0)


def test_the_encoder_of_cora_has_the_printed_number_of_parameters() -> None:
    """Source: Liang et al. 2025; P = 128 F + 128 + 128^2 + 128."""
    graph = LocalGraph(np.zeros((2, 1433), np.float32), np.array([[0, 1], [1, 0]]))
    encoder = GraphConvolutions(graph, 128, 128, 0.5, torch.Generator())
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 200_064
    assert len(FlatModule(encoder).vector) == 200_064


def test_nothing_of_the_graph_is_a_parameter_or_a_buffer_and_copies_share_it() -> None:
    encoder = encoder_of(0)
    assert list(encoder.buffers()) == []
    assert [name for name, _ in encoder.named_parameters()] == [
        "first.weight",
        "first.bias",
        "second.weight",
        "second.bias",
    ]
    assert copy.deepcopy(encoder).graph is encoder.graph


def test_dropout_draws_from_the_clients_own_stream_and_never_in_evaluation() -> None:
    nodes = torch.arange(12.0)[:, None]
    one, same = encoder_of(3, 0.5), encoder_of(3, 0.5)
    first = one(nodes)
    torch.default_generator.manual_seed(0)
    assert torch.equal(first, same(nodes))
    assert not torch.equal(first, one(nodes))
    one.eval()
    assert torch.equal(one(nodes), one(nodes))
    assert torch.equal(one(nodes)[[5, 2]], one(nodes[[5, 2]]))


def test_a_step_costs_one_pass_of_all_nodes_whatever_the_number_of_rows() -> None:
    encoder = encoder_of(0)
    model = ClientModel({"graph": nn.Identity()}, {"graph": encoder}, fusion="mean", embedding_dim=3, n_outputs=2)
    row = RowsInMemory({"graph": np.zeros((1, 1), dtype=np.float32)}, np.zeros(1, dtype=np.int64))
    assert model.step_flops(row, 9) == model.step_flops(row, 1)
    # every layer is a product of all nodes; the head of one row is the only part that counts rows
    assert model.step_flops(row, 1) >= 3 * 2 * 12 * (5 * 7 + 7 * 3)


def test_features_are_scaled_and_clipped_when_the_graph_is_made() -> None:
    scaled = NodeFeatures(np.array([1.0]), np.array([2.0])).scaled(np.array([[3.0], [101.0]], np.float32))
    assert scaled.tolist() == [[1.0], [3.0]]


@pytest.mark.gpu
def test_a_gpu_computes_the_same() -> None:
    encoder, nodes = encoder_of(1), torch.arange(12.0)[:, None]
    expected = encoder(nodes)
    assert torch.allclose(encoder.cuda()(nodes.cuda()).cpu(), expected, atol=1e-5)

"""The graph of clients: who is near whom, and that numbers of clients mean nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference.fedsheafhn import nearest
from reference.sheaves import any_case
from sheafedge.models.hyper.client_graph import all_pairs, nearest_neighbors
from torch import Tensor


def pairs(ends: Tensor) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in ends.T]


def drawn(n: int, width: int, seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, width)))


@any_case
@given(n=st.integers(1, 8), width=st.integers(2, 5), k=st.integers(1, 9), seed=st.integers(0, 99))
def test_edges_are_those_of_the_definition(n: int, width: int, k: int, seed: int) -> None:
    embeddings = drawn(n, width, seed)
    found = pairs(nearest_neighbors(embeddings, torch.ones(n, dtype=torch.bool), k))
    assert found == nearest({i: embeddings[i] for i in range(n)}, k)
    assert all(i < j for i, j in found)
    degrees = np.bincount(np.array(found, dtype=np.int64).ravel(), minlength=n)
    assert (degrees >= min(k, n - 1)).all()


@any_case
@given(n=st.integers(2, 8), seed=st.integers(0, 99))
def test_another_order_of_clients_is_the_same_graph(n: int, seed: int) -> None:
    embeddings, everybody = drawn(n, 3, seed), torch.ones(n, dtype=torch.bool)
    order = np.random.default_rng(seed).permutation(n)
    moved = pairs(nearest_neighbors(embeddings[order], everybody, 2))
    back = sorted((min(order[i], order[j]), max(order[i], order[j])) for i, j in moved)
    assert back == pairs(nearest_neighbors(embeddings, everybody, 2))


def test_of_equal_clients_the_lower_numbers_are_nearer() -> None:
    everybody = torch.ones(5, dtype=torch.bool)
    assert pairs(nearest_neighbors(torch.ones(5, 37) / 3.0, everybody, 1)) == [(0, 1), (0, 2), (0, 3), (0, 4)]


def test_only_directions_count_and_an_embedding_without_one_is_far_from_all() -> None:
    embeddings = torch.tensor([[1.0, 0.0], [100.0, 1.0], [0.1, 0.1], [0.0, 0.0]])
    everybody = torch.ones(4, dtype=torch.bool)
    assert pairs(nearest_neighbors(embeddings, everybody, 1)) == [(0, 1), (0, 3), (1, 2)]


def test_clients_that_are_not_known_have_no_edges() -> None:
    known = torch.tensor([True, False, True, True])
    assert pairs(nearest_neighbors(drawn(4, 3, 0), known, 5)) == [(0, 2), (0, 3), (2, 3)] == pairs(all_pairs(known))


@pytest.mark.parametrize("n_known", [0, 1])
def test_nobody_has_an_edge_alone(n_known: int) -> None:
    known = torch.arange(3) < n_known
    assert nearest_neighbors(drawn(3, 2, 0), known, 5).shape == all_pairs(known).shape == (2, 0)

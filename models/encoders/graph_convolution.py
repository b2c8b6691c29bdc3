"""Graph convolutions over the part of a graph that one client has: every pass computes all of its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from .dropout import SeededDropout
from .row_scale import ScaledColumns


class LocalGraph:
    """Edges and scaled features of one client's part of a graph. They never leave it: not even as buffers of a module.

    `FlatModule` shares floating buffers, and checkpoints and exported models hold them; this is a plain attribute.

    Args:
        features: [n_nodes, n_features] scaled.
        edges: [2, n_edges] in both directions, without loops.
    """

    def __init__(self, features: NDArray[np.float32], edges: NDArray[np.int64]) -> None:
        self.n_nodes, self.n_features = features.shape
        adjacency = normalized_adjacency(torch.from_numpy(edges), self.n_nodes)
        # the first layer reads neighbors' features, which never change
        gathered = torch.sparse.mm(adjacency, torch.from_numpy(features).double())
        self._known = {(torch.device("cpu"), torch.float64): (adjacency, gathered)}

    def like(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Sparse A_hat [n, n], and A_hat X [n, n_features], on the device and of the type of a tensor."""
        key = tensor.device, tensor.dtype
        if key not in self._known:
            adjacency, gathered = self._known[torch.device("cpu"), torch.float64]
            self._known[key] = adjacency.to(*key), gathered.to(*key)
        return self._known[key]

    def __deepcopy__(self, memo: dict[int, Any]) -> LocalGraph:
        """The same object: it does not change, and copies of a model are of one client."""
        return self


def normalized_adjacency(edges: Tensor, n_nodes: int) -> Tensor:
    """Sparse A_hat = D^-1/2 (A + I) D^-1/2 [n, n] float64, D the degrees of A + I.

    Source: T. Kipf, M. Welling, "Semi-supervised classification with graph convolutional networks", 2017, (9).
    """
    loops = torch.arange(n_nodes).expand(2, -1)
    pairs = torch.cat([edges, loops], dim=1)
    root = torch.bincount(pairs[0], minlength=n_nodes).double().rsqrt()
    if not torch.sparse.check_sparse_tensor_invariants.is_enabled():  # type: ignore[no-untyped-call]
        # the default, chosen aloud: torch 2.11 warns of the first sparse tensor where nobody chose
        torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
    return torch.sparse_coo_tensor(
        pairs, root[pairs[0]] * root[pairs[1]], (n_nodes, n_nodes), check_invariants=True
    ).coalesce()


class NodeFeatures(nn.Module):
    """Normalizer of nodes: their numbers pass as they are, and their features are scaled when the graph is made.

    Args:
        mean, std: [n_features].
    """

    def __init__(self, mean: NDArray[np.float64], std: NDArray[np.float64]) -> None:
        super().__init__()
        self.scale = ScaledColumns(mean, std)

    def scaled(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """[n_nodes, n_features] scaled and clipped."""
        scaled: NDArray[np.float32] = self.scale(torch.from_numpy(features)).numpy()
        return scaled

    def forward(self, nodes: Tensor) -> Tensor:
        return nodes


class GraphConvolutions(nn.Module):
    """Two graph convolutions, `A_hat X W1 + b1`, ReLU, dropout, `A_hat (.) W2 + b2`; behind them ReLU and dropout.

    What the last convolution gives is the embedding of a node; what the head reads has passed ReLU and dropout.

    Args:
        graph: of the client.
        hidden_dim, embedding_dim: outputs of the two layers.
        dropout: share that is dropped behind both.
        draws: random stream of the dropouts.

    Attributes:
        passes_all: a pass costs as much for one node as for all.
        graph: as given; no parameter, and no buffer.
        embedding_dim: as given.

    Source: T. Kipf, M. Welling, "Semi-supervised classification with graph convolutional networks", 2017.
    """

    passes_all = True

    def __init__(
        self, graph: LocalGraph, hidden_dim: int, embedding_dim: int, dropout: float, draws: torch.Generator
    ) -> None:
        super().__init__()
        self.graph, self.embedding_dim = graph, embedding_dim
        self.first = nn.Linear(graph.n_features, hidden_dim)
        self.second = nn.Linear(hidden_dim, embedding_dim)
        for layer in (self.first, self.second):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.dropout = SeededDropout(dropout, draws)

    def forward(self, nodes: Tensor) -> Tensor:
        """Numbers of nodes [batch, 1] -> what the head reads [batch, embedding_dim]."""
        chosen = self.node_embeddings()[nodes.flatten().round().long()]
        behind: Tensor = self.dropout(functional.relu(chosen))
        return behind

    def node_embeddings(self) -> Tensor:
        """[n_nodes, embedding_dim] of all nodes."""
        adjacency, gathered = self.graph.like(self.first.weight)
        hidden = self.dropout(functional.relu(self.first(gathered)))
        embeddings: Tensor = (
            torch.sparse.mm(adjacency, functional.linear(hidden, self.second.weight)) + self.second.bias
        )
        return embeddings

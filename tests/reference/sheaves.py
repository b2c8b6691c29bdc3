"""Hypothesis strategies: graphs of any shape and sheaves of any size on them, in float64.

Sizes and edges are drawn by hypothesis, so that a failure shrinks to a small graph; numbers come from a seeded
generator, because property tests about linear maps gain nothing from special values except zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from reference.sheaf_dmfl import Edge
from torch import Tensor

any_case = settings(deadline=None, max_examples=40, derandomize=True)
"""No wall time, and the same cases on every machine."""


@dataclass(frozen=True)
class Graph:
    """Undirected graph on nodes 0 to n_nodes - 1; each edge once, in a drawn orientation."""

    n_nodes: int
    edges: tuple[Edge, ...]

    @property
    def adjacency(self) -> NDArray[np.bool_]:
        """[n_nodes, n_nodes] symmetric."""
        matrix = np.zeros((self.n_nodes, self.n_nodes), dtype=bool)
        for i, j in self.edges:
            matrix[i, j] = matrix[j, i] = True
        return matrix

    def neighbors(self, node: int) -> list[int]:
        """Ascending, without the node itself."""
        return [int(j) for j in np.flatnonzero(self.adjacency[node])]


@dataclass(frozen=True)
class Sheaf:
    """A graph with a head on every node and two maps on every edge.

    Attributes:
        heads: [node] -> [d_i].
        maps: [(i, j)] -> P_ij [d_ij, d_i], both directions of every edge.
        gradients: [node] -> [d_i], of some local loss.
    """

    graph: Graph
    heads: dict[int, Tensor]
    maps: dict[Edge, Tensor]
    gradients: dict[int, Tensor]

    @property
    def sizes(self) -> dict[int, int]:
        """d_i of every node."""
        return {i: len(head) for i, head in self.heads.items()}


@st.composite
def graphs(draw: Any, *, min_nodes: int = 1, max_nodes: int = 7, connected: bool = False) -> Graph:
    """Any simple graph, isolated nodes included; with `connected`, a random tree and more edges."""
    n_nodes = draw(st.integers(min_nodes, max_nodes))
    tree = {(draw(st.integers(0, i - 1)), i) for i in range(1, n_nodes)} if connected else set()
    pairs = sorted(set(combinations(range(n_nodes), 2)) - tree)
    more = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    ordered = sorted(tree | more)
    turned = draw(st.lists(st.booleans(), min_size=len(ordered), max_size=len(ordered)))
    return Graph(n_nodes, tuple((j, i) if turn else (i, j) for (i, j), turn in zip(ordered, turned, strict=True)))


@st.composite
def sheaves(draw: Any, *, min_nodes: int = 1, max_nodes: int = 5, min_edges: int = 0, max_dim: int = 6) -> Sheaf:
    """Any graph, head sizes that differ by node, edge stalks of any size from 1."""
    graph = draw(graphs(min_nodes=min_nodes, max_nodes=max_nodes).filter(lambda g: len(g.edges) >= min_edges))
    sizes = [draw(st.integers(1, max_dim)) for _ in range(graph.n_nodes)]
    stalks = [draw(st.integers(1, max_dim)) for _ in graph.edges]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    maps = {}
    for (i, j), stalk in zip(graph.edges, stalks, strict=True):
        maps[i, j], maps[j, i] = normal(rng, stalk, sizes[i]), normal(rng, stalk, sizes[j])
    heads = {i: normal(rng, size) for i, size in enumerate(sizes)}
    gradients = {i: normal(rng, size) for i, size in enumerate(sizes)}
    return Sheaf(graph, heads, maps, gradients)


def normal(rng: np.random.Generator, *shape: int) -> Tensor:
    """Standard normal float64 tensor."""
    return torch.from_numpy(rng.normal(size=shape))

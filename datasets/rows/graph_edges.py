"""Edges of graphs as pairs of node numbers [2, n_edges]: every edge in both directions, none twice, no loops."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Edges = NDArray[np.int64]
Nodes = NDArray[np.int64]

#: Of label propagation: share that comes from neighbors, and times.
_FROM_NEIGHBORS, _TIMES_PROPAGATED = 0.9, 50


def symmetric_edges(edges: Edges) -> Edges:
    """[2, n] the same edges in both directions, sorted, each once, without loops.

    >>> symmetric_edges(np.array([[0, 1, 2, 2], [1, 0, 2, 0]])).tolist()
    [[0, 0, 1, 2], [1, 2, 0, 0]]
    """
    both = np.concatenate([edges, edges[::-1]], axis=1)
    return np.unique(both[:, both[0] != both[1]], axis=1)


def within(edges: Edges, nodes: Nodes) -> Edges:
    """[2, n] edges whose ends are both among these nodes, in numbers that count into them.

    Args:
        edges: of the whole graph.
        nodes: [m] ascending.
    """
    if len(nodes) == 0:
        return np.zeros((2, 0), dtype=np.int64)
    at = np.minimum(np.searchsorted(nodes, edges), len(nodes) - 1)
    return at[:, (nodes[at] == edges).all(axis=0)]


def neighbor_lists(n_nodes: int, edges: Edges) -> list[Nodes]:
    """Neighbors of every node, ascending."""
    ends = edges[1][np.lexsort((edges[1], edges[0]))]
    return np.split(ends, np.cumsum(np.bincount(edges[0], minlength=n_nodes))[:-1])


def largest_component(n_nodes: int, edges: Edges) -> Nodes:
    """[m] nodes of the largest connected component, ascending; of equal ones that with the lowest node."""
    neighbors, of_node = neighbor_lists(n_nodes, edges), np.full(n_nodes, -1)
    n_components = 0
    for first in range(n_nodes):
        if of_node[first] >= 0:
            continue
        of_node[first], waiting = n_components, deque([first])
        while waiting:
            for neighbor in neighbors[waiting.popleft()]:
                if of_node[neighbor] < 0:
                    of_node[neighbor] = n_components
                    waiting.append(int(neighbor))
        n_components += 1
    return np.flatnonzero(of_node == np.bincount(of_node).argmax())


def propagated_labels(
    edges: Edges, n_nodes: int, known: Nodes, classes: NDArray[np.int64], n_classes: int
) -> NDArray[np.float64]:
    """[n_nodes, n_classes] how much of every class has come to a node along the edges, from those whose class is known.

    Args:
        edges: [2, n_edges] in both directions.
        n_nodes: number of nodes.
        known: [n_known] nodes whose class is known.
        classes: [n_known] their classes.
        n_classes: number of classes.

    Source: D. Zhou et al., "Learning with local and global consistency", 2004, with the usual share of 0.9 from
    neighbors; where nothing arrives, it is the most frequent class.
    """
    start = np.zeros((n_nodes, n_classes))
    start[known, classes] = 1.0
    start += 1e-9 * np.bincount(classes, minlength=n_classes)
    degree = np.maximum(np.bincount(edges[0], minlength=n_nodes), 1)
    weight = (1.0 / np.sqrt(degree[edges[0]] * degree[edges[1]]))[:, None]
    found = start.copy()
    for _ in range(_TIMES_PROPAGATED):
        arrived = np.zeros_like(start)
        np.add.at(arrived, edges[0], weight * found[edges[1]])
        found = _FROM_NEIGHBORS * arrived + (1.0 - _FROM_NEIGHBORS) * start
    return found


@dataclass(frozen=True, eq=False)
class GraphPart:
    """The part of a graph that one client has: its nodes, and the edges between them. Others are not known to it.

    Attributes:
        nodes: [m] their numbers in the whole graph, ascending.
        x: [n_all, n_features] features of the whole graph, of which those of the nodes are used.
        edges: [2, n_edges] in numbers that count into the nodes, both directions, without loops.
    """

    nodes: Nodes
    x: NDArray[Any]
    edges: Edges

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """[m, n_features] of the nodes."""
        return np.ascontiguousarray(self.x[self.nodes], dtype=np.float32)

    def places(self, nodes: Nodes) -> Nodes:
        """Numbers among the nodes of this part, of nodes of the whole graph that are among them."""
        return np.searchsorted(self.nodes, nodes)

    def __len__(self) -> int:
        return len(self.nodes)


def graph_part(nodes: Nodes, x: NDArray[Any], edges: Edges) -> GraphPart:
    """Part of a graph with these nodes; edges to other nodes are dropped.

    Args:
        nodes: [m] in any order, each once.
        x: [n_all, n_features] features of the whole graph.
        edges: [2, n] of the whole graph.
    """
    ascending = np.sort(nodes)
    return GraphPart(ascending, x, within(edges, ascending))

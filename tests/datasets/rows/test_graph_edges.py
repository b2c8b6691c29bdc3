"""Edges of graphs: both directions once, parts that know nothing of other parts, classes that spread."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.datasets.rows.graph_edges import (
    graph_part,
    largest_component,
    propagated_labels,
    symmetric_edges,
    within,
)


def edges_of(graph: nx.Graph) -> np.ndarray:
    return symmetric_edges(np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2).T)


@given(seed=st.integers(0, 1000), n=st.integers(2, 30))
def test_the_largest_component_is_that_of_networkx(seed: int, n: int) -> None:
    graph = nx.gnp_random_graph(n, 1.2 / n, seed=seed)
    found = largest_component(n, edges_of(graph))
    sizes = [len(one) for one in nx.connected_components(graph)]
    assert len(found) == max(sizes)
    assert nx.is_connected(graph.subgraph(found.tolist()))


@given(seed=st.integers(0, 1000))
def test_a_part_has_the_edges_between_its_nodes_and_no_others(seed: int) -> None:
    graph = nx.gnp_random_graph(20, 0.2, seed=seed)
    nodes = np.random.default_rng(seed).permutation(20)[:8]
    part = graph_part(nodes, np.arange(40.0).reshape(20, 2), edges_of(graph))
    back = {(int(a), int(b)) for a, b in part.nodes[part.edges].T}
    kept = graph.subgraph(nodes.tolist())
    assert back == {pair for a, b in kept.edges for pair in ((a, b), (b, a))}
    assert (part.features[:, 0] == 2 * part.nodes).all()
    assert (part.nodes[part.places(nodes)] == nodes).all()


def test_a_part_of_no_nodes_has_no_edges() -> None:
    assert within(np.array([[0, 1], [1, 0]]), np.zeros(0, dtype=np.int64)).shape == (2, 0)


def test_classes_spread_along_edges_and_the_most_frequent_one_where_nothing_arrives() -> None:
    edges = edges_of(nx.Graph([(0, 1), (1, 2), (3, 4)]))
    shares = propagated_labels(edges, 6, np.array([0, 3]), np.array([1, 0]), 2)
    assert shares.argmax(axis=1)[:5].tolist() == [1, 1, 1, 0, 0]
    most = propagated_labels(edges, 6, np.array([0, 3, 4]), np.array([1, 0, 0]), 2)
    assert most[5].argmax() == 0

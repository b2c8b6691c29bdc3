"""Parts of a graph: disjoint and covering, of one size, and with nodes that are in one part of the data everywhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.datasets.rows.citation_rows import cora_rows
from sheafedge.datasets.rows.federated_rows import RowRequest
from sheafedge.datasets.rows.graph_edges import graph_part, symmetric_edges
from sheafedge.datasets.rows.graph_partition import (
    breadth_first_partition,
    metis_is_installed,
    node_parts,
    overlapping_partition,
    partition,
)
from sheafedge.emulator.contracts import ConfigError

#: The printed averages are of another release of METIS, with other draws.
AS_PRINTED = 0.05


def grid(side: int) -> np.ndarray:
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side))
    return symmetric_edges(np.array(list(graph.edges)).T)


@given(seed=st.integers(0, 200), n_parts=st.integers(1, 9))
def test_breadth_first_parts_cover_all_nodes_once(seed: int, n_parts: int) -> None:
    draws = np.random.default_rng(seed)
    edges = symmetric_edges(draws.integers(0, 40, (2, 30)))  # several components, and nodes without edges
    parts = breadth_first_partition(40, edges, n_parts, draws)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(40))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_breadth_first_parts_keep_neighbors_together() -> None:
    edges, draws = grid(12), np.random.default_rng(0)
    kept, at_random = (
        sum(graph_part(part, np.zeros((144, 1)), edges).edges.shape[1] for part in parts)
        for parts in (breadth_first_partition(144, edges, 4, draws), np.array_split(draws.permutation(144), 4))
    )
    assert kept > 2 * at_random


def test_without_metis_the_graph_is_cut_breadth_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert not metis_is_installed()
    parts = partition(144, grid(12), 4, np.random.default_rng(0))
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(144))


def test_overlapping_parts_are_halves_of_a_fifth_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    parts = overlapping_partition(144, grid(12), 10, np.random.default_rng(0))
    assert [len(part) for part in parts] == [36] * 10
    first, second = ({int(node) for part in five for node in part} for five in (parts[:5], parts[5:]))
    assert not first & second
    assert len(first) > 60
    with pytest.raises(ConfigError, match=r"must be a multiple of 5 with data.owners = 'metis_overlap'"):
        overlapping_partition(144, grid(12), 12, np.random.default_rng(0))


@pytest.mark.parametrize(("n_parts", "nodes", "edges"), [(10, 249, 891), (20, 124, 422)])
def test_parts_of_cora_are_as_large_as_printed(
    n_parts: int, nodes: int, edges: int, data_folder: Callable[[str], Path]
) -> None:
    """Source: Liang et al. 2025, table of data statistics, Cora."""
    pytest.importorskip("pymetis")
    rows = cora_rows(RowRequest(data_folder("cora"), classes=True))
    assert rows.edges is not None
    found = partition(len(rows), rows.edges, n_parts, np.random.default_rng(0))
    parts = [graph_part(one, rows.x, rows.edges) for one in found]
    assert round(np.mean([len(part) for part in parts]), 0) == pytest.approx(nodes, abs=1)
    assert np.mean([part.edges.shape[1] for part in parts]) == pytest.approx(edges, rel=AS_PRINTED)


def test_overlapping_parts_of_cora_are_as_large_as_printed(data_folder: Callable[[str], Path]) -> None:
    pytest.importorskip("pymetis")
    rows = cora_rows(RowRequest(data_folder("cora"), classes=True))
    assert rows.edges is not None
    found = overlapping_partition(len(rows), rows.edges, 30, np.random.default_rng(0))
    parts = [graph_part(one, rows.x, rows.edges) for one in found]
    assert np.mean([len(part) for part in parts]) == pytest.approx(207, rel=AS_PRINTED)
    assert np.mean([part.edges.shape[1] for part in parts]) == pytest.approx(379, rel=AS_PRINTED)


def test_every_node_is_in_one_part_of_the_data() -> None:
    parts = node_parts(1000, (0.4, 0.3, 0.3), np.random.default_rng(1))
    assert [int((parts == name).sum()) for name in ("train", "validation", "test")] == [400, 300, 300]
    assert not np.array_equal(parts, node_parts(1000, (0.4, 0.3, 0.3), np.random.default_rng(2)))

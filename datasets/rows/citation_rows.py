"""Cora: scientific papers as nodes, their words as features, citations as edges, their field as the class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import quoted, read_regular, reason, shown
from .federated_rows import FederatedRows, RowRequest
from .graph_edges import largest_component, symmetric_edges, within
from .stored_objects import stored_objects

#: In the order of the columns, found by the sizes of the classes: 351, 217, 418, 818, 426, 298 and 180 papers.
CLASSES = (
    "theory",
    "reinforcement learning",
    "genetic algorithms",
    "neural networks",
    "probabilistic methods",
    "case based",
    "rule learning",
)
_MOST_INDEX_BYTES = 1 << 20


def cora_rows(request: RowRequest) -> FederatedRows:
    """The largest connected component of Cora: 2,485 nodes with 1,433 words each and 10,138 edges, both directions.

    The parts that the files mark are not taken: they train on 140 nodes of the whole graph, and are of no use where it
    is cut.

    Args:
        request: its root is the folder with the files `ind.cora.*`.

    Raises:
        DataError: a file is missing, or not as published.

    Source: Z. Yang, W. Cohen, R. Salakhutdinov, "Revisiting semi-supervised learning with graph embeddings", 2016
    (Planetoid), whose files these are.
    """
    assert request.root is not None, "a rule of the scenario"
    root = request.root
    stored = {name: stored_objects(root / f"ind.cora.{name}") for name in ("allx", "ally", "tx", "ty", "graph")}
    order = _test_order(root / "ind.cora.test.index")
    x, y = (_joined(root, stored, f"all{one}", f"t{one}", order) for one in "xy")
    if y.shape != (len(x), len(CLASSES)) or not (y.sum(axis=1) == 1).all():
        raise DataError(f"{shown(root)} holds labels {list(y.shape)} that are not one of {len(CLASSES)} classes each")
    edges = symmetric_edges(_cited(root, stored["graph"], len(x)))
    kept = largest_component(len(x), edges)
    return FederatedRows("cora", x[kept], y[kept].argmax(axis=1).astype(np.int64), CLASSES, edges=within(edges, kept))


def _test_order(path: Path) -> NDArray[np.int64]:
    """[n_test] node of every test row, in the order of the rows."""
    try:
        return np.array([int(line) for line in read_regular(path, _MOST_INDEX_BYTES).split()], dtype=np.int64)
    except (OSError, ValueError, OverflowError) as error:
        raise DataError(f"{shown(path)} cannot be read as numbers of nodes ({reason(error)}); fetch it again") from None


def _joined(root: Path, stored: dict[str, Any], first: str, second: str, order: NDArray[np.int64]) -> NDArray[Any]:
    """Rows of both files, with those of the second put to their nodes."""
    parts = [stored[name] for name in (first, second)]
    for name, part in zip((first, second), parts, strict=True):
        if not isinstance(part, np.ndarray) or part.ndim != 2 or not np.isfinite(part).all():
            raise DataError(f"{shown(root / f'ind.cora.{name}')} holds no table of finite numbers; fetch it again")
    before, after = parts
    n = len(before) + len(after)
    nodes = np.sort(order)
    if before.shape[1] != after.shape[1] or not np.array_equal(nodes, np.arange(len(before), n)):
        raise DataError(f"{shown(root)}: the files of {first} and {second} do not belong together; fetch them again")
    rows = np.concatenate([before, after])
    rows[order] = after
    return rows


def _cited(root: Path, graph: Any, n_nodes: int) -> NDArray[np.int64]:
    """[2, n] every citation of the list of neighbors of every node."""
    where = shown(root / "ind.cora.graph")
    if not isinstance(graph, dict) or not all(isinstance(listed, list) for listed in graph.values()):
        raise DataError(f"{where} holds no list of neighbors for every node; fetch it again")
    pairs = [(node, neighbor) for node, listed in graph.items() for neighbor in listed]
    strange = next((one for pair in pairs for one in pair if type(one) is not int or not 0 <= one < n_nodes), None)
    if strange is not None or not pairs:
        raise DataError(f"{where} names the node {quoted(strange)}, but there are {n_nodes} nodes; fetch it again")
    return np.array(pairs, dtype=np.int64).T

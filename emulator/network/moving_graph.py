"""Who is whose neighbor while nodes move: those that are in range of each other, share a modality, and are both on."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from ..contracts import NodeId
from ..faults.fault_plan import FaultPlan


class MovingGraph:
    """The communication graph of any instant.

    Args:
        reachable: all edges that there can ever be.
        distances_m: instant -> [n, n] between the nodes, in the order of their numbers.
        range_m: how far a node reaches.
        faults: when nodes are off.
    """

    def __init__(
        self,
        reachable: nx.Graph[NodeId],
        distances_m: Callable[[float], NDArray[np.float64]],
        range_m: float,
        faults: FaultPlan,
    ) -> None:
        self._reachable, self._distances_m, self._range_m, self._faults = reachable, distances_m, range_m, faults
        self._rank = {node: rank for rank, node in enumerate(sorted(reachable))}

    def at(self, now_s: float) -> nx.Graph[NodeId]:
        """Over all nodes; those that are off, or alone, have no edges."""
        near = self._distances_m(now_s) <= self._range_m
        on = {node for node in self._reachable if not self._faults.is_off(node, now_s)}
        graph: nx.Graph[NodeId] = nx.Graph()
        graph.add_nodes_from(sorted(self._reachable))
        graph.add_edges_from(
            (a, b) for a, b in self._reachable.edges if a in on and b in on and near[self._rank[a], self._rank[b]]
        )
        return graph

"""Communication graphs: edges join only clients that share a modality, and every modality is connected."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from ..contracts import MODALITIES, Modality, NodeId, TopologyError
from ..faults.fault_plan import FaultPlan
from .edge_generators import (
    DRAWN_KINDS,
    KINDS_APART,
    MAX_TRIES,
    REMEDIES,
    TOPOLOGIES,
    Edges,
    Ownership,
    TopologyOptions,
    listed_clients,
)


def build_topology(
    kind: str,
    modalities_of: Ownership,
    draws: np.random.Generator,
    options: TopologyOptions = TopologyOptions(),  # noqa: B008 - frozen
) -> nx.Graph[NodeId]:
    """The communication graph of a run, the same for the same draws.

    Kinds that draw are drawn again, up to `MAX_TRIES` times, until every modality is connected.

    Args:
        kind: a key of `TOPOLOGIES`.
        modalities_of: client -> modalities that it senses; the keys are the nodes.
        draws: the topology's own random stream.
        options: options of the kinds.

    Raises:
        TopologyError: unknown kind, impossible option, unreadable edge list, or a modality whose owners cannot all
            reach one another.

    >>> owners = {client: frozenset({"rf"}) for client in range(4)}
    >>> sorted(build_topology("ring", owners, np.random.default_rng(0)).edges)
    [(0, 1), (0, 3), (1, 2), (2, 3)]
    """
    if kind not in TOPOLOGIES:
        raise TopologyError(f"unknown topology.kind {kind!r}; known: {', '.join(sorted(TOPOLOGIES))}")
    _check_owners(modalities_of)
    tries = MAX_TRIES if kind in DRAWN_KINDS else 1
    for _ in range(tries):
        graph = _masked(modalities_of, TOPOLOGIES[kind](modalities_of, draws, options))
        if kind in KINDS_APART or _first_split(graph, modalities_of) is None:
            return graph
    # Never connected: this raises, and names the modality and its pieces.
    check_connected(graph, modalities_of, remedy=REMEDIES[kind])
    return graph


def check_connected(
    graph: nx.Graph[NodeId], modalities_of: Ownership, *, remedy: str = "add an edge between them"
) -> None:
    """Make sure that every modality's owners can reach one another over owners; a lone owner can.

    Raises:
        TopologyError: names the first modality in pieces, the pieces, and the remedy.
    """
    modality = _first_split(graph, modalities_of)
    if modality is None:
        return
    pieces = sorted(nx.connected_components(modality_subgraph(graph, modalities_of, modality)), key=min)
    shown = ", ".join(listed_clients(piece) for piece in pieces[1:3]) + (", ..." if len(pieces) > 3 else "")
    raise TopologyError(
        f"modality {modality!r}: clients {listed_clients(pieces[0])} cannot reach {shown}"
        f" ({len(pieces)} pieces) over clients that own it; {remedy}, or change topology.kind"
    )


def modality_subgraph(graph: nx.Graph[NodeId], modalities_of: Ownership, modality: Modality) -> nx.Graph[NodeId]:
    """The graph among the owners of one modality, where its encoders are averaged."""
    return graph.subgraph([client for client in graph if modality in modalities_of[client]])


class MovingGraph:
    """Communication graph of moving nodes at any instant.

    Args:
        reachable: graph with all edges that there can ever be.
        distances_m: simulated instant -> [n, n] distances between the nodes, ordered by id.
        range_m: largest distance between neighbors.
        faults: plan with the times at which nodes are off.
    """

    def __init__(
        self,
        reachable: nx.Graph[NodeId],
        distances_m: Callable[[float], NDArray[np.float64]],
        range_m: float,
        faults: FaultPlan,
    ) -> None:
        self._reachable, self._distances_m, self._range_m, self._faults = reachable, distances_m, range_m, faults
        # Distances come by rank among the sorted ids, which need not be 0 to n - 1.
        self._rank = {node: rank for rank, node in enumerate(sorted(reachable))}

    def at(self, now_s: float) -> nx.Graph[NodeId]:
        """Graph over all nodes at this instant; those that are off or out of range have no edges."""
        near = self._distances_m(now_s) <= self._range_m
        on = {node for node in self._reachable if not self._faults.is_off(node, now_s)}
        graph: nx.Graph[NodeId] = nx.Graph()
        graph.add_nodes_from(sorted(self._reachable))
        graph.add_edges_from(
            (a, b) for a, b in self._reachable.edges if a in on and b in on and near[self._rank[a], self._rank[b]]
        )
        return graph


def _masked(modalities_of: Ownership, edges: Edges) -> nx.Graph[NodeId]:
    """Graph over all clients with those edges whose ends share a modality."""
    graph: nx.Graph[NodeId] = nx.Graph()
    graph.add_nodes_from(sorted(modalities_of))
    graph.add_edges_from((first, second) for first, second in edges if modalities_of[first] & modalities_of[second])
    return graph


def _first_split(graph: nx.Graph[NodeId], modalities_of: Ownership) -> Modality | None:
    """The first modality whose owners are not all connected."""
    for modality in MODALITIES:
        owners = modality_subgraph(graph, modalities_of, modality)
        if len(owners) > 1 and not nx.is_connected(owners):
            return modality
    return None


def _check_owners(modalities_of: Ownership) -> None:
    if not modalities_of:
        raise TopologyError("there are no clients to connect; set clients.n_clients to at least 1")
    for client, owned in modalities_of.items():
        if not owned:
            raise TopologyError(f"client {client} owns no modality; give its group at least one of clients.groups")

"""Mixing weights of neighbors in the averages of encoders, heads and models: Metropolis-Hastings, each on its graph.

Where clients move (`[mobility]`), neighbors and weights change from round to round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Modality, NodeId
from ...emulator.faults.fault_plan import FaultPlan
from ...emulator.network.topology import MovingGraph, modality_subgraph
from ...emulator.random_streams import named_stream
from ...emulator.world.wandering import Wanderer, distances_m
from ...models.settings import SheafSettings
from ...models.sharing.gossip import edge_weight
from ..schema.neighborhood import members_by_group, sheaf_edges
from ..schema.network_section import MobilitySection
from .client import Client


def all_weights(
    clients: tuple[Client, ...],
    personal: tuple[Modality, ...],
    sheaf: SheafSettings,
    graph: nx.Graph[NodeId],
    links: nx.Graph[NodeId] | None = None,
) -> dict[NodeId, MixingWeights]:
    """Mixing weights of the neighbors of every client.

    Args:
        clients: clients of the run.
        personal: modalities whose encoders are not shared.
        sheaf: settings that say along which edges heads are compared.
        graph: along which encoders and heads are shared.
        links: the same, or with more edges inside groups, along which whole models are.
    """
    encoders = mixing_weights(clients, graph, personal=personal)
    whole, group = neighbor_weights(graph), group_weights(clients, graph if links is None else links)
    compared = sheaf_edges(graph, sheaf, [client.modalities for client in clients])
    of_sheaf = whole if compared is graph else neighbor_weights(compared)
    return {node: MixingWeights(encoders[node], whole[node], of_sheaf[node], group[node]) for node in sorted(graph)}


def mixing_weights(
    clients: tuple[Client, ...], graph: nx.Graph[NodeId], *, personal: tuple[Modality, ...] = ()
) -> dict[NodeId, dict[Modality, dict[NodeId, float]]]:
    """Metropolis-Hastings weights of every client towards its neighbors, in every modality's own subgraph.

    Personal modalities have none: nothing of theirs is sent or averaged.
    """
    modalities_of = {client.client_id: frozenset(client.modalities) for client in clients}
    weights: dict[NodeId, dict[Modality, dict[NodeId, float]]] = {client.client_id: {} for client in clients}
    for modality in {m for owned in modalities_of.values() for m in owned}.difference(personal):
        for node, of_node in neighbor_weights(modality_subgraph(graph, modalities_of, modality)).items():
            weights[node][modality] = of_node
    return weights


def neighbor_weights(graph: nx.Graph[NodeId]) -> dict[NodeId, dict[NodeId, float]]:
    """Metropolis-Hastings weights of every node towards its neighbors."""
    # edge by edge: a matrix of 10,000 nodes would take 0.8 GB
    degree = dict(graph.degree)
    return {
        node: {peer: edge_weight(degree[node], degree[peer]) for peer in sorted(graph[node])} for node in sorted(graph)
    }


def group_weights(clients: tuple[Client, ...], graph: nx.Graph[NodeId]) -> dict[NodeId, dict[NodeId, float]]:
    """Metropolis-Hastings weights inside every group's own subgraph, which need not be connected."""
    weights: dict[NodeId, dict[NodeId, float]] = {}
    for members in members_by_group([client.group for client in clients]).values():
        weights |= neighbor_weights(graph.subgraph(members))
    return weights


class RoundWeights(Mapping[NodeId, float]):
    """Mixing weights towards all clients that can ever be neighbors: those of this round, 0 for the others."""

    def __init__(self, reachable: Iterable[NodeId]) -> None:
        self._weights = dict.fromkeys(sorted(reachable), 0.0)

    def __getitem__(self, neighbor: NodeId) -> float:
        return self._weights[neighbor]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def set_round(self, weights: Mapping[NodeId, float]) -> None:
        """Replace the weights by those of the round that begins."""
        self._weights = {neighbor: weights.get(neighbor, 0.0) for neighbor in self._weights}


class MixingWeights(NamedTuple):
    """Mixing weights of the neighbors of one client, in every average that it may take part in.

    Attributes:
        encoders: modality -> neighbor -> weight of (6).
        everything: neighbor -> weight over the whole graph.
        sheaf: neighbor -> weight along the edges of the sheaf.
        group: neighbor of the same group -> weight inside the group.
    """

    encoders: Mapping[Modality, Mapping[NodeId, float]]
    everything: Mapping[NodeId, float]
    sheaf: Mapping[NodeId, float]
    group: Mapping[NodeId, float]


#: Graph -> weights of every client along it.
Weigh = Callable[["nx.Graph[NodeId]"], dict[NodeId, MixingWeights]]


class MovingNeighbors:
    """Neighbors of every client in the round that begins, and their mixing weights.

    Args:
        graph: graph at any instant.
        weigh: function from a graph to the weights along it.
        reachable: graph of all edges that can ever exist.

    Attributes:
        weights: client -> weights of its present round; learners read them when they mix.
    """

    def __init__(self, graph: MovingGraph, weigh: Weigh, reachable: nx.Graph[NodeId]) -> None:
        self._graph, self._weigh = graph, weigh
        self._now_s, self._graph_now = -math.inf, reachable
        self._weights_now = weigh(reachable)
        self._of_rounds = {client: _of_rounds(weights) for client, weights in self._weights_now.items()}
        self.weights = {client: MixingWeights(*of_rounds) for client, of_rounds in self._of_rounds.items()}

    def begin_round(self, client: NodeId, now_s: float) -> frozenset[NodeId]:
        """Neighbors of a client in the round that it begins at this instant; its weights change, so it must not be
        mixing.
        """
        # clients in step begin a round at one instant: the graph is computed once for all of them
        if now_s != self._now_s:
            self._now_s, self._graph_now = now_s, self._graph.at(now_s)
            self._weights_now = self._weigh(self._graph_now)
        mine, now = self._of_rounds[client], self._weights_now[client]
        for modality, weights in mine.encoders.items():
            weights.set_round(now.encoders[modality])
        mine.everything.set_round(now.everything)
        mine.sheaf.set_round(now.sheaf)
        mine.group.set_round(now.group)
        return frozenset(self._graph_now[client])


class _OfRounds(NamedTuple):
    """Mixing weights of one client that change from round to round."""

    encoders: Mapping[Modality, RoundWeights]
    everything: RoundWeights
    sheaf: RoundWeights
    group: RoundWeights


def _of_rounds(reachable: MixingWeights) -> _OfRounds:
    encoders = {modality: RoundWeights(neighbors) for modality, neighbors in reachable.encoders.items()}
    whole = (RoundWeights(neighbors) for neighbors in (reachable.everything, reachable.sheaf, reachable.group))
    return _OfRounds(encoders, *whole)


def moving_neighbors(
    mobility: MobilitySection, seed: int, reachable: nx.Graph[NodeId], faults: FaultPlan, weigh: Weigh
) -> MovingNeighbors:
    """Neighbors and weights of clients that move, each with a random stream of its own."""
    wanderers = [
        Wanderer(
            named_stream(seed, "mobility", client),
            mobility.area_m,
            mobility.speed_m_per_s,
            mobility.memory_s,
            mobility.step_s,
        )
        for client in sorted(reachable)
    ]

    def distances(now_s: float) -> NDArray[np.float64]:
        return distances_m([wanderer.at(now_s) for wanderer in wanderers])

    return MovingNeighbors(MovingGraph(reachable, distances, mobility.range_m, faults), weigh, reachable)

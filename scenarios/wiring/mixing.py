"""Mixing weights of neighbors in the averages of encoders, heads and models: Metropolis-Hastings, each on its graph."""

from __future__ import annotations

import networkx as nx
import numpy as np

from ...emulator.contracts import Modality, NodeId
from ...emulator.network.topology import modality_subgraph
from ...models.sharing.gossip import metropolis_hastings_weights
from ..schema.neighborhood import members_by_group
from .client import Client
from .mobility import MixingWeights


def all_weights(
    clients: tuple[Client, ...],
    personal: tuple[Modality, ...],
    graph: nx.Graph[NodeId],
    links: nx.Graph[NodeId] | None = None,
) -> dict[NodeId, MixingWeights]:
    """Mixing weights of the neighbors of every client.

    Args:
        clients: of the run.
        personal: modalities whose encoders are not shared.
        graph: along which encoders and heads are shared.
        links: the same, or with more edges inside groups, along which whole models are.
    """
    encoders = mixing_weights(clients, graph, personal=personal)
    whole, group = neighbor_weights(graph), group_weights(clients, graph if links is None else links)
    return {node: MixingWeights(encoders[node], whole[node], group[node]) for node in sorted(graph)}


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
    nodes = sorted(graph)
    row = {node: index for index, node in enumerate(nodes)}
    weights = metropolis_hastings_weights(nx.to_numpy_array(graph, nodes, dtype=np.bool_, weight=None))
    return {node: {peer: float(weights[row[node], row[peer]]) for peer in sorted(graph[node])} for node in nodes}


def group_weights(clients: tuple[Client, ...], graph: nx.Graph[NodeId]) -> dict[NodeId, dict[NodeId, float]]:
    """Metropolis-Hastings weights inside every group's own subgraph, which need not be connected."""
    weights: dict[NodeId, dict[NodeId, float]] = {}
    for members in members_by_group([client.group for client in clients]).values():
        weights |= neighbor_weights(graph.subgraph(members))
    return weights

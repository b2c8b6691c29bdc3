"""Initial restriction maps of all edges, each from a random stream of its own, and what they cost and come to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import networkx as nx

from ...emulator.contracts import ConfigError, NodeId
from ...emulator.random_streams import named_stream
from ...models.head import HeadLayout
from ...models.model_layout import Layout, model_layout
from ...models.settings import SheafSettings
from ...models.sheaf.drawn_maps import dense_bytes, drawn_starts, entry_variance
from ...models.sheaf.equations import (
    aligned_starts,
    kronecker_starts,
    resampled_starts,
    stalk_dim,
    structured_starts,
)
from ...models.sheaf.map_starts import MapStart
from .client import Client

GB = 1e9


class EdgeMaps:
    """Maker of initial maps; equal arguments give equal maps.

    Args:
        sheaf: settings with the form of the maps.
        seed: root seed of the run.
        clients: of the run.
        whole_models: whether whole models are mapped, and not heads.
    """

    def __init__(self, sheaf: SheafSettings, seed: int, clients: Sequence[Client], *, whole_models: bool) -> None:
        self._sheaf, self._seed, self._clients = sheaf, seed, clients
        self._layouts: dict[NodeId, Layout] = {
            client.client_id: model_layout(model) if whole_models else model.layout
            for client in clients
            if (model := client.models.get("fused")) is not None  # unimodal models have no maps
        }

    def of_graph(
        self, graph: nx.Graph[NodeId], only: Collection[NodeId] | None = None
    ) -> dict[NodeId, dict[NodeId, MapStart]]:
        """Client -> neighbor -> initial map [d_ij, d_i], at both ends of every edge.

        Args:
            graph: whose edges have maps.
            only: clients whose maps are needed; None: all.
        """
        starts: dict[NodeId, dict[NodeId, MapStart]] = {client.client_id: {} for client in self._clients}
        for a, b in graph.edges:
            if only is None or a in only or b in only:
                starts[a][b], starts[b][a] = self.of_edge(a, b)
        return starts

    def of_edge(self, one: NodeId, other: NodeId, round_index: int = 0) -> tuple[MapStart, MapStart]:
        """Maps of both ends of an edge, drawn from a random stream of the edge, and of the round after the first."""
        # one order of ends, so that both clients of an edge draw the same maps
        if one > other:
            second, first = self.of_edge(other, one, round_index)
            return first, second
        sheaf = self._sheaf
        # the first round keeps the name without a round: maps that are never redrawn start the same
        later = (round_index,) if round_index else ()
        draws = named_stream(self._seed, "restriction_maps", one, other, *later)
        own, peer = self._layouts[one], self._layouts[other]
        if sheaf.map_storage == "kronecker":
            return kronecker_starts(*self._heads(one, other), sheaf.compression, draws)
        outputs = self._clients[one].outputs, self._clients[other].outputs
        if sheaf.map_start == "aligned":
            return aligned_starts(own, peer, *outputs, sheaf.compression, draws)
        if sheaf.map_start == "learned":
            return resampled_starts(*self._heads(one, other), *outputs)
        if sheaf.map_start == "structured":
            return structured_starts(own, peer, sheaf.compression, draws)
        return drawn_starts(sheaf, own, peer, draws)

    def _heads(self, one: NodeId, other: NodeId) -> tuple[HeadLayout, HeadLayout]:
        return self._clients[one].models["fused"].layout, self._clients[other].models["fused"].layout

    def redrawn(self, client: NodeId, neighbors: Sequence[NodeId]) -> Callable[[int], Mapping[NodeId, MapStart]]:
        """Function from a round to the a client's maps in it; the other ends draw the same, so nothing is sent."""

        def of_round(round_index: int) -> Mapping[NodeId, MapStart]:
            return {peer: self.of_edge(client, peer, round_index)[0] for peer in neighbors}

        return of_round

    def check_memory(self, graph: nx.Graph[NodeId], most_gb: float) -> None:
        """Refuse dense maps that are too large, before any is drawn.

        Raises:
            ConfigError: with their size and the remedy.
        """
        held_gb = sum(dense_bytes(self._sheaf, self._layouts[a], self._layouts[b]) for a, b in graph.edges) / GB
        if held_gb > most_gb:
            raise ConfigError(
                f"sheaf.map_start = {self._sheaf.map_start!r} would hold {held_gb:.3g} GB of maps, and"
                f" compute.map_memory_gb is {most_gb:g}; use 'hadamard' (orthonormal rows, a few bytes"
                " per coordinate), lower sheaf.compression, or raise the limit"
            )

    def equivalent_decay(self, graph: nx.Graph[NodeId]) -> dict[NodeId, float]:
        """Client -> weight decay that its coupling comes to in expectation, where maps of both ends are drawn apart.

        Strength: coupling * sum of the edge dimensions * variance of the entries. Empty for maps that are no such.
        """
        decay: dict[NodeId, float] = {}
        for client, own in self._layouts.items():
            variance = entry_variance(self._sheaf, own.dim)
            if variance is None:
                return {}
            rows = sum(stalk_dim(self._sheaf.compression, own, self._layouts[peer]) for peer in graph[client])
            decay[client] = self._sheaf.coupling * rows * variance
        return decay

"""Initial restriction maps of a run, or of a round that draws them anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import networkx as nx
from torch import Tensor

from ...emulator.contracts import NodeId
from ...emulator.random_streams import named_stream
from ...models.settings import SheafSettings
from ...models.sheaf.equations import aligned_starts, kronecker_starts, random_starts, structured_starts
from .client import Client

MAP_STARTS = {"structured": structured_starts, "random": random_starts}  # "aligned" needs the outputs as well


def map_starts(
    sheaf: SheafSettings, seed: int, clients: tuple[Client, ...], graph: nx.Graph[NodeId]
) -> dict[NodeId, dict[NodeId, Tensor]]:
    """Client -> neighbor -> initial restriction map [d_ij, d_i], at both ends of every edge."""
    starts: dict[NodeId, dict[NodeId, Tensor]] = {client.client_id: {} for client in clients}
    for a, b in graph.edges:
        starts[a][b], starts[b][a] = edge_starts(sheaf, seed, clients[a], clients[b])
    return starts


def edge_starts(
    sheaf: SheafSettings, seed: int, one: Client, other: Client, round_index: int = 0
) -> tuple[Tensor, Tensor]:
    """Maps of both ends of an edge, drawn from a random stream of the edge, and of the round after the first."""
    # one order of ends, so that both clients of an edge draw the same maps
    if one.client_id > other.client_id:
        second, first = edge_starts(sheaf, seed, other, one, round_index)
        return first, second
    # the first round keeps the name without a round: maps that are never redrawn start the same
    later = (round_index,) if round_index else ()
    draws = named_stream(seed, "restriction_maps", one.client_id, other.client_id, *later)
    layouts = one.models["fused"].layout, other.models["fused"].layout
    if sheaf.map_storage == "kronecker":
        return kronecker_starts(*layouts, sheaf.compression, draws)
    if sheaf.map_start == "aligned":
        return aligned_starts(*layouts, one.outputs, other.outputs, sheaf.compression, draws)
    return MAP_STARTS[sheaf.map_start](*layouts, sheaf.compression, draws)


def redrawn_maps(
    sheaf: SheafSettings, seed: int, client: Client, neighbors: Sequence[Client]
) -> Callable[[int], Mapping[NodeId, Tensor]]:
    """Function from a round to the maps of a client in it; the other ends draw the same, so that nothing is sent."""

    def of_round(round_index: int) -> Mapping[NodeId, Tensor]:
        return {peer.client_id: edge_starts(sheaf, seed, client, peer, round_index)[0] for peer in neighbors}

    return of_round

"""Initial models of clients, with equal encoders and heads wherever shapes allow it, and initial restriction maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx
import torch
from torch import Tensor

from ...emulator.contracts import Modality, NodeId
from ...emulator.random_streams import named_stream
from ...models.client_model import ClientModel
from ...models.head import HeadLayout, chosen_outputs, initial_head
from ...models.settings import ModelSettings, SheafSettings
from ...models.sheaf.equations import aligned_starts, kronecker_starts, random_starts, structured_starts
from .client import Client
from .data import ClientData
from .encoders import embedding_dim, make_encoder, torch_seed
from .members import Member

MAP_STARTS = {"structured": structured_starts, "random": random_starts}  # "aligned" needs the outputs as well


@dataclass(frozen=True, slots=True)
class InitialModels:
    """Maker of initial models; equal arguments give equal models.

    Attributes:
        seed: root seed of the run.
        settings: settings of all models.
        fusion: name of the fusion of embeddings.
        all_outputs: identities of the outputs of all clients, ascending, where restriction maps compare outputs by
            that; None: they are compared by number.
    """

    seed: int
    settings: ModelSettings
    fusion: str
    all_outputs: Sequence[int] | None

    def model(self, member: Member, modalities: Sequence[Modality], rows: ClientData) -> ClientModel:
        """Initial model of some modalities of a client."""
        outputs = member.outputs(rows.test)
        made = {
            modality: make_encoder(
                member.task, self.settings, self.seed, modality, rows.train, member.client_id, member.encoder
            )
            for modality in modalities
        }
        model = ClientModel(
            {modality: normalizer for modality, (normalizer, _) in made.items()},
            {modality: encoder for modality, (_, encoder) in made.items()},
            fusion=self.fusion,
            embedding_dim=embedding_dim([encoder for _, encoder in made.values()], self.settings),
            n_outputs=len(outputs),
        )
        model.head.data.copy_(self._head(model.layout, member.client_id, outputs))
        return model

    def _head(self, layout: HeadLayout, client_id: NodeId, outputs: Sequence[int]) -> Tensor:
        """[d] initial head; a common head is drawn once per layout.

        Where outputs are compared by what they are about, it is drawn for the outputs of all clients, and a client
        takes its own: neighbors then start in agreement on their edge.
        """
        if self.settings.head_start == "independent":
            return self._drawn(layout, client_id)
        if self.all_outputs is None:
            return self._drawn(layout)
        whole = replace(layout, n_outputs=len(self.all_outputs))
        # equal identities get equal rows of the common head, whatever numbers the client gives its beams
        return chosen_outputs(self._drawn(whole), whole, [self.all_outputs.index(one) for one in outputs])

    def _drawn(self, layout: HeadLayout, *owner: NodeId) -> Tensor:
        return initial_head(layout, torch.Generator().manual_seed(torch_seed(self.seed, "head", layout, *owner)))


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

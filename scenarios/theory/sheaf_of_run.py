"""The sheaf that the clients of a run make: what each couples, through which maps, with whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import torch
from torch import Tensor

from ...emulator.contracts import Learner, NodeId
from ...models.sharing.chained_learner import ChainedLearner
from ...models.sheaf.restriction_maps import FactoredMaps, RestrictionMaps
from ...models.sheaf.stalk import Stalk
from ...models.sheaf.whole_sheaf import WholeSheaf
from ..wiring.client import Client

#: Cycles whose holonomy is looked at: a basis has as many as there are edges beyond a tree.
MOST_CYCLES = 20


@dataclass(frozen=True, slots=True, eq=False)
class RunSheaf:
    """The sheaf of a run at one instant.

    Attributes:
        sheaf: with the maps of the algorithm; the identity between heads of one layout where it has none.
        vectors: client -> what it couples.
        coupling: lambda; 0 where neighbors do not pull.
        whole_models: whether the vectors are whole models.
        has_maps: whether the maps are those of the algorithm.
    """

    sheaf: WholeSheaf
    vectors: Mapping[NodeId, Tensor]
    coupling: float
    whole_models: bool
    has_maps: bool

    @property
    def cycles(self) -> list[list[NodeId]]:
        """The first cycles of a basis."""
        graph = nx.Graph(self.sheaf.edges)
        return sorted(sorted(nx.cycle_basis(graph), key=len)[:MOST_CYCLES])


def sheaf_of_run(learners: Sequence[Learner], clients: Sequence[Client], graph: nx.Graph[NodeId]) -> RunSheaf:
    """The sheaf as it is now.

    Args:
        learners: of the clients, in this process.
        clients: of the run, with one model each.
        graph: along which they send.
    """
    stalks = {one.client_id: one.stalk for one in learners if isinstance(one, ChainedLearner) and one.stalk is not None}
    if len(stalks) == len(clients) and any(stalk.maps().rows for stalk in stalks.values()):
        return _coupled(stalks)
    heads = {client.client_id: client.models["fused"].head.detach() for client in clients}
    layouts = {client.client_id: client.models["fused"].layout for client in clients}
    maps: dict[NodeId, RestrictionMaps] = {}
    for client, head in heads.items():
        same = [peer for peer in sorted(graph[client]) if peer in layouts and layouts[peer] == layouts[client]]
        every = torch.arange(len(head))
        maps[client] = FactoredMaps(dict.fromkeys(same, every), len(head), dtype=head.dtype, device=head.device)
    return RunSheaf(WholeSheaf(maps, _dims(heads)), heads, 0.0, whole_models=False, has_maps=False)


def _coupled(stalks: Mapping[NodeId, Stalk]) -> RunSheaf:
    vectors = {client: stalk.vector().detach() for client, stalk in stalks.items()}
    sheaf = WholeSheaf({client: stalk.maps() for client, stalk in stalks.items()}, _dims(vectors))
    first = next(iter(stalks.values()))
    return RunSheaf(sheaf, vectors, first.coupling, first.whole_model, has_maps=True)


def _dims(vectors: Mapping[NodeId, Tensor]) -> dict[NodeId, int]:
    return {client: len(vector) for client, vector in vectors.items()}

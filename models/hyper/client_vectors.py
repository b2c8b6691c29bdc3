"""What a server knows of its clients: a vector of each, which of them are known, and the graph that follows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from ...emulator.contracts import NodeId, State
from ...emulator.saved_state import SavedState
from ..hyper_settings import HyperSettings
from ..state.tensors import finite, restored_tensor, to_array
from .client_graph import all_pairs, nearest_neighbors
from .schedule import HyperSchedule


class ClientVectors:
    """The newest embedding of every client, and those in use with their graph since the last refresh.

    Without embeddings, vectors are the rows of the identity: clients known by number.

    Args:
        n_clients, width: of the vectors.
        settings: of the graph.
        schedule: of embeddings.
        like: tensor of the wanted type and device.

    Attributes:
        width: as given.
        values: [n_clients, width] X0, rows of 0 for clients that are not known.
        known: [n_clients] bool.
        ends: [2, n_edges] int64 ends of the graph's edges.
    """

    def __init__(
        self, n_clients: int, width: int, settings: HyperSettings, schedule: HyperSchedule, like: Tensor
    ) -> None:
        self._settings, self._schedule, self.width = settings, schedule, width
        self.ends = torch.zeros(2, 0, dtype=torch.int64, device=like.device)
        if schedule.refresh_every == 0:
            self.values = torch.eye(n_clients, dtype=like.dtype, device=like.device)
            self.known = torch.ones(n_clients, dtype=torch.bool, device=like.device)
        else:
            self.values = like.new_zeros(n_clients, width)
            self.known = torch.zeros(n_clients, dtype=torch.bool, device=like.device)
        self._newest = torch.zeros_like(self.values)
        self._sent = np.full(n_clients, -1, dtype=np.int64)  # exchange in which the newest was sent; -1: none was
        self._used = np.full(n_clients, -1, dtype=np.int64)  # the same of those in use
        self._exchange = 0  # of the last refresh

    def note(self, client: NodeId, embedding: Tensor, exchange: int) -> None:
        """Keep an embedding [width] that was sent in this exchange for the next refresh."""
        self._newest[client], self._sent[client] = embedding, exchange

    def refresh(self, exchange: int) -> None:
        """Use the newest embeddings from this exchange on, without those of late clients, and draw the graph anew."""
        late = sorted(self._schedule.late)
        self._used, self._exchange = self._sent.copy(), exchange
        self._used[late] = -1
        self.known = torch.from_numpy(self._used >= 0).to(self.values.device)
        self.values = torch.where(self.known.unsqueeze(1), self._normalized(self._newest), 0.0)
        self.ends = self._graph(self.values, self.known)

    def with_newcomers(self, clients: Collection[NodeId]) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors, who is known, and edges, with the newest embeddings of some more clients among those in use."""
        values, known = self.values.clone(), self.known.clone()
        for client in sorted(clients):
            if self._sent[client] >= 0:
                values[client], known[client] = self._normalized(self._newest[client]), True
        return values, known, self._graph(values, known)

    def figures(self) -> Mapping[str, float]:
        """Edges of the graph; mean norm of the newest embeddings; how many exchanges old those in use were at first."""
        ages = self._exchange - self._used[self._used >= 0]
        found = {"client_edges": self.ends.shape[1], "known_clients": int(self.known.sum())}
        if len(ages) == 0:
            return found
        norm = finite(float(self._newest[self._sent >= 0].norm(dim=1).mean()))
        oldest = float(ages.max())
        return {**found, "embedding_norm": norm, "embedding_age": float(ages.mean()), "oldest_embedding": oldest}

    def state(self) -> State:
        return {
            "values": to_array(self.values),
            "newest": to_array(self._newest),
            "sent": self._sent.copy(),
            "used": self._used.copy(),
            "ends": to_array(self.ends),
            "exchange": self._exchange,
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("values", "newest", "sent", "used", "ends", "exchange")
        self.values = restored_tensor(parts["values"], self.values)
        self._newest = restored_tensor(parts["newest"], self._newest)
        whole = np.dtype(np.int64)
        self._sent, self._used = (parts[name].array(whole, len(self._sent)) for name in ("sent", "used"))
        ends = restored_tensor(parts["ends"], self.ends, 2, None)
        if bool(((ends < 0) | (ends >= len(self.values))).any()):
            parts["ends"].refuse(f"be numbers of {len(self.values)} clients", "another one")
        self.ends, self._exchange = ends, parts["exchange"].count()
        if self._schedule.refresh_every:
            self.known = torch.from_numpy(self._used >= 0).to(self.values.device)

    def _normalized(self, embeddings: Tensor) -> Tensor:
        """Embeddings [..., width] of a root mean square of 1, where that is asked for; those that are 0 stay 0."""
        if not self._settings.normalize:
            return embeddings
        unit: Tensor = torch.nn.functional.normalize(embeddings, dim=-1)
        return unit * math.sqrt(self.width)

    def _graph(self, values: Tensor, known: Tensor) -> Tensor:
        if self._settings.diffusion == "none":
            return self.ends[:, :0]  # nobody looks at edges
        if self._settings.graph == "complete":
            return all_pairs(known)
        return nearest_neighbors(values, known, self._settings.knn)

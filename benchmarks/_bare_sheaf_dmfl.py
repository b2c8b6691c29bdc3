"""Sheaf-DMFL-Att as a plain torch loop: no engine, links, transport, messages, flat views or learner classes.

Encoders are `nn.Sequential` under one fused Adam per client, parameters are averaged as concatenated vectors, and
projections are handed over as tensors. Only `FactoredMaps`, `BatchOrder` and the two normalizers are the project's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import networkx as nx
import torch
from sheafedge.emulator.contracts import Modality, NodeId
from sheafedge.emulator.nodes.compute_pool import ComputePool
from sheafedge.emulator.random_streams import named_stream
from sheafedge.models.sheaf.restriction_maps import FactoredMaps
from sheafedge.models.training.minibatches import BatchOrder
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.edge_maps import EdgeMaps
from sheafedge.scenarios.wiring.mixing import mixing_weights
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class BareClient:
    """One client; the loop below hands tensors from one to the other."""

    def __init__(
        self,
        scenario: Scenario,
        client: Client,
        weights: Mapping[Modality, Mapping[NodeId, float]],
        starts: Mapping[NodeId, Tensor],
    ) -> None:
        self.client_id, self.weights = client.client_id, weights
        self.training, self.sheaf, self.n_outputs = scenario.training, scenario.sheaf, scenario.data.n_beams
        model, self.modalities = client.models["fused"], client.models["fused"].modalities
        self.normalizers: dict[str, nn.Module] = {m: model.normalizers[m] for m in self.modalities}
        self.encoders: dict[str, nn.Module] = {m: model.encoders[m] for m in self.modalities}
        self.head = model.head.detach().clone().requires_grad_()
        self.scoring = torch.zeros(len(self.modalities), scenario.model.embedding_dim, requires_grad=True)
        parameters = [parameter for encoder in self.encoders.values() for parameter in encoder.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=self.training.encoder_step_size, fused=True)
        self.inputs = {m: torch.from_numpy(rows) for m, rows in client.data.train.inputs().items()}
        self.labels = torch.from_numpy(client.data.train.label)
        draws = named_stream(scenario.seed, "batches", client.client_id, "fused")
        self.batches = BatchOrder(len(self.labels), self.training.batch_size, draws)
        self.maps = FactoredMaps(starts, len(self.head))
        self.peer = torch.zeros(self.maps.n_rows)
        self.peer_norms_sq = torch.zeros(self.maps.n_rows)
        self.vectors: dict[str, Tensor] = {}
        self.arrived: dict[str, list[tuple[float, Tensor]]] = {}

    def project(self) -> None:
        """The head's image on every edge, and its squared norm."""
        head = self.head.detach()
        self.image, self.norm_sq = self.maps.project(head), head @ head

    def train(self) -> None:
        """Local steps: one backward pass each, then head (11), encoders (15) and attention (17)."""
        for _ in range(self.training.local_steps):
            batch = torch.from_numpy(self.batches.next(len(self.labels)))
            self.optimizer.zero_grad()
            for leaf in (self.head, self.scoring):
                leaf.grad = None
            functional.cross_entropy(self._logits(batch), self.labels[batch]).backward()  # type: ignore[no-untyped-call]
            with torch.no_grad():
                pull = self.maps.pull(self.maps.project(self.head) - self.peer)
                assert self.head.grad is not None
                assert self.scoring.grad is not None
                self.head -= self.training.head_step_size * (self.head.grad + self.sheaf.coupling * pull)
                self.scoring -= self.training.attention_step_size * self.scoring.grad
            self.optimizer.step()
        self.vectors = {m: parameters_to_vector(e.parameters()).detach() for m, e in self.encoders.items()}

    def mix_and_project(self) -> None:
        """Average the encoders (6), then the image of the new head under the old maps."""
        for modality, heard in self.arrived.items():
            mixed = self.vectors[modality] * (1.0 - sum(weight for weight, _ in heard))
            for weight, vector in heard:
                mixed.add_(vector, alpha=weight)
            vector_to_parameters(mixed, self.encoders[modality].parameters())
        self.project()

    def step_maps(self) -> None:
        """Equation (12), clamped on every edge."""
        limit = 1.0 / (self.sheaf.coupling * (self.norm_sq + self.peer_norms_sq))
        steps = limit.clamp_max(self.sheaf.map_step_size)
        self.maps.step(steps * self.sheaf.coupling * (self.image - self.peer), self.head.detach())

    def state(self) -> Tensor:
        """All that it learns but the maps, as one vector."""
        encoders = [parameters_to_vector(self.encoders[m].parameters()) for m in self.modalities]
        return torch.cat([*encoders, self.head]).detach()

    def _logits(self, batch: Tensor) -> Tensor:
        hidden = [self.encoders[m](self.normalizers[m](self.inputs[m][batch])) for m in self.modalities]
        embeddings = torch.stack(hidden, dim=1)
        shares = torch.softmax(torch.tanh((embeddings * self.scoring).sum(dim=-1)), dim=1)
        fused = (shares.unsqueeze(-1) * embeddings).sum(dim=1)
        n_weights = self.n_outputs * fused.shape[1]
        return functional.linear(fused, self.head[:n_weights].view(self.n_outputs, -1), self.head[n_weights:])


def bare_clients(scenario: Scenario, clients: tuple[Client, ...], graph: nx.Graph[NodeId]) -> list[BareClient]:
    """Fresh clients from models that no learner has touched."""
    maps = EdgeMaps(scenario.sheaf, scenario.seed, clients, whole_models=False)
    weights, starts = mixing_weights(clients, graph), maps.of_graph(graph)
    return [BareClient(scenario, c, weights[c.client_id], starts[c.client_id]) for c in clients]


def play_bare(clients: Sequence[BareClient], pool: ComputePool, rounds: int) -> None:
    """The rounds: all compute, then all hand over. Clients' ids are their places in the list."""
    for _ in range(rounds):
        _all(pool, (client.project for client in clients))
        _hand_over_projections(clients)
        _all(pool, (client.train for client in clients))
        for client in clients:
            client.arrived = {
                m: [(weight, clients[peer].vectors[m]) for peer, weight in weights.items()]
                for m, weights in client.weights.items()
                if weights
            }
        _all(pool, (client.mix_and_project for client in clients))
        _hand_over_projections(clients)
        _all(pool, (client.step_maps for client in clients))


def _hand_over_projections(clients: Sequence[BareClient]) -> None:
    for client in clients:
        for neighbor, rows in client.maps.rows.items():
            other = clients[neighbor]
            client.peer[rows] = other.image[other.maps.rows[client.client_id]]
            client.peer_norms_sq[rows] = other.norm_sq


def _all(pool: ComputePool, jobs: Iterable[Callable[[], None]]) -> None:
    for ticket in [pool.submit(partial(job)) for job in jobs]:
        ticket.result()

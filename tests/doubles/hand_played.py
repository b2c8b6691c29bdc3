"""Learners of the tiny scenario, wired as for a user, asked and told by hand; and their models as plain vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import networkx as nx
import numpy as np
import torch
from integration.tiny import PLAIN_SGD, Walk, tiny, wired
from numpy.typing import NDArray
from sheafedge.emulator.contracts import Message, NodeId
from sheafedge.models.client_model import ClientModel
from sheafedge.models.fusion import AttentionFusion

#: Four clients whose whole models mean the same, and one that shares a modality with them.
FOUR_AND_ONE: dict[str, Any] = {
    "clients.groups": [
        {"name": "both", "modalities": ["rf", "gps"], "share": 0.8},
        {"name": "gps", "modalities": ["gps"], "share": 0.2},
    ],
    "topology.edge_probability": 0.5,
}
NO_STEPS: dict[str, Any] = {
    "training.head_step_size": 0.0,
    "training.encoder_step_size": 0.0,
    "training.attention_step_size": 0.0,
}

Vectors = dict[str, NDArray[np.float64]]  # of one client: "head", "rf", "gps", "attention"


def scattered(edits: Mapping[str, Any]) -> Walk:
    """Clients in float64 with plain SGD, whose models were moved apart so that averaging shows."""
    walk = wired(tiny({**PLAIN_SGD, **FOUR_AND_ONE, **edits}), torch.float64)
    draws = torch.Generator().manual_seed(7)
    for client in walk.emulation.clients:
        for one in client.models.values():
            for values in one.parameters():
                values.data.add_(torch.randn(values.shape, generator=draws, dtype=values.dtype), alpha=0.3)
    return walk


def play_phase(walk: Walk, phase: str, round_index: int = 0) -> list[Message]:
    """All compute, then all absorb; returns what was sent."""
    learners = walk.emulation.learners
    sent = [message for learner in learners for message in learner.compute(phase, round_index)]
    for learner in learners:
        mine = [message for message in sent if message.receiver == learner.client_id]
        learner.absorb(phase, round_index, sorted(mine, key=lambda m: (m.sender, m.kind, m.modality or "")))
    return sent


def play_round(walk: Walk, round_index: int = 0) -> list[Message]:
    """All phases of a round."""
    names = [phase.name for phase in walk.emulation.learners[0].phases(round_index)]
    return [message for name in names for message in play_phase(walk, name, round_index)]


def vectors_of(walk: Walk, name: str = "fused") -> dict[NodeId, Vectors]:
    """Copies of what the clients that have a model of this name hold."""
    clients = walk.emulation.clients
    return {client.client_id: parts_of(client.models[name]) for client in clients if name in client.models}


def parts_of(model: ClientModel) -> Vectors:
    """Copies of a model's head, encoders and scoring vectors."""
    parts = {"head": [model.head]} | {str(m): list(model.encoders[m].parameters()) for m in model.modalities}
    if isinstance(model.fusion, AttentionFusion):
        parts["attention"] = [model.fusion.scoring]
    return {name: np.concatenate([v.detach().numpy().ravel() for v in values]) for name, values in parts.items()}


def mixing_matrix(graph: nx.Graph[NodeId], nodes: Iterable[NodeId]) -> dict[NodeId, dict[NodeId, float]]:
    """Metropolis-Hastings weights among these nodes, the own ones included, written out."""
    inside = graph.subgraph(nodes)
    weights = {i: {j: 1.0 / (1 + max(inside.degree[i], inside.degree[j])) for j in inside[i]} for i in inside}
    return {i: {i: 1.0 - sum(of_i.values()), **of_i} for i, of_i in weights.items()}


def averaged(
    weights: Mapping[NodeId, Mapping[NodeId, float]], values: Mapping[NodeId, NDArray[np.float64]]
) -> dict[NodeId, NDArray[np.float64]]:
    """Every client's weighted sum, W x."""
    return {i: np.sum([weight * values[j] for j, weight in of_i.items()], axis=0) for i, of_i in weights.items()}


def members(walk: Walk, group: str) -> list[NodeId]:
    """Clients of a group."""
    return [client.client_id for client in walk.emulation.groups[group]]


def owners(walk: Walk, modality: str) -> list[NodeId]:
    """Clients that have a modality."""
    return [client.client_id for client in walk.emulation.clients if modality in client.modalities]

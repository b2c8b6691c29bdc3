"""Averaging of vectors with neighbors: encoders in step D of a round (6), and whole models in the baselines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..emulator.contracts import MODALITIES, Message, MessageKind, MessageSlot, Modality, NodeId
from .client_model import ClientModel
from .flat import FlatModule
from .gossip import mix
from .payload import to_payload, to_tensor


@dataclass(frozen=True, slots=True, eq=False)
class SharedVector:
    """A vector that means the same at a client and at some of its neighbors.

    Attributes:
        kind, modality: how messages name it.
        vector: [n] changed in place when it is mixed.
        weights: neighbor -> mixing weight; these neighbors share one of the same size.
    """

    kind: MessageKind
    modality: Modality | None
    vector: Tensor
    weights: Mapping[NodeId, float]


def shared_encoders(
    encoders: Mapping[Modality, FlatModule], mixing: Mapping[Modality, Mapping[NodeId, float]]
) -> list[SharedVector]:
    """Every encoder, with the neighbors that own its modality, in canonical order."""
    return [
        SharedVector(MessageKind.ENCODER, modality, encoders[modality].vector, mixing.get(modality, {}))
        for modality in MODALITIES
        if modality in encoders
    ]


def shared_head(
    model: ClientModel, weights: Mapping[NodeId, float], modality: Modality | None = None
) -> list[SharedVector]:
    """The head of a model; `modality` tells the heads of unimodal models apart."""
    return [SharedVector(MessageKind.HEAD, modality, model.head.data, weights)]


def shared_attention(model: ClientModel, weights: Mapping[NodeId, float]) -> list[SharedVector]:
    """All that a fusion learns, where it learns and has several modalities to weigh."""
    if len(model.modalities) == 1 or not any(True for _ in model.fusion.parameters()):
        return []
    return [SharedVector(MessageKind.ATTENTION, None, FlatModule(model.fusion).vector, weights)]


def shared_model(
    model: ClientModel,
    encoders: Mapping[Modality, FlatModule],
    weights: Mapping[NodeId, float],
    *,
    personal: Collection[Modality] = (),
) -> list[SharedVector]:
    """All of a model but its personal encoders, with neighbors that own the same modalities."""
    mixing = {modality: weights for modality in encoders if modality not in personal}
    return shared_encoders(encoders, mixing) + shared_head(model, weights) + shared_attention(model, weights)


class VectorGossip:
    """One client's side of the averaging of some vectors.

    Args:
        client_id: the sender of its messages.
        shared: what is averaged; those without neighbors stay at home.
    """

    def __init__(self, client_id: NodeId, shared: Sequence[SharedVector]) -> None:
        self._client_id = client_id
        self._shared = [(one, dict(sorted(one.weights.items()))) for one in shared if one.weights]

    def messages(self, phase: str, round_index: int) -> list[Message]:
        """One message per neighbor and vector; the neighbors of a vector share one snapshot of it."""
        sent = []
        for one, weights in self._shared:
            snapshot = to_payload(one.vector)
            sent += [
                Message(one.kind, self._client_id, neighbor, round_index, phase, snapshot, one.modality)
                for neighbor in weights
            ]
        return sent

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        """Every shared vector from every neighbor that has it too."""
        return frozenset(
            MessageSlot(round_index, phase, neighbor, one.kind, one.modality)
            for one, weights in self._shared
            for neighbor in weights
        )

    def absorb(self, arrived: Sequence[Message]) -> None:
        """Mix what arrived into the own vectors."""
        for one, weights in self._shared:
            vectors, shares = [], []
            for message in arrived:
                if (message.kind, message.modality) != (one.kind, one.modality):
                    continue
                mask = None if message.received is None else to_tensor(message.received, one.vector)
                vectors.append((to_tensor(message.payload, one.vector), mask))
                shares.append(weights[message.sender])
            if vectors:
                one.vector.copy_(mix(one.vector, vectors, shares))

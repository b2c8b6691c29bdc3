"""Exchange of encoders with the neighbors that own the same modality: step D of a round, equation (6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..emulator.contracts import MODALITIES, Message, MessageKind, MessageSlot, Modality, NodeId
from .flat import FlatModule
from .gossip import mix
from .payload import to_payload, to_tensor


class EncoderGossip:
    """One client's side of encoder averaging.

    Args:
        client_id: the sender of its messages.
        encoders: modality -> flat view of the encoder that takes part.
        mixing: modality -> neighbor -> mixing weight.
    """

    def __init__(
        self,
        client_id: NodeId,
        encoders: Mapping[Modality, FlatModule],
        mixing: Mapping[Modality, Mapping[NodeId, float]],
    ) -> None:
        self._client_id, self._encoders = client_id, encoders
        self._mixing = {m: dict(sorted(mixing.get(m, {}).items())) for m in MODALITIES if m in encoders}

    def messages(self, phase: str, round_index: int) -> list[Message]:
        """One message per neighbor and common modality; neighbors of a modality share one snapshot of the vector."""
        sent = []
        for modality, weights in self._mixing.items():
            if not weights:
                continue
            snapshot = to_payload(self._encoders[modality].vector)
            sent += [
                Message(MessageKind.ENCODER, self._client_id, neighbor, round_index, phase, snapshot, modality)
                for neighbor in weights
            ]
        return sent

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        """An encoder from every neighbor for every common modality."""
        return frozenset(
            MessageSlot(round_index, phase, neighbor, MessageKind.ENCODER, modality)
            for modality, weights in self._mixing.items()
            for neighbor in weights
        )

    def absorb(self, arrived: Sequence[Message]) -> None:
        """Mix what arrived into the own encoders."""
        for modality, weights in self._mixing.items():
            encoder = self._encoders[modality]
            vectors, shares = [], []
            for message in arrived:
                if message.modality != modality:
                    continue
                mask = None if message.received is None else to_tensor(message.received, encoder.vector)
                vectors.append((to_tensor(message.payload, encoder.vector), mask))
                shares.append(weights[message.sender])
            if vectors:
                encoder.vector.copy_(mix(encoder.vector, vectors, shares))

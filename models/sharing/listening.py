"""Rounds in which a client that does not know the direction of its codebook only listens, and what it asks after them.

It trains nothing and sends nothing, but mixes in what it hears, so that its model becomes that of its neighbors. After
the last such round it asks their models, which have never heard it, on own training rows both ways up. Asked later, the
models would prefer the way that its own rows had taught them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...emulator.contracts import Message, MessageKind, MessageSlot, Modality, NodeId, State
from ...emulator.saved_state import SavedState
from ..client_model import ClientModel
from ..flat import FlatModule
from ..head import apply_head
from ..training.client_setup import ClientSetup
from .chained_learner import Exchange
from .label_trends import spread_rows
from .orientation import Orientation
from .vector_gossip import VectorGossip

#: A client turns if so many neighbors were asked, or if the losses of both ways differ by so much.
ENOUGH_ASKED, CLEAR_DIFFERENCE = 3, 0.5


@dataclass(frozen=True, slots=True)
class HeardModel:
    """What a client heard of a neighbor's model in one round.

    Attributes:
        head: [d_i] the neighbor's head with its rows in the order of the own beams, upright.
        encoders: modality -> vector of its encoder, of those that both own.
    """

    head: Tensor
    encoders: Mapping[Modality, Tensor]


class HeadsHeard(Exchange, Protocol):
    """An exchange of heads that can tell a neighbor's whole head."""

    def head_of(self, message: Message, /) -> Tensor | None:
        """[d_i] see `HeardModel`; None where a part of the message was lost."""
        ...


class MixWithListeners:
    """The exchanges of encoders and heads, without what listeners do not send and what neighbors do not compare.

    Args:
        setup: of the client.
        orientation: of the client.
        encoders: modality -> its encoder.
        gossip: exchanges encoders.
        heads: exchanges heads.

    Attributes:
        kinds: of both exchanges.
        turned: whether the client turned after listening; None: it has not asked.
    """

    def __init__(
        self,
        setup: ClientSetup,
        orientation: Orientation,
        encoders: Mapping[Modality, FlatModule],
        gossip: VectorGossip,
        heads: HeadsHeard,
    ) -> None:
        (self._model,) = setup.models.values()
        self._setup, self._orientation, self._encoders = setup, orientation, encoders
        self._gossip, self._heads = gossip, heads
        self.kinds: frozenset[MessageKind] = gossip.kinds | heads.kinds
        self.turned: bool | None = None
        self._heard: list[HeardModel] = []

    def messages(self, phase: str, round_index: int) -> list[Message]:
        """Messages of both exchanges; none while the client listens."""
        if self._orientation.is_listening(round_index):
            return []
        heads = self._heads.messages(phase, round_index)
        shared = [message for message in heads if self._orientation.shares_head_with(message.receiver)]
        return [*self._gossip.messages(phase, round_index), *shared]

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        """Slots of both exchanges, of neighbors that do not listen; heads of those that compare any."""
        slots = self._gossip.expected(phase, round_index) | self._heads.expected(phase, round_index)
        return frozenset(
            slot
            for slot in slots
            if not self._orientation.is_silent(slot.sender, round_index) and self._is_used(slot.kind, slot.sender)
        )

    def absorb(self, arrived: Sequence[Message]) -> None:
        """Mix in what arrived, and keep it for the end of the round if the client still has to ask."""
        used = [message for message in arrived if self._is_used(message.kind, message.sender)]
        encoders = [message for message in used if message.kind in self._gossip.kinds]
        heads = [message for message in used if message.kind in self._heads.kinds]
        if self._orientation.votes and self._orientation.vote.listens and self.turned is None:
            self._heard = self._models(encoders, heads)
        self._gossip.absorb(encoders)
        self._heads.absorb(heads)

    def finish(self, round_index: int) -> None:
        """Ask neighbors after the last round of listening, and turn if they clearly prefer the other way."""
        listens = self._orientation.is_listening(round_index)
        if listens and not self._orientation.is_listening(round_index + 1):
            self.turned = self._prefers_other_way(self._heard)
            if self.turned:
                self._orientation.frame.turn(self._model.head.data)
        self._heard = []

    def state(self) -> State:
        return self.turned

    def restore(self, saved: SavedState) -> None:
        self.turned = None if saved.state is None else saved.flag()

    def _is_used(self, kind: MessageKind, neighbor: NodeId) -> bool:
        return kind not in self._heads.kinds or self._orientation.shares_head_with(neighbor)

    def _models(self, encoders: Sequence[Message], heads: Sequence[Message]) -> list[HeardModel]:
        """Of the neighbors whose head and whose encoder of a modality that both own arrived whole."""
        whole = self._gossip.whole(encoders)
        of_heads = {message.sender: self._heads.head_of(message) for message in heads}
        return [
            HeardModel(head, whole[sender]) for sender, head in of_heads.items() if head is not None and sender in whole
        ]

    def _prefers_other_way(self, heard: Sequence[HeardModel]) -> bool:
        if not heard:
            return False
        now = self._loss(heard)
        with self._orientation.frame.other_way():
            other = self._loss(heard)
        return now > other and (len(heard) >= ENOUGH_ASKED or now - other > CLEAR_DIFFERENCE)

    def _loss(self, heard: Sequence[HeardModel]) -> float:
        """Cross-entropy of own training rows, in the present direction, under the neighbors' models together.

        They are mixed row by row: a neighbor that knows nothing of a row has little say in it.
        """
        chosen = spread_rows(self._setup.rows)
        labels = torch.from_numpy(self._setup.rows.label[chosen]).to(self._model.head.device).unsqueeze(1)
        own = {modality: flat.vector.clone() for modality, flat in self._encoders.items()}
        self._model.eval()
        with torch.no_grad():
            inputs = self._model.normalized(self._model.tensors(self._setup.rows.inputs(chosen)))
            of_each = [self._logits(one, inputs).log_softmax(dim=1).gather(1, labels) for one in heard]
            for modality, vector in own.items():
                self._encoders[modality].vector.copy_(vector)
        self._model.train()
        together = torch.stack(of_each).logsumexp(dim=0) - math.log(len(heard))
        return -float(together.mean())

    def _logits(self, heard: HeardModel, inputs: Mapping[str, Tensor]) -> Tensor:
        """[n, n_outputs] of a neighbor's model, one per own beam; its encoders stay in the place of the own ones."""
        for modality, vector in heard.encoders.items():
            self._encoders[modality].vector.copy_(vector)
        head, fused = self._orientation.frame.upright(heard.head), _fused(self._model, inputs, heard.encoders)
        return apply_head(head, fused, self._model.layout.n_outputs)


def _fused(model: ClientModel, inputs: Mapping[str, Tensor], owned: Iterable[Modality]) -> Tensor:
    """[n, width] what the head reads of normalized inputs where only these modalities are there."""
    there = {*owned}
    of_each = {
        modality: model.encoders[modality](inputs[modality]) for modality in model.modalities if modality in there
    }
    missing = torch.zeros_like(next(iter(of_each.values())))
    embeddings = torch.stack([of_each.get(modality, missing) for modality in model.modalities], dim=1)
    present = embeddings.new_tensor([[float(modality in there) for modality in model.modalities]])
    fused, _ = model.fusion.masked(embeddings, present)
    return fused

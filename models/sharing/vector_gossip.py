"""Averaging of vectors with neighbors: encoders in step D of a round (6), and whole models in the baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import MODALITIES, Message, MessageKind, MessageSlot, Modality, NodeId, State
from ...emulator.saved_state import SavedState
from ..client_model import ClientModel
from ..codecs.codec import Codec
from ..codecs.codec_table import CODECS
from ..flat import FlatModule
from ..settings import SharingSettings
from ..state.tensors import finite
from .gossip import distance_to_mean, mix
from .payload import to_payload, to_tensor

#: Name of the distance in figures and state.
DISTANCE = "consensus_distance"
#: Own vector [n], vectors that arrived with the masks of what is known of them (None: all), their weights -> [n].
Combine = Callable[[Tensor, Sequence[tuple[Tensor, Tensor | None]], Sequence[float]], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class ServerCombine:
    """What a server makes of a vector that it does not average element by element.

    Attributes:
        combine: share of the way that it goes -> its combination.
        flops: number of clients -> floating-point operations beside those of an average.
    """

    combine: Callable[[float], Combine]
    flops: Callable[[int], float]


@dataclass(frozen=True, slots=True, eq=False)
class SharedVector:
    """A vector that means the same at a client and at some of its neighbors.

    Attributes:
        kind, modality: how messages name it.
        vector: [n] changed in place when it is combined with others.
        weights: neighbor -> mixing weight, by number; these neighbors share one of the same size. Read anew whenever
            something is mixed, because neighbors that move weigh something else in every round.
        label: tells vectors of one name apart, where a node has one for each of several sets of neighbors.
        combine: in place of the combination of its exchange.
        at_server: what a server does with it; None: it averages element by element.
    """

    kind: MessageKind
    modality: Modality | None
    vector: Tensor
    weights: Mapping[NodeId, float]
    label: str = ""
    combine: Combine | None = None
    at_server: ServerCombine | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Whom a client shares each part of its model with, and what these nodes weigh in its averages.

    Attributes:
        encoders: modality -> node -> weight, of nodes that own the modality; all other encoders stay personal.
        rest: node -> weight of head and attention, of nodes whose head reads the same modalities.
    """

    encoders: Mapping[Modality, Mapping[NodeId, float]]
    rest: Mapping[NodeId, float]


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
    """The head of a model; `modality` distinguishes the heads of unimodal models."""
    return [SharedVector(MessageKind.HEAD, modality, model.head.data, weights)]


def shared_attention(model: ClientModel, weights: Mapping[NodeId, float]) -> list[SharedVector]:
    """All that a fusion learns, where it learns and has several modalities to weigh."""
    if len(model.modalities) == 1 or not any(True for _ in model.fusion.parameters()):
        return []
    return [SharedVector(MessageKind.ATTENTION, None, FlatModule.of(model.fusion).vector, weights)]


def shared_model(model: ClientModel, encoders: Mapping[Modality, FlatModule], weights: Weights) -> list[SharedVector]:
    """All of a model."""
    upper = shared_head(model, weights.rest) + shared_attention(model, weights.rest)
    return shared_encoders(encoders, weights.encoders) + upper


@dataclass(frozen=True, slots=True, eq=False)
class _Averaged:
    """A shared vector, its neighbors in order, and its way onto the wire."""

    one: SharedVector
    weights: Mapping[NodeId, float]
    codec: Codec

    @property
    def name(self) -> str:
        """Name that is unique among the vectors of its gossip."""
        return f"{self.one.kind}{self.one.label}.{self.one.modality or 'all'}"


class VectorGossip:
    """One client's side of the averaging of some vectors.

    Args:
        client_id: the sender of its messages.
        shared: what is averaged; those without neighbors are never sent.
        sharing: how often and in how many bits; in the rounds between, nothing is sent or expected.
        combine: makes the new vector of the own one and those that arrived; an average with neighbors, or something
            else with a server.

    Attributes:
        consensus_distance: norm over all vectors of what lay between the own values and the mean of those that last
            arrived, before they were combined; None where nothing arrived for any.
    """

    def __init__(
        self,
        client_id: NodeId,
        shared: Sequence[SharedVector],
        sharing: SharingSettings | None = None,
        combine: Combine = mix,
    ) -> None:
        self._client_id, self._combine = client_id, combine
        self._sharing = sharing or SharingSettings()
        make_codec = CODECS[self._sharing.codec]
        self._averaged = [
            _Averaged(one, one.weights, make_codec(to_payload(one.vector), self._sharing))
            for one in shared
            # vectors without neighbors, or without numbers, are never sent, and need no codec
            if one.weights and len(one.vector) > 0
        ]
        self.consensus_distance: float | None = None

    @property
    def shared(self) -> list[SharedVector]:
        """Vectors that are averaged with at least one neighbor; an encoder without parameters is none."""
        return [each.one for each in self._averaged]

    @property
    def kinds(self) -> frozenset[MessageKind]:
        """Kinds of the vectors that are averaged."""
        return frozenset(each.one.kind for each in self._averaged)

    def messages(self, phase: str, round_index: int, among: Collection[NodeId] | None = None) -> list[Message]:
        """One message per neighbor and vector; the neighbors of a vector share one snapshot of it.

        Args:
            phase, round_index: of the messages.
            among: neighbors that get any; None: all.
        """
        if not self._sharing.in_round(round_index):
            return []
        sent = []
        for each in self._averaged:
            neighbors = _among(each.weights, among)
            if not neighbors:  # not even encoded: codecs remember what was sent
                continue
            # encoded once for all neighbors: a codec with error feedback changes its state every time
            one, payload = each.one, each.codec.encode(to_payload(each.one.vector))
            sent += [
                Message(one.kind, self._client_id, neighbor, round_index, phase, payload, one.modality)
                for neighbor in neighbors
            ]
        return sent

    def expected(self, phase: str, round_index: int, among: Collection[NodeId] | None = None) -> frozenset[MessageSlot]:
        """Every shared vector from every neighbor that has it too, or from those among these."""
        if not self._sharing.in_round(round_index):
            return frozenset()
        return frozenset(
            MessageSlot(round_index, phase, neighbor, each.one.kind, each.one.modality)
            for each in self._averaged
            for neighbor in _among(each.weights, among)
        )

    def absorb(self, arrived: Sequence[Message]) -> None:
        """Combine what arrived with the own vectors.

        Raises:
            DataError: a payload is not what a neighbor with the same settings sends.
        """
        distances = []
        for each in self._averaged:
            one, vectors, shares = each.one, [], []
            for message in arrived:
                if (message.kind, message.modality) != (one.kind, one.modality) or message.sender not in each.weights:
                    continue
                values, known = each.codec.decode(message.payload, message.received, len(one.vector))
                mask = None if known is None else to_tensor(known, one.vector)
                vectors.append((to_tensor(values, one.vector), mask))
                # looked up only now, because weights change where neighbors move
                shares.append(each.weights[message.sender])
            if vectors:
                distances.append(distance_to_mean(one.vector, vectors))
                combine = one.combine or self._combine
                one.vector.copy_(combine(one.vector, vectors, shares))
        self.consensus_distance = finite(math.hypot(*distances)) if distances else None

    def whole(self, arrived: Sequence[Message]) -> dict[NodeId, dict[Modality, Tensor]]:
        """Sender -> modality -> copy of its vector, of those of which nothing was lost and nothing was left out."""
        found: dict[NodeId, dict[Modality, Tensor]] = {}
        for message in arrived:
            for each in self._averaged:
                if (message.kind, message.modality) == (each.one.kind, each.one.modality) and message.modality:
                    values, known = each.codec.decode(message.payload, message.received, len(each.one.vector))
                    if known is None:
                        found.setdefault(message.sender, {})[message.modality] = to_tensor(
                            values, each.one.vector
                        ).clone()
        return found

    def state(self) -> dict[str, State]:
        """Arrays of the codecs, by vector and name, and the last distance."""
        return {**self._codec_state(), DISTANCE: self.consensus_distance}

    def restore(self, saved: SavedState) -> None:
        # names are checked all at once, before the first codec changes
        distance = saved.parts(*self._codec_state(), added=[DISTANCE]).get(DISTANCE)
        self.consensus_distance = None if distance is None or distance.state is None else distance.number()
        for each in self._averaged:
            each.codec.restore(saved.prefixed(each.name))

    def _codec_state(self) -> dict[str, NDArray[Any]]:
        return {f"{each.name}.{name}": values for each in self._averaged for name, values in each.codec.state().items()}


def _among(weights: Mapping[NodeId, float], among: Collection[NodeId] | None) -> list[NodeId]:
    """Neighbors by number, all of them or those among these: what a round costs a server goes with its participants."""
    if among is None:
        return list(weights)
    return [node for node in sorted(among) if node in weights]


def consensus_figures(gossips: Iterable[VectorGossip]) -> dict[str, float]:
    """The consensus distance over the vectors of all of these, for monitors; empty where nothing arrived."""
    distances = [one.consensus_distance for one in gossips if one.consensus_distance is not None]
    return {DISTANCE: finite(math.hypot(*distances))} if distances else {}

"""Description of an outside client's part in a run: what its process is sent on joining, and what it may send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..contracts import Message, MessageKind, MessageSlot, Modality, NodeId, Phase
from ..network.transport.connection_watch import STRANGER, Allowance
from ..network.transport.errors import WireError
from ..network.transport.packed_messages import pack_phases
from ..network.transport.packets import Frame, Packet


class VectorName(NamedTuple):
    """Name of a shared vector: phase, kind and modality of the messages that carry it."""

    phase: str
    kind: MessageKind
    modality: Modality | None


@dataclass(frozen=True, slots=True, eq=False)
class OutsideVector:
    """A parameter vector that the client averages with neighbors.

    Attributes:
        topic: phase, kind and modality of its messages.
        start: [n] its value before the first round, the same at all clients that share it.
        parts: name and shape of the arrays that it consists of, one after the other in row order.
        weights: neighbor -> mixing weight; these neighbors send theirs, and expect this one.
    """

    topic: VectorName
    start: NDArray[np.floating[Any]]
    parts: Sequence[tuple[str, Sequence[int]]]
    weights: Mapping[NodeId, float]


@dataclass(frozen=True, slots=True, eq=False)
class OutsidePlace:
    """Part of one outside client in a run.

    Attributes:
        client_id: id of the client.
        n_rounds: number of rounds of the run.
        speed: simulated seconds per real second.
        deadline_s: simulated time from a request to the end of its phase.
        phases: phases of every round.
        vectors: vectors that it shares with neighbors.
    """

    client_id: NodeId
    n_rounds: int
    speed: float
    deadline_s: float
    phases: Sequence[Phase]
    vectors: Sequence[OutsideVector]

    @property
    def neighbors(self) -> list[NodeId]:
        """Ids of the clients that share any vector with it, ascending."""
        return sorted({neighbor for vector in self.vectors for neighbor in vector.weights})

    @property
    def allowance(self) -> Allowance:
        """What its process may send: a reply with a frame for every message, and twice its bytes pending."""
        n_messages = sum(len(vector.weights) for vector in self.vectors)
        n_bytes = sum(len(vector.weights) * vector.start.nbytes for vector in self.vectors)
        n_parts = max(STRANGER.parts, 1 + n_messages)
        return Allowance(STRANGER.pending_bytes + 2 * n_bytes, n_parts, STRANGER.header_bytes)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        """Slots of the messages that its neighbors send it in a phase."""
        return frozenset(
            MessageSlot(round_index, phase, neighbor, vector.topic.kind, vector.topic.modality)
            for vector in self.vectors
            if vector.topic.phase == phase
            for neighbor in vector.weights
        )

    def check(self, messages: Sequence[Message], phase: str, round_index: int) -> None:
        """Refuse what this client may not send in a phase; it may send less.

        Raises:
            WireError: a message of another client, phase or round, of another size or type, with numbers that are not
                finite, or twice.
        """
        # Messages are matched by topic: what is no shared vector of this client must not enter an average.
        vectors = {vector.topic: vector for vector in self.vectors}
        seen = set()
        for message in messages:
            if (message.sender, message.round_index, message.phase) != (self.client_id, round_index, phase):
                raise WireError(f"client {self.client_id} answers with a message of another client, round or phase")
            topic = VectorName(message.phase, message.kind, message.modality)
            vector = vectors.get(topic)
            # Checked here, because an outside process is not trusted and links carry whatever the engine sends.
            if vector is None or message.receiver not in vector.weights or message.received is not None:
                raise WireError(f"client {self.client_id} shares no {_named(topic)} with {message.receiver}")
            if (topic, message.receiver) in seen:
                raise WireError(f"client {self.client_id} sends its {_named(topic)} twice to {message.receiver}")
            seen.add((topic, message.receiver))
            payload = message.payload
            if payload.shape != vector.start.shape or payload.dtype != vector.start.dtype:
                raise WireError(
                    f"{_named(topic)} of client {self.client_id} must be {len(vector.start)} numbers of"
                    f" {vector.start.dtype.str}, got {len(payload)} of {payload.dtype.str}"
                )
            # One NaN would spread through every average.
            if not np.isfinite(payload).all():
                raise WireError(f"{_named(topic)} of client {self.client_id} is not finite")


def pack_place(place: OutsidePlace, silence_s: float) -> Packet:
    """The packet that the process of an outside client is sent when it joins.

    Entry of every vector: [phase, kind, modality, dtype, n, parts, frame of its start, [[neighbor, weight], ...]].
    """
    frames: list[Frame] = []
    shared = []
    for vector in place.vectors:
        frames.append(np.ascontiguousarray(vector.start).view(np.uint8).data.toreadonly())
        parts = [[name, list(shape)] for name, shape in vector.parts]
        weights = [[neighbor, float(weight)] for neighbor, weight in sorted(vector.weights.items())]
        phase, kind, modality = vector.topic
        length = len(vector.start)
        shared.append([phase, str(kind), modality, vector.start.dtype.str, length, parts, len(frames) - 1, weights])
    fields = {
        "client": place.client_id,
        "rounds": place.n_rounds,
        "speed": place.speed,
        "deadline_s": place.deadline_s,
        "silence_s": silence_s,
        "neighbors": place.neighbors,
        "phases": pack_phases(place.phases),
        "shared": shared,
    }
    return Packet("place", fields, frames)


def _named(topic: VectorName) -> str:
    return f"{topic.kind} of {topic.modality}" if topic.modality else str(topic.kind)

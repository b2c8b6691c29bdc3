"""Small stand-ins for what surrounds the emulator's parts: a transport, links and learners that follow a script."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray
from sheafedge.emulator.contracts import (
    Arrival,
    Delivery,
    InFlight,
    Message,
    MessageKind,
    MessageSlot,
    Modality,
    NodeId,
    Phase,
    State,
)
from sheafedge.emulator.recorder import Recorder

PACKET_BYTES = 16  # two float64 per packet
HEADER_BYTES = 16  # one more packet, behind the payload


def message(
    sender: NodeId = 0,
    receiver: NodeId = 1,
    *,
    kind: MessageKind = MessageKind.ENCODER,
    round_index: int = 0,
    phase: str = "mix",
    values: Sequence[float] = (1.0, 2.0, 3.0, 4.0),
    modality: Modality | None = "gps",
    received: Sequence[bool] | None = None,
) -> Message:
    """A message; what a test does not care about has a default."""
    mask = None if received is None else np.array(received)
    return Message(kind, sender, receiver, round_index, phase, np.array(values), modality, mask)


def quiet_recorder() -> Recorder:
    """A recorder whose observations nobody reads."""
    kinds = {MessageKind.PROJECTION, MessageKind.REPROJECTION, MessageKind.ENCODER, MessageKind.PROTOTYPES}
    return Recorder(frozenset(kinds), lambda *_: None)


class DirectTransport:
    """Hands messages over as they are; lost packets leave zeros and a mask, as on the wire."""

    forwards_ahead = True

    def submit(self, messages: Sequence[Message]) -> list[InFlight]:
        return [
            InFlight(one.slot, one.receiver, one.payload.nbytes + HEADER_BYTES, zlib.crc32(one.payload.tobytes()), one)
            for one in messages
        ]

    def forward(self, arrivals: Sequence[Arrival]) -> list[Message]:
        return [self._left(*arrival) for arrival in arrivals]

    def _left(self, in_flight: InFlight, lost_packets: NDArray[np.int64], packet_bytes: int) -> Message:
        sent: Message = in_flight.frames
        if not lost_packets.size:
            return sent
        packet_of = np.arange(sent.payload.size) * sent.payload.itemsize // packet_bytes
        received = ~np.isin(packet_of, lost_packets)
        return replace(sent, payload=np.where(received, sent.payload, 0.0), received=received)

    def close(self) -> None:
        """Nothing to free."""


class ScriptedLink:
    """A fixed delay, and packets lost as the script says, message by message; past its end nothing is lost.

    The fate is told after `decides_after_s`, or at once.
    """

    def __init__(
        self,
        env: simpy.Environment,
        delay_s: float = 0.0,
        losses: Iterable[Sequence[int]] = (),
        n_retransmissions: int = 0,
        decides_after_s: float = 0.0,
        dropped: bool = False,
    ) -> None:
        self._env, self.delay_s, self._losses, self._n_retransmissions = env, delay_s, iter(losses), n_retransmissions
        self._decides_after_s, self._dropped = decides_after_s, dropped
        self.priorities: list[int] = []
        self.offered_s: list[float] = []

    @property
    def packet_bytes(self) -> int:
        return PACKET_BYTES

    def offer(self, size_bytes: int, priority: int, decided: Callable[[Delivery], None]) -> None:
        self.offered_s.append(self._env.now)
        self.priorities.append(priority)
        lost = np.array(next(self._losses, ()), dtype=np.int64)
        n_packets = -(-size_bytes // PACKET_BYTES)
        arrival_s = self._env.now + self.delay_s
        fate = Delivery(arrival_s, lost, n_packets, self._n_retransmissions, 0.0, self._dropped)
        if self._decides_after_s == 0.0:
            decided(fate)
        else:
            self._env.timeout(self._decides_after_s).callbacks.append(lambda _: decided(fate))


@dataclass(frozen=True)
class Call:
    """One call of a learner: when, what, and the senders of what it was given."""

    now_s: float
    name: str
    phase: str
    round_index: int
    senders: tuple[NodeId, ...] = ()


class ScriptedLearner:
    """Sends its number to all neighbors in every phase, and adds what it hears to it; records what it is asked.

    The number depends on every message that was ever absorbed and on their order: equal numbers mean equal lives.
    """

    def __init__(
        self, client_id: NodeId, neighbors: Sequence[NodeId], phases: Sequence[Phase], clock: Callable[[], float]
    ) -> None:
        self.client_id, self._neighbors, self._phases, self._clock = client_id, neighbors, tuple(phases), clock
        self.calls: list[Call] = []
        self.number = float(client_id + 1)
        self._alone = threading.Lock()

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return self._phases

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        self._called("compute", phase, round_index)
        values = [self.number, 1.0, 2.0, 3.0]
        return [
            message(self.client_id, peer, round_index=round_index, phase=phase, values=values)
            for peer in self._neighbors
        ]

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return frozenset(MessageSlot(round_index, phase, peer, MessageKind.ENCODER, "gps") for peer in self._neighbors)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        self._called("absorb", phase, round_index, tuple(m.sender for m in arrived))
        for heard in arrived:
            self.number = np.cos(self.number) + float(heard.payload @ [1.0, 2.0, 3.0, 4.0])

    def predict(self, inputs: Mapping[Modality, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        raise NotImplementedError

    def health(self) -> Mapping[str, float]:
        return {"number": self.number}

    def state(self) -> State:
        return float(self.number)

    def restore(self, state: State) -> None:
        assert isinstance(state, float)
        self.number = state

    def _called(self, name: str, phase: str, round_index: int, senders: tuple[NodeId, ...] = ()) -> None:
        assert self._alone.acquire(blocking=False), f"{name} of {self.client_id} runs beside another call"
        self.calls.append(Call(self._clock(), name, phase, round_index, senders))
        self._alone.release()

"""The vocabulary that all packages share: what a message, a learner, a link and a transport are.

Imports none of ours but `modalities`, which is part of the vocabulary. `emulator` plays learners without knowing which
algorithm they are; `models` computes messages without knowing that time or sockets exist; both speak only in the types
below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .modalities import MODALITIES as MODALITIES  # noqa: PLC0414 - part of the vocabulary, offered here as well
from .modalities import MODALITY_SPECS as MODALITY_SPECS  # noqa: PLC0414
from .modalities import SENSED_MODALITIES as SENSED_MODALITIES  # noqa: PLC0414
from .modalities import InputWindow as InputWindow  # noqa: PLC0414
from .modalities import Modality as Modality  # noqa: PLC0414

NodeId = int

#: [n] what rows are asked about: classes from 0, or values.
Labels: TypeAlias = NDArray[np.int64] | NDArray[np.float32]

#: Input of a deployed model [batch or 1, n_modalities] that says which of its sensors gave something, 1 or 0.
PRESENT_NAME = "present"


class SheafedgeError(Exception):
    """Base of every error that a user can cause; the command line prints it as one sentence and exits with 2.

    Examples:
        >>> from sheafedge import SheafedgeError, load_scenario
        >>> try:
        ...     load_scenario("digits").edited({"rounds": 0})
        ... except SheafedgeError as error:
        ...     print(error)
        rounds must be at least 1, got 0
    """


class ConfigError(SheafedgeError, ValueError):
    """A field of a scenario is wrong or contradicts another; the message names the field and the remedy."""


class ScenarioError(ConfigError):
    """Everything that is wrong with a scenario, one sentence each.

    Args:
        sentences: at least one.
        where: put before every sentence, such as the name of the file.
    """

    def __init__(self, sentences: Iterable[str], where: str = "") -> None:
        self.sentences = tuple(f"{where}{sentence}" for sentence in sentences)
        super().__init__("\n".join(self.sentences))


class DataError(SheafedgeError, ValueError):
    """A data file is missing, truncated or holds impossible values; the message names the file and row."""


class TopologyError(ConfigError):
    """The communication graph cannot carry the run, such as a modality whose subgraph is disconnected."""


class DivergedError(SheafedgeError, ArithmeticError):
    """Training left the finite numbers; the message names the client, the round and the step size to lower."""


#: The state of a learner, a link or an inbox as a plain tree: dicts with text keys, lists, numpy arrays, numbers,
#: texts, truth values and None. It can be written as arrays and JSON (`state_tree`), and read without running code.
#: Whole numbers stay below 2^63, longer ones are hexadecimal text; floats may be none of the finite ones.
State: TypeAlias = Any
#: Name -> figure, or the figures of all neighbors by their ids.
Figures: TypeAlias = Mapping[str, float | Mapping[str, float]]


class MessageKind(StrEnum):
    """What a message holds. Labels, raw samples and maps have no kind and cannot be sent.

    An algorithm declares the kinds that it sends. Heads, attention vectors and class means leave a client only in
    algorithms that say so; Sheaf-DMFL and sheaf diffusion send projections and encoders.
    """

    PROJECTION = "projection"  # [d_ij] restriction map @ head, before the head step
    REPROJECTION = "reprojection"  # [d_ij], or [d_ij + 1] with the head's squared norm: the same after the head step
    ENCODER = "encoder"  # [n_parameters] all parameters of one modality's encoder
    HEAD = "head"  # [d_i] the head itself
    MODEL = "model"  # [d] all parameters of a client's model as one vector; all but its head where a server makes it
    UPDATE = "update"  # [d] what local steps have changed a client's model by since it was received
    EMBEDDING = "embedding"  # [width] mean over a client's training rows of what its head reads
    FACTORS = "factors"  # [n] factors of weights, term by term: column r of all modes of a weight, then what is dense
    ATTENTION = "attention"  # [n_parameters] all that the fusion learns, such as scoring vectors [n_modalities * l]
    CLASSIFIER = "classifier"  # [n_parameters] a classifier that all modalities and clients have in common
    PROTOTYPES = "prototypes"  # [n_classes * (n_features + 1)] mean features of every class, then rows per class
    ORIENTATION = "orientation"  # [1 + n * l] how labels go with untrained features, or [2] a step of the vote on it

    __hash__ = str.__hash__  # equal to its text, so hashed like it; an enumeration's own takes five times as long


#: Kinds whose coordinates mean something one by one: a receiver can use what is left after a lost packet. A projection
#: is compared with the other end's coordinate by coordinate, whatever the maps are.
DIVISIBLE_KINDS = frozenset(
    {
        MessageKind.PROJECTION,
        MessageKind.REPROJECTION,
        MessageKind.ENCODER,
        MessageKind.HEAD,
        MessageKind.MODEL,
        MessageKind.UPDATE,
        MessageKind.FACTORS,
        MessageKind.ATTENTION,
        MessageKind.CLASSIFIER,
    }
)


@dataclass(frozen=True, slots=True)
class Message:
    """One vector on its way from one node to a neighbor.

    Attributes:
        kind: what the vector is; the wire refuses kinds that the algorithm did not declare.
        sender, receiver: node ids.
        round_index: round in which it was computed, from 0.
        phase: name of the phase that computed it; the receiver absorbs it in the same phase.
        payload: [n] float32 or float64, or the float16 or words of 8 bytes that a codec makes of them; contiguous.
            Treated as read-only: broadcasts share one array.
        modality: which encoder, for `ENCODER` and `FACTORS` of one; None otherwise.
        received: [n] bool, False where an element was lost with its packet; None: everything arrived.
    """

    kind: MessageKind
    sender: NodeId
    receiver: NodeId
    round_index: int
    phase: str
    payload: NDArray[Any]
    modality: Modality | None = None
    received: NDArray[np.bool_] | None = None

    @property
    def slot(self) -> MessageSlot:
        """Where the receiver files it: at most one message per slot."""
        return MessageSlot(self.round_index, self.phase, self.sender, self.kind, self.modality)


class MessageSlot(NamedTuple):
    """Names a message that a node expects, or has got, without its content."""

    round_index: int
    phase: str
    sender: NodeId
    kind: MessageKind
    modality: Modality | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """One compute-then-absorb step of a round.

    Attributes:
        name: unique inside a round, such as "project".
        flops: floating-point operations that `compute` costs a client here, for simulated time.
    """

    name: str
    flops: float = 0.0


class Learner(Protocol):
    """What a node trains: pure of time and sockets.

    A round is an ordered tuple of phases. In each phase every client first computes messages from its own state,
    then absorbs what arrived. A learner is only ever called from one thread at a time.
    """

    client_id: NodeId

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        """The phases of this round, the same names in the same order for every client."""
        ...

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        """Work of this phase; returns the messages to send, possibly none."""
        ...

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        """Slots of the messages that `absorb` uses, from every neighbor that sends in this phase."""
        ...

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        """Use what arrived, ordered by slot; messages that are missing are simply not there."""
        ...

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        """Logits [n, n_outputs] of every model that the client holds ("fused", or one per modality) on these inputs."""
        ...

    def health(self) -> Figures:
        """Figures for monitors by name: training loss, norms, residuals."""
        ...

    def state(self) -> State:
        """A copy of the learner's state between any two calls; later calls do not change it.

        A learner that was built from the same scenario for the same client and takes this in goes on exactly as this
        one would: same messages, same predictions, same health, bit for bit. Rows that are trained on are no part of
        it, so a learner whose rows grow needs them restored beside it.
        """
        ...

    def restore(self, state: State) -> None:
        """Take over a state of the same client in the same scenario, whole or not at all; the tree is only read.

        Raises:
            ConfigError: its names, types or shapes are not those of this learner, which is then left as it was.
        """
        ...


class SensorSource(Protocol):
    """The sensors of one base station, whether they look at an emulated world or at a recording of one."""

    def sense(self, ticks: NDArray[np.int64]) -> Mapping[str, NDArray[Any]]:
        """What is recorded at these ticks of the sensors' clock, those after the ones before.

        Returns:
            field -> [F, ...], a row per frame; F is at most the number of ticks. Empty where nothing is recorded.
        """
        ...


class Delivery(NamedTuple):
    """Decision of a link about one message.

    Attributes:
        arrival_s: simulated instant at which the receiver has all that will ever come: the end of the last round of
            transmissions.
        lost_packets: [n_lost] indices of packets that never arrived, ascending; empty when all did.
        n_packets: number of packets of the message.
        n_retransmissions: transmissions beyond the first of each packet.
        airtime_s: time that sending takes a sender that is alone on its medium, repeats included.
        dropped: a full queue refused the message, so that nothing of it was ever sent; all its packets are lost.
    """

    arrival_s: float
    lost_packets: NDArray[np.int64]
    n_packets: int
    n_retransmissions: int
    airtime_s: float
    dropped: bool = False


class Link(Protocol):
    """One direction of an edge: decides when, and whether, a message arrives. Knows no bytes and no sockets."""

    @property
    def packet_bytes(self) -> int:
        """Size of the packets that it cuts messages into."""
        ...

    def offer(self, size_bytes: int, priority: int, decided: Callable[[Delivery], None]) -> None:
        """Take a message of this size, now.

        Args:
            size_bytes: header and payload.
            priority: class of the message, 0 before 1; only links that were built with classes use it.
            decided: called with the decision exactly once, at the latest at the instant of the arrival; before this
                method returns if the decision is known at once.
        """
        ...


class Transmission(NamedTuple):
    """Transmission of a message, or of a chunk of one, over a channel.

    Attributes:
        airtime_s: time that the sender is busy with it, repeats included, while it has the medium for itself.
        delay_s: from the end of the airtime to the arrival: waits for repeats, latency.
        lost_packets: [n_lost] indices of packets that never arrive, ascending.
        n_packets: number of packets.
        n_retransmissions: transmissions beyond the first of each packet.
        propagation_s, processing_s: fixed delays, where they are not part of `delay_s`.
    """

    airtime_s: float
    delay_s: float
    lost_packets: NDArray[np.int64]
    n_packets: int
    n_retransmissions: int
    propagation_s: float = 0.0
    processing_s: float = 0.0

    def arrival_s(self, end_s: float) -> float:
        """Simulated instant at which the receiver has all that will ever arrive, if the airtime ends at `end_s`."""
        return end_s + self.delay_s + self.propagation_s + self.processing_s


class Channel(Protocol):
    """Path from a sender to a receiver, with rate, delay, loss and repeats, but without a queue."""

    @property
    def packet_bytes(self) -> int:
        """Size of all packets but a message's last; a multiple of 8."""
        ...

    def transmit(self, start_s: float, size_bytes: int) -> Transmission:
        """Transmit a message of this size from this simulated instant on.

        A sender starts one transmission after the other, in the order of time.
        """
        ...


class Transport(Protocol):
    """Carrier of bytes that decides nothing. All transports give the same trajectory bit for bit.

    A message crosses twice, as it does between hosts: from its sender to the hub, and, when the link has let it
    through, from the hub to its receiver. Messages that cross at the same time are handed over together.

    Attributes:
        forwards_ahead: it has copied what it was given, so that messages may cross to their receivers' worker before
            their simulated arrival, together with others; otherwise each crosses when it arrives.
    """

    @property
    def forwards_ahead(self) -> bool:
        """See the class."""
        ...

    def submit(self, messages: Sequence[Message]) -> list[InFlight]:
        """Carry messages from their senders' worker to the hub, and hand over what the hub received, in order."""
        ...

    def forward(self, arrivals: Sequence[Arrival]) -> list[Message]:
        """Carry what survived from the hub to the receivers' worker, and return what is read there, in order."""
        ...

    def packed(self, in_flight: InFlight) -> tuple[bytes, bytes]:
        """Header and payload of a message that waits at the hub, for a checkpoint."""
        ...

    def unpacked(self, header: bytes, payload: bytes) -> InFlight:
        """A message of a checkpoint, at the hub again."""
        ...

    def forward_damaged(self, arrival: Arrival, flipped_bits: NDArray[np.int64]) -> Message:
        """As `forward`, after these bits of what survived were flipped on their way to the receiver.

        Raises:
            WireError: the receiver has noticed, and refuses the message.
        """
        ...

    def close(self) -> None:
        """Free sockets; safe to call twice."""
        ...


class InFlight(NamedTuple):
    """A message at the hub: everything a link may know about it, and the frames it came in, unread.

    Attributes:
        slot, receiver: of the message.
        size_bytes: size of header and payload as they cross the link.
        checksum: of the payload; identifies the content in the trace.
        frames: frames that the transport forwards; opaque to all others.
    """

    slot: MessageSlot
    receiver: NodeId
    size_bytes: int
    checksum: int
    frames: Any


class Arrival(NamedTuple):
    """What a link lets through of a message at the hub.

    Attributes:
        in_flight: the message.
        lost_packets: [n_lost] indices of packets that do not arrive, ascending; empty when all do.
        packet_bytes: size of its packets.
    """

    in_flight: InFlight
    lost_packets: NDArray[np.int64]
    packet_bytes: int

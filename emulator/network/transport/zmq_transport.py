"""Carries messages over ZeroMQ: real sockets and real bytes, a hub and one worker in the engine's process.

The worker is the nodes' end of the hub, a DEALER of one process; ids in the headers distinguish its nodes.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import zmq

from ...contracts import Arrival, ConfigError, InFlight, Message
from .envelope import Envelope
from .errors import TransportError, WireError
from .hub import JOIN_FRAMES, Hub, head_content
from .intake import Intake
from .sockets import COPY_BELOW_BYTES, open_socket, send_frames
from .wire import Wire, WireFrames, messages_of
from .wire_transport import WireTransport


class ZmqTransport(WireTransport):
    """A `Transport` over one ROUTER (the hub) and one DEALER (the worker of all nodes).

    Hub and worker take turns in the engine's thread: each step sends, then waits for what was sent, so the order of
    messages is the engine's. Each end takes exactly what the other has just sent, so that nothing that another process
    sends to the address, not even an old message, is taken for one; the hub closes all other connections. Senders must
    not change a payload after submitting it (`Wire` notices).

    Args:
        wire: wire format, with the kinds of messages that may cross.
        address: `inproc://NAME`, `ipc://FILE` or `tcp://HOST:PORT`; None for an inproc name of its own.
        context: ZeroMQ context to share with others; then it stays open on `close`.
        timeout_s: longest wait for any one message.

    Attributes:
        address: address in use, with the port that `*` was given.
        hub, worker: the two ends; they count what they refuse.

    Raises:
        ConfigError: the time limit is not a positive number.
        TransportError: the address cannot be used.
    """

    def __init__(
        self,
        wire: Wire,
        address: str | None = None,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        if not (timeout_s > 0.0 and math.isfinite(timeout_s)):
            raise ConfigError(f"timeout_s must be a positive number of seconds, got {timeout_s}; 30 is the default")
        super().__init__(wire)
        self._own_context = zmq.Context() if context is None else None
        shared = context if context is not None else self._own_context
        assert shared is not None
        try:
            # Names of inproc belong to a context, which several transports may share.
            own_name = f"inproc://sheafedge-{id(self):x}"
            # The first socket that connects under a name has it: this one cannot be guessed, and the worker has it
            # before the address is published.
            self._identity = b"worker-0-" + secrets.token_hex(8).encode()
            self.hub = Hub(shared, address or own_name, wire, frozenset({self._identity}), timeout_s)
            try:
                self.worker = Worker(shared, self.hub.address, wire, self._identity, timeout_s)
                self._connect_worker()
            except TransportError:
                self.hub.close()
                raise
        except TransportError:
            self._free_context()
            raise
        self.address = self.hub.address

    #: Its frames are copies of what senders hold.
    forwards_ahead = True

    def submit(self, messages: Sequence[Message]) -> list[InFlight]:
        """Send messages from the worker, and receive them at the hub.

        Raises:
            WireError: a message must not cross; none of them has.
            TransportError: they did not come through in time, or the transport was closed.
        """
        self._check_open()
        in_flights: list[InFlight] = []
        for envelope in self.worker.envelopes(messages):
            self.worker.send(envelope)
            in_flights += self.hub.receive(envelope.head, len(envelope.payloads))
        return in_flights

    def forward(self, arrivals: Sequence[Arrival]) -> list[Message]:
        """Send what survived from the hub, and receive it at the worker.

        Raises:
            WireError: the frames are damaged, or of no use unless whole.
            TransportError: they did not come through in time, or the transport was closed.
        """
        self._check_open()
        messages: list[Message] = []
        for envelope in self._wire.envelopes(self._left(*arrivals)):
            self.hub.forward(self._identity, envelope)
            messages += self.worker.receive(envelope.head, len(envelope.payloads))
        return messages

    def close(self) -> None:
        """Free the sockets, and the context unless it is shared; safe to call twice."""
        if self._is_closed:
            return
        super().close()
        self.worker.close()
        self.hub.close()
        self._free_context()

    def _connect_worker(self) -> None:
        try:
            self.worker.join()
            self.hub.admit_only(self._identity)
        except TransportError:
            self.worker.close()
            raise

    def _free_context(self) -> None:
        if self._own_context is not None:
            self._own_context.term()


class Worker:
    """Sends messages of its nodes to the hub, and receives what the hub forwards to them; refuses everything else.

    Args:
        context: owner of the socket; for `inproc://` the hub's own.
        address: address at which the hub listens.
        wire: wire format, with the kinds of messages that may cross.
        identity: under which the hub knows this worker.
        timeout_s: longest wait for any message, in seconds.

    Raises:
        TransportError: the address is not one.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        wire: Wire,
        identity: bytes,
        timeout_s: float,
    ) -> None:
        self._wire = wire
        self._timeout_s = timeout_s
        self._socket = open_socket(context, zmq.DEALER, timeout_s, wire.max_frame_bytes)
        self._intake = Intake(self._socket, 0, "worker got nothing from the hub", timeout_s)
        self._socket.setsockopt(zmq.IDENTITY, identity)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self._socket.close()
            raise TransportError(f"worker cannot connect to {address!r} ({error})") from None

    @property
    def n_refused(self) -> int:
        """Number of envelopes that were dropped because they were malformed or unexpected."""
        return self._intake.n_refused

    @property
    def last_refusal(self) -> str:
        """Reason of the latest refusal; empty when nothing was refused."""
        return self._intake.last_refusal

    def join(self) -> None:
        """Announce this worker to the hub; see `Hub.admit_only`.

        Raises:
            TransportError: the hub cannot be reached in time.
        """
        self._send(JOIN_FRAMES)

    def envelopes(self, messages: Sequence[Message]) -> Iterator[Envelope]:
        """Messages of its nodes as envelopes; each is to be sent, and read, before the next is made.

        Raises:
            WireError: a message must not cross.
        """
        return self._wire.envelopes(_owned(self._wire.encode_all(messages)))

    def send(self, envelope: Envelope) -> None:
        """Hand an envelope to the hub.

        Raises:
            TransportError: the hub does not take it in time.
        """
        self._send([envelope.head, *envelope.payloads])

    def receive(self, head: bytes, n_payloads: int) -> list[Message]:
        """The messages of an envelope with this head; their payloads are read-only views of its frames.

        Whatever else arrives before it is counted and dropped.

        Args:
            head: head of the envelope that comes next.
            n_payloads: number of its payloads.

        Raises:
            TransportError: it did not come in time.
        """
        return self._intake.next(1 + n_payloads, lambda frames: self._take(frames, head))

    def _send(self, frames: Sequence[Any]) -> None:
        try:
            send_frames(self._socket, frames)
        except zmq.ZMQError as error:
            raise TransportError(f"worker could not send to the hub within {self._timeout_s} s ({error})") from None

    def _take(self, frames: list[zmq.Frame], expected: bytes) -> list[Message]:
        head, *carriers = frames
        if head_content(head) != expected:
            raise WireError("the hub sent something else than the messages that were to come")
        return messages_of(self._wire.opened(expected, [carrier.buffer for carrier in carriers], carriers))

    def close(self) -> None:
        """Free the socket; safe to call twice."""
        self._socket.close(linger=0)


def _owned(frames: Sequence[WireFrames]) -> Iterator[WireFrames]:
    """The same frames, large payloads as copies: pyzmq copies what is smaller, and sends the rest from its memory.

    The sender may use its array again once the phase is over. Messages of a broadcast share the copy.
    """
    copies: dict[int, zmq.Frame] = {}
    for one in frames:
        if one.payload.nbytes < COPY_BELOW_BYTES:
            yield one
            continue
        if id(one.payload) not in copies:
            copies[id(one.payload)] = zmq.Frame(one.payload, copy=True)
        yield one._replace(carrier=copies[id(one.payload)])

"""Carries messages over ZeroMQ: real sockets and real bytes, a hub and one worker in the engine's process.

The worker is the nodes' end of the hub, a DEALER of one process; ids in the headers distinguish its nodes.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

import numpy as np
import zmq
from numpy.typing import NDArray

from ...contracts import ConfigError, InFlight, Message
from .errors import TransportError, WireError
from .hub import JOIN_FRAMES, Hub, header_content
from .intake import Intake
from .sockets import open_socket, send_frames
from .wire import Wire
from .wire_transport import WireTransport

_SHARED_ABOVE_BYTES = 1 << 15  # below, one copy per message costs less than looking for a frame to share


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

    def submit(self, message: Message) -> InFlight:
        """Send the message from the worker, and receive it at the hub.

        Raises:
            WireError: the message must not cross.
            TransportError: it did not come through in time, or the transport was closed.
        """
        self._check_open()
        return self.hub.receive(self.worker.send(message))

    def forward(self, in_flight: InFlight, lost_packets: NDArray[np.int64], packet_bytes: int) -> Message:
        """Send what survived from the hub, and receive it at the worker.

        Raises:
            WireError: the frames are damaged, or of no use unless whole.
            TransportError: it did not come through in time, or the transport was closed.
        """
        self._check_open()
        return self.worker.receive(self.hub.forward(self._identity, in_flight, lost_packets, packet_bytes))

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
        self._broadcast: tuple[Message, zmq.Frame] | None = None  # the last large payload, as a frame
        self._socket = open_socket(context, zmq.DEALER, timeout_s, wire.max_frame_bytes)
        self._intake = Intake(self._socket, 2, "worker got nothing from the hub", timeout_s)
        self._socket.setsockopt(zmq.IDENTITY, identity)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self._socket.close()
            raise TransportError(f"worker cannot connect to {address!r} ({error})") from None

    @property
    def n_refused(self) -> int:
        """Number of messages that were dropped because they were malformed or unexpected."""
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

    def send(self, message: Message) -> bytes:
        """Encode a message and hand it to the hub.

        Returns:
            Its header.

        Raises:
            WireError: the message must not cross.
            TransportError: the hub does not take it in time.
        """
        frames = self._wire.encode(message)
        self._send([frames.header, self._payload_frame(message, frames.payload)])
        return frames.header

    def receive(self, expected: bytes) -> Message:
        """The message with this header; its payload is a read-only view of the frame.

        Whatever else arrives before it is counted and dropped.

        Args:
            expected: header of the message that comes next, as `Hub.forward` returns it.

        Raises:
            TransportError: no message came in time.
        """
        return self._intake.next(lambda frames: self._take(frames, expected))

    def _send(self, frames: Sequence[bytes | memoryview | zmq.Frame]) -> None:
        try:
            send_frames(self._socket, frames)
        except zmq.ZMQError as error:
            raise TransportError(f"worker could not send to the hub within {self._timeout_s} s ({error})") from None

    def _take(self, frames: list[zmq.Frame], expected: bytes) -> Message:
        header = header_content(frames[0])
        if header != expected:
            raise WireError("the hub sent something else than the message that was to come")
        return self._wire.decode(header, frames[1].buffer)

    def _payload_frame(self, message: Message, payload: memoryview) -> memoryview | zmq.Frame:
        """Frame to send; the messages of a broadcast share one frame, so that a large payload is copied once."""
        if payload.nbytes < _SHARED_ABOVE_BYTES:
            return payload
        if self._broadcast is not None:
            last, frame = self._broadcast
            if last.payload is message.payload and (last.round_index, last.phase) == (
                message.round_index,
                message.phase,
            ):
                return frame
        frame = zmq.Frame(payload, copy=True)  # the sender may use its array again once the phase is over
        self._broadcast = (message, frame)
        return frame

    def close(self) -> None:
        """Free the socket; safe to call twice."""
        self._broadcast = None
        self._socket.close(linger=0)

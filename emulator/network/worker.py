"""Where nodes live: a ZeroMQ DEALER that speaks for all nodes of one process, told apart by the ids in the headers."""

from __future__ import annotations

import zmq

from ..contracts import Message
from .errors import TransportError
from .sockets import open_socket
from .wire import Wire

_SHARED_ABOVE_BYTES = 1 << 15  # below, one copy per message costs less than looking for a frame to share


class Worker:
    """Sends its nodes' messages to the hub, and receives what the hub forwards to them.

    Args:
        context: owner of the socket; for `inproc://` the hub's own.
        address: where the hub listens.
        wire: what may cross.
        identity: under which the hub knows this worker.
        timeout_s: longest wait for anything.

    Raises:
        TransportError: the address is not one.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, wire: Wire, identity: bytes, timeout_s: float
    ) -> None:
        self._wire = wire
        self._timeout_s = timeout_s
        self._broadcast: tuple[Message, zmq.Frame] | None = None  # the last large payload, as a frame
        self._socket = open_socket(context, zmq.DEALER, timeout_s)
        self._socket.setsockopt(zmq.IDENTITY, identity)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self._socket.close()
            raise TransportError(f"worker cannot connect to {address!r} ({error})") from None

    def send(self, message: Message) -> None:
        """Encode a message and hand it to the hub.

        Raises:
            WireError: the message must not cross.
            TransportError: the hub does not take it in time.
        """
        frames = self._wire.encode(message)
        try:
            self._socket.send_multipart([frames.header, self._payload_frame(message, frames.payload)], copy=False)
        except zmq.ZMQError as error:
            raise TransportError(f"worker could not send to the hub within {self._timeout_s} s ({error})") from None

    def receive(self) -> Message:
        """The next message for one of this worker's nodes; its payload is a read-only view of the frame.

        Raises:
            WireError: what came is not a message.
            TransportError: nothing came in time.
        """
        try:
            parts = self._socket.recv_multipart(copy=False)
        except zmq.ZMQError as error:
            raise TransportError(f"worker got nothing from the hub within {self._timeout_s} s ({error})") from None
        if len(parts) != 2:
            raise TransportError(f"hub sent {len(parts)} frames where a message has two")
        return self._wire.decode(parts[0].bytes, parts[1].buffer)

    def _payload_frame(self, message: Message, payload: memoryview) -> memoryview | zmq.Frame:
        """What to send; the messages of a broadcast share one frame, so that a large payload is copied once."""
        if payload.nbytes < _SHARED_ABOVE_BYTES:
            return payload
        if self._broadcast is not None:
            last, frame = self._broadcast
            if last.payload is message.payload and (last.round_index, last.phase) == (
                message.round_index,
                message.phase,
            ):
                return frame
        frame = zmq.Frame(payload, copy=True)
        self._broadcast = (message, frame)
        return frame

    def close(self) -> None:
        """Free the socket; safe to call twice."""
        self._broadcast = None
        self._socket.close(linger=0)

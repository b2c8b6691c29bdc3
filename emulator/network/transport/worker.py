"""The nodes' end of the hub: a ZeroMQ DEALER of one process; ids in the headers distinguish its nodes."""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from ...contracts import Message
from .errors import TransportError, WireError
from .hub import JOIN_FRAMES, header_content
from .intake import Intake
from .sockets import open_socket, send_frames
from .wire import Wire

_SHARED_ABOVE_BYTES = 1 << 15  # below, one copy per message costs less than looking for a frame to share


class Worker:
    """Sends messages of its nodes to the hub, and receives what the hub forwards to them; refuses everything else.

    Args:
        context: owner of the socket; for `inproc://` the hub's own.
        address: where the hub listens.
        wire: what may cross.
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
        """Why the latest of it was refused; empty when nothing was."""
        return self._intake.last_refusal

    def join(self) -> None:
        """Announce this worker to the hub; see `Hub.wait_for_worker`.

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
        frame = zmq.Frame(payload, copy=True)  # the sender may use its array again once the phase is over
        self._broadcast = (message, frame)
        return frame

    def close(self) -> None:
        """Free the socket; safe to call twice."""
        self._broadcast = None
        self._socket.close(linger=0)

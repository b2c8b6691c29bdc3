"""The hub that all messages cross: a ZeroMQ ROUTER that receives from workers and forwards what links deliver."""

from __future__ import annotations

from pathlib import Path

import zmq

from ...contracts import InFlight
from .connection_descriptors import KERNEL_BYTES
from .envelope import MAX_HEAD_BYTES, Envelope
from .errors import TransportError, WireError
from .intake import Intake
from .single_connection import SingleConnection
from .sockets import allow_connections, open_socket, send_frames
from .wire import Wire
from .wire_transport import in_flight_of

#: The first message of a worker, for which the hub waits: two frames without content.
JOIN_FRAMES = (b"", b"")


class Hub:
    """Receives envelopes of known workers, and forwards what survived; refuses everything else and goes on.

    What it takes is whole: payloads fit their checksums, so that no link carries what its receiver could not read.

    Args:
        context: owner of the socket.
        address: address to listen at; `tcp://127.0.0.1:*` and `ipc://*` take any free place, see `address`.
        wire: wire format, with the kinds of messages that may cross.
        workers: identities of the workers that may send.
        timeout_s: longest wait for any message, in seconds.

    Attributes:
        address: address in use, with the place that was free.

    Raises:
        TransportError: the address cannot be bound, or the system allows too few open files for so many workers.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        wire: Wire,
        workers: frozenset[bytes],
        timeout_s: float,
    ) -> None:
        self._wire = wire
        self._workers = workers
        if not address.startswith("inproc://"):
            allow_connections(len(workers))
        self._socket = open_socket(context, zmq.ROUTER, timeout_s, wire.max_frame_bytes)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a vanished worker is an error, not silence
        self._socket.setsockopt(zmq.RCVHWM, 0)  # see `RpcSocket`; the worker sends one envelope at a time
        self._socket.setsockopt(zmq.RCVBUF, KERNEL_BYTES)
        self._connection = None if address.startswith("inproc://") else SingleConnection(context, self._socket)
        try:
            _check_port(address)
            self._socket.bind(address)
        except (zmq.ZMQError, ValueError) as error:
            self._close_socket()
            raise TransportError(
                f"hub cannot listen at {address!r} ({error}); use inproc://NAME, ipc://FILE or tcp://HOST:PORT"
            ) from None
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._intake = Intake(self._socket, 1, f"hub at {self.address} got no message", timeout_s)

    @property
    def n_refused(self) -> int:
        """Number of envelopes that were dropped: malformed, unexpected, or of an unknown worker."""
        return self._intake.n_refused

    @property
    def n_hung_up(self) -> int:
        """Number of connections that were closed, because they were not that of the one worker."""
        return 0 if self._connection is None else self._connection.n_closed

    @property
    def last_refusal(self) -> str:
        """Reason of the latest refusal; empty when nothing was refused."""
        return self._intake.last_refusal

    def admit_only(self, worker: bytes) -> None:
        """Wait until a worker has joined; from then on no other process can stay connected.

        Raises:
            TransportError: it did not come in time.
        """
        parts = self._intake.next(len(JOIN_FRAMES), lambda parts: _check_join(parts, worker))
        if self._connection is not None:
            self._connection.keep(parts[-1])

    def receive(self, head: bytes, n_payloads: int) -> list[InFlight]:
        """The messages of an envelope with this head; whatever else arrives before it is counted and dropped.

        Args:
            head: head of the envelope that comes next; that of a replayed one is another.
            n_payloads: number of its payloads.

        Raises:
            TransportError: it did not come in time.
        """
        return self._intake.next(1 + n_payloads, lambda parts: self._take(parts, head))

    def forward(self, worker: bytes, envelope: Envelope) -> None:
        """Send what survived of messages on to the worker that plays their receivers.

        Raises:
            TransportError: the worker is gone, or does not take the envelope in time.
        """
        try:
            send_frames(self._socket, [worker, envelope.head, *envelope.payloads])
        except zmq.ZMQError as error:
            raise TransportError(f"hub cannot reach worker {worker!r} ({error}); is it still running?") from None

    def close(self) -> None:
        """Free the socket, and the file of an `ipc://` address, which ZeroMQ leaves behind; safe to call twice."""
        if self._socket.closed:
            return
        self._close_socket()
        if self.address.startswith("ipc://") and not self.address.startswith("ipc://@"):
            Path(self.address.removeprefix("ipc://")).unlink(missing_ok=True)

    def _close_socket(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._socket.close(linger=0)

    def _take(self, parts: list[zmq.Frame], expected: bytes) -> list[InFlight]:
        worker, head, *carriers = parts
        if worker.bytes not in self._workers:
            raise WireError(f"unknown worker {worker.bytes!r}")
        # The whole head is compared, rounds and checksums included, so that a replayed message is refused.
        if head_content(head) != expected:
            raise WireError(f"worker {worker.bytes!r} sent something else than the messages that were to come")
        frames = self._wire.opened(expected, [carrier.buffer for carrier in carriers], carriers)
        return [in_flight_of(one) for one in frames]


def _check_join(parts: list[zmq.Frame], worker: bytes) -> list[zmq.Frame]:
    expected = [worker, *JOIN_FRAMES]
    # Lengths first: what an unknown process sends is not copied.
    if list(map(len, parts)) != list(map(len, expected)) or parts[0].bytes != worker:
        raise WireError(f"worker {worker!r} has not joined")
    return parts


def head_content(frame: zmq.Frame) -> bytes:
    """Bytes of an envelope's head, not copied where no head can be so long.

    Raises:
        WireError: the frame is longer than any head.
    """
    if len(frame) > MAX_HEAD_BYTES:
        raise WireError(f"head of {len(frame)} bytes is longer than {MAX_HEAD_BYTES}, which no head is")
    return frame.bytes


def _check_port(address: str) -> None:
    """ZeroMQ takes a port above 65535 modulo 65536, and would listen at an unexpected one."""
    port = address.rpartition(":")[2]
    if address.startswith("tcp://") and port.isdecimal() and int(port) > 65535:
        raise ValueError(f"port {port} is above 65535")

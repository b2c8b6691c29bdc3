"""The one place that all messages pass: a ZeroMQ ROUTER that hears workers and forwards what a link lets by."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import zmq
from numpy.typing import NDArray

from ...contracts import InFlight, NodeId
from .errors import TransportError, WireError
from .intake import Intake
from .memory_transport import at_hub
from .seen_messages import SeenMessages
from .sockets import allow_connections, open_socket, send_frames
from .wire import Header, Wire, WireFrames
from .wire_header import MAX_HEADER_BYTES

#: What a worker says first, where somebody waits for it: two frames without content.
GREETING = (b"", b"")


class Hub:
    """Receives messages of known workers, and forwards what survived; refuses everything else and goes on.

    What it takes is whole: the payload fits its checksum, so that no link is kept busy by what nobody can read.

    Args:
        context: owner of the socket.
        address: where to listen; `tcp://127.0.0.1:*` and `ipc://*` take any free place, see `address`.
        wire: what may cross.
        workers: identities of the workers that may speak.
        timeout_s: longest wait for anything.
        nodes_of: worker -> nodes that it speaks for; None: anyone for any node.

    Attributes:
        address: where the hub really listens.

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
        nodes_of: Mapping[bytes, Collection[NodeId]] | None = None,
    ) -> None:
        self._wire = wire
        self._workers = workers
        if not address.startswith("inproc://"):
            allow_connections(len(workers))
        self._nodes_of = nodes_of
        self._seen = SeenMessages()
        self._socket = open_socket(context, zmq.ROUTER, timeout_s, wire.max_frame_bytes)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a vanished worker is an error, not silence
        try:
            _check_port(address)
            self._socket.bind(address)
        except (zmq.ZMQError, ValueError) as error:
            self._socket.close()
            raise TransportError(
                f"hub cannot listen at {address!r} ({error}); use inproc://NAME, ipc://FILE or tcp://HOST:PORT"
            ) from None
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._intake = Intake(self._socket, 3, f"hub at {self.address} got no message", timeout_s)

    @property
    def n_refused(self) -> int:
        """Messages that were dropped because they were none, or none of a known worker."""
        return self._intake.n_refused

    @property
    def last_refusal(self) -> str:
        """Why the latest of them was refused; empty when none was."""
        return self._intake.last_refusal

    def meet(self, worker: bytes) -> None:
        """Wait for the greeting of a worker: from then on nobody else can connect under its name.

        Raises:
            TransportError: it did not come in time.
        """
        self._intake.next(lambda parts: _check_greeting(parts, worker))

    def receive(self, expected: bytes | None = None) -> InFlight:
        """The next message that a worker sends; whatever else arrives before it is counted and dropped.

        Args:
            expected: header of the message that comes next, where somebody knows; everything else is refused. None:
                any that has not come before.

        Raises:
            TransportError: no message came in time.
        """
        return self._intake.next(lambda parts: self._take(parts, expected))

    def forward(self, worker: bytes, in_flight: InFlight, lost_packets: NDArray[np.int64], packet_bytes: int) -> bytes:
        """Send on what survived to the worker that plays the receiver.

        Returns:
            The header that it was sent with.

        Raises:
            WireError: the message is damaged, or of no use unless whole.
            TransportError: the worker is gone, or does not take the message in time.
        """
        header, payload = in_flight.frames
        parts: list[bytes | memoryview | zmq.Frame] = [worker, header, payload]  # an untouched frame goes on as it is
        sent: bytes = header
        if lost_packets.size:
            left = self._wire.without_packets(WireFrames(header, payload.buffer), lost_packets, packet_bytes)
            if left.header is not header:
                parts, sent = [worker, left.header, left.payload], left.header
        try:
            send_frames(self._socket, parts)
        except zmq.ZMQError as error:
            raise TransportError(f"hub cannot reach worker {worker!r} ({error}); is it still running?") from None
        return sent

    def close(self) -> None:
        """Free the socket, and the file of an `ipc://` address, which ZeroMQ leaves behind; safe to call twice."""
        if self._socket.closed:
            return
        self._socket.close(linger=0)
        if self.address.startswith("ipc://") and not self.address.startswith("ipc://@"):
            Path(self.address.removeprefix("ipc://")).unlink(missing_ok=True)

    def _take(self, parts: list[zmq.Frame], expected: bytes | None) -> InFlight:
        worker, header, payload = parts
        if worker.bytes not in self._workers:
            raise WireError(f"unknown worker {worker.bytes!r}")
        frames = WireFrames(header_content(header), payload.buffer)
        if expected is not None and frames.header != expected:
            raise WireError(f"worker {worker.bytes!r} sent something else than the message that was to come")
        found = self._wire.read_verified(frames.header, frames.payload)
        if expected is None:
            self._check_news(worker.bytes, found)
        return at_hub(found, frames, (frames.header, payload))

    def _check_news(self, worker: bytes, found: Header) -> None:
        """Nobody told what comes next: the message must be the worker's own, whole, and new."""
        if self._nodes_of is not None and found.sender not in self._nodes_of.get(worker, ()):
            raise WireError(f"worker {worker!r} speaks for node {found.sender}, which is not one of its own")
        if found.lost_packets.size:
            raise WireError(f"{found.kind} from {found.sender} lost packets before it was sent")
        self._seen.take(found)


def _check_greeting(parts: list[zmq.Frame], worker: bytes) -> None:
    if [part.bytes for part in parts] != [worker, *GREETING]:
        raise WireError(f"no greeting of worker {worker!r}")


def header_content(frame: zmq.Frame) -> bytes:
    """Bytes of a header, not copied where no header can be so long.

    Raises:
        WireError: it is.
    """
    if len(frame) > MAX_HEADER_BYTES:
        raise WireError(f"header of {len(frame)} bytes is longer than {MAX_HEADER_BYTES}, which no header is")
    return frame.bytes


def _check_port(address: str) -> None:
    """ZeroMQ takes a port above 65535 modulo 65536, and would listen where nobody expects it."""
    port = address.rpartition(":")[2]
    if address.startswith("tcp://") and port.isdecimal() and int(port) > 65535:
        raise ValueError(f"port {port} is above 65535")

"""The one place that all messages pass: a ZeroMQ ROUTER that hears workers and forwards what a link lets by."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import zmq
from numpy.typing import NDArray

from ..contracts import InFlight
from .errors import TransportError, WireError
from .memory_transport import at_hub
from .sockets import open_socket
from .wire import Wire, WireFrames


class Hub:
    """Receives messages of known workers, and forwards what survived; refuses everything else and goes on.

    Args:
        context: owner of the socket.
        address: where to listen; `tcp://127.0.0.1:*` and `ipc://*` take any free place, see `address`.
        wire: what may cross.
        workers: identities of the workers that may speak.
        timeout_s: longest wait for anything.

    Attributes:
        address: where the hub really listens.
        n_refused: frames that were not messages of a known worker.
        last_refusal: why the latest of them was refused; empty when none was.

    Raises:
        TransportError: the address cannot be bound.
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
        self._timeout_s = timeout_s
        self.n_refused = 0
        self.last_refusal = ""
        self._socket = open_socket(context, zmq.ROUTER, timeout_s)
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

    def receive(self) -> InFlight:
        """The next message that a worker sends; whatever else arrives before it is counted and dropped.

        Raises:
            TransportError: no message came in time.
        """
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                parts = self._socket.recv_multipart(copy=False)
            except zmq.Again:
                raise TransportError(self._silence()) from None
            try:
                return self._accept(parts)
            except WireError as refusal:
                self.n_refused += 1
                self.last_refusal = str(refusal)
            if time.monotonic() > deadline_s:
                raise TransportError(self._silence())

    def forward(self, worker: bytes, in_flight: InFlight, lost_packets: NDArray[np.int64], packet_bytes: int) -> None:
        """Send on what survived to the worker that plays the receiver.

        Raises:
            WireError: the message is damaged, or of no use unless whole.
            TransportError: the worker is gone, or does not take the message in time.
        """
        header, payload = in_flight.frames
        parts: list[bytes | memoryview | zmq.Frame] = [worker, header, payload]  # an untouched frame goes on as it is
        if lost_packets.size:
            left = self._wire.without_packets(WireFrames(header, payload.buffer), lost_packets, packet_bytes)
            if left.header is not header:
                parts = [worker, left.header, left.payload]
        try:
            self._socket.send_multipart(parts, copy=False)
        except zmq.ZMQError as error:
            raise TransportError(f"hub cannot reach worker {worker!r} ({error}); is it still running?") from None

    def close(self) -> None:
        """Free the socket, and the file of an `ipc://` address, which ZeroMQ leaves behind; safe to call twice."""
        if self._socket.closed:
            return
        self._socket.close(linger=0)
        if self.address.startswith("ipc://") and not self.address.startswith("ipc://@"):
            Path(self.address.removeprefix("ipc://")).unlink(missing_ok=True)

    def _accept(self, parts: list[zmq.Frame]) -> InFlight:
        if len(parts) != 3:
            raise WireError(f"a message has two frames, got {len(parts) - 1}")
        sender, header, payload = parts
        if sender.bytes not in self._workers:
            raise WireError(f"unknown worker {sender.bytes!r}")
        frames = WireFrames(header.bytes, payload.buffer)
        return at_hub(self._wire, frames, (frames.header, payload))

    def _silence(self) -> str:
        refused = f"; {self.n_refused} refused, last: {self.last_refusal}" if self.n_refused else ""
        return f"hub at {self.address} got no message within {self._timeout_s} s{refused}"


def _check_port(address: str) -> None:
    """ZeroMQ takes a port above 65535 modulo 65536, and would listen where nobody expects it."""
    port = address.rpartition(":")[2]
    if address.startswith("tcp://") and port.isdecimal() and int(port) > 65535:
        raise ValueError(f"port {port} is above 65535")

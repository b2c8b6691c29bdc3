"""Carries messages over ZeroMQ: real sockets and real bytes, a hub and one worker in the engine's process."""

from __future__ import annotations

import math
import secrets

import numpy as np
import zmq
from numpy.typing import NDArray

from ...contracts import ConfigError, InFlight, Message
from .errors import TransportError
from .hub import Hub
from .wire import Wire
from .wire_transport import WireTransport
from .worker import Worker


class ZmqTransport(WireTransport):
    """A `Transport` over one ROUTER (the hub) and one DEALER (the worker of all nodes).

    Hub and worker take turns in the engine's thread: each step sends, then waits for what was sent, so the order of
    messages is the engine's. Each end takes exactly what the other has just sent, so that nothing that another process
    sends to the address, not even an old message, is taken for one. Senders must not change a payload after submitting
    it (`Wire` notices).

    Args:
        wire: what may cross.
        address: `inproc://NAME`, `ipc://FILE` or `tcp://HOST:PORT`; None for an inproc name of its own.
        context: to share with others; then it stays open on `close`.
        timeout_s: longest wait for any one message.

    Attributes:
        address: where the hub really listens, with the port that `*` was given.
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
            self.hub.wait_for_worker(self._identity)
        except TransportError:
            self.worker.close()
            raise

    def _free_context(self) -> None:
        if self._own_context is not None:
            self._own_context.term()

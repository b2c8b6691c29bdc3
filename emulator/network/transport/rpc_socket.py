"""The engine's socket for remote processes: one thread reads and writes it, and any other thread may wake that one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import zmq

from .connection_descriptors import KERNEL_BYTES
from .connection_watch import MOST_PARTS, MOST_STRANGERS, Allowance, ConnectionWatch, Cut
from .curve_keys import CurveKeys, KeyAuthenticator, use_keys
from .errors import TransportError
from .packets import MOST_FRAME_BYTES, Frame
from .sockets import allow_connections

#: Packets that are read before anything is sent; fewer mean that all were read.
READ_AT_ONCE = 256
_LINGER_MS = 300  # for the last packets to workers
_HANDSHAKES_AT_ONCE = 64
_CLOSE_WAIT_MS = 5  # while something fills, see `ConnectionWatch`
#: Packets to one process that wait for it to read, beside requests: heartbeats of minutes, or refusals.
_MOST_WAITING = 256


class RpcSocket:
    """A ZeroMQ ROUTER that serves one thread, with authentication where there are keys.

    Args:
        address: `ipc://FILE` or `tcp://HOST:PORT` to listen at.
        keys: keys of the engine; None admits every process that can reach the address.
        most_requests: most requests that wait for one process at a time.
        n_places: number of processes that are expected.

    Attributes:
        address: as given.
        endpoint: address in use, with the port that it got.

    Raises:
        TransportError: the address cannot be used, or the system allows too few open files.
    """

    def __init__(self, address: str, keys: CurveKeys | None, most_requests: int, n_places: int) -> None:
        self.address = address
        allow_connections(2 * (n_places + MOST_STRANGERS))  # the watch has a descriptor of its own for each
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._wake_sender, self._wake_receiver = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        # ZeroMQ sockets belong to one thread; this one is used by any thread that wakes, hence the lock.
        self._waking = threading.Lock()
        self._socket = self._context.socket(zmq.ROUTER)
        self._authenticator: KeyAuthenticator | None = None
        self._thread: threading.Thread | None = None
        self._all_was_read = False
        for option, value in (
            (zmq.ROUTER_MANDATORY, 1),  # a vanished worker is an error, not silence
            (zmq.MAXMSGSIZE, MOST_FRAME_BYTES),
            (zmq.SNDHWM, most_requests + _MOST_WAITING),  # beyond it a process that reads nothing is unreachable
            (zmq.LINGER, _LINGER_MS),
            # No limit of messages, and no ZMQ_HEARTBEAT_IVL. Where the limit has stopped libzmq 4.3.5 from reading a
            # connection, and it breaks, then a heartbeat of either end aborts the process (assertion !_io_error of
            # stream_engine_base.cpp). What waits is limited in bytes; packets `alive` serve as heartbeats.
            (zmq.RCVHWM, 0),
            (zmq.RCVBUF, KERNEL_BYTES),
        ):
            self._socket.setsockopt(option, value)
        self._watch = ConnectionWatch(self._context, self._socket)
        try:
            self._wake_receiver.bind("inproc://wake")
            self._wake_sender.connect("inproc://wake")
            if keys is not None:
                self._authenticator = KeyAuthenticator(self._context, keys)
                use_keys(self._socket, keys, "engine")
            # ZeroMQ binds to addresses and interface names, not to host names.
            self._socket.bind(address.replace("//localhost:", "//127.0.0.1:"))
            self.endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise TransportError(
                f"workers cannot join at {address!r} ({error}); give another address that this host has"
            ) from None
        self._poller = zmq.Poller()
        for socket in (
            self._socket,
            self._wake_receiver,
            self._watch.monitor,
            *([self._authenticator.socket] if self._authenticator else []),
        ):
            self._poller.register(socket, zmq.POLLIN)

    @property
    def n_strangers(self) -> int:
        """Number of connections without the right key."""
        return self._authenticator.n_refused if self._authenticator else 0

    def serve(self, live: Callable[[], None], name: str) -> None:
        """Start the thread of this name that keeps the socket; it ends by calling `close_sockets`."""
        self._thread = threading.Thread(target=live, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Make `received` return now; from any thread."""
        with self._waking:
            try:
                self._wake_sender.send(b"", zmq.NOBLOCK)
            except zmq.ZMQError:
                return  # a wake-up is pending already, or everything is closed

    def received(self, wait_ms: int) -> Iterator[tuple[bytes, list[Frame]]]:
        """Packets that have arrived, with the identity of their sender; waits for the first, or for `wake`.

        Of a packet with too many parts for anybody only as many are kept as show that.
        """
        self._all_was_read = False
        events = dict(self._poller.poll(min(wait_ms, _CLOSE_WAIT_MS) if self._watch.is_filling else wait_ms))
        if self._wake_receiver in events:
            while self._wake_receiver.poll(0):
                self._wake_receiver.recv()
        if self._authenticator is not None and self._authenticator.socket in events:
            self._authenticator.answer(_HANDSHAKES_AT_ONCE)
        # Bounded, so that a flood of packets cannot keep heartbeats from being sent.
        for _ in range(READ_AT_ONCE):
            if not self._socket.poll(0):
                self._all_was_read = True
                return
            yield self._next()

    def close_greedy(self, seated: Mapping[bytes, Allowance]) -> list[Cut]:
        """Close connections that exceed a limit, where it is time to look; returns those that were closed.

        Args:
            seated: identity -> allowance of processes that have a seat.
        """
        return self._watch.look(seated, all_was_read=self._all_was_read)

    @property
    def is_look_due(self) -> bool:
        """Whether it is time for `close_greedy`."""
        return self._watch.is_due

    def cut(self, identity: bytes) -> None:
        """Close the connection of a process soon, so that what was sent to it can leave before."""
        self._watch.cut(identity)

    def _next(self) -> tuple[bytes, list[Frame]]:
        identity = self._socket.recv()
        parts: list[Frame] = []
        n_bytes = n_parts = 0
        while True:
            part = self._socket.recv(copy=False)
            n_bytes, n_parts = n_bytes + len(part), n_parts + 1
            if n_parts <= MOST_PARTS + 1:
                parts.append(part.buffer)
            # Also the rest must be read, or its parts would be taken for the next message.
            if not part.more:
                self._watch.delivered(identity, part, n_bytes, n_parts)
                return identity, parts

    def send(self, identity: bytes, parts: Sequence[Frame]) -> str:
        """Send a packet to a process; returns why it cannot be sent, empty where it can."""
        try:
            self._socket.send_multipart([identity, *parts], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            return str(error)
        return ""

    def close_sockets(self) -> None:
        """Close the sockets of the thread that keeps them; called by that thread."""
        self._watch.close()
        self._socket.close()
        self._wake_receiver.close()
        if self._authenticator is not None:
            self._authenticator.close()

    def close(self) -> None:
        """Wait until the thread has ended, then free the rest and remove the file of an `ipc://` address."""
        self.wake()
        if self._thread is not None:
            self._thread.join()
        with self._waking:
            self._wake_sender.close()
        self._context.term()
        if self.address.startswith("ipc://"):
            Path(self.address.removeprefix("ipc://")).unlink(missing_ok=True)

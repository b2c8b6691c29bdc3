"""Socket of a server of models: packets of many clients in, replies out, and no client can hold up the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import zmq

from ...contracts import MODALITIES
from ...network.transport.connection_guard import ConnectionGuard, can_guard
from ...network.transport.curve_keys import CurveKeys, KeyAuthenticator, use_keys
from ...network.transport.errors import TransportError
from ...network.transport.packets import Packet, pack_packet
from ...network.transport.sockets import allow_connections, open_socket
from ..frame_packets import MOST_HEADER_BYTES, TO_CLIENT

#: Header, a frame of every modality, and one more, which shows that there are too many.
_MOST_PARTS = 2 + len(MODALITIES)
#: A message of more parts is no mistake, and never counts as taken: who sends on like that is cut off.
_FAR_TOO_MANY_PARTS = 64
#: Packets of one client that may wait inside ZeroMQ, in bytes of the largest, and at least so many bytes.
_QUEUED_OF_A_CLIENT, _QUEUED_BYTES = 64, 2 << 20
#: Bytes of all clients, in those of one. A part without contents has 2 bytes on the wire and 64 in memory.
_QUEUED_IN_ALL = 8
#: Abandoned packets that are thrown away in a row; the model must have its turns.
_MOST_ABANDONED = 64
#: Replies of one client that wait inside ZeroMQ; more are lost to it.
_UNREAD_OF_A_CLIENT = 256
#: A client without power never closes its connection: seconds until the kernel asks, between asking, times.
_KEEPALIVE = (
    (zmq.TCP_KEEPALIVE, 1),
    (zmq.TCP_KEEPALIVE_IDLE, 10),
    (zmq.TCP_KEEPALIVE_INTVL, 5),
    (zmq.TCP_KEEPALIVE_CNT, 3),
)
#: Clients that are remembered for the farewell at the end.
_MOST_CLIENTS = 4096


class ServingSocket:
    """A ROUTER socket, with an authenticator where there are keys; belongs to the thread that made it.

    Args:
        address: tcp://HOST:PORT, port * for a free one, or ipc://FILE.
        keys: keys of this end; None: no encryption.
        frame_bytes: sizes of the largest frame of every sensor; larger ones than the largest are not received.
        n_connections: number of connections that must be possible at once.
        timeout_s: longest wait for room to send.

    Attributes:
        address: address with the port in use.
        clients: identities of the latest clients, the newest last.
        n_abandoned: packets that were thrown away, because their clients are gone and have left too many.

    Raises:
        TransportError: the address is taken.
    """

    def __init__(
        self, address: str, keys: CurveKeys | None, *, frame_bytes: Sequence[int], n_connections: int, timeout_s: float
    ) -> None:
        allow_connections(2 * n_connections)  # the guard has a descriptor of its own for each
        self.clients: OrderedDict[bytes, None] = OrderedDict()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator: KeyAuthenticator | None = None
        self.n_abandoned = 0
        self._guard: ConnectionGuard | None = None
        self._socket = open_socket(self._context, zmq.ROUTER, timeout_s, max(*frame_bytes, MOST_HEADER_BYTES))
        self._socket.setsockopt(zmq.RCVHWM, _QUEUED_OF_A_CLIENT)
        self._socket.setsockopt(zmq.SNDHWM, _UNREAD_OF_A_CLIENT)
        # Not ZeroMQ's heartbeats, with which a client that dies can end the server: see `ConnectionGuard`.
        for option, value in _KEEPALIVE:
            self._socket.setsockopt(option, value)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # replies that cannot be sent are errors, which are counted
        if can_guard(address):
            most_bytes = max(_QUEUED_BYTES, _QUEUED_OF_A_CLIENT * sum(frame_bytes))
            self._guard = ConnectionGuard(
                self._socket,
                most_bytes=most_bytes,
                most_bytes_in_all=_QUEUED_IN_ALL * most_bytes,
                encrypted=keys is not None,
            )
        try:
            if keys is not None:
                self._authenticator = KeyAuthenticator(self._context, keys)
                use_keys(self._socket, keys, "engine")
            self._socket.bind(address)
        except (zmq.ZMQError, TransportError) as error:
            self._close(linger_ms=0)
            raise TransportError(f"{address} cannot be bound ({error}); choose another address") from None
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        if self._authenticator is not None:
            self._poller.register(self._authenticator.socket, zmq.POLLIN)

    @property
    def n_refused(self) -> int:
        """Connections so far that showed no known key."""
        return 0 if self._authenticator is None else self._authenticator.n_refused

    @property
    def n_cut(self) -> int:
        """Connections so far that were cut off, because they sent more than is taken."""
        return 0 if self._guard is None else self._guard.n_cut

    def wake_by(self, descriptor: int) -> None:
        """End a wait for packets also when there is something to read here."""
        self._poller.register(descriptor, zmq.POLLIN)

    def arrived(self, wait_s: float) -> bool:
        """Whether a packet is there, after waiting so long at most; keys of new connections are checked on the way."""
        ready = dict(self._poller.poll(round(1000 * wait_s)))
        if self._authenticator is not None and self._authenticator.socket in ready:
            self._authenticator.answer()
        return self._socket in ready

    def received(self) -> tuple[bytes, list[memoryview]] | None:
        """Client and the parts of its packet; None: there is none.

        Of a message with too many parts only as many are kept as show that. Packets that the guard has no use for are
        counted and thrown away.
        """
        for _ in range(_MOST_ABANDONED):
            try:
                client = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                if self._guard is not None:
                    self._guard.took_all()
                return None
            parts, is_wanted = self._parts(client)
            if is_wanted:
                self.clients[client] = None
                self.clients.move_to_end(client)
                if len(self.clients) > _MOST_CLIENTS:
                    self.clients.popitem(last=False)
                return client, parts
            self.n_abandoned += 1
        return None

    def _parts(self, client: bytes) -> tuple[list[memoryview], bool]:
        """Parts of the message that is being received, and whether anybody waits for it."""
        parts: list[memoryview] = []
        sizes: list[int] = []
        part: zmq.Frame | None = None
        # The rest of a message must be read, or its parts would be taken for the next one.
        is_more = bool(self._socket.getsockopt(zmq.RCVMORE))
        while is_more:
            if len(sizes) == _FAR_TOO_MANY_PARTS:
                self._socket.recv(zmq.NOBLOCK)
                part, is_more = None, bool(self._socket.getsockopt(zmq.RCVMORE))
                continue
            part = self._socket.recv(zmq.NOBLOCK, copy=False)
            is_more = part.more
            sizes.append(part.buffer.nbytes)
            if len(parts) < _MOST_PARTS:
                parts.append(part.buffer)
        is_wanted = part is None or self._guard is None or self._guard.took(client, part, sizes)
        return parts, is_wanted

    def send(self, client: bytes, packet: Packet) -> Literal["sent", "full", "gone"]:
        """Send without waiting, and what became of it: a client that reads nothing must not hold up the others."""
        try:
            self._socket.send_multipart([client, *pack_packet(packet, TO_CLIENT)], zmq.NOBLOCK)
        except zmq.Again:
            return "full"
        except zmq.ZMQError:
            self.clients.pop(client, None)
            return "gone"
        return "sent"

    def close(self) -> None:
        """Free the sockets; what was sent has a second to leave."""
        self._close(linger_ms=1000)
        if self.address.startswith("ipc://"):
            Path(self.address.removeprefix("ipc://")).unlink(missing_ok=True)

    def _close(self, linger_ms: int) -> None:
        if self._guard is not None:
            self._guard.close()
        self._socket.close(linger=linger_ms)
        if self._authenticator is not None:
            self._authenticator.close()
        self._context.term()

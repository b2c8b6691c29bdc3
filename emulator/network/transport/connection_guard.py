"""Bounds the bytes of every TCP connection that are inside this process and not taken yet; who has more is cut off.

ZeroMQ's own limit, RCVHWM, cannot be used against strangers (libzmq 4.3.5, as in the wheels of pyzmq 26.2 to 27.3):

- It counts whole messages. Parts of a message without an end pile up, and nobody can take them.
- It stops the input of a full connection. Where the peer of a stopped connection dies, and then a heartbeat of this
  end is due or one of the peer's is among what it sent, libzmq aborts the process: `Assertion failed: !_io_error
  (src/stream_engine_base.cpp:310)`, known as zeromq/libzmq issues 3937 and 4841.

So a guarded socket has no RCVHWM. The kernel counts what arrived on each connection, the receiver tells what it took,
and where the difference is too large the connection is shut down. That holds whatever is sent: messages without an end,
commands, halves of handshakes, with encryption or without.

`ConnectionWatch` is for a socket whose thread never computes, and knows processes by their seats. A server of models
knows nobody, and its thread may be in a model for seconds; so the guard has a thread of its own.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Sequence

import zmq
from zmq.utils.monitor import parse_monitor_message

from .connection_descriptors import bytes_received, descriptor_of, open_monitor, shut_down

#: Interval between two looks in ms: at 1 Gbit/s, 6 MB more than the limit may arrive within.
_LOOK_MS = 50
#: Bytes per look that nobody takes and nobody has to answer for: heartbeats, which no message shows.
_LEAK_BYTES = 1
#: In limits for all: what connections that are gone have left when no new one is let in, whose packets may get lost.
_FAR_TOO_MUCH = 4
#: Who holds less than this part of the limit is not cut off for what all hold together.
_SMALL = 16
#: How identities begin that libzmq gives (a client may choose another, and have it again).
_GIVEN = b"\0"
_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED


def can_guard(address: str) -> bool:
    """Whether the kernel counts the bytes of connections to this address: TCP on Linux."""
    return address.startswith("tcp://") and sys.platform == "linux"


def wire_bytes(part_bytes: int, *, encrypted: bool) -> int:
    """Bytes of a frame on the wire.

    Source: ZMTP 3.1 (RFC 37), 2 bytes before up to 255, else 9; CURVE (RFC 26) adds to each frame the name of the
    command, 8, a nonce, 8, a MAC, 16, and flags, 1.
    """
    inner = part_bytes + 33 if encrypted else part_bytes
    return inner + (2 if inner < 256 else 9)


class _Connection:
    """One connection, by a descriptor of its own: ZeroMQ's may be closed, and another's, at any time.

    Args:
        descriptor: that of ZeroMQ.

    Attributes:
        client: identity that came with the latest message.
        taken: bytes of it that were taken or forgiven.
        is_cut: whether it was cut off.

    Raises:
        OSError: it is gone, or this process may have no more descriptors.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=os.dup(descriptor))
        self.client, self.taken, self.is_cut = b"", 0, False

    def inside(self) -> int:
        """Bytes that arrived and were not taken; negative: those of a former connection of its number were taken."""
        return (bytes_received(self._socket.fileno()) or 0) - self.taken

    def cut(self) -> None:
        """ZeroMQ closes it then, and frees the message that has no end."""
        self.is_cut = True
        shut_down(self._socket.fileno())

    def close(self) -> None:
        """ZeroMQ has closed it."""
        self._socket.close()


class ConnectionGuard:
    """Watches the connections of one bound ROUTER socket, in a thread of its own.

    Connections that are gone leave the messages that were complete. While too much is left, `took` says of those that
    nobody waits for them; while far too much is left, no new connection is let in.

    Args:
        guarded: not bound yet. Its RCVHWM is removed, and its monitor belongs to the guard. For every connection it
            has, the guard needs a further descriptor.
        most_bytes: of one connection.
        most_bytes_in_all: of all connections; beyond it those with the most are cut off.
        encrypted: whether the socket uses CURVE.

    Attributes:
        n_cut: connections that were cut off.
    """

    def __init__(self, guarded: zmq.Socket[bytes], *, most_bytes: int, most_bytes_in_all: int, encrypted: bool) -> None:
        self._most_bytes, self._most_bytes_in_all, self._encrypted = most_bytes, most_bytes_in_all, encrypted
        self._guarded = guarded
        guarded.setsockopt(zmq.RCVHWM, 0)
        self._monitor = open_monitor(guarded.context, guarded, _EVENTS)
        self._lock = threading.Lock()
        self._connections: dict[int, _Connection] = {}  # by ZeroMQ's descriptor
        self._early: dict[int, int] = {}  # bytes taken of connections that are not known yet, or gone
        self._left = 0  # bytes that connections which are gone have left
        self._gone: dict[bytes, None] = {}  # identities of their clients, which libzmq gives to no other
        self.n_cut = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="connection guard", daemon=True)
        self._thread.start()

    def took(self, client: bytes, part: zmq.Frame, part_sizes: Sequence[int]) -> bool:
        """Credit the sender of a message that was taken from the socket.

        Its connection may be gone by now, and another one have its number. So a message can only be credited, or not
        be: nobody can be cut off for it.

        Args:
            client: the sender's identity.
            part: any other part.
            part_sizes: sizes of all parts but the sender's identity.

        Returns:
            whether it is to be processed; not if its sender is gone and has left too much with others.
        """
        descriptor = descriptor_of(part)
        n_bytes = sum(wire_bytes(size, encrypted=self._encrypted) for size in part_sizes)
        with self._lock:
            if descriptor in self._connections and client not in self._gone:
                connection = self._connections[descriptor]
                connection.client, connection.taken = client, connection.taken + n_bytes
                return True
            if descriptor is not None:
                self._early[descriptor] = self._early.get(descriptor, 0) + n_bytes
            self._left = max(0, self._left - n_bytes)
            return self._left <= self._most_bytes_in_all // 2

    def took_all(self) -> None:
        """Note that no message is left to be taken; what connections that are gone have left, ZeroMQ has freed."""
        with self._lock:
            self._left = 0
            self._gone.clear()

    def close(self) -> None:
        """End the watch; before the guarded socket is closed."""
        # First, while the watch still reads: libzmq's thread holds the monitor until an event of a connection that ends
        # just now has gone, which it never does once nobody is there to read it.
        self._guarded.disable_monitor()
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        next_s = 0.0
        while not self._ends.is_set():
            if self._monitor.poll(_LOOK_MS):
                self._note_events()
            if time.monotonic() >= next_s:
                self._look()
                next_s = time.monotonic() + _LOOK_MS / 1000
        self._monitor.close(linger=0)
        for connection in self._connections.values():
            connection.close()

    def _note_events(self) -> None:
        while self._monitor.poll(0):
            event = parse_monitor_message(self._monitor.recv_multipart())
            with self._lock:
                if event["event"] == zmq.EVENT_ACCEPTED:
                    self._let_in(int(event["value"]))
                elif (gone := self._connections.pop(int(event["value"]), None)) is not None:
                    self._left = max(0, self._left + gone.inside())
                    gone.close()
                    if gone.client.startswith(_GIVEN):
                        self._gone[gone.client] = None

    def _let_in(self, descriptor: int) -> None:
        try:
            self._connections[descriptor] = connection = _Connection(descriptor)
        except OSError:
            shut_down(descriptor)  # whom nobody can watch
            return
        connection.taken = self._early.pop(descriptor, 0)
        if self._left > _FAR_TOO_MUCH * self._most_bytes_in_all:
            self._cut(connection)

    def _look(self) -> None:
        with self._lock:
            self._early.clear()
            inside = {connection: self._inside(connection) for connection in self._connections.values()}
            in_all = self._left + sum(inside.values())
            for connection in sorted(inside, key=lambda one: -inside[one]):  # the largest first
                connection.taken += _LEAK_BYTES
                is_too_much = in_all > self._most_bytes_in_all and inside[connection] > self._most_bytes // _SMALL
                if (inside[connection] > self._most_bytes or is_too_much) and not connection.is_cut:
                    self._cut(connection)
                    in_all -= inside[connection]

    def _inside(self, connection: _Connection) -> int:
        """Bytes of a connection that were not taken; what was credited to it by mistake goes to those who are gone."""
        if (n_bytes := connection.inside()) >= 0:
            return n_bytes
        connection.taken += n_bytes
        self._left = max(0, self._left + n_bytes)
        return 0

    def _cut(self, connection: _Connection) -> None:
        self.n_cut += 1  # first, or the peer may learn of it before it is counted
        connection.cut()

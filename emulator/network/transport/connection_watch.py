"""Bounds on what each connection of a socket makes ZeroMQ hold, where ZeroMQ has none.

libzmq delivers a message when its last part has arrived. Until then it keeps all parts, in 64 bytes each at least, and
its own limits count whole messages (ZMQ_RCVHWM) and single frames (ZMQ_MAXMSGSIZE): a message that never ends fills
the memory. The kernel counts what has arrived on a connection, and the reader what was delivered of it; a connection
whose difference exceeds its allowance is closed, and libzmq then frees the parts.

Complete messages outlive their connection, so that senders who come and go could pile up any number of them. What they
have left is counted too, and while it is too much, whoever connects is hung up on at once.

Only Linux tells the first number, and only of tcp; elsewhere connections are counted, and not measured.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import zmq
from zmq.utils.monitor import recv_monitor_message

from .connection_descriptors import bytes_received, descriptor_of, open_monitor, shut_down
from .packets import MOST_FRAME_BYTES, MOST_HEADER_BYTES

#: Parts of a message of anybody.
MOST_PARTS = 1 << 16
#: Connections of processes without a seat that stay open; the oldest are closed for new ones.
MOST_STRANGERS = 256
#: Bytes that all of these together may have pending: 32 times as many resident, where all parts are empty.
_STRANGERS_PENDING_BYTES = 1 << 22
#: Bytes that connections which are gone may have left when a new one is let in.
_LEFT_BYTES = 1 << 23
_LOOK_S, _CLOSE_LOOK_S = 0.05, 0.005  # time between two looks; the shorter one while something fills
#: Time for the last packets to a process to leave, before its connection is closed.
_FAREWELL_S = 0.3
_FRAME_BYTES = 9  # of a long frame beside its content; ZMTP 3.1, "Framing"


class Allowance(NamedTuple):
    """What a process may send.

    Attributes:
        pending_bytes: bytes that have arrived, and are no complete messages yet or wait to be read.
        parts: parts of a message, its header among them.
        header_bytes: length of a header.
    """

    pending_bytes: int
    parts: int
    header_bytes: int


#: A process without a seat has a header to send; one that has lost its seat may still send what it had ready.
STRANGER = Allowance(1 << 17, 1 << 10, 1 << 16)
#: A worker in its seat: it is sent the scenario, and trusted with the state of its clients.
WORKER = Allowance(2 * MOST_FRAME_BYTES, MOST_PARTS, MOST_HEADER_BYTES)


class Cut(NamedTuple):
    """A connection that was closed.

    Attributes:
        identity: ZeroMQ identity of its process; None: it has not sent any message.
        reason: which limit it exceeded.
    """

    identity: bytes | None
    reason: str


@dataclass(slots=True, eq=False)
class _Connection:
    """One connection.

    Attributes:
        own: a descriptor of our own: ZeroMQ's may be closed, and another connection's, at any time.
        identity: of the process, once it has sent a message.
        arrived: bytes that have arrived, at the last look.
        settled: those of them that need no further attention: delivered, or before what was.
        seen: `arrived` when every complete message had been read.
        close_s: monotonic instant at which it is to be closed, as the server wants it.
        excess: which limit it exceeds; empty: none.
    """

    own: int
    identity: bytes | None = None
    arrived: int = 0
    settled: int = 0
    seen: int = 0
    close_s: float = math.inf
    excess: str = ""

    @property
    def pending(self) -> int:
        """Bytes that ZeroMQ holds, or the kernel for it."""
        return self.arrived - self.settled


class ConnectionWatch:
    """Counts what arrives on the connections of a ROUTER, and closes those that exceed their allowance.

    Args:
        context: of the socket.
        socket: the socket, before it binds; all calls are made on its thread.

    Attributes:
        monitor: socket to poll; `look` when it has something.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._connections: dict[int, _Connection] = {}  # by ZeroMQ's descriptor, in the order in which they came
        self._left = 0  # bytes that connections which are gone have left
        self._cuts: list[Cut] = []  # since the last look
        self._due_s = 0.0
        self.monitor = open_monitor(context, socket, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)

    @property
    def is_due(self) -> bool:
        """Whether it is time for `look`."""
        return time.monotonic() >= self._due_s

    @property
    def is_filling(self) -> bool:
        """Whether any connection has something pending that should be looked at again soon."""
        return self._due_s - time.monotonic() < _CLOSE_LOOK_S

    def delivered(self, identity: bytes, last: zmq.Frame, n_bytes: int, n_parts: int) -> None:
        """Count a message that was read.

        Args:
            identity: identity of its sender.
            last: any of the frames that were sent.
            n_bytes: bytes of all of them.
            n_parts: number of them.
        """
        descriptor = descriptor_of(last)
        if descriptor is None:
            return
        if descriptor not in self._connections:
            self._read_events()
        connection = self._connections.get(descriptor)
        size = n_bytes + n_parts * _FRAME_BYTES
        if connection is None:  # it has been closed since
            self._left = max(0, self._left - size)
            return
        connection.identity = identity
        # What had arrived when all had been read lies before the end of this message, ZeroMQ's commands included.
        connection.settled = max(connection.settled + size, connection.seen)

    def cut(self, identity: bytes) -> None:
        """Close the connection of a process soon, so that what was sent to it can leave before."""
        for connection in self._connections.values():
            if connection.identity == identity:
                connection.close_s = min(connection.close_s, time.monotonic() + _FAREWELL_S)

    def look(self, seated: Mapping[bytes, Allowance], *, all_was_read: bool) -> list[Cut]:
        """Close connections that exceed a limit.

        Args:
            seated: identity -> allowance of processes that have a seat; all others are strangers.
            all_was_read: no complete message waits to be read.

        Returns:
            those; connections that `cut` named are closed as well.
        """
        self._read_events()
        if all_was_read:
            self._left = 0  # also what a message without an end had, which ZeroMQ has freed
        strangers: dict[int, _Connection] = {}
        is_filling = self._left > 0
        for descriptor, connection in self._connections.items():
            connection.arrived = bytes_received(connection.own) or connection.arrived
            connection.settled = min(connection.settled, connection.arrived)
            if all_was_read:
                connection.seen = connection.arrived
            allowance = seated.get(connection.identity) if connection.identity is not None else None
            if allowance is None:
                strangers[descriptor] = connection
            limit = (allowance or STRANGER).pending_bytes
            is_filling |= connection.pending > limit // 8
            if connection.pending > limit:
                connection.excess = f"more than {limit} bytes came that are no complete message"
        self._limit_strangers(strangers)
        self._due_s = time.monotonic() + (_CLOSE_LOOK_S if is_filling else _LOOK_S)
        return self._close()

    def close(self) -> None:
        """Free the monitor; the socket must still be open."""
        self._socket.disable_monitor()
        self.monitor.close()
        for connection in self._connections.values():
            os.close(connection.own)
        self._connections.clear()

    def _read_events(self) -> None:
        while self.monitor.poll(0):
            event = recv_monitor_message(self.monitor)
            descriptor = int(event["value"])
            self._forget(descriptor)
            if event["event"] == zmq.EVENT_ACCEPTED:
                self._let_in(descriptor)

    def _let_in(self, descriptor: int) -> None:
        try:
            connection = self._connections[descriptor] = _Connection(os.dup(descriptor))
        except OSError:
            shut_down(descriptor)  # whom nobody can watch, where this process may have no more descriptors
            return
        if self._left > _LEFT_BYTES:
            connection.excess = "processes that are gone have left too much that was not read"
            shut_down(connection.own)

    def _forget(self, descriptor: int) -> None:
        """Count what a connection that is gone has left."""
        gone = self._connections.pop(descriptor, None)
        if gone is not None:
            self._left += max(0, (bytes_received(gone.own) or gone.arrived) - gone.settled)
            os.close(gone.own)
            if gone.excess:
                self._cuts.append(Cut(gone.identity, gone.excess))

    def _limit_strangers(self, strangers: Mapping[int, _Connection]) -> None:
        for connection in list(strangers.values())[: max(0, len(strangers) - MOST_STRANGERS)]:
            connection.excess = f"more than {MOST_STRANGERS} processes without a place are connected"
        pending = sum(connection.pending for connection in strangers.values())
        for connection in sorted(strangers.values(), key=lambda connection: -connection.pending):
            if pending <= _STRANGERS_PENDING_BYTES:
                return
            connection.excess = "processes without a place together have sent too much that is no complete message"
            pending -= connection.pending

    def _close(self) -> list[Cut]:
        now_s = time.monotonic()
        ending = [each for each in self._connections.items() if each[1].excess or each[1].close_s <= now_s]
        for descriptor, connection in ending:
            shut_down(connection.own, at_once=bool(connection.excess))
            self._forget(descriptor)
        # also of newcomers that were hung up on at once, and whose end was read before this look
        cuts, self._cuts = self._cuts, []
        return cuts

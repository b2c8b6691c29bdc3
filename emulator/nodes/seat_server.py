"""Server of remote processes that take seats in a run: socket thread, requests and replies, heartbeats, refusals.

`WorkerServer` and `OutsideServer` are built on it. They differ in their policy: a lost worker ends the run, a lost
outside client does not.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from ..contracts import NodeId
from ..network.transport.connection_watch import STRANGER, Allowance
from ..network.transport.curve_keys import CurveKeys
from ..network.transport.errors import OverLimitError, WireError
from ..network.transport.packets import WORKER_PACKETS, Frame, Packet, pack_packet, unpack_packet
from ..network.transport.rpc_socket import READ_AT_ONCE, RpcSocket
from .seat import MOST_TEXT, JoinRefused, ReadReply, Seat, SeatRequest, printable

#: Longest wait of the socket thread for packets, in milliseconds; then it looks at limits of time.
TICK_MS = 100

SeatT = TypeVar("SeatT", bound=Seat)


class SeatPolicy(Protocol[SeatT]):
    """Decisions in which servers differ; all are made on the socket thread, while it holds the server's lock.

    Attributes:
        replies_to_strangers: whether a process without a seat is sent why its packet was refused, whatever the packet
            was; otherwise only one that requested a seat is.
    """

    replies_to_strangers: bool

    def allowance(self, seat: SeatT) -> Allowance:
        """What the process of a seat may send."""
        ...

    def join(self, packet: Packet) -> SeatT:
        """The seat that a process without one takes with this packet; refuses it with a `WireError`."""
        ...

    def welcome(self, seat: SeatT) -> Packet | None:
        """The packet to send to a process that has taken a seat; None: nothing to send yet."""
        ...

    def reply(self, seat: SeatT, packet: Packet) -> None:
        """Handle any packet of a seated process but heartbeats and farewells; refuses it with a `WireError`."""
        ...

    def refused(self, seat: SeatT | None, sentence: str) -> None:
        """Count a refused packet, of a seat or of a process without one."""
        ...

    def left(self, seat: SeatT, sentence: str) -> None:
        """Handle the farewell of the process of a seat, and its reason."""
        ...

    def unreachable(self, seat: SeatT, reason: str) -> None:
        """A packet for the process of a seat could not be sent."""
        ...

    def check_seats(self) -> None:
        """Look for processes that have ended or exceed a limit of time; everything that came has been read."""
        ...

    def thread_failed(self, error: BaseException) -> None:
        """The socket thread ends because of this error."""
        ...

    def closed(self) -> None:
        """The server has closed; no reply will come any more."""
        ...


class SeatServer(Generic[SeatT]):
    """Seats for remote processes at one address, kept by a thread of its own.

    The thread keeps the socket, so that heartbeats go out and replies are read while the simulated clock waits or
    computes. Everything that comes is checked; a malformed packet, or one from a process without a seat, is refused.

    Args:
        address: `ipc://FILE` or `tcp://HOST:PORT` to listen at; port `*` takes a free one.
        seats: all seats, vacant.
        policy: decides about them.
        beat_s: real time between two heartbeats to every process.
        keys: keys of the engine; needed beyond loopback.
        name: name of the thread.

    Attributes:
        seats: all seats.
        changed: lock of everything that both threads touch; notified after every change.
        socket: the server's socket.
        is_closing: the server has closed, or is about to.

    Raises:
        TransportError: the address cannot be used.
    """

    def __init__(
        self,
        address: str,
        seats: Sequence[SeatT],
        policy: SeatPolicy[SeatT],
        beat_s: float,
        keys: CurveKeys | None,
        name: str,
    ) -> None:
        self.seats = tuple(seats)
        self._policy, self._beat_s = policy, beat_s
        self.changed = threading.Condition()
        self.is_closing = False
        self._tickets = itertools.count()
        self._outbox: deque[tuple[bytes, list[Frame]]] = deque()
        most_requests = max(len(seat.clients) for seat in self.seats)
        self.socket = RpcSocket(address, keys, most_requests, n_places=len(self.seats))
        self.socket.serve(self._serve, name)

    # --- for the engine's thread ---------------------------------------------------------------------------------

    def welcome_seats(self) -> None:
        """Send the welcome to all processes that joined before the policy had one."""
        with self.changed:
            for seat in self.seats:
                if seat.identity is not None and not seat.is_welcome:
                    self._send_welcome(seat)
        self.socket.wake()

    def wait_until(self, is_done: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked under the lock, and may raise."""
        with self.changed:
            while not is_done():
                # With a limit, because conditions such as deadlines change without a notification.
                self.changed.wait(TICK_MS / 1000)

    def prepared(
        self, kind: str, client: NodeId, fields: Mapping[str, Any], frames: Sequence[Frame], read: ReadReply
    ) -> SeatRequest:
        """A request that is ready to be submitted; packed before the lock is taken, since checksums take time.

        Args:
            kind: type of the packet; that of its reply is the same with "_done".
            client: id of the client that it concerns.
            fields, frames: fields and frames of the packet, beside ticket and client.
            read: converts the reply.

        Raises:
            WireError: the fields are not those of the type.
        """
        ticket = next(self._tickets)
        parts = pack_packet(Packet(kind, {"ticket": ticket, "client": client, **fields}, frames))
        return SeatRequest(ticket, parts, f"{kind}_done", read)

    def submit(self, seat: SeatT, request: SeatRequest) -> Future[Any]:
        """Send a request to the process of a seat that is taken; returns the future of its result."""
        with self.changed:
            assert seat.identity is not None
            request.sent_s = time.monotonic()
            seat.requests[request.ticket] = request
            self._outbox.append((seat.identity, request.parts))
            request.parts = []  # large frames need not live until the reply
        self.socket.wake()
        return request.future

    def close(self) -> None:
        """Send all processes the end, free the socket, and remove the file of an `ipc://` address.

        Safe to call twice.
        """
        with self.changed:
            if self.is_closing:
                return
            self.is_closing = True
        self.socket.close()

    # --- for the socket thread ------------------------------------------------------------------------------------

    def _serve(self) -> None:
        beat_at_s = 0.0
        try:
            while not self.is_closing:
                n_read = 0
                for identity, parts in self.socket.received(TICK_MS):
                    n_read += 1
                    # The lock is held per packet, so that the engine's thread gets its turn between two of them.
                    with self.changed:
                        self._receive(identity, parts)
                        self._close_greedy()  # also between two packets of a flood
                with self.changed:
                    beat_at_s = self._beat(beat_at_s)
                    self._close_greedy()
                    if n_read < READ_AT_ONCE:  # all was read: no process looks dead because this thread was late
                        self._policy.check_seats()
                    self._send_outbox()
        except BaseException as error:  # noqa: BLE001 - threads that wait for a reply must learn of it
            with self.changed:
                self._policy.thread_failed(error)
        finally:
            self._leave()

    def _receive(self, identity: bytes, parts: Sequence[Frame]) -> None:
        seat = self._seat_with(identity)
        try:
            packet = self._unpacked(seat, parts)
            if seat is None:
                self._join(identity, packet)
            else:
                seat.heard_s = time.monotonic()
                self._handle(seat, packet)
        except WireError as refusal:
            sentence = str(refusal)[:MOST_TEXT]
            self._policy.refused(seat, sentence)
            if seat is not None or self._policy.replies_to_strangers or isinstance(refusal, JoinRefused):
                self._send(identity, Packet("refused", {"sentence": sentence}))
            if isinstance(refusal, OverLimitError):
                self.socket.cut(identity)
                if seat is not None:
                    self._policy.unreachable(seat, sentence)
        self.changed.notify_all()

    def _unpacked(self, seat: SeatT | None, parts: Sequence[Frame]) -> Packet:
        allowance = STRANGER if seat is None else self._policy.allowance(seat)
        if len(parts) > allowance.parts:
            raise OverLimitError(f"a packet of this process has at most {allowance.parts} parts")
        return unpack_packet(parts, WORKER_PACKETS._replace(most_header_bytes=allowance.header_bytes))

    def _close_greedy(self) -> None:
        if not self.socket.is_look_due:
            return
        seated = {seat.identity: seat for seat in self.seats if seat.identity is not None}
        allowed = {identity: self._policy.allowance(seat) for identity, seat in seated.items()}
        for identity, reason in self.socket.close_greedy(allowed):
            seat = seated.get(identity) if identity is not None else None
            self._policy.refused(seat, reason)
            if seat is not None:
                self._policy.unreachable(seat, reason)

    def _join(self, identity: bytes, packet: Packet) -> None:
        seat = self._policy.join(packet)
        seat.identity, seat.heard_s = identity, time.monotonic()
        seat.name = printable(packet.fields["name"])
        self._send_welcome(seat)

    def _handle(self, seat: SeatT, packet: Packet) -> None:
        if packet.type == "alive":
            return
        if packet.type == "leaving":
            identity = seat.identity
            self._policy.left(seat, printable(packet.fields["sentence"]))
            # Else it could take the seat again, and never read what it is sent with it.
            if identity is not None:
                self.socket.cut(identity)
        else:
            self._policy.reply(seat, packet)

    def _seat_with(self, identity: bytes) -> SeatT | None:
        # By the identity of its connection, not by what a packet states.
        return next((seat for seat in self.seats if seat.identity == identity), None)

    def _send_welcome(self, seat: SeatT) -> None:
        packet = self._policy.welcome(seat)
        if packet is not None:
            assert seat.identity is not None
            self._send(seat.identity, packet)

    def _send(self, identity: bytes, packet: Packet) -> None:
        self._outbox.append((identity, pack_packet(packet)))

    def _send_to_all(self, packet: Packet) -> None:
        for seat in self.seats:
            if seat.identity is not None:
                self._send(seat.identity, packet)

    def _beat(self, at_s: float) -> float:
        """Send a heartbeat to all processes if it is due; returns the monotonic instant of the next."""
        now_s = time.monotonic()
        if now_s < at_s:
            return at_s
        self._send_to_all(Packet("alive", {}))
        return now_s + self._beat_s

    def _send_outbox(self) -> None:
        while self._outbox:
            identity, parts = self._outbox.popleft()
            trouble = self.socket.send(identity, parts)
            seat = self._seat_with(identity) if trouble else None
            # Only a refusal goes to a process without a seat; one that cannot be sent has no consequence.
            if seat is not None:
                self._policy.unreachable(seat, trouble)
        self.changed.notify_all()

    def _leave(self) -> None:
        with self.changed:
            self._send_to_all(Packet("stop", {}))
            self._send_outbox()
            self._policy.closed()
            self.changed.notify_all()
        self.socket.close_sockets()

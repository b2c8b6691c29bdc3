"""The engine's side of outside clients. They may join late, leave, die, or send nonsense: the run goes on without them.

Replies are stamped when they come, on the socket thread, whatever the engine is doing then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ..contracts import NodeId
from ..network.transport.connection_watch import STRANGER, Allowance
from ..network.transport.curve_keys import CurveKeys
from ..network.transport.errors import TransportError, WireError
from ..network.transport.packets import Frame, Packet
from .outside_place import OutsidePlace, pack_place
from .seat import ReadReply, Seat
from .seat_server import SeatServer

# As of workers, whose limit of silence is 6 s with a heartbeat per second.
_BEATS_PER_SILENCE = 6.0


@dataclass(slots=True, eq=False)
class OutsideSeat(Seat):
    """The place of one outside client.

    Attributes:
        counts: see `OutsideServer.counts`.
    """

    counts: dict[str, int] = field(default_factory=lambda: {"joined": 0, "late": 0, "refused": 0})

    @property
    def client_id(self) -> NodeId:
        """The client that is played there."""
        return self.clients[0]

    def vacate(self) -> None:
        """Let another process take the place; open requests end without a result."""
        self.identity, self.is_welcome = None, False
        for request in self.requests.values():
            # None and not an error, because the run goes on without the client.
            request.future.set_result(None)
        self.requests.clear()


class OutsideServer:
    """Seats for clients that outside processes play, and requests to these processes.

    Args:
        address: `tcp://HOST:PORT` or `ipc://FILE` to listen at; port `*` takes a free one.
        clients: ids of the clients that are played outside.
        silence_s: real time without any packet after which another process may take the place of a client; until then
            it keeps the place, and has all the time that it needs for a reply.
        keys: keys of the engine; needed beyond loopback.

    Attributes:
        address: address in use, with the port that it got.

    Raises:
        TransportError: the address cannot be used.
    """

    def __init__(
        self, address: str, clients: Sequence[NodeId], silence_s: float = 6.0, keys: CurveKeys | None = None
    ) -> None:
        self._seats = {client: OutsideSeat((client,)) for client in clients}
        self._policy = _OutsidePolicy(self._seats, silence_s)
        beat_s = silence_s / _BEATS_PER_SILENCE
        self._server = SeatServer(
            address, tuple(self._seats.values()), self._policy, beat_s, keys, "outside client server"
        )
        self.address = self._server.socket.endpoint

    @property
    def n_strangers(self) -> int:
        """Number of refused packets from processes without a place."""
        return self._policy.n_strangers

    def fill(self, places: Mapping[NodeId, OutsidePlace], join_s: float) -> None:
        """Let clients in, and wait until all of them have joined.

        Raises:
            TransportError: one did not join in time.
        """
        with self._server.changed:
            self._policy.places = dict(places)
            self._server.welcome_seats()
        until_s = time.monotonic() + join_s

        def is_full() -> bool:
            missing = [client for client, seat in self._seats.items() if not seat.is_welcome]
            if missing and (self._policy.failure or time.monotonic() > until_s):
                raise TransportError(self._policy.failure or self._too_few_joined(missing, join_s))
            return not missing

        self._server.wait_until(is_full)

    def request(
        self, client: NodeId, kind: str, fields: Mapping[str, Any], frames: Sequence[Frame], read: ReadReply
    ) -> Future[Any] | None:
        """Send a request to the process that plays a client.

        Args:
            client: id of the client.
            kind: type of the packet; that of its reply is the same with "_done".
            fields, frames: fields and frames of the packet, beside ticket and client.
            read: converts the reply, on another thread.

        Returns:
            the future of the result, which is None where no valid reply comes; None when there is no process, or it
            has not replied to the request before.

        Raises:
            TransportError: the socket thread has ended.
        """
        seat, request = self._seats[client], self._server.prepared(kind, client, fields, frames, read)
        with self._server.changed:
            if self._policy.failure:
                raise TransportError(self._policy.failure)
            # One request at a time: a process that is behind misses this phase instead of falling back further.
            if seat.identity is None or seat.requests:
                return None
            return self._server.submit(seat, request)

    def give_up(self, client: NodeId) -> None:
        """Wait no longer for the reply of a client; when it comes, it is late."""
        with self._server.changed:
            for request in self._seats[client].requests.values():
                request.is_given_up = True

    def name(self, client: NodeId) -> str:
        """Name of the process that plays a client, or did last, as it has given itself."""
        with self._server.changed:
            return self._seats[client].name

    def counts(self, client: NodeId) -> dict[str, int]:
        """How often a process has joined as a client, replied late, and sent what was refused."""
        with self._server.changed:
            return dict(self._seats[client].counts)

    def close(self) -> None:
        """Send clients the end, and free the sockets; safe to call twice."""
        self._server.close()

    def _too_few_joined(self, missing: Sequence[NodeId], join_s: float) -> str:
        who = f"client{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
        return (
            f"no process joined as outside {who} at {self.address} within {join_s:g} s; start them, or leave them"
            " out of --outside"
        )


class _OutsidePolicy:
    """Policy of outside clients: see `SeatPolicy`.

    Attributes:
        places: client -> what its process is sent when it joins; empty until the run is built.
        n_strangers: see `OutsideServer`.
        failure: why the socket thread has ended; empty: it has not.
    """

    replies_to_strangers = True

    def __init__(self, seats: Mapping[NodeId, OutsideSeat], silence_s: float) -> None:
        self._seats, self._silence_s = seats, silence_s
        self.places: dict[NodeId, OutsidePlace] = {}
        self.n_strangers, self.failure = 0, ""

    def allowance(self, seat: OutsideSeat) -> Allowance:
        place = self.places.get(seat.client_id)
        return STRANGER if place is None else place.allowance

    def join(self, packet: Packet) -> OutsideSeat:
        if packet.type != "join":
            raise WireError("a process without a place must join first")
        client = packet.fields["client"]
        if client not in self._seats:
            known = ", ".join(map(str, self._seats))
            raise WireError(f"client {client} is not played outside in this run; these are: {known}")
        seat = self._seats[client]
        # Otherwise any process could take a client over while its own one computes.
        if seat.identity is not None and time.monotonic() - seat.heard_s <= self._silence_s:
            raise WireError(
                f"client {client} is played by another process, which was there less than {self._silence_s:g} s ago"
            )
        seat.vacate()
        seat.counts["joined"] += 1
        return seat

    def welcome(self, seat: OutsideSeat) -> Packet | None:
        # Processes may join while the run is being built; they are welcomed by `fill`.
        if seat.client_id not in self.places:
            return None
        seat.is_welcome = True
        return pack_place(self.places[seat.client_id], self._silence_s)

    def reply(self, seat: OutsideSeat, packet: Packet) -> None:
        request = seat.request_of(packet)
        del seat.requests[request.ticket]  # also where the reply is refused: the request is not repeated
        seat.counts["late"] += request.is_given_up
        outcome = None
        # A result in any case: a station waits for the future, and a refused reply is not repeated.
        try:
            outcome = None if packet.type == "failed" else request.read(packet)
        finally:
            request.future.set_result(outcome)

    def refused(self, seat: OutsideSeat | None, sentence: str) -> None:
        if seat is None:
            self.n_strangers += 1
        else:
            seat.counts["refused"] += 1

    def left(self, seat: OutsideSeat, sentence: str) -> None:
        seat.vacate()

    def unreachable(self, seat: OutsideSeat, reason: str) -> None:
        seat.vacate()

    def check_seats(self) -> None:
        """A silent client keeps its place until another process wants it."""

    def thread_failed(self, error: BaseException) -> None:
        self.failure = f"the thread that speaks with outside clients ended ({error!r})"

    def closed(self) -> None:
        for seat in self._seats.values():
            seat.vacate()

"""The engine's side of worker processes: a lost worker ends the run, and all that wait for it get the error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from ..contracts import NodeId
from ..network.transport.connection_watch import WORKER, Allowance
from ..network.transport.curve_keys import CurveKeys
from ..network.transport.errors import TransportError, WireError, remote_error
from ..network.transport.packets import Frame, Packet
from .seat import JoinRefused, ReadReply, printable
from .seat_server import SeatServer
from .worker_seat import WorkerLimits, WorkerSeat

_SENT_HOME = "workers were sent home; start a new run"
#: Longest wait for the exit code of a process whose connection is gone.
_EXIT_S = 1.0


class WorkerServer:
    """Seats for worker processes, and requests to the workers that have taken them.

    Args:
        address: `ipc://FILE` or `tcp://HOST:PORT` to listen at.
        seats: ids of the clients of every worker.
        release: release of this program; a worker of another one is refused.
        limits: limits of all waits.
        keys: keys of the engine; needed beyond loopback.
        ended: seat -> why its process has ended, as far as it is known here; None: it has not.

    Raises:
        TransportError: the address cannot be used.
    """

    def __init__(
        self,
        address: str,
        seats: Sequence[Sequence[NodeId]],
        release: str,
        limits: WorkerLimits,
        keys: CurveKeys | None = None,
        ended: Callable[[int], str | None] = lambda _: None,
    ) -> None:
        self._limits = limits
        self._seats = [WorkerSeat(tuple(clients), index=index) for index, clients in enumerate(seats)]
        self._seat_of = {client: seat for seat in self._seats for client in seat.clients}
        self._policy = _WorkerPolicy(self._seats, release, limits, ended)
        self._server = SeatServer(address, self._seats, self._policy, limits.beat_s, keys, "worker server")

    @property
    def address(self) -> str:
        """Address in use, with the port that it got."""
        return self._server.socket.endpoint

    @property
    def starts(self) -> Mapping[NodeId, str]:
        """Client -> digest of the state in which its worker has built it; empty where the worker gives none."""
        return self._policy.starts

    @property
    def n_refused(self) -> int:
        """Number of packets that were malformed or came from processes without a seat."""
        return self._policy.n_refused

    @property
    def last_refusal(self) -> str:
        """Reason of the latest refusal; empty when nothing was refused."""
        return self._policy.last_refusal

    @property
    def n_seats(self) -> int:
        """Number of workers that there should be."""
        return len(self._seats)

    @property
    def vacant(self) -> tuple[int, ...]:
        """Indices of the seats without a worker."""
        with self._server.changed:
            return tuple(seat.index for seat in self._seats if seat.identity is None)

    def fill(self, scenario: str) -> None:
        """Wait until every seat has a worker that has built its clients.

        Args:
            scenario: scenario that they build, as TOML.

        Raises:
            WorkerLost: one of them ended.
            TransportError: too few joined in time.
            SheafedgeError: an error of a worker while it built.
        """
        with self._server.changed:
            self._policy.begin(scenario)
            self._server.welcome_seats()
        join_by_s = time.monotonic() + self._limits.join_s

        def is_full() -> bool:
            if all(seat.is_ready for seat in self._seats):
                return True
            # An error of a worker that built explains more than the seat that it left vacant.
            if (wrong := self._what_is_wrong()) is not None:
                raise wrong
            missing = sum(seat.identity is None for seat in self._seats)
            if missing and time.monotonic() > join_by_s:
                raise TransportError(self._too_few_joined(missing))
            return False

        self._server.wait_until(is_full)

    def request(
        self, client: NodeId, kind: str, fields: Mapping[str, Any], read: ReadReply, frames: Sequence[Frame] = ()
    ) -> Future[Any]:
        """Send a request to the worker of a client.

        Args:
            client: id of the client that it concerns.
            kind: type of the packet; that of its reply is the same with "_done".
            fields: fields of the packet, beside ticket and client.
            read: converts the reply, on another thread.
            frames: frames of the packet.

        Returns:
            the future of the result; it raises the error of the worker, or `WorkerLost`.
        """
        seat, request = self._seat_of[client], self._server.prepared(kind, client, fields, frames, read)
        with self._server.changed:
            wrong = self._what_is_wrong()
            if wrong is None and seat.identity is None:
                wrong = TransportError(f"worker {seat.index} is not there")
            if wrong is not None:
                request.future.set_exception(wrong)
                return request.future
            return self._server.submit(seat, request)

    def close(self) -> None:
        """Stop the workers, free the sockets and remove the file of an `ipc://` address; safe to call twice."""
        self._server.close()

    def _too_few_joined(self, missing: int) -> str:
        address, strangers = self._server.socket.address, self._server.socket.n_strangers
        refused = f"; {self.n_refused} refused, last: {self.last_refusal}" if self.n_refused else ""
        return (
            f"{missing} of {len(self._seats)} workers did not join at {address} within {self._limits.join_s:g} s"
            + refused
            + (f"; {strangers} strangers were turned away" if strangers else "")
            + f"; start them with sheafedge worker --hub {address}"
        )

    def _what_is_wrong(self) -> Exception | None:
        return TransportError(_SENT_HOME) if self._server.is_closing else self._policy.what_is_wrong()


class _WorkerPolicy:
    """Policy of workers: see `SeatPolicy`.

    Attributes:
        starts, n_refused, last_refusal: see `WorkerServer`.
    """

    replies_to_strangers = False

    def __init__(
        self,
        seats: Sequence[WorkerSeat],
        release: str,
        limits: WorkerLimits,
        ended: Callable[[int], str | None],
    ) -> None:
        self._seats, self._release, self._limits, self._ended = seats, release, limits, ended
        self._scenario: str | None = None
        self._failure: Exception | None = None
        self.starts: dict[NodeId, str] = {}
        self.n_refused, self.last_refusal = 0, ""

    def begin(self, scenario: str) -> None:
        """Forget losses and errors of before; workers build this scenario from now on."""
        self._scenario, self._failure = scenario, None
        for seat in self._seats:
            seat.lost = None

    def what_is_wrong(self) -> Exception | None:
        """The error that ended the run; None: it goes on."""
        lost = next((seat.lost for seat in self._seats if seat.lost is not None), None)
        return lost if lost is not None else self._failure

    def allowance(self, seat: WorkerSeat) -> Allowance:
        return WORKER

    def join(self, packet: Packet) -> WorkerSeat:
        if packet.type != "hello":
            raise WireError("a packet of a process without a seat")
        release, wanted = packet.fields["release"], packet.fields["seat"]
        # None: another implementation of the protocol, see docs/protocol.md.
        if release not in {None, self._release}:
            sentence = f"the engine is of release {self._release}, the worker of {printable(release)}"
            raise JoinRefused(f"{sentence}; install one release everywhere")
        # A worker that was started for a seat must get that seat, whose process is watched.
        free = [seat for seat in self._seats if seat.identity is None and wanted in {None, seat.index}]
        if not free:
            raise JoinRefused("all workers that the engine waits for are there")
        return free[0]

    def welcome(self, seat: WorkerSeat) -> Packet:
        # Any packet shows that there is an engine; from then on the worker's limit is that of silence.
        if self._scenario is None:
            return Packet("alive", {})
        seat.is_welcome, seat.answered_s = True, time.monotonic()
        fields = {
            "scenario": self._scenario,
            "clients": list(seat.clients),
            "seat": seat.index,
            "beat_s": float(self._limits.beat_s),
            "silence_s": float(self._limits.silence_s),
        }
        return Packet("welcome", fields)

    def reply(self, seat: WorkerSeat, packet: Packet) -> None:
        if packet.type == "ready":
            self._set_ready(seat, packet)
        elif packet.type == "failed" and packet.fields["ticket"] is None:  # while it built its clients
            self._end(_error_of(seat, packet))
        else:
            self._set_result(seat, packet)

    def refused(self, seat: WorkerSeat | None, sentence: str) -> None:
        self.n_refused += 1
        self.last_refusal = sentence

    def left(self, seat: WorkerSeat, sentence: str) -> None:
        self._end(seat.vacate(f"it left, because {sentence}"))

    def unreachable(self, seat: WorkerSeat, reason: str) -> None:
        # Where its process is ending right now, its exit code explains more than the socket error does. Connections
        # are closed while a process ends, so its code may not be known yet.
        limit_s = time.monotonic() + _EXIT_S
        while (ended := self._ended(seat.index)) is None and time.monotonic() < limit_s:
            time.sleep(0.01)
        self._end(seat.vacate(ended or f"its connection is gone ({reason})"))

    def check_seats(self) -> None:
        now_s = time.monotonic()
        for seat in self._seats:
            if seat.lost is None and (reason := self._ended(seat.index) or seat.overdue(now_s, self._limits)):
                self._end(seat.vacate(reason))

    def thread_failed(self, error: BaseException) -> None:
        self._end(TransportError(f"the thread that speaks with workers ended ({error!r})"))

    def closed(self) -> None:
        self._end(TransportError(_SENT_HOME))

    def _set_ready(self, seat: WorkerSeat, packet: Packet) -> None:
        starts = packet.fields["starts"]
        fits = packet.fields["clients"] == list(seat.clients) and len(starts) == len(seat.clients)
        # Requests for the clients of the seat go to this worker, so it must have built exactly these.
        if not seat.is_welcome or not fits or any(type(digest) is not str for digest in starts):
            raise WireError("a worker is ready for something else than it was given")
        self.starts.update(zip(seat.clients, starts, strict=True))
        seat.is_ready = True

    def _set_result(self, seat: WorkerSeat, packet: Packet) -> None:
        request = seat.request_of(packet)
        # The future has its error already.
        if request.is_given_up:
            del seat.requests[request.ticket]
            return
        error = _error_of(seat, packet) if packet.type == "failed" else None
        outcome = request.read(packet) if error is None else None  # a refused reply leaves the request open
        del seat.requests[request.ticket]
        seat.answered_s = time.monotonic()
        if error is not None:
            request.future.set_exception(error)
        else:
            request.future.set_result(outcome)

    def _end(self, error: Exception) -> None:
        """Give all open requests up with this error; replies that still come are dropped."""
        if not any(seat.lost is error for seat in self._seats):
            self._failure = error
        for seat in self._seats:
            for request in seat.requests.values():
                if not request.is_given_up:
                    request.is_given_up = True
                    request.future.set_exception(error)
            if seat.identity is None:
                seat.requests.clear()


def _error_of(seat: WorkerSeat, packet: Packet) -> Exception:
    return remote_error(packet.fields["error"], packet.fields["sentence"], f"worker {seat.index} ({seat.name})")

"""The engine's side of worker processes: seats that workers take, questions to them, and signs of life both ways.

One thread of its own keeps the socket, so that the simulated clock may wait for answers and workers still hear from
the engine. Everything that comes is checked; what is malformed, or comes from somebody without a seat, is counted and
dropped. What goes wrong with a worker reaches everybody who waits, as an exception.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NoReturn

from ..contracts import NodeId
from ..network.transport.curve_keys import CurveKeys
from ..network.transport.errors import TransportError, WireError
from ..network.transport.packets import Frame, Packet, pack_packet, unpack_packet
from ..network.transport.turn_socket import READ_AT_ONCE, TurnSocket
from .told_errors import error_of
from .worker_limits import WorkerLimits
from .worker_seat import Question, Read, Seat

_TICK_MS = 100  # between looks at exit codes and clocks, when nothing comes
_SHOWN = 300  # characters of what a stranger sent
_SENT_HOME = "workers were sent home; start a new run"


class TurnServer:
    """Seats for workers, and a way to ask them.

    Args:
        address: `ipc://FILE` or `tcp://HOST:PORT` to listen at.
        seats: clients of every worker.
        release: of this program; a worker of another is refused.
        limits: of all waits.
        keys: of the engine; needed beyond loopback.
        ended: seat -> why its process has ended, as far as it is known here; None: it has not.

    Attributes:
        starts: client -> digest of the state in which its worker has built it; empty where that says nothing.
        n_refused: packets that were none, or came from strangers.
        last_refusal: why the latest of them was refused; empty when none was.

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
        self._seats = [Seat(index, tuple(clients)) for index, clients in enumerate(seats)]
        self._seat_of = {client: seat for seat in self._seats for client in seat.clients}
        self._release, self._limits, self._ended = release, limits, ended
        self.starts: dict[NodeId, str] = {}
        self.n_refused, self.last_refusal = 0, ""
        # What both threads touch is touched under this lock.
        self._changed = threading.Condition()
        self._tickets = itertools.count()
        self._questions: dict[int, Question] = {}
        self._given_up: set[int] = set()
        self._outbox: deque[tuple[bytes, list[Frame]]] = deque()
        self._scenario: str | None = None
        self._failure: Exception | None = None
        self._is_closing = False
        self._socket = TurnSocket(address, keys)
        self._socket.serve(self._live, "turn server")

    # --- for the engine's thread ---------------------------------------------------------------------------------

    @property
    def n_seats(self) -> int:
        """Workers that there should be."""
        return len(self._seats)

    @property
    def vacant(self) -> tuple[int, ...]:
        """Seats that nobody has."""
        with self._changed:
            return tuple(seat.index for seat in self._seats if seat.identity is None)

    def fill(self, scenario: str) -> None:
        """Wait until every seat has a worker that has built its clients.

        Args:
            scenario: what they build, as TOML.

        Raises:
            WorkerLost: one of them ended.
            TransportError: too few came in time.
            SheafedgeError: what a worker met while it built.
        """
        with self._changed:
            self._scenario, self._failure = scenario, None
            for seat in self._seats:
                seat.lost = None
                if seat.identity is not None and not seat.is_welcome:
                    self._greet(seat)
        self._socket.ring()
        join_by_s = time.monotonic() + self._limits.join_s
        with self._changed:
            while not all(seat.is_ready for seat in self._seats):
                if (wrong := self._what_is_wrong()) is not None:
                    raise wrong
                missing = sum(seat.identity is None for seat in self._seats)
                if missing and time.monotonic() > join_by_s:
                    raise TransportError(self._nobody_came(missing))
                self._changed.wait(_TICK_MS / 1000)

    def ask(
        self, client: NodeId, question: str, fields: Mapping[str, Any], read: Read, frames: Sequence[Frame] = ()
    ) -> Future[Any]:
        """Ask the worker of a client.

        Args:
            client: about whom.
            question: type of the packet; the answer's is the same with "_done".
            fields: of the packet, beside ticket and client.
            read: reads the answer, on another thread.
            frames: of the packet.

        Returns:
            a ticket; it raises what the worker met, or `WorkerLost`.
        """
        seat, ticket = self._seat_of[client], next(self._tickets)
        parts = pack_packet(Packet(question, {"ticket": ticket, "client": client, **fields}, frames))
        future: Future[Any] = Future()
        with self._changed:
            wrong = self._what_is_wrong()
            if wrong is None and seat.identity is None:
                wrong = TransportError(f"worker {seat.index} is not there")
            if wrong is not None:
                future.set_exception(wrong)
                return future
            assert seat.identity is not None
            if not seat.open_tickets:
                seat.answered_s = time.monotonic()
            seat.open_tickets.add(ticket)
            self._questions[ticket] = Question(seat, f"{question}_done", read, future)
            self._outbox.append((seat.identity, parts))
        self._socket.ring()
        return future

    def close(self) -> None:
        """Tell the workers to stop, free the sockets and remove the file of an `ipc://` address; safe to call twice."""
        with self._changed:
            if self._is_closing:
                return
            self._is_closing = True
        self._socket.close()

    def _nobody_came(self, missing: int) -> str:
        address, strangers = self._socket.address, self._socket.n_strangers
        refused = f"; {self.n_refused} refused, last: {self.last_refusal}" if self.n_refused else ""
        return (
            f"{missing} of {len(self._seats)} workers did not join at {address} within {self._limits.join_s:g} s"
            + refused
            + (f"; {strangers} strangers were turned away" if strangers else "")
            + f"; start them with sheafedge worker --hub {address}"
        )

    def _what_is_wrong(self) -> Exception | None:
        if self._is_closing:
            return TransportError(_SENT_HOME)
        lost = next((seat.lost for seat in self._seats if seat.lost is not None), None)
        return lost if lost is not None else self._failure

    # --- for the thread that keeps the socket ---------------------------------------------------------------------

    def _live(self) -> None:
        beat_at_s = 0.0
        try:
            while not self._is_closing:
                n_read = 0
                for identity, parts in self._socket.received(_TICK_MS):
                    n_read += 1
                    with self._changed:
                        self._hear(identity, parts)
                with self._changed:
                    beat_at_s = self._beat(beat_at_s)
                    if n_read < READ_AT_ONCE:  # all was read: nobody looks dead because this thread was late
                        self._look_at_clocks()
                    self._send_outbox()
        except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it, whatever it is
            self._end(TransportError(f"the thread that speaks with workers ended ({error!r})"))
        finally:
            self._leave()

    def _hear(self, identity: bytes, parts: Sequence[Frame]) -> None:
        seat = self._seated(identity)
        try:
            packet = unpack_packet(parts)
            if seat is None:
                self._meet(identity, packet)
            else:
                seat.heard_s = time.monotonic()
                self._listen(seat, packet)
        except WireError as refusal:
            self.n_refused += 1
            self.last_refusal = str(refusal)[:_SHOWN]
            if seat is not None:
                self._say(identity, Packet("refused", {"sentence": self.last_refusal}))
        self._changed.notify_all()

    def _seated(self, identity: bytes) -> Seat | None:
        return next((seat for seat in self._seats if seat.identity == identity), None)

    def _meet(self, identity: bytes, packet: Packet) -> None:
        """Somebody without a seat speaks."""
        if packet.type != "hello":
            raise WireError("somebody without a seat speaks")
        release, wanted = packet.fields["release"], packet.fields["seat"]
        if release not in {None, self._release}:
            sentence = f"the engine is of release {self._release}, the worker of {_printable(release)}"
            self._turn_away(identity, f"{sentence}; install one release everywhere")
        free = [seat for seat in self._seats if seat.identity is None and wanted in {None, seat.index}]
        if not free:
            self._turn_away(identity, "all workers that the engine waits for are there")
        seat = free[0]
        seat.identity, seat.name, seat.heard_s = identity, _printable(packet.fields["name"]), time.monotonic()
        if self._scenario is None:
            self._say(identity, Packet("alive", {}))
        else:
            self._greet(seat)

    def _turn_away(self, identity: bytes, sentence: str) -> NoReturn:
        self._say(identity, Packet("refused", {"sentence": sentence}))
        raise WireError(sentence)

    def _greet(self, seat: Seat) -> None:
        assert seat.identity is not None
        assert self._scenario is not None
        seat.is_welcome, seat.answered_s = True, time.monotonic()
        welcome = {
            "scenario": self._scenario,
            "clients": list(seat.clients),
            "seat": seat.index,
            "beat_s": float(self._limits.beat_s),
            "silence_s": float(self._limits.silence_s),
        }
        self._say(seat.identity, Packet("welcome", welcome))

    def _listen(self, seat: Seat, packet: Packet) -> None:
        """A worker speaks."""
        if packet.type == "alive":
            return
        if packet.type == "ready":
            self._is_ready(seat, packet)
        elif packet.type == "leaving":
            self._end(seat.vacate(f"it left, because {_printable(packet.fields['sentence'])}"))
        elif packet.type == "failed" and packet.fields["ticket"] is None:
            self._end(self._told(seat, packet))
        else:
            self._is_answered(seat, packet)

    def _is_ready(self, seat: Seat, packet: Packet) -> None:
        starts = packet.fields["starts"]
        fits = packet.fields["clients"] == list(seat.clients) and len(starts) == len(seat.clients)
        if not seat.is_welcome or not fits or any(type(digest) is not str for digest in starts):
            raise WireError("a worker is ready for something else than it was given")
        self.starts.update(zip(seat.clients, starts, strict=True))
        seat.is_ready = True

    def _is_answered(self, seat: Seat, packet: Packet) -> None:
        ticket: int = packet.fields.get("ticket", -1)
        if ticket in self._given_up:
            self._given_up.discard(ticket)
            return
        question = self._questions.get(ticket)
        if question is None or question.seat is not seat or packet.type not in {question.answer, "failed"}:
            raise WireError(f"a packet {packet.type!r} answers no question")
        error = self._told(seat, packet) if packet.type == "failed" else None
        outcome = question.read(packet) if error is None else None
        del self._questions[ticket]
        seat.open_tickets.discard(ticket)
        seat.answered_s = time.monotonic()
        if error is not None:
            question.future.set_exception(error)
        else:
            question.future.set_result(outcome)

    def _told(self, seat: Seat, packet: Packet) -> Exception:
        return error_of(packet.fields["error"], packet.fields["sentence"], f"worker {seat.index} ({seat.name})")

    def _say(self, identity: bytes, packet: Packet) -> None:
        self._outbox.append((identity, pack_packet(packet)))

    def _beat(self, at_s: float) -> float:
        """Let workers know that the engine lives; returns when to do so again."""
        now_s = time.monotonic()
        if now_s < at_s:
            return at_s
        for seat in self._seats:
            if seat.identity is not None:
                self._say(seat.identity, Packet("alive", {}))
        return now_s + self._limits.beat_s

    def _look_at_clocks(self) -> None:
        now_s = time.monotonic()
        for seat in self._seats:
            if seat.lost is None and (reason := self._ended(seat.index) or seat.overdue(now_s, self._limits)):
                self._end(seat.vacate(reason))

    def _send_outbox(self) -> None:
        while self._outbox:
            identity, parts = self._outbox.popleft()
            trouble = self._socket.send(identity, parts)
            seat = self._seated(identity) if trouble else None
            if seat is not None:  # where its process is ending right now, its exit code tells more
                self._end(seat.vacate(self._ended(seat.index) or f"its connection is gone ({trouble})"))

    def _end(self, error: Exception) -> None:
        """Nobody waits any longer; answers that still come are dropped."""
        with self._changed:
            if not any(seat.lost is error for seat in self._seats):
                self._failure = error
            for ticket, question in self._questions.items():
                if question.seat.identity is not None:
                    self._given_up.add(ticket)
                question.seat.open_tickets.discard(ticket)
                question.future.set_exception(error)
            self._questions.clear()
            self._changed.notify_all()

    def _leave(self) -> None:
        with self._changed:
            for seat in self._seats:
                if seat.identity is not None:
                    self._say(seat.identity, Packet("stop", {}))
            self._send_outbox()
            self._end(TransportError(_SENT_HOME))
        self._socket.hang_up()


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text[:_SHOWN])

"""Places for clients that outside processes play, and questions to them. They may come late, leave, die, or talk
nonsense: the run goes on without them.

One thread of its own keeps the socket, so that an answer is stamped when it comes, whatever the engine is doing then.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ..contracts import NodeId
from ..network.transport.curve_keys import CurveKeys
from ..network.transport.errors import TransportError, WireError
from ..network.transport.packets import Frame, Packet, pack_packet, unpack_packet
from ..network.transport.turn_socket import TurnSocket
from .outside_place import OutsidePlace, pack_place

_TICK_MS = 100
_MOST_HEADER_BYTES = 1 << 16  # of an outside client, whose messages are few
_SHOWN = 200

#: Makes of an answer what the ticket gives; refuses it with a `WireError`.
Read = Callable[[Packet], Any]


@dataclass(slots=True, eq=False)
class _Question:
    ticket: int
    answer: str
    read: Read
    future: Future[Any]
    given_up: bool = False


@dataclass(slots=True, eq=False)
class _Seated:
    """A place, and who has it.

    Attributes:
        client_id: whose it is.
        identity: of the socket of who has taken it; None: nobody.
        name: of who had it last.
        welcome: whether they have been told about it.
        heard_s: when they were last heard.
        question: that they have yet to answer.
        counts: see `OutsideServer.counts`.
    """

    client_id: NodeId
    identity: bytes | None = None
    name: str = ""
    welcome: bool = False
    heard_s: float = 0.0
    question: _Question | None = None
    counts: dict[str, int] = field(default_factory=lambda: {"joined": 0, "late": 0, "refused": 0})


class OutsideServer:
    """Where outside clients come.

    Args:
        address: `tcp://HOST:PORT` or `ipc://FILE` to listen at; port `*` takes a free one.
        clients: that are played outside.
        silence_s: the place of a client that gives no sign of life for so long may be taken by another; until then it
            keeps it, and has all the time that it needs for an answer.
        keys: of the engine; needed beyond loopback.

    Attributes:
        address: where it listens.
        n_strangers: packets of nobody who has a place, and that asked for none in order.

    Raises:
        TransportError: the address cannot be used.
    """

    def __init__(
        self, address: str, clients: Sequence[NodeId], silence_s: float = 6.0, keys: CurveKeys | None = None
    ) -> None:
        self._seated = {client: _Seated(client) for client in clients}
        self._silence_s = silence_s
        self._places: dict[NodeId, OutsidePlace] = {}
        self.n_strangers = 0
        self._tickets = itertools.count()
        self._outbox: deque[tuple[bytes, list[Frame]]] = deque()
        self._changed = threading.Condition()  # what both threads touch is touched under this lock
        self._is_closing, self._failure = False, ""
        self._socket = TurnSocket(address, keys)
        self.address = self._socket.endpoint
        self._socket.serve(self._live, "outside clients")

    def fill(self, places: Mapping[NodeId, OutsidePlace], join_s: float) -> None:
        """Let clients in, and wait until all of them are there.

        Raises:
            TransportError: one did not come in time.
        """
        with self._changed:
            self._places = dict(places)
            for seated in self._seated.values():
                if seated.identity is not None:
                    self._greet(seated)
        self._socket.ring()
        until_s = time.monotonic() + join_s
        with self._changed:
            while missing := [client for client, seated in self._seated.items() if not seated.welcome]:
                if self._failure or time.monotonic() > until_s:
                    raise TransportError(self._failure or self._nobody_came(missing, join_s))
                self._changed.wait(_TICK_MS / 1000)

    def ask(
        self, client: NodeId, question: str, fields: Mapping[str, Any], frames: Sequence[Frame], read: Read
    ) -> Future[Any] | None:
        """Ask whoever plays a client.

        Args:
            client: which one.
            question: type of the packet; the answer's is the same with "_done".
            fields, frames: of the packet, beside ticket and client.
            read: makes of the answer what the ticket gives, on another thread.

        Returns:
            a ticket, which gives None for an answer that is none; None when nobody is there, or they are still busy
            with the question before.

        Raises:
            TransportError: the thread that speaks with them has ended.
        """
        with self._changed:
            if self._failure:
                raise TransportError(self._failure)
            seated = self._seated[client]
            if seated.identity is None or seated.question is not None:
                return None
            ticket = next(self._tickets)
            packet = Packet(question, {"ticket": ticket, "client": client, **fields}, frames)
            seated.question = _Question(ticket, f"{question}_done", read, Future())
            self._say(seated.identity, packet)
            future = seated.question.future
        self._socket.ring()
        return future

    def give_up(self, client: NodeId) -> None:
        """Wait no longer for what a client was asked; when the answer comes, it is late."""
        with self._changed:
            question = self._seated[client].question
            if question is not None:
                question.given_up = True

    def name(self, client: NodeId) -> str:
        """Of who plays a client, or did last; as they call themselves."""
        with self._changed:
            return self._seated[client].name

    def counts(self, client: NodeId) -> dict[str, int]:
        """How often somebody has joined as a client, answered late, and sent what was refused."""
        with self._changed:
            return dict(self._seated[client].counts)

    def close(self) -> None:
        """Tell clients to stop, and free the sockets; safe to call twice."""
        with self._changed:
            if self._is_closing:
                return
            self._is_closing = True
        self._socket.close()

    def _nobody_came(self, missing: Sequence[NodeId], join_s: float) -> str:
        who = f"client{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
        return (
            f"nobody joined as outside {who} at {self.address} within {join_s:g} s; start them, or leave them out of"
            " --outside"
        )

    # --- for the thread that keeps the socket ---------------------------------------------------------------------

    def _live(self) -> None:
        beat_at_s = 0.0
        try:
            while not self._is_closing:
                for identity, parts in self._socket.received(_TICK_MS):
                    with self._changed:
                        self._hear(identity, parts)
                now_s = time.monotonic()
                with self._changed:
                    if now_s >= beat_at_s:
                        beat_at_s = now_s + self._silence_s / 6
                        self._say_to_all(Packet("alive", {}))
                    self._send_outbox()
        except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it, whatever it is
            self._failure = f"the thread that speaks with outside clients ended ({error!r})"
        finally:
            self._leave()

    def _hear(self, identity: bytes, parts: Sequence[Frame]) -> None:
        seated = next((one for one in self._seated.values() if one.identity == identity), None)
        try:
            if parts and memoryview(parts[0]).nbytes > _MOST_HEADER_BYTES:
                raise WireError(f"an outside client's header has at most {_MOST_HEADER_BYTES} bytes")
            packet = unpack_packet(parts)
            if seated is None:
                self._meet(identity, packet)
            else:
                seated.heard_s = time.monotonic()
                self._listen(seated, packet)
        except WireError as refusal:
            if seated is None:
                self.n_strangers += 1
            else:
                seated.counts["refused"] += 1
            self._say(identity, Packet("refused", {"sentence": str(refusal)[:_SHOWN]}))
        self._changed.notify_all()

    def _meet(self, identity: bytes, packet: Packet) -> None:
        """Somebody without a place speaks."""
        if packet.type != "join":
            raise WireError("whoever has no place must join first")
        client = packet.fields["client"]
        if client not in self._seated:
            known = ", ".join(map(str, self._seated))
            raise WireError(f"client {client} is not played outside in this run; these are: {known}")
        seated = self._seated[client]
        if seated.identity is not None and time.monotonic() - seated.heard_s <= self._silence_s:
            raise WireError(
                f"client {client} is played by somebody else, who was there less than {self._silence_s:g} s ago"
            )
        self._vacate(seated)
        seated.identity, seated.heard_s = identity, time.monotonic()
        seated.name = "".join(c if c.isprintable() else " " for c in packet.fields["name"][:_SHOWN])
        seated.counts["joined"] += 1
        if client in self._places:
            self._greet(seated)

    def _greet(self, seated: _Seated) -> None:
        assert seated.identity is not None
        seated.welcome = True
        self._say(seated.identity, pack_place(self._places[seated.client_id], self._silence_s))

    def _listen(self, seated: _Seated, packet: Packet) -> None:
        if packet.type == "alive":
            return
        if packet.type == "leaving":
            self._vacate(seated)
            return
        question = seated.question
        if question is None or packet.fields.get("ticket") != question.ticket:
            raise WireError(f"a packet {packet.type!r} answers no question")
        if packet.type not in {question.answer, "failed"}:
            raise WireError(f"a packet {packet.type!r} is no answer to this question")
        seated.question = None
        seated.counts["late"] += question.given_up
        outcome = None
        try:
            outcome = None if packet.type == "failed" else question.read(packet)
        finally:
            question.future.set_result(outcome)

    def _vacate(self, seated: _Seated) -> None:
        """Who had this place is gone; another may take it."""
        question, seated.question = seated.question, None
        seated.identity, seated.welcome = None, False
        if question is not None:
            question.future.set_result(None)

    def _say(self, identity: bytes, packet: Packet) -> None:
        self._outbox.append((identity, pack_packet(packet)))

    def _say_to_all(self, packet: Packet) -> None:
        for seated in self._seated.values():
            if seated.identity is not None:
                self._say(seated.identity, packet)

    def _send_outbox(self) -> None:
        while self._outbox:
            identity, parts = self._outbox.popleft()
            if self._socket.send(identity, parts):  # nobody is there any more
                for seated in self._seated.values():
                    if seated.identity == identity:
                        self._vacate(seated)

    def _leave(self) -> None:
        with self._changed:
            self._say_to_all(Packet("stop", {}))
            self._send_outbox()
            for seated in self._seated.values():
                self._vacate(seated)
            self._changed.notify_all()
        self._socket.hang_up()

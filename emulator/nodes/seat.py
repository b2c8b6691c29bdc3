"""Seats that remote processes take in a run, and the requests to these processes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ..contracts import NodeId
from ..network.transport.errors import WireError
from ..network.transport.packets import Frame, Packet

#: Most characters of a name or a sentence that came from a remote process, or quotes what did.
MOST_TEXT = 300

#: Converts a reply to the result of a request, on the socket thread; refuses it with a `WireError`.
ReadReply = Callable[[Packet], Any]


class JoinRefused(WireError):  # noqa: N818 - it is what happened, as the process reads it
    """A process that requested a seat gets none; it is sent the sentence."""


@dataclass(slots=True, eq=False)
class SeatRequest:
    """A request to the process of a seat, until its reply has come.

    Attributes:
        ticket: number of the request, which its reply repeats.
        parts: frames to send; none once they wait for the socket thread.
        reply: type of the packet that replies to it.
        read: converts the reply.
        future: result, for the thread that waits for it.
        sent_s: monotonic instant at which it was submitted.
        is_given_up: the result is no longer waited for.
    """

    ticket: int
    parts: list[Frame]
    reply: str
    read: ReadReply
    future: Future[Any] = field(default_factory=Future)
    sent_s: float = 0.0
    is_given_up: bool = False


@dataclass(slots=True, eq=False)
class Seat:
    """A place for one remote process, and the process that has taken it.

    Attributes:
        clients: ids of the clients that the process plays.
        identity: ZeroMQ identity of its socket; None: the seat is vacant.
        name: name of the process, for people; kept when it has gone.
        is_welcome: the process has been sent what it needs to begin.
        heard_s: monotonic instant of the last packet from it.
        requests: ticket -> request without a reply.
    """

    clients: tuple[NodeId, ...]
    identity: bytes | None = None
    name: str = ""
    is_welcome: bool = False
    heard_s: float = 0.0
    requests: dict[int, SeatRequest] = field(default_factory=dict)

    def request_of(self, packet: Packet) -> SeatRequest:
        """The request that a packet replies to.

        Raises:
            WireError: it replies to none, or with a packet of another type.
        """
        request = self.requests.get(packet.fields.get("ticket", -1))
        if request is None or packet.type not in {request.reply, "failed"}:
            raise WireError(f"a packet {packet.type!r} answers no question")
        return request


def printable(text: str) -> str:
    """Text of a remote process, cut short, with spaces for characters that a terminal would obey."""
    return "".join(character if character.isprintable() else " " for character in text[:MOST_TEXT])

"""A place for one worker at the engine, and a question that it has yet to answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ..contracts import NodeId
from ..network.transport.errors import WorkerLost
from ..network.transport.packets import Packet
from .worker_limits import WorkerLimits

#: Makes of an answer what the ticket gives; refuses it with a `WireError`.
Read = Callable[[Packet], Any]


@dataclass(slots=True, eq=False)
class Seat:
    """A place for one worker.

    Attributes:
        index, clients: of the seat.
        identity: of the socket of who has taken it; None: nobody.
        name: of who did, for people.
        is_welcome, is_ready: how far they have come.
        heard_s: when they were last heard.
        answered_s: when they last answered, or were asked after having answered everything.
        open_tickets: what they have yet to answer.
        lost: why who had it is gone; None: nobody is.
    """

    index: int
    clients: tuple[NodeId, ...]
    identity: bytes | None = None
    name: str = ""
    is_welcome: bool = False
    is_ready: bool = False
    heard_s: float = 0.0
    answered_s: float = 0.0
    open_tickets: set[int] = field(default_factory=set)
    lost: WorkerLost | None = None

    def vacate(self, reason: str) -> WorkerLost:
        """Let another worker come, because this one is gone; returns the error that says so."""
        if self.lost is None:
            self.lost = WorkerLost(self.index, self.name, self.clients, reason)
        self.identity, self.is_welcome, self.is_ready = None, False, False
        self.open_tickets.clear()
        return self.lost

    def overdue(self, now_s: float, limits: WorkerLimits) -> str:
        """Which limit of a wait has passed; empty: none has."""
        if self.identity is None:
            return ""
        if now_s - self.heard_s > limits.silence_s:
            return f"it has been silent for {limits.silence_s:g} s"
        is_busy = bool(self.open_tickets) or (self.is_welcome and not self.is_ready)
        if is_busy and now_s - self.answered_s > limits.answer_s:
            return f"it lives, but has answered nothing for {limits.answer_s:g} s"
        return ""


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, which type of packet answers it, and who waits."""

    seat: Seat
    answer: str
    read: Read
    future: Future[Any]

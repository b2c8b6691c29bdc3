"""Seat of one worker at the engine, and the limits of time between engine and workers. No wait is without a limit."""

from __future__ import annotations

from dataclasses import dataclass

from ..network.transport.errors import WorkerLost
from ..ranges import check_ranges
from .seat import Seat


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Longest waits between engine and workers, in real seconds.

    Attributes:
        join_s: limit for all workers to join.
        silence_s: without any packet, both ways; heartbeats come every `beat_s`, whatever else goes on.
        answer_s: limit for the next reply of a worker that is alive and has work to do, such as training.
        beat_s: time from one heartbeat to the next.

    Raises:
        ConfigError: a limit is out of range, or shorter than two heartbeats.
    """

    join_s: float = 120.0
    silence_s: float = 6.0
    answer_s: float = 1800.0
    beat_s: float = 1.0

    def __post_init__(self) -> None:
        day_s = 86_400.0
        check_ranges("workers", self, {"beat_s": (0.01, 60.0), "join_s": (0.1, day_s), "answer_s": (0.1, 30 * day_s)})
        # Fewer than two heartbeats would take one delayed packet for a dead worker.
        check_ranges("workers", self, {"silence_s": (2.0 * self.beat_s, day_s)})


@dataclass(slots=True, eq=False)
class WorkerSeat(Seat):
    """A place for one worker.

    Attributes:
        index: number of the seat, from 0.
        is_ready: the worker has built its clients.
        answered_s: monotonic instant of its last reply, or of its welcome.
        lost: why the worker that had the seat is gone; None: no worker is lost.
    """

    index: int = 0
    is_ready: bool = False
    answered_s: float = 0.0
    lost: WorkerLost | None = None

    def vacate(self, reason: str) -> WorkerLost:
        """Let another worker take the seat, because this one is gone; returns the error about the loss."""
        if self.lost is None:
            self.lost = WorkerLost(self.index, self.name, self.clients, reason)
        self.identity, self.is_welcome, self.is_ready = None, False, False
        return self.lost

    def overdue(self, now_s: float, limits: WorkerLimits) -> str:
        """Sentence about the limit of time that has passed; empty: none has."""
        if self.identity is None:
            return ""
        if now_s - self.heard_s > limits.silence_s:
            return f"it has been silent for {limits.silence_s:g} s"
        # A worker without requests waits rightly, so the limit counts from the oldest request at the earliest.
        waits = [request.sent_s for request in self.requests.values() if not request.is_given_up]
        is_building = self.is_welcome and not self.is_ready
        since_s = max(self.answered_s, min(waits)) if waits else self.answered_s
        if (waits or is_building) and now_s - since_s > limits.answer_s:
            return f"it lives, but has answered nothing for {limits.answer_s:g} s"
        return ""

"""The simulated clock held back to the pace of the wall clock, so that what is not simulated can take part.

Nothing else changes: events come in the same order, and a run without outside clients leaves the same trace.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Protocol

import simpy

from .engine import EmulatorEnvironment

#: Longest sleep at a time: what a signal's handler says is looked at afterwards. A handler may not touch locks, so it
#: cannot wake anybody.
NAP_S = 0.2


class WallClock(Protocol):
    """Real time; tests bring their own."""

    def now_s(self) -> float:
        """Real instant, in seconds from any origin; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let so much time pass, or less when somebody wakes the sleeper; a signal's exception ends it at once."""
        ...

    def wake(self) -> None:
        """End the sleep, from any thread; without a sleeper, the next one."""
        ...


class MonotonicClock:
    """Real time as the operating system counts it: settings of the date do not move it."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def now_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        self._woken.wait(seconds)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()


@dataclass(slots=True)
class Lag:
    """How late events happened, in real seconds behind their instant; 0 for those in time.

    Attributes:
        n_events: how many there were.
        total_s, largest_s: over all of them.
    """

    n_events: int = 0
    total_s: float = 0.0
    largest_s: float = 0.0

    def add(self, late_s: float) -> None:
        """One more event."""
        late_s = max(0.0, late_s)
        self.n_events += 1
        self.total_s += late_s
        self.largest_s = max(self.largest_s, late_s)

    @property
    def mean_s(self) -> float:
        """Over events; 0 without any."""
        return self.total_s / self.n_events if self.n_events else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Wait:
    """Somebody real was asked something.

    Attributes:
        now_s, wall_s: when, on either clock.
        answered: fires on the simulated clock.
    """

    now_s: float
    wall_s: float
    answered: simpy.Event


class RealTimeEnvironment(EmulatorEnvironment):
    """A clock on which no event happens before its real instant.

    Real work that takes longer than what it simulates makes the clock late; it then hurries until it has caught up.
    While somebody real is asked something it does not hurry: they are given the whole time that they were promised,
    measured on the wall from the question to the answer, however late the clock is.

    Args:
        seed, start_s: as of any environment.
        speed: simulated seconds per real second: 1 is real time, 10 ten times faster than that.
        wall: real time.

    Attributes:
        speed: simulated seconds per real second.
        lag: how late events were.
    """

    def __init__(self, seed: int, start_s: float = 0.0, *, speed: float = 1.0, wall: WallClock | None = None) -> None:
        super().__init__(seed, start_s)
        self.speed, self.lag = speed, Lag()
        self._wall = wall or MonotonicClock()
        self._start: tuple[float, float] | None = None
        self._hurries = False
        self._waits: list[_Wait] = []
        self._answers: deque[tuple[_Wait, float]] = deque()

    def step(self) -> None:
        """Wait for the instant of the next event, then let it happen."""
        if self._start is None:  # what was built before the first event took no simulated time
            self._start = self.now, self._wall.now_s()
        self._keep_pace()
        super().step()

    def hurry(self) -> None:
        """From now on do not wait for the wall, nor for anybody real; may be called while a signal is handled."""
        self._hurries = True

    def within(self, ticket: Future[Any], until_s: float) -> Generator[simpy.Event, object, bool]:
        """Wait until somebody real has answered, at most until a simulated instant.

        The answer comes at the simulated instant at which it came on the wall, counted from this call.

        Args:
            ticket: of the answer; done from any thread.
            until_s: simulated instant at which it is given up.

        Returns:
            whether it came in time.
        """
        wait = _Wait(self.now, self._wall.now_s(), self.event())
        self._waits.append(wait)
        ticket.add_done_callback(lambda _: self._hear(wait))
        yield wait.answered | self.at(until_s)
        self._waits.remove(wait)
        return bool(wait.answered.triggered)

    def _hear(self, wait: _Wait) -> None:
        self._answers.append((wait, self._wall.now_s()))
        self._wall.wake()

    def _keep_pace(self) -> None:
        while True:
            self._take_answers()
            next_s = self.peek()
            if next_s == inf or self._hurries:
                return  # nothing is left to happen, and the step says so; or nobody waits any longer
            left_s = self._due_s(next_s) - self._wall.now_s()
            if left_s <= 0.0:
                break
            self._wall.sleep(min(left_s, NAP_S))
        assert self._start is not None
        self.lag.add(self._wall.now_s() - self._wall_s(next_s, *self._start))

    def _take_answers(self) -> None:
        while self._answers:
            wait, wall_s = self._answers.popleft()
            if wait in self._waits:
                came_s = wait.now_s + (wall_s - wait.wall_s) * self.speed
                came = self.at(came_s)
                assert came.callbacks is not None
                came.callbacks.append(partial(_succeed, wait.answered))

    def _due_s(self, next_s: float) -> float:
        """Real instant before which an event does not happen."""
        assert self._start is not None
        origins = [self._start, *((wait.now_s, wait.wall_s) for wait in self._waits)]
        return max(self._wall_s(next_s, *origin) for origin in origins)

    def _wall_s(self, instant_s: float, now_s: float, wall_s: float) -> float:
        return wall_s + (instant_s - now_s) / self.speed


def _succeed(event: simpy.Event, _: simpy.Event) -> None:
    event.succeed()

"""Real-time clock: the simulated clock kept from running ahead of real time, so that outside processes can take part.

Events keep their order, and a run without outside clients leaves the same trace.
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

import numpy as np
import simpy

from .engine import EmulatorEnvironment

#: Longest sleep at a time, in seconds: flags that a signal's handler sets are read afterwards. A handler may not touch
#: locks, so it cannot end a sleep.
NAP_S = 0.2


class WallClock(Protocol):
    """Source of real time; tests bring their own."""

    def now_s(self) -> float:
        """Real instant, in seconds from any origin; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Sleep for so much time, or less when `wake` is called; a signal's exception ends it at once."""
        ...

    def wake(self) -> None:
        """End the sleep, from any thread; without one, the next sleep ends at once."""
        ...


class MonotonicClock:
    """Real time of the operating system's monotonic clock: setting the date does not move it."""

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
    """Delay of events behind their real instants, in real seconds; 0 for those in time.

    Attributes:
        n_events: number of events.
        total_s, largest_s: sum and maximum of their delays.
    """

    n_events: int = 0
    total_s: float = 0.0
    largest_s: float = 0.0

    def add(self, late_s: float) -> None:
        """Add an event with this delay."""
        late_s = max(0.0, late_s)
        self.n_events += 1
        self.total_s += late_s
        self.largest_s = max(self.largest_s, late_s)

    @property
    def mean_s(self) -> float:
        """Mean delay over all events; 0 without any."""
        return self.total_s / self.n_events if self.n_events else 0.0


class LagBySpeed:
    """Largest delay that events would have had at several speeds, from the real time that their processing took.

    The delay follows Lindley's recursion of a queue with one server: it grows with the processing time of an event and
    shrinks with the real time until the next one.

    Args:
        speed: fastest of the speeds, in simulated seconds per real second; the others go down to a thousandth of it.
    """

    #: Ten speeds to a decade.
    FACTORS = 10.0 ** (-np.arange(31) / 10.0)

    def __init__(self, speed: float) -> None:
        self._speeds = speed * self.FACTORS
        self._late_s = np.zeros_like(self._speeds)
        self._largest_s = np.zeros_like(self._speeds)

    def add(self, simulated_s: float, busy_s: float) -> None:
        """Add an event.

        Args:
            simulated_s: simulated time since the event before it.
            busy_s: real time that the event before it took to process, in seconds.
        """
        self._late_s = np.maximum(0.0, self._late_s + busy_s - simulated_s / self._speeds)
        np.maximum(self._largest_s, self._late_s, out=self._largest_s)

    def fastest(self, late_s: float) -> float | None:
        """Fastest speed at which no event would have been later than so many real seconds; None: none of them."""
        kept = self._speeds[self._largest_s <= late_s]
        return float(kept[0]) if len(kept) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Wait:
    """A wait for the reply of an outside process.

    Attributes:
        now_s, wall_s: start of the wait, on the simulated and on the real clock.
        answered: fires on the simulated clock when the reply has come.
    """

    now_s: float
    wall_s: float
    answered: simpy.Event


class RealTimeEnvironment(EmulatorEnvironment):
    """Environment in which no event happens before its real instant.

    Computation that takes longer than the time that it simulates makes the clock late; it then runs without pauses
    until it has caught up. It does not do so while an outside process computes a reply: that process has its whole
    time, measured on the real clock from the request, however late the simulated clock is.

    Args:
        seed, start_s: see `EmulatorEnvironment`.
        speed: simulated seconds per real second: 1 is real time, 10 is ten times faster.
        wall: source of real time; None: the operating system's.

    Attributes:
        speed: simulated seconds per real second.
        lag: delays of events.
        lag_by_speed: what the largest delay would have been at lower speeds.
    """

    def __init__(self, seed: int, start_s: float = 0.0, *, speed: float = 1.0, wall: WallClock | None = None) -> None:
        super().__init__(seed, start_s)
        self.speed, self.lag, self.lag_by_speed = speed, Lag(), LagBySpeed(speed)
        self._wall = wall or MonotonicClock()
        self._start: tuple[float, float] | None = None
        self._processing: tuple[float, float] | None = None  # simulated and real instant at which the last event began
        self._hurries = False
        self._waits: list[_Wait] = []
        self._answers: deque[tuple[_Wait, float]] = deque()

    def step(self) -> None:
        """Wait for the real instant of the next event, then process it."""
        if self._start is None:  # what was built before the first event took no simulated time
            self._start = self.now, self._wall.now_s()
        self._keep_pace()
        super().step()

    def hurry(self) -> None:
        """From now on wait neither for real time nor for outside processes; may be called in a signal's handler."""
        self._hurries = True

    def within(self, ticket: Future[Any], until_s: float) -> Generator[simpy.Event, object, bool]:
        """Wait for the reply of an outside process, at most until a simulated instant.

        The reply comes at the simulated instant that corresponds to its real one, counted from this call.

        Args:
            ticket: future of the reply, set by any thread.
            until_s: simulated instant at which the reply is given up.

        Returns:
            whether the reply came in time.
        """
        wait = _Wait(self.now, self._wall.now_s(), self.event())
        self._waits.append(wait)
        ticket.add_done_callback(lambda _: self._note_reply(wait))
        yield wait.answered | self.at(until_s)
        # From here on the clock may catch up again.
        self._waits.remove(wait)
        return bool(wait.answered.triggered)

    def _note_reply(self, wait: _Wait) -> None:
        self._answers.append((wait, self._wall.now_s()))
        self._wall.wake()

    def _keep_pace(self) -> None:
        ready_s = self._wall.now_s()
        while True:
            self._take_answers()
            next_s = self.peek()
            if next_s == inf or self._hurries:
                return  # no event is left, which the step reports; or real time no longer counts
            left_s = self._due_s(next_s) - self._wall.now_s()
            # Naps are short, and replies and the queue are read again after each: a reply may bring the next event
            # forward.
            if left_s <= 0.0:
                break
            self._wall.sleep(min(left_s, NAP_S))
        assert self._start is not None
        now_s = self._wall.now_s()
        self.lag.add(now_s - self._wall_s(next_s, *self._start))
        if self._processing is not None:
            began_s, wall_s = self._processing
            self.lag_by_speed.add(next_s - began_s, ready_s - wall_s)
        self._processing = next_s, now_s

    def _take_answers(self) -> None:
        while self._answers:
            wait, wall_s = self._answers.popleft()
            # A reply after its deadline is dropped; its request has been given up.
            if wait in self._waits:
                came_s = wait.now_s + (wall_s - wait.wall_s) * self.speed
                came = self.at(came_s)
                assert came.callbacks is not None
                came.callbacks.append(partial(_succeed, wait.answered))

    def _due_s(self, next_s: float) -> float:
        """Real instant before which an event at this simulated instant must not happen."""
        assert self._start is not None
        origins = [self._start, *((wait.now_s, wait.wall_s) for wait in self._waits)]
        return max(self._wall_s(next_s, *origin) for origin in origins)

    def _wall_s(self, instant_s: float, now_s: float, wall_s: float) -> float:
        return wall_s + (instant_s - now_s) / self.speed


def _succeed(event: simpy.Event, _: simpy.Event) -> None:
    event.succeed()

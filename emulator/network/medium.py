"""What senders send into: a medium of their own, or one that they share with others."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Protocol

import simpy

from ..contracts import ConfigError

#: Shares of a slot that are less than this many blocks above a whole number are rounding.
_ROUNDING = 1e-9


class Medium(Protocol):
    """Carries transmissions, each as long as it takes beside the others."""

    def carry(self, airtime_s: float, done: Callable[[], None]) -> None:
        """Start a transmission now.

        Args:
            airtime_s: how long it takes alone.
            done: called at the simulated instant at which it ends, never before this returns.
        """
        ...


def call_after(env: simpy.Environment, delay_s: float, what: Callable[[], None]) -> None:
    """One event on the clock."""
    env.timeout(delay_s).callbacks.append(lambda _: what())


class OwnMedium:
    """Nobody else sends here."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env

    def carry(self, airtime_s: float, done: Callable[[], None]) -> None:
        """Takes the airtime."""
        call_after(self._env, airtime_s, done)


class ProcessorSharing:
    """n transmissions at once take n times as long each: an ideally fair scheduler.

    Source: egalitarian processor sharing; it is followed in the time that one transmission would have seen alone, so
    that starting or ending one costs an entry in a heap and not a walk over all.
    """

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._served_s = 0.0  # airtime that everybody present has had since the medium was last idle
        self._since_s = env.now
        self._ends: list[tuple[float, int, Callable[[], None]]] = []  # served_s at the end, order of starts
        self._n_started = self._alarm = 0

    def carry(self, airtime_s: float, done: Callable[[], None]) -> None:
        """Takes the airtime, times the number of those who send, while they do."""
        self._advance()
        heapq.heappush(self._ends, (self._served_s + airtime_s, self._n_started, done))
        self._n_started += 1
        self._set_alarm()

    def _advance(self) -> None:
        now_s = self._env.now
        self._served_s = self._served_s + (now_s - self._since_s) / len(self._ends) if self._ends else 0.0
        self._since_s = now_s

    def _set_alarm(self) -> None:
        """The next one ends then, unless others start before."""
        self._alarm += 1
        alarm = self._alarm
        wait_s = max(0.0, (self._ends[0][0] - self._served_s) * len(self._ends))
        call_after(self._env, wait_s, lambda: self._ring(alarm))

    def _ring(self, alarm: int) -> None:
        if alarm != self._alarm:
            return  # somebody started since, and another one is set
        self._advance()
        end_s, _, done = heapq.heappop(self._ends)
        self._served_s = max(self._served_s, end_s)
        done()
        if self._ends and alarm == self._alarm:
            self._set_alarm()


class RoundRobin:
    """Resource blocks of a slot are dealt one by one, in turn, among those who had begun to send when the slot began.

    A transmission ends with the slot that its last block lies in. Whoever comes after the one that got the last block
    of a slot gets the first of the next.

    Args:
        env: the clock.
        slot_s: length of a slot; slots begin at its multiples.
        n_blocks: per slot.

    Raises:
        ConfigError: no slot or no block.
    """

    def __init__(self, env: simpy.Environment, slot_s: float, n_blocks: int) -> None:
        if not (slot_s > 0.0 and math.isfinite(slot_s)) or n_blocks < 1:
            raise ConfigError(f"a slot must last above 0 s and have 1 block or more, got {slot_s} s and {n_blocks}")
        self._env, self._slot_s, self._n_blocks = env, slot_s, n_blocks
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()  # blocks that are still needed, in turn
        self._ending: list[Callable[[], None]] = []  # in the slot that is on
        self._slot: int | None = None  # number of the next slot to deal; None: nobody sends

    def carry(self, airtime_s: float, done: Callable[[], None]) -> None:
        """Takes the blocks of the airtime, one at least."""
        needed = max(1, math.ceil(airtime_s / self._slot_s * self._n_blocks - _ROUNDING))
        self._waiting.append((needed, done))
        if self._slot is None:
            self._slot = math.ceil(self._env.now / self._slot_s - _ROUNDING)
            self._wait_for_slot()

    def _wait_for_slot(self) -> None:
        assert self._slot is not None
        call_after(self._env, max(0.0, self._slot * self._slot_s - self._env.now), self._begin_slot)

    def _begin_slot(self) -> None:
        ending, self._ending = self._ending, []
        for done in ending:
            done()
        if not self._waiting:
            self._slot = None
            return
        assert self._slot is not None
        self._deal()
        self._slot += 1
        self._wait_for_slot()

    def _deal(self) -> None:
        left, waiting = self._n_blocks, self._waiting
        while left and waiting:
            each = max(1, left // len(waiting))
            for _ in range(min(left, len(waiting))):
                needed, done = waiting.popleft()
                got = min(each, needed)
                left -= got
                if needed > got:
                    waiting.append((needed - got, done))
                else:
                    self._ending.append(done)

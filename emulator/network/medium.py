"""Media that carry transmissions: one per sender, or one that several senders share."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from ..contracts import ConfigError, State
from ..engine import EmulatorEnvironment
from ..saved_state import SavedState

#: Shares of a slot that are less than this many blocks above a whole number are rounding.
_ROUNDING = 1e-9


class Sender(Protocol):
    """Sender of one transmission at a time."""

    def has_left(self) -> None:
        """Handle the end of its transmission."""
        ...


class Medium(Protocol):
    """Carrier of transmissions; how long each takes depends on the others."""

    def carry(self, airtime_s: float, sender: Sender) -> None:
        """Start a transmission now.

        Args:
            airtime_s: duration of the transmission alone on the medium.
            sender: its `has_left` is called at the simulated instant at which the transmission ends, never before this
                method returns.
        """
        ...

    def state(self, numbers: Mapping[Sender, int]) -> State:
        """Transmissions in progress, with senders as numbers."""
        ...

    def restore(self, saved: SavedState, senders: Sequence[Sender]) -> None:
        """Carry that on, for the senders of these numbers."""
        ...


class OwnMedium:
    """Medium of a single sender: a transmission takes its airtime."""

    def __init__(self, env: EmulatorEnvironment) -> None:
        self._env = env
        self._ends_s: dict[Sender, float] = {}

    def carry(self, airtime_s: float, sender: Sender) -> None:
        """Start a transmission; it takes its airtime."""
        self._carry_until(self._env.now + airtime_s, sender)

    def state(self, numbers: Mapping[Sender, int]) -> State:
        return [[numbers[sender], end_s] for sender, end_s in self._ends_s.items()]

    def restore(self, saved: SavedState, senders: Sequence[Sender]) -> None:
        for number, end_s in (one.listed(2) for one in saved.listed()):
            self._carry_until(end_s.number(), senders[number.count(len(senders) - 1)])

    def _carry_until(self, end_s: float, sender: Sender) -> None:
        self._ends_s[sender] = end_s
        self._env.call_at(end_s, lambda _: self._ended(sender))

    def _ended(self, sender: Sender) -> None:
        del self._ends_s[sender]
        sender.has_left()


class ProcessorSharing:
    """n transmissions at once take n times as long each: an ideally fair scheduler.

    Source: egalitarian processor sharing; it is followed in the time that one transmission would have seen alone, so
    that starting or ending one costs an entry in a heap and not a loop over all.
    """

    def __init__(self, env: EmulatorEnvironment) -> None:
        self._env = env
        self._served_s = 0.0  # airtime that each sender has had since the medium was last idle
        self._since_s = env.now
        self._ends: list[tuple[float, int, Sender]] = []  # served_s at the end, order of starts
        self._n_started = self._alarm = 0

    def carry(self, airtime_s: float, sender: Sender) -> None:
        """Start a transmission; it takes its airtime times the number of senders at each instant."""
        self._advance()
        # The number of the start decides ties, because senders have no order.
        heapq.heappush(self._ends, (self._served_s + airtime_s, self._n_started, sender))
        self._n_started += 1
        self._set_alarm()

    def state(self, numbers: Mapping[Sender, int]) -> State:
        ends = [[end_s, number, numbers[sender]] for end_s, number, sender in self._ends]
        return {"served_s": self._served_s, "since_s": self._since_s, "n_started": self._n_started, "ends": ends}

    def restore(self, saved: SavedState, senders: Sequence[Sender]) -> None:
        self._served_s, self._since_s = saved.part("served_s").number(), saved.part("since_s").number()
        self._n_started = saved.part("n_started").count()
        ends = [one.listed(3) for one in saved.part("ends").listed()]
        last = len(senders) - 1
        self._ends = [(end_s.number(), number.count(), senders[at.count(last)]) for end_s, number, at in ends]
        if self._ends:
            self._set_alarm()

    def _advance(self) -> None:
        now_s = self._env.now
        # Back to 0 when idle, so that rounding does not grow with the length of the run.
        self._served_s = self._served_s + (now_s - self._since_s) / len(self._ends) if self._ends else 0.0
        self._since_s = now_s

    def _set_alarm(self) -> None:
        """Set the alarm at the end of the transmission that ends next, unless others start before."""
        self._alarm += 1
        alarm = self._alarm
        wait_s = max(0.0, (self._ends[0][0] - self._served_s) * len(self._ends))
        self._env.call_at(self._since_s + wait_s, lambda _: self._ring(alarm))

    def _ring(self, alarm: int) -> None:
        if alarm != self._alarm:
            return  # a transmission has started since, and set another alarm
        self._advance()
        end_s, _, sender = heapq.heappop(self._ends)
        self._served_s = max(self._served_s, end_s)  # rounding may have put the alarm a moment early
        sender.has_left()
        # `has_left` may have started the sender's next transmission, which has set an alarm already.
        if self._ends and alarm == self._alarm:
            self._set_alarm()


class RoundRobin:
    """Round-robin scheduler: resource blocks of a slot go, one by one, to the senders that were there when it began.

    A transmission ends with the slot that its last block lies in. The sender after the one that got the last block of
    a slot gets the first block of the next.

    Args:
        env: the simulated clock.
        slot_s: length of a slot; slots begin at its multiples.
        n_blocks: resource blocks per slot.

    Raises:
        ConfigError: no slot or no block.
    """

    def __init__(self, env: EmulatorEnvironment, slot_s: float, n_blocks: int) -> None:
        if not (slot_s > 0.0 and math.isfinite(slot_s)) or n_blocks < 1:
            raise ConfigError(f"a slot must last above 0 s and have 1 block or more, got {slot_s} s and {n_blocks}")
        self._env, self._slot_s, self._n_blocks = env, slot_s, n_blocks
        self._waiting: deque[tuple[int, Sender]] = deque()  # blocks that are still needed, in turn
        self._ending: list[Sender] = []  # in the slot that is on
        self._slot: int | None = None  # number of the next slot to share out; None: no sender

    def carry(self, airtime_s: float, sender: Sender) -> None:
        """Start a transmission; it takes the blocks of its airtime, one at least."""
        needed = max(1, math.ceil(airtime_s / self._slot_s * self._n_blocks - _ROUNDING))
        self._waiting.append((needed, sender))
        if self._slot is None:
            self._slot = math.ceil(self._env.now / self._slot_s - _ROUNDING)
            self._wait_for_slot()

    def state(self, numbers: Mapping[Sender, int]) -> State:
        return {
            "slot": self._slot,
            "waiting": [[needed, numbers[sender]] for needed, sender in self._waiting],
            "ending": [numbers[sender] for sender in self._ending],
        }

    def restore(self, saved: SavedState, senders: Sequence[Sender]) -> None:
        slot, last = saved.part("slot"), len(senders) - 1
        self._slot = None if slot.state is None else slot.count()
        waiting = [one.listed(2) for one in saved.part("waiting").listed()]
        self._waiting = deque((needed.count(), senders[number.count(last)]) for needed, number in waiting)
        self._ending = [senders[number.count(last)] for number in saved.part("ending").listed()]
        if self._slot is not None:
            self._wait_for_slot()

    def _wait_for_slot(self) -> None:
        assert self._slot is not None
        self._env.call_at(self._slot * self._slot_s, lambda _: self._begin_slot())

    def _begin_slot(self) -> None:
        ending, self._ending = self._ending, []
        # First, so that the next message of such a sender takes part in the slot that begins now.
        for sender in ending:
            sender.has_left()
        if not self._waiting:
            self._slot = None
            return
        assert self._slot is not None
        self._share_blocks()
        self._slot += 1
        self._wait_for_slot()

    def _share_blocks(self) -> None:
        left, waiting = self._n_blocks, self._waiting
        while left and waiting:
            each = max(1, left // len(waiting))  # as many rounds at once as all senders can take part in
            for _ in range(min(left, len(waiting))):
                needed, sender = waiting.popleft()
                got = min(each, needed)
                left -= got
                if needed > got:
                    waiting.append((needed - got, sender))
                else:
                    self._ending.append(sender)

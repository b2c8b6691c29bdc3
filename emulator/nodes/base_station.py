"""A base station as a process on the simulated clock: compute, send, gather, meet the others, again.

The node never asks which algorithm it plays, what a link does, or where its work runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import simpy

from ..contracts import DeviceProfile, Learner, Message
from ..engine import Barrier
from ..network.network import Network
from ..ranges import check_ranges
from ..recorder import Recorder
from .compute_pool import ComputePool
from .inbox import Inbox


@dataclass(frozen=True, slots=True)
class _Arrived:
    """A phase that has ended on the clock, and whose messages the learner has yet to absorb."""

    phase: str
    round_index: int
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class RoundPace:
    """When rounds begin: the first after a while, each at a fixed time after the one before, or later if that took
    longer.

    Attributes:
        warm_up_s: simulated instant of the first round.
        round_every_s: simulated time from one beginning to the next, at least.

    Raises:
        ConfigError: a time below 0, or beyond ten days.
    """

    warm_up_s: float
    round_every_s: float

    def __post_init__(self) -> None:
        check_ranges("live", self, {"warm_up_s": (0.0, 1e6), "round_every_s": (0.0, 1e6)})

    def start_s(self, round_index: int) -> float:
        """Simulated instant before which this round does not begin."""
        return self.warm_up_s + round_index * self.round_every_s


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all base stations of a run share.

    Attributes:
        env: the clock.
        network: takes messages.
        barrier: where phases end together.
        pool: does the real work.
        recorder: listens.
        observe: looks at a learner at the end of a round, told which; runs in the pool.
        deadline_s: simulated time after the start of a phase at which missing messages are given up; None: never.
        pace: when rounds begin; None: the first at once, each right after the one before.
    """

    env: simpy.Environment
    network: Network
    barrier: Barrier
    pool: ComputePool
    recorder: Recorder
    observe: Callable[[Learner, int], Mapping[str, Any]]
    deadline_s: float | None
    pace: RoundPace | None = None


class BaseStation:
    """One node: a learner on a device, with an inbox.

    Args:
        learner, device, inbox: what it is.
        surroundings: shared with the others.
        begin_round: told the simulated instant at which a round begins, on the clock's own thread. The learner does not
            run then, so that what it reads may be changed.
    """

    def __init__(
        self,
        learner: Learner,
        device: DeviceProfile,
        inbox: Inbox,
        surroundings: Surroundings,
        begin_round: Callable[[float], None] | None = None,
    ) -> None:
        self._learner, self._device, self._inbox = learner, device, inbox
        self._around, self._begin_round = surroundings, begin_round

    def run(self, rounds: int) -> Generator[simpy.Event, object, None]:
        """The node's life: this many rounds."""
        pool, env = self._around.pool, self._around.env
        for round_index in range(rounds):
            yield from self._begin(round_index)
            arrived: _Arrived | None = None
            for phase in self._learner.phases(round_index):
                started_s = env.now
                ticket = pool.submit(partial(self._turn, arrived, phase.name, round_index))
                yield env.timeout(self._busy(phase.flops))
                for message in pool.collect(ticket):
                    self._around.network.send(message)
                expected = self._learner.expected(phase.name, round_index)
                deadline_s = None if self._around.deadline_s is None else started_s + self._around.deadline_s
                messages = yield from self._inbox.gather(round_index, phase.name, expected, deadline_s)
                arrived = _Arrived(phase.name, round_index, messages)
                yield self._around.barrier.wait()
            look = pool.submit(partial(self._look, arrived, round_index))
            yield env.timeout(0.0)  # lets all nodes ask before the first one waits
            self._around.recorder.observation(env.now, self._learner.client_id, round_index, pool.collect(look))

    def _begin(self, round_index: int) -> Generator[simpy.Event, object, None]:
        env, pace = self._around.env, self._around.pace
        if pace is not None and env.now < pace.start_s(round_index):
            yield env.timeout(pace.start_s(round_index) - env.now)
        if self._begin_round is not None:
            self._begin_round(env.now)

    def _turn(self, arrived: _Arrived | None, phase: str, round_index: int) -> Sequence[Message]:
        self._absorb(arrived)
        return self._learner.compute(phase, round_index)

    def _look(self, arrived: _Arrived | None, round_index: int) -> Mapping[str, Any]:
        self._absorb(arrived)
        return self._around.observe(self._learner, round_index)

    def _absorb(self, arrived: _Arrived | None) -> None:
        if arrived is not None:
            self._learner.absorb(arrived.phase, arrived.round_index, arrived.messages)

    def _busy(self, flops: float) -> float:
        seconds = self._device.seconds(flops)
        self._around.recorder.computed(self._learner.client_id, seconds * self._device.power_w)
        return seconds

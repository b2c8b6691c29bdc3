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
    """

    env: simpy.Environment
    network: Network
    barrier: Barrier
    pool: ComputePool
    recorder: Recorder
    observe: Callable[[Learner, int], Mapping[str, Any]]
    deadline_s: float | None


class BaseStation:
    """One node: a learner on a device, with an inbox."""

    def __init__(self, learner: Learner, device: DeviceProfile, inbox: Inbox, surroundings: Surroundings) -> None:
        self._learner, self._device, self._inbox = learner, device, inbox
        self._around = surroundings

    def run(self, rounds: int) -> Generator[simpy.Event, object, None]:
        """The node's life: this many rounds."""
        pool, env = self._around.pool, self._around.env
        for round_index in range(rounds):
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

"""A base station as a process on the simulated clock: compute, send, gather, meet the others, again.

The node never asks which algorithm it plays, what a link does, or where its work runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass

import simpy

from ..contracts import DeviceProfile
from ..engine import Barrier
from ..network.network import Network
from ..ranges import check_ranges
from ..recorder import Recorder
from .inbox import Inbox
from .learner_host import Arrived, LearnerHost


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
        recorder: listens.
        deadline_s: simulated time after the start of a phase at which missing messages are given up; None: never.
        pace: when rounds begin; None: the first at once, each right after the one before.
    """

    env: simpy.Environment
    network: Network
    barrier: Barrier
    recorder: Recorder
    deadline_s: float | None
    pace: RoundPace | None = None


class BaseStation:
    """One node: a learner on a device, with an inbox.

    Args:
        host, device, inbox: what it is.
        surroundings: shared with the others.
        begin_round: told the simulated instant at which a round begins, on the clock's own thread. The learner does not
            run then, so that what it reads may be changed.
    """

    def __init__(
        self,
        host: LearnerHost,
        device: DeviceProfile,
        inbox: Inbox,
        surroundings: Surroundings,
        begin_round: Callable[[float], None] | None = None,
    ) -> None:
        self._host, self._device, self._inbox = host, device, inbox
        self._around, self._begin_round = surroundings, begin_round

    def play_round(self, round_index: int) -> Generator[simpy.Event, object, None]:
        """The node's life for one round, from its beginning until it has been looked at."""
        env, host = self._around.env, self._host
        yield from self._begin(round_index)
        arrived: Arrived | None = None
        for phase in host.phases(round_index):
            started_s = env.now
            ticket = host.turn(arrived, phase.name, round_index)
            yield env.timeout(self._busy(phase.flops))
            turn = ticket.result()
            for message in turn.messages:
                self._around.network.send(message)
            deadline_s = None if self._around.deadline_s is None else started_s + self._around.deadline_s
            messages = yield from self._inbox.gather(round_index, phase.name, turn.expected, deadline_s)
            arrived = Arrived(phase.name, round_index, messages)
            yield self._around.barrier.wait()
        look = host.look(arrived, round_index)
        yield env.timeout(0.0)  # lets all nodes ask before the first one waits
        self._around.recorder.observation(env.now, host.client_id, round_index, look.result())

    def _begin(self, round_index: int) -> Generator[simpy.Event, object, None]:
        env, pace = self._around.env, self._around.pace
        if pace is not None and env.now < pace.start_s(round_index):
            yield env.timeout(pace.start_s(round_index) - env.now)
        if self._begin_round is not None:
            self._begin_round(env.now)

    def _busy(self, flops: float) -> float:
        seconds = self._device.seconds(flops)
        self._around.recorder.computed(self._host.client_id, seconds * self._device.power_w)
        return seconds


def play_rounds(
    env: simpy.Environment,
    stations: Sequence[BaseStation],
    rounds: Iterable[int],
    round_ended: Callable[[int], None] = lambda _: None,
) -> None:
    """Play the clock round by round; between two rounds every base station stands still, and messages may be on air.

    Args:
        env: the clock.
        stations: all that meet at the barrier.
        rounds: which rounds.
        round_ended: told of every round when the last base station has finished it.
    """
    for round_index in rounds:
        lives = [env.process(station.play_round(round_index)) for station in stations]
        env.run(until=env.all_of(lives))
        round_ended(round_index)

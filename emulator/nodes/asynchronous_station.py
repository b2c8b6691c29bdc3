"""A base station that goes on at its own pace: compute, send, use the newest that it has heard, again.

Nobody waits for anybody: there is no barrier and no deadline. How old the words were that it used is in its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import simpy

from ..contracts import ConfigError, Phase
from ..edge.device_profiles import DeviceProfile
from ..engine import EmulatorEnvironment
from .inbox import Mailbox
from .learner_host import LearnerHost, PhaseInput, PhaseOutput
from .station_context import StationContext

#: Who was off so often in one piece of work will never finish it.
MOST_BEGINNINGS = 1000


class AsynchronousStation:
    """One node: a learner on a device, with a mailbox.

    A node that is off stands still. Work that it could not finish it begins anew when it is back, and goes on.

    Args:
        host, device, mailbox: what it is.
        context: shared with the others; their barrier and deadline are not asked for.
        begin_round: told the simulated instant at which a round of its own begins, on the clock's own thread.
    """

    def __init__(
        self,
        host: LearnerHost,
        device: DeviceProfile,
        mailbox: Mailbox,
        context: StationContext,
        begin_round: Callable[[float], None] | None = None,
    ) -> None:
        self._host, self._device, self._mailbox = host, device, mailbox
        self._context, self._begin_round = context, begin_round

    def live(self, rounds: int) -> Generator[simpy.Event, object, None]:
        """The node's life: so many rounds of its own, however far the others are."""
        for round_index in range(rounds):
            yield from self._begin(round_index)
            yield from self._play_round(round_index)

    def _play_round(self, round_index: int) -> Generator[simpy.Event, object, None]:
        env, host, recorder = self._context.env, self._host, self._context.recorder
        arrived: PhaseInput | None = None
        staleness: list[int] = []
        for phase in host.phases(round_index):
            output = yield from self._work(arrived, phase, round_index)
            for message in output.messages:
                self._context.network.send(message)
            yield env.end_of_instant()  # what is sent in this instant and takes no time is heard in it
            messages = self._mailbox.take(output.expected)
            staleness += [round_index - message.round_index for message in messages]
            arrived = PhaseInput(phase.name, round_index, messages)
        report = host.report(arrived, round_index)
        yield env.timeout(0.0)  # lets others ask before this one waits
        recorder.used(staleness)
        recorder.observation(env.now, host.client_id, round_index, {**report.result(), **_told(staleness)})

    def _work(
        self, arrived: PhaseInput | None, phase: Phase, round_index: int
    ) -> Generator[simpy.Event, object, PhaseOutput]:
        """The work of a phase, in a stretch of time in which the node is on to the end."""
        busy_s = self._device.seconds(phase.flops)
        yield from self._until_on_for(busy_s)
        ticket = self._host.compute(arrived, phase.name, round_index)
        self._spend(busy_s)
        yield self._context.env.timeout(busy_s)
        return ticket.result()

    def _until_on_for(self, busy_s: float) -> Generator[simpy.Event, object, None]:
        """Begin work of this length, again and again, until it would not be cut off.

        Raises:
            ConfigError: it never fits between two outages.
        """
        env, faults, node = self._context.env, self._context.faults, self._host.client_id
        for _ in range(MOST_BEGINNINGS):
            off_s = faults.goes_off_s(node, env.now)
            if off_s > env.now + busy_s:
                return
            if off_s > env.now:
                self._spend(off_s - env.now)
                yield env.at(off_s)
            yield env.at(faults.back_s(node, env.now))
        raise ConfigError(
            f"client {node} was off {MOST_BEGINNINGS} times before it could finish {busy_s:.3g} s of work; give its"
            " faults of kind 'node_off' a longer mean_up_s, or leave it out"
        )

    def _begin(self, round_index: int) -> Generator[simpy.Event, object, None]:
        env, pace = self._context.env, self._context.pace
        if pace is not None and env.now < pace.start_s(round_index):
            yield env.timeout(pace.start_s(round_index) - env.now)
        if self._begin_round is not None:
            self._begin_round(env.now)

    def _spend(self, seconds: float) -> None:
        self._context.recorder.computed(self._host.client_id, seconds * self._device.power_w)


def play_at_own_pace(env: EmulatorEnvironment, stations: Sequence[AsynchronousStation], rounds: int) -> None:
    """Play the clock until every base station has finished its rounds.

    Args:
        env: the clock.
        stations: all.
        rounds: of each.
    """
    env.run(until=env.all_of([env.process(station.live(rounds)) for station in stations]))


def _told(staleness: Sequence[int]) -> dict[str, Any]:
    """What a row says of the age of words in rounds; nothing where nothing was heard."""
    if not staleness:
        return {"heard": 0}
    return {
        "heard": len(staleness),
        "staleness_mean": sum(staleness) / len(staleness),
        "staleness_max": max(staleness),
    }

"""A base station in asynchronous mode: compute, send, use the newest messages that have arrived, again.

No station waits for another: there is no barrier and no deadline. Observations hold the staleness of what was used.
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

#: Work that was interrupted by so many outages will never be finished.
MOST_BEGINNINGS = 1000


class AsynchronousStation:
    """Process of one node in asynchronous mode: a learner on a device, with a mailbox.

    A node that is off stands still. Work that an outage has cut off is begun anew after it.

    Args:
        host: the learner, here or in a worker process.
        device: sets the duration of its work and the power that it draws.
        mailbox: holds the messages for it.
        context: shared by all stations; its barrier and deadline are not used.
        begin_round: called with the simulated start of each of its rounds, on the clock's own thread.
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
        """The SimPy process of the node: so many rounds, however far the other nodes are."""
        for round_index in range(rounds):
            yield from self._begin(round_index)
            yield from self._play_round(round_index)

    def _play_round(self, round_index: int) -> Generator[simpy.Event, object, None]:
        env, host, recorder = self._context.env, self._host, self._context.recorder
        arrived: PhaseInput | None = None
        staleness: list[int] = []
        for phase in host.phases(round_index):
            output = yield from self._work(arrived, phase, round_index)
            self._context.network.send(output.messages)
            yield env.end_of_instant()  # messages without delay that are sent in this instant arrive in it
            messages = self._mailbox.take(output.expected)
            # Below 0 where the sender is ahead, which no barrier prevents.
            staleness += [round_index - message.round_index for message in messages]
            arrived = PhaseInput(phase.name, round_index, messages)
        report = host.report(arrived, round_index)
        yield env.timeout(0.0)  # lets other nodes submit their work before this thread blocks on a result
        recorder.used(staleness)
        recorder.observation(env.now, host.client_id, round_index, {**report.result(), **_staleness_fields(staleness)})

    def _work(
        self, arrived: PhaseInput | None, phase: Phase, round_index: int
    ) -> Generator[simpy.Event, object, PhaseOutput]:
        """The work of a phase, in an interval of time in which the node is on to the end."""
        busy_s = self._device.seconds(phase.flops)
        yield from self._until_on_for(busy_s)
        ticket = self._host.compute(arrived, phase.name, round_index)
        self._spend(busy_s)
        yield self._context.env.timeout(busy_s)
        return ticket.result()

    def _until_on_for(self, busy_s: float) -> Generator[simpy.Event, object, None]:
        """Wait for an instant from which work of this duration is not cut off by an outage.

        Raises:
            ConfigError: it never fits between two outages.
        """
        env, faults, node = self._context.env, self._context.faults, self._host.client_id
        for _ in range(MOST_BEGINNINGS):
            off_s = faults.goes_off_s(node, env.now)
            # Work is only begun where it can be finished, since the learner computes a phase as a whole.
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
        self._context.recorder.computed(self._host.client_id, seconds, self._device.power_w)


def play_at_own_pace(env: EmulatorEnvironment, stations: Sequence[AsynchronousStation], rounds: int) -> None:
    """Run the simulated clock until every asynchronous base station has finished its rounds.

    Args:
        env: the simulated clock.
        stations: all asynchronous stations of the run.
        rounds: number of rounds of each station.
    """
    env.run(until=env.all_of([env.process(station.live(rounds)) for station in stations]))


def _staleness_fields(staleness: Sequence[int]) -> dict[str, Any]:
    """Fields of an observation about the staleness of the messages used, in rounds."""
    if not staleness:
        # The names of these fields stand in recorded observations and in the trace.
        return {"heard": 0}
    return {
        "heard": len(staleness),
        "staleness_mean": sum(staleness) / len(staleness),
        "staleness_max": max(staleness),
    }

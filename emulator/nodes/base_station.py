"""A base station as a process on the simulated clock: compute, send, gather, wait at the barrier, again.

It does not know which algorithm its learner runs, what a link does, or where its work is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import Any, Protocol

import simpy

from ..contracts import NodeId, Phase
from ..edge.device_profiles import DeviceProfile
from .inbox import Inbox
from .learner_host import LearnerHost, PhaseInput, PhaseOutput
from .station_context import StationContext


class Station(Protocol):
    """A node that runs in rounds with the others, synchronised by their barrier."""

    def play_round(self, round_index: int) -> Generator[simpy.Event, object, None]:
        """The SimPy process of one round, from its start to the observation."""
        ...


class BaseStation:
    """Process of one node in synchronous mode: a learner on a device, with an inbox.

    A node that goes off leaves its round at that instant, and the others no longer wait for it. Work that it could not
    finish is not done, and messages that it had not yet absorbed are dropped; all other state stays. It takes part
    again from the next round that begins while it is on. It is observed in every round that it plays, as it stands.
    Where nodes take part in some rounds only, it belongs to the barrier while it plays one.

    Args:
        host: the learner, here or in a worker process.
        device: sets the duration of its work and the power that it draws.
        inbox: holds the messages for it.
        context: shared by all stations.
        begin_round: called with the simulated start of each round, on the clock's own thread. The learner does not
            run then, so that the data that it reads may be changed.
    """

    def __init__(
        self,
        host: LearnerHost,
        device: DeviceProfile,
        inbox: Inbox,
        context: StationContext,
        begin_round: Callable[[float], None] | None = None,
    ) -> None:
        self._host, self._device, self._inbox = host, device, inbox
        self._context, self._begin_round = context, begin_round
        self._takes_part = context.taking_part is None
        self._neighbors: frozenset[NodeId] | None = None

    def play_round(self, round_index: int) -> Generator[simpy.Event, object, None]:
        """The SimPy process of one round, from its start to the observation."""
        env, host = self._context.env, self._host
        yield from self._begin(round_index)
        # Outages are known beforehand: work that would be cut off is never begun, so that nothing has to be taken back.
        off_s = self._context.faults.goes_off_s(host.client_id, env.now)
        self._set_part(off_s > env.now)
        arrived: PhaseInput | None = None
        for phase in host.phases(round_index):
            if not self._takes_part:
                break
            arrived = yield from self._play_phase(phase, round_index, arrived, off_s)
        if not self._takes_part:
            # Messages that were not absorbed when the node went off are dropped.
            arrived = None
            self._inbox.begin_round(round_index + 1)  # what still arrives for this round is late
        report = host.report(arrived, round_index)
        yield env.timeout(0.0)  # lets all nodes submit their work before this thread blocks on the first result
        seen = {**report.result(), **self._node_fields()}
        self._context.recorder.observation(env.now, host.client_id, round_index, seen)
        if self._context.taking_part is not None:
            self._set_part(False)

    def _play_phase(
        self, phase: Phase, round_index: int, arrived: PhaseInput | None, off_s: float
    ) -> Generator[simpy.Event, object, PhaseInput | None]:
        """One phase, until all nodes have ended it, or until this one goes off."""
        env, started_s, busy_s = self._context.env, self._context.env.now, self._device.seconds(phase.flops)
        if (
            off_s <= started_s + busy_s
        ):  # not computed at all, so that the learner's state stays that of the phase before
            self._spend(off_s - started_s)
            yield env.at(off_s)
            self._set_part(False)
            return None
        ticket = self._host.compute(arrived, phase.name, round_index)
        self._spend(busy_s)
        yield env.timeout(busy_s)
        output = self._among_neighbors(ticket.result())
        self._context.network.send(output.messages)
        sent_s = env.now
        messages = yield from self._inbox.gather(
            round_index, phase.name, output.expected, self._until(started_s, off_s)
        )
        self._set_part(off_s > env.now)
        if self._takes_part:
            # Nodes end a phase together: otherwise one late message would make its receiver late for all that follow.
            yield self._context.barrier.wait()
            self._set_part(off_s > env.now)  # an outage during the wait takes effect after the barrier
        self._context.recorder.waited(self._host.client_id, env.now - sent_s)
        return PhaseInput(phase.name, round_index, messages)

    def _begin(self, round_index: int) -> Generator[simpy.Event, object, None]:
        env, pace = self._context.env, self._context.pace
        if pace is not None and env.now < pace.start_s(round_index):
            yield env.timeout(pace.start_s(round_index) - env.now)
        # With all nodes off, rounds would pass in no simulated time.
        if (start_s := self._context.faults.any_on_s(env.now)) > env.now:
            yield env.at(start_s)
        if self._begin_round is not None:
            self._begin_round(env.now)
        # For the whole round, as the mixing weights of moving nodes are.
        if self._context.neighbors_at is not None:
            self._neighbors = self._context.neighbors_at(self._host.client_id, round_index, env.now)

    def _among_neighbors(self, output: PhaseOutput) -> PhaseOutput:
        """The part of a phase's output that concerns the neighbors of this round."""
        if self._neighbors is None:
            return output
        messages = [message for message in output.messages if message.receiver in self._neighbors]
        return PhaseOutput(messages, frozenset(slot for slot in output.expected if slot.sender in self._neighbors))

    def _node_fields(self) -> dict[str, Any]:
        """Fields of an observation beside those of the learner: outages, and the number of neighbors if it varies."""
        off = {} if self._takes_part else {"off": True}
        return off if self._neighbors is None else {**off, "neighbors": len(self._neighbors)}

    def _set_part(self, takes_part: bool) -> None:
        """Join or leave the barrier."""
        # No party waits when a round begins, which is when nodes come back: see `Barrier`.
        if takes_part and not self._takes_part:
            self._context.barrier.join()
        if self._takes_part and not takes_part:
            self._context.barrier.leave()
        self._takes_part = takes_part

    def _until(self, started_s: float, off_s: float) -> float | None:
        """Simulated instant until which to wait for the messages of a phase that started then; None: no limit."""
        deadline_s = self._context.deadline_s
        if deadline_s is None:
            return off_s if off_s < math.inf else None
        return min(started_s + deadline_s, off_s)

    def _spend(self, seconds: float) -> None:
        self._context.recorder.computed(self._host.client_id, seconds, self._device.power_w)


def play_rounds(
    env: simpy.Environment,
    stations: Sequence[Station],
    rounds: Iterable[int],
    round_ended: Callable[[int], None] = lambda _: None,
    taking_part: Callable[[int], Collection[NodeId]] | None = None,
) -> None:
    """Run the simulated clock round by round; between two rounds no base station runs, and messages may be on air.

    Args:
        env: the simulated clock.
        stations: all stations that share the barrier, in the order of their nodes.
        rounds: indices of the rounds.
        round_ended: called with the index of every round when the last station has finished it.
        taking_part: round -> nodes that play it; None: all.
    """
    for round_index in rounds:
        playing = stations if taking_part is None else [stations[node] for node in sorted(taking_part(round_index))]
        lives = [env.process(station.play_round(round_index)) for station in playing]
        env.run(until=env.all_of(lives))
        round_ended(round_index)

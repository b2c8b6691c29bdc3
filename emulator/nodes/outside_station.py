"""A base station that an outside process plays, at its own real pace; it needs a real-time clock."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from typing import Any

import simpy

from ..contracts import Message, MessageKind
from ..network.transport.errors import WireError
from ..network.transport.packed_messages import unpack_messages
from ..network.transport.packets import Frame, Packet
from ..real_time_clock import RealTimeEnvironment
from .inbox import Inbox
from .learner_host import PhaseInput
from .outside_place import OutsidePlace
from .outside_server import OutsideServer
from .station_context import StationContext
from .worker_calls import pack_arrived

#: Figures of an outside client's report, and characters of their names.
MOST_FIGURES, LONGEST_NAME = 16, 40


class OutsideStation:
    """Process of a node whose learner, device and pace are not emulated; its links and its inbox are.

    Args:
        place: part of the client in the run.
        server: sends requests to its process.
        clock: the environment of the context.
        inbox: holds the messages for it.
        context: shared by all stations; it must have a deadline.

    Attributes:
        n_turns: number of phases that its process was to compute.
        n_in_time: number of those that it computed in time; of the others its neighbors get no message.
    """

    def __init__(
        self,
        place: OutsidePlace,
        server: OutsideServer,
        clock: RealTimeEnvironment,
        inbox: Inbox,
        context: StationContext,
    ) -> None:
        self._place, self._server, self._clock = place, server, clock
        self._inbox, self._context = inbox, context
        self._kinds: frozenset[MessageKind] = frozenset(vector.topic.kind for vector in place.vectors)
        self.n_turns = self.n_in_time = 0

    def play_round(self, round_index: int) -> Generator[simpy.Event, object, None]:
        """The SimPy process of one round; where no reply comes in time, the others go on without it."""
        clock, place, pace = self._clock, self._place, self._context.pace
        if pace is not None and clock.now < pace.start_s(round_index):
            yield clock.timeout(pace.start_s(round_index) - clock.now)
        arrived: PhaseInput | None = None
        n_before = self.n_in_time
        for phase in place.phases:
            # One deadline for computing and gathering together: a slow reply leaves less time for messages.
            asked_s, deadline_s = clock.now, clock.now + place.deadline_s
            messages = yield from self._request_output(arrived, phase.name, round_index, deadline_s)
            answered_s = clock.now
            # Its device is not emulated: what it takes to answer is all that is known of its work.
            self._context.recorder.computed(place.client_id, answered_s - asked_s, 0.0)
            self._context.network.send(messages)
            # From the place and not from the reply, so that a client that is late still receives from its neighbors.
            expected = place.expected(phase.name, round_index)
            messages = yield from self._inbox.gather(round_index, phase.name, expected, deadline_s)
            arrived = PhaseInput(phase.name, round_index, messages)
            yield self._context.barrier.wait()
            self._context.recorder.waited(place.client_id, clock.now - answered_s)
        report = yield from self._request_report(arrived, round_index)
        row = {"outside": True, "turns_in_time": self.n_in_time - n_before, "report": report}
        self._context.recorder.observation(clock.now, place.client_id, round_index, row)

    def _request_output(
        self, arrived: PhaseInput | None, phase: str, round_index: int, deadline_s: float
    ) -> Generator[simpy.Event, object, list[Message]]:
        def read(reply: Packet) -> list[Message]:
            messages = unpack_messages(reply.fields["messages"], reply.frames, self._kinds)
            self._place.check(messages, phase, round_index)
            return messages

        frames: list[Frame] = []
        fields = {"round": round_index, "phase": phase, **pack_arrived(arrived, frames)}
        ticket = self._server.request(self._place.client_id, "turn", fields, frames, read)
        messages: list[Message] | None = yield from self._reply_in_time(ticket, deadline_s)
        self.n_turns += 1  # also without a process: the client has missed the phase all the same
        self.n_in_time += messages is not None
        return messages or []

    def _request_report(
        self, arrived: PhaseInput | None, round_index: int
    ) -> Generator[simpy.Event, object, dict[str, float]]:
        frames: list[Frame] = []
        fields = {"round": round_index, **pack_arrived(arrived, frames)}
        ticket = self._server.request(self._place.client_id, "look", fields, frames, _report)
        report: dict[str, float] | None = yield from self._reply_in_time(
            ticket, self._clock.now + self._place.deadline_s
        )
        return report or {}

    def _reply_in_time(self, ticket: Future[Any] | None, deadline_s: float) -> Generator[simpy.Event, object, Any]:
        """The result that came until this simulated instant; None: none did."""
        if ticket is None:
            return None
        if (yield from self._clock.within(ticket, deadline_s)):
            return ticket.result()
        self._server.give_up(self._place.client_id)
        return None


def _report(reply: Packet) -> Mapping[str, float]:
    """Figures of an outside client about itself: short names and finite numbers."""
    row = reply.fields["row"]
    if len(row) > MOST_FIGURES:
        raise WireError(f"a report has at most {MOST_FIGURES} figures, got {len(row)}")
    for name, value in row.items():
        if type(name) is not str or len(name) > LONGEST_NAME or type(value) not in {int, float}:
            raise WireError("a report is made of short names and numbers")
        if not math.isfinite(value) or abs(value) > 1e300:
            raise WireError(f"figure {name!r} of a report is not finite")
    return dict(row)

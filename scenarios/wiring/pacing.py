"""Run in real time: a paced clock, and clients that outside processes play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import floor, log10
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ...emulator.contracts import Learner, MessageKind, NodeId
from ...emulator.nodes.inbox import Inbox
from ...emulator.nodes.outside_place import OutsidePlace, OutsideVector, VectorName
from ...emulator.nodes.outside_server import OutsideServer
from ...emulator.nodes.outside_station import OutsideStation
from ...emulator.nodes.station_context import StationContext
from ...emulator.real_time_clock import RealTimeEnvironment
from ...models.sharing.chained_learner import ChainedLearner
from ...models.sharing.vector_gossip import SharedVector
from ..schema.scenario import Scenario
from .real_time_options import RealTime

if TYPE_CHECKING:
    from .assembly import Assembly
    from .client import Client


#: Delay of the clock, in real seconds, up to which a speed counts as kept: a pause of the operating system is no news.
KEPT_S = 0.5
#: Of float64 quotients.
ROUNDING = 1e-9


class Pacing:
    """Clock of one run in real time, and the places of its outside clients.

    Args:
        n_rounds: number of rounds of the run.
        deadline_s: simulated time after which missing messages are given up.
        real_time: options of the command line.
        server: server at which outside clients join; None: there are none.

    Attributes:
        outside: numbers of the clients that outside processes play.
    """

    def __init__(self, n_rounds: int, deadline_s: float, real_time: RealTime, server: OutsideServer | None) -> None:
        self._n_rounds, self._deadline_s = n_rounds, deadline_s
        self._real_time, self._server = real_time, server
        self.outside = frozenset(real_time.outside)
        self._clock: RealTimeEnvironment | None = None
        self._places: dict[NodeId, OutsidePlace] = {}
        self._stations: dict[NodeId, OutsideStation] = {}

    def clock(self, seed: int, start_s: float) -> RealTimeEnvironment:
        """Environment of the run, with a clock in real time."""
        self._clock = RealTimeEnvironment(seed, start_s, speed=self._real_time.speed)
        return self._clock

    def stations(
        self, assembly: Assembly, inboxes: Mapping[NodeId, Inbox], context: StationContext
    ) -> Mapping[NodeId, OutsideStation]:
        """Client -> station, for the clients that outside processes play."""
        if self._server is None:
            return {}
        assert self._clock is not None
        for learner in assembly.learners:
            client = learner.client_id
            if client in self.outside:
                self._places[client] = self._place(learner, assembly.clients[client])
                self._stations[client] = OutsideStation(
                    self._places[client], self._server, self._clock, inboxes[client], context
                )
        return self._stations

    def fill(self) -> None:
        """Wait until every outside client has joined; errors as of `OutsideServer.fill`."""
        if self._server is not None:
            self._server.fill(self._places, self._real_time.join_s)

    def hurry(self) -> None:
        """Stop waiting for real time and for outside clients, because the run is to stop."""
        if self._clock is not None:
            self._clock.hurry()

    def summary(self) -> dict[str, Any]:
        """Entries of the summary: lateness of the clock, and statistics of outside clients."""
        assert self._clock is not None
        lag = self._clock.lag
        figures: dict[str, Any] = {
            "realtime": {
                "speed": self._real_time.speed,
                "events": lag.n_events,
                "lag_mean_s": lag.mean_s,
                "lag_max_s": lag.largest_s,
                "kept": lag.largest_s <= KEPT_S,
                "speed_kept": self._clock.lag_by_speed.fastest(KEPT_S),
            }
        }
        if self._server is not None:
            figures["outside"] = [self._client_figures(self._server, client) for client in sorted(self.outside)]
        return figures

    def warnings(self) -> tuple[str, ...]:
        """A sentence about a clock that did not keep its speed, with the speed that this machine keeps."""
        assert self._clock is not None
        lag, speed = self._clock.lag, self._real_time.speed
        if lag.largest_s <= KEPT_S:
            return ()
        slower = self._clock.lag_by_speed.fastest(KEPT_S)
        if slower is None:
            advice = f"even at a thousandth of that speed an event would be later than {KEPT_S:g} s"
        elif slower == speed:  # late for other reasons than computing, such as an outside client or a paused process
            advice = "the computing alone would have kept that speed; was the machine paused?"
        else:
            advice = f"with this load the machine keeps --realtime {_rounded_down(slower)} to within {KEPT_S:g} s"
        said = (
            f"the simulated clock was up to {lag.largest_s:.1f} s late, {lag.mean_s:.1f} s on average, and did not keep"
            f" --realtime {speed:g}; {advice}"
        )
        return (said,)

    def _client_figures(self, server: OutsideServer, client: NodeId) -> dict[str, Any]:
        station = self._stations[client]
        turns = {"turns": station.n_turns, "turns_in_time": station.n_in_time}
        return {"client": client, "name": server.name(client), **turns, **server.counts(client)}

    def _place(self, learner: Learner, client: Client) -> OutsidePlace:
        assert isinstance(learner, ChainedLearner), "refused before the run: `Algorithm.only_averages`"
        assert learner.shared is not None, "as above"
        vectors = [
            OutsideVector(
                VectorName(phase, shared.kind, shared.modality),
                shared.vector.detach().cpu().numpy().copy(),
                _parts(shared, client),
                shared.weights,
            )
            for phase, all_shared in learner.shared.items()
            for shared in all_shared
        ]
        return OutsidePlace(
            client_id=client.client_id,
            n_rounds=self._n_rounds,
            speed=self._real_time.speed,
            deadline_s=self._deadline_s,
            phases=learner.phases(0),
            vectors=vectors,
        )


@contextmanager
def pacing_of(scenario: Scenario, real_time: RealTime | None) -> Iterator[Pacing | None]:
    """Context with the pacing of a run; outside clients can join inside it.

    Raises:
        TransportError: the address cannot be used.
    """
    if real_time is None:
        yield None
        return
    if not real_time.outside:
        yield Pacing(scenario.rounds, scenario.network.deadline_s, real_time, None)
        return
    assert real_time.hub is not None
    server = OutsideServer(real_time.hub, real_time.outside, real_time.silence_s, real_time.curve_keys)
    try:
        yield Pacing(scenario.rounds, scenario.network.deadline_s, real_time, server)
    finally:
        server.close()


def _rounded_down(speed: float) -> str:
    """Two digits, never faster than what was found."""
    digit = 10.0 ** (floor(log10(speed)) - 1)
    return f"{floor(speed / digit + ROUNDING) * digit:.2g}"


def _parts(shared: SharedVector, client: Client) -> list[tuple[str, tuple[int, ...]]]:
    """(Name, shape) of the arrays in a shared vector; a single one for all but encoders."""
    if shared.kind is MessageKind.ENCODER and shared.modality is not None:
        module = next(m.encoders[shared.modality] for m in client.models.values() if shared.modality in m.encoders)
        parts = _named_arrays(module)
        # otherwise more than the encoder is shared, whose arrays have no names here
        if sum(torch.Size(shape).numel() for _, shape in parts) == len(shared.vector):
            return parts
    return [(str(shared.kind), (len(shared.vector),))]


def _named_arrays(module: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    """Parameters, then floating buffers, in the order of `FlatModule`."""
    buffers = [(name, buffer) for name, buffer in module.named_buffers() if buffer.is_floating_point()]
    return [(name, tuple(array.shape)) for name, array in [*module.named_parameters(), *buffers]]

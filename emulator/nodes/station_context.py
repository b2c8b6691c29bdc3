"""The context that the base stations of a run share, and the start times of their rounds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..contracts import NodeId
from ..engine import Barrier, EmulatorEnvironment
from ..faults.fault_plan import NO_FAULTS, FaultPlan
from ..network.network import Network
from ..ranges import check_ranges
from ..recorder import Recorder


@dataclass(frozen=True, slots=True)
class RoundPace:
    """Start times of rounds: the first after a warm-up, then one every fixed period, or later after a long round.

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
        """Simulated instant before which this round does not begin.

        >>> RoundPace(warm_up_s=10.0, round_every_s=4.0).start_s(2)
        18.0
        """
        return self.warm_up_s + round_index * self.round_every_s


@dataclass(frozen=True, slots=True)
class StationContext:
    """The objects of a run that all of its base stations share.

    Attributes:
        env: the simulated clock.
        network: carries the messages that the base stations send.
        barrier: makes the base stations end each phase together.
        recorder: counts traffic, hashes the trace and takes the observations.
        deadline_s: simulated time after the start of a phase at which missing messages are given up; None: never.
        pace: start times of rounds; None: the first at once, each right after the one before.
        faults: plan with the times at which base stations are off.
        neighbors_at: client, round and its simulated start -> its neighbors in that round; None: always the same.
        taking_part: round -> nodes that play it; None: all nodes play all rounds.
    """

    env: EmulatorEnvironment
    network: Network
    barrier: Barrier
    recorder: Recorder
    deadline_s: float | None
    pace: RoundPace | None = None
    faults: FaultPlan = NO_FAULTS
    neighbors_at: Callable[[NodeId, int, float], frozenset[NodeId]] | None = None
    taking_part: Callable[[int], Collection[NodeId]] | None = None

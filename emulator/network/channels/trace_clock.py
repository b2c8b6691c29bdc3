"""What happens when a recorded trace ends before the run does."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...contracts import ConfigError

#: Instants of a trace and of the clock that lie closer than this are the same; far below a trace's grain.
SAME_INSTANT_S = 1e-9


@dataclass(frozen=True, slots=True)
class TraceClock:
    """Where on a trace an instant of the run lies: the trace starts at an instant, may be stretched, and is repeated.

    A trace of 10 s that is stretched to 60 s changes six times as slowly; its rates and delays stay what they are.

    Attributes:
        duration_s: of one replay in simulated time.
        offset: share of a replay that is over when the run starts, in [0, 1).

    Raises:
        ConfigError: a duration that is not positive.
    """

    duration_s: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.duration_s < math.inf:
            raise ConfigError(f"a trace must last a positive time, got {self.duration_s} s; give one with two instants")

    def locate(self, now_s: float) -> tuple[int, float]:
        """How often the trace has ended before, and seconds since it last began, in [0, duration_s)."""
        at_s = now_s + self.offset * self.duration_s
        lap = math.floor((at_s + SAME_INSTANT_S) / self.duration_s)
        return lap, max(0.0, at_s - lap * self.duration_s)

    def instant_s(self, lap: int, since_s: float) -> float:
        """The simulated instant so many seconds after the beginning of a replay; the reverse of `locate`."""
        return (lap - self.offset) * self.duration_s + since_s

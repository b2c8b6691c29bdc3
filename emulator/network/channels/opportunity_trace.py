"""Capacity as mahimahi records it: instants at which a cell let one packet pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...contracts import ConfigError, State
from .trace_clock import SAME_INSTANT_S, TraceClock

#: Bytes that may leave at every instant of a mahimahi trace.
OPPORTUNITY_BYTES = 1500


class OpportunityPace:
    """Sends up to 1500 bytes at each recorded instant; an instant at which nobody has anything to send is gone.

    What one message leaves of an instant's bytes, the next may use if it waits already. The trace repeats after its
    last instant, as in mahimahi. Stretched, there are more instants of the same density (or fewer), so that the
    capacity at corresponding instants stays the same.

    Args:
        opportunity_s: [n] instants, ascending; many may be equal.
        stretch_to_s: simulated duration of one replay; None: that of the recording.
        offset: share of a replay that is over when the run starts, in [0, 1).

    Raises:
        ConfigError: no instant after 0.
    """

    def __init__(
        self, opportunity_s: NDArray[np.float64], stretch_to_s: float | None = None, offset: float = 0.0
    ) -> None:
        if len(opportunity_s) == 0 or not opportunity_s[-1] > 0.0:
            raise ConfigError("a trace of packet opportunities needs an instant after 0 s; choose another file")
        recorded_s = float(opportunity_s[-1])
        self._scale = 1.0 if stretch_to_s is None else stretch_to_s / recorded_s
        self._clock = TraceClock(recorded_s * self._scale, offset)
        self._recorded_s = opportunity_s
        self._per_replay = max(1, round(self._scale * len(opportunity_s)))
        self._next = 0  # counted over all replays
        self._left_bytes = 0  # of the opportunity before

    @property
    def mean_rate_bps(self) -> float:
        """Of a sender that always has something to send."""
        return 8.0 * OPPORTUNITY_BYTES * self._per_replay / self._clock.duration_s

    def state(self) -> State:
        return [self._next, self._left_bytes]

    def restore(self, state: State) -> None:
        self._next, self._left_bytes = state

    def __call__(self, start_s: float, n_bytes: int) -> float:
        """Seconds until the last of these bytes has left."""
        first = max(self._next, self._first_from(start_s))
        waiting = self._next > 0 and self._instant_s(self._next - 1) >= start_s - SAME_INSTANT_S
        usable = self._left_bytes if waiting else 0
        if n_bytes <= usable:
            self._left_bytes -= n_bytes
            return 0.0
        n_opportunities = -(-(n_bytes - usable) // OPPORTUNITY_BYTES)
        self._left_bytes = n_opportunities * OPPORTUNITY_BYTES - (n_bytes - usable)
        self._next = first + n_opportunities
        return max(0.0, self._instant_s(self._next - 1) - start_s)

    def _first_from(self, start_s: float) -> int:
        """Number, over all replays, of the first opportunity that is not over at this instant."""
        lap, since_s = self._clock.locate(start_s)
        if lap > 0 and since_s <= SAME_INSTANT_S:  # the last ones of the replay before are those of this instant too
            lap, since_s = lap - 1, self._clock.duration_s
        at = int(self._recorded_s.searchsorted((since_s - SAME_INSTANT_S) / self._scale, side="left"))
        return lap * self._per_replay + at * self._per_replay // len(self._recorded_s)

    def _instant_s(self, number: int) -> float:
        """When an opportunity is: stretched, it lies where the one of the same share of the recording lay."""
        lap, index = divmod(number, self._per_replay)
        at = -(-(index + 1) * len(self._recorded_s) // self._per_replay) - 1
        return self._clock.instant_s(lap, self._scale * float(self._recorded_s[at]))

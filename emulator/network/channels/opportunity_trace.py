"""Capacity as mahimahi records it: instants at which a cell let one packet pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...contracts import ConfigError
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
        if stretch_to_s is not None:
            opportunity_s = _stretched(opportunity_s, stretch_to_s)
        self._clock = TraceClock(float(opportunity_s[-1]), offset)
        self._opportunity_s = opportunity_s
        self._next = 0  # counted over all replays
        self._left_bytes = 0  # of the opportunity before

    @property
    def mean_rate_bps(self) -> float:
        """Of a sender that always has something to send."""
        return 8.0 * OPPORTUNITY_BYTES * len(self._opportunity_s) / self._clock.duration_s

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
        at = int(self._opportunity_s.searchsorted(since_s - SAME_INSTANT_S, side="left"))
        # At the very end of a replay: its last opportunities are those of this instant too.
        if at == 0 and since_s <= SAME_INSTANT_S and lap > 0:
            return (lap - 1) * len(self._opportunity_s) + self._first_of_last_instant()
        return lap * len(self._opportunity_s) + at

    def _first_of_last_instant(self) -> int:
        return int(self._opportunity_s.searchsorted(self._opportunity_s[-1] - SAME_INSTANT_S, side="left"))

    def _instant_s(self, number: int) -> float:
        lap, index = divmod(number, len(self._opportunity_s))
        return self._clock.instant_s(lap, float(self._opportunity_s[index]))


def _stretched(opportunity_s: NDArray[np.float64], duration_s: float) -> NDArray[np.float64]:
    """[m] the same capacity at corresponding instants: opportunity number k moves to where number k / factor was."""
    factor = duration_s / float(opportunity_s[-1])
    n = max(1, round(factor * len(opportunity_s)))
    source = np.minimum(np.ceil(np.arange(1, n + 1) * (len(opportunity_s) / n)).astype(np.int64), len(opportunity_s))
    return np.asarray(factor * opportunity_s[source - 1], dtype=np.float64)

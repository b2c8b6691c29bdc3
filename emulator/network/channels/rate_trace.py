"""Capacity as a rate over time, as Pensieve records it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...contracts import ConfigError
from .trace_clock import TraceClock


class RatePace:
    """Sends at the recorded rate, to the bit.

    Args:
        time_s: [n] instants, strictly ascending.
        rate_bps: [n] measured over the time that ends at each instant, 0 where nothing passed; the first one measures
            what was before the trace, and is not used.
        stretch_to_s: simulated duration of one replay; None: that of the recording.
        offset: share of a replay that is over when the run starts, in [0, 1).

    Raises:
        ConfigError: fewer than two instants, or a trace that never lets anything pass.

    Source: Pensieve's simulator reads its traces this way, first row included.
    """

    def __init__(
        self,
        time_s: NDArray[np.float64],
        rate_bps: NDArray[np.float64],
        stretch_to_s: float | None = None,
        offset: float = 0.0,
    ) -> None:
        if len(time_s) < 2 or not (rate_bps[1:] > 0.0).any():
            raise ConfigError("a trace of rates needs two instants and a rate above 0; choose another file")
        recorded_s = float(time_s[-1] - time_s[0])
        scale = 1.0 if stretch_to_s is None else stretch_to_s / recorded_s
        self._clock = TraceClock(recorded_s * scale, offset)
        self._edge_s = (time_s - time_s[0]) * scale
        self._rate_bps = rate_bps[1:]
        self._sent_bits = np.concatenate([[0.0], np.cumsum(self._rate_bps * np.diff(self._edge_s))])

    @property
    def mean_rate_bps(self) -> float:
        """Of a sender that always has something to send."""
        return float(self._sent_bits[-1]) / self._clock.duration_s

    def __call__(self, start_s: float, n_bytes: int) -> float:
        """Seconds until the last of these bytes has left."""
        if n_bytes == 0:
            return 0.0
        lap, since_s = self._clock.locate(start_s)
        per_replay = float(self._sent_bits[-1])
        laps, bits = divmod(self._bits_by(since_s) + 8.0 * n_bytes, per_replay)
        if bits == 0.0:  # done within the replay before, perhaps long before its end
            laps, bits = laps - 1.0, per_replay
        return max(0.0, self._clock.instant_s(lap + int(laps), self._when(bits)) - start_s)

    def _bits_by(self, since_s: float) -> float:
        """Bits that could have left since the beginning of a replay."""
        at = min(int(self._edge_s.searchsorted(since_s, side="right")), len(self._rate_bps)) - 1
        return float(self._sent_bits[at] + self._rate_bps[at] * (since_s - self._edge_s[at]))

    def _when(self, bits: float) -> float:
        """Seconds from the beginning of a replay to the first instant by which so many bits have left."""
        at = int(self._sent_bits.searchsorted(bits, side="left"))
        if at == 0:
            return 0.0
        return float(self._edge_s[at] - (self._sent_bits[at] - bits) / self._rate_bps[at - 1])

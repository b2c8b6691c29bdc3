"""Latency as somebody measured it, message by message."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...contracts import ConfigError
from .trace_clock import SAME_INSTANT_S, TraceClock


class DelayReplay:
    """The delay of the latest measurement, at any instant.

    Args:
        time_s: [n] when the measured messages were sent, strictly ascending.
        delay_s: [n] how long they took.
        stretch_to_s: simulated duration of one replay; None: that of the recording.
        offset: share of a replay that is over when the run starts, in [0, 1).

    Raises:
        ConfigError: fewer than two measurements.
    """

    def __init__(
        self,
        time_s: NDArray[np.float64],
        delay_s: NDArray[np.float64],
        stretch_to_s: float | None = None,
        offset: float = 0.0,
    ) -> None:
        if len(time_s) < 2:
            raise ConfigError("a trace of delays needs two measurements; choose another file")
        recorded_s = float(time_s[-1] - time_s[0] + np.median(np.diff(time_s)))  # the last one holds as long as most
        scale = 1.0 if stretch_to_s is None else stretch_to_s / recorded_s
        self._clock = TraceClock(recorded_s * scale, offset)
        self._sent_s, self._delay_s = (time_s - time_s[0]) * scale, delay_s

    def __call__(self, start_s: float) -> float:
        """Seconds that a message takes which is sent at this instant."""
        _, since_s = self._clock.locate(start_s)
        return float(self._delay_s[self._sent_s.searchsorted(since_s + SAME_INSTANT_S, side="right") - 1])

"""Readings of the user's own signal, as a base station takes them while it serves the user: with noise, at a period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ranges import check_ranges

_RANGES = {"period_s": (0.001, 10.0), "noise_db": (0.0, 20.0)}


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """How a base station reads the power of its user.

    Attributes:
        period_s: from a reading to the next; powers are recorded at `world.link_rate_hz`, and every so many-th is read.
        noise_db: standard deviation of a reading.

    Raises:
        ConfigError: a value outside its range.

    Source: 20 ms is the usual period of synchronization blocks, 3GPP TS 38.213, clause 4.1. The noise is our choice.
    """

    period_s: float = 0.02
    noise_db: float = 1.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("world.signal", self, _RANGES)


class SignalReceiver:
    """The readings since the frame before, of one frame after the other.

    Args:
        settings: noise of a reading.
        n_readings: readings per frame.
        draws: stream of the noise.
    """

    def __init__(self, settings: SignalSettings, n_readings: int, draws: np.random.Generator) -> None:
        self._settings, self._n_readings, self._draws = settings, n_readings, draws
        self._before: NDArray[np.floating[Any]] | None = None

    def sense(self, link_dbw: NDArray[np.float32]) -> NDArray[np.float32]:
        """Readings of the next frames; the last of each is taken at the frame itself.

        Args:
            link_dbw: [F, k] true power at even steps from each frame until the next.

        Returns:
            [F, n_readings] dBW, oldest first. Before the first frame its own power stands.
        """
        n_frames, n_steps = link_dbw.shape
        before = np.full((1, n_steps), link_dbw[0, 0]) if self._before is None else self._before
        self._before = link_dbw[-1:]
        # steps 1 to k - 1 of the frame before, then step 0 of this one
        known = np.concatenate([before, link_dbw])
        true_dbw = np.concatenate([known[:-1, 1:], known[1:, :1]], axis=1)
        apart = n_steps // self._n_readings
        read = true_dbw[:, n_steps - 1 - apart * np.arange(self._n_readings)[::-1]]
        noise_db = self._settings.noise_db * self._draws.standard_normal((n_frames, self._n_readings))
        return np.asarray(read + noise_db, dtype=np.float32)

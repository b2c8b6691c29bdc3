"""Losses as somebody recorded them, packet by packet."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...contracts import ConfigError, State


class RecordedLoss:
    """A loss process that meets the recorded fates in their order, again and again.

    Its grain is the packet: a transmission meets the fate of the next recorded one, however much time lies between.

    Args:
        received: [n] True where the recorded packet arrived.
        first: which recorded packet comes first.

    Raises:
        ConfigError: no packet.
    """

    def __init__(self, received: NDArray[np.bool_], first: int = 0) -> None:
        if len(received) == 0:
            raise ConfigError("a trace of receptions holds no packet; choose another file or row")
        self._lost = ~received
        self._next = first % len(received)

    @property
    def stationary_loss(self) -> float:
        """Share of the recorded packets that were lost."""
        return float(self._lost.mean())

    @property
    def mean_burst(self) -> float:
        """Mean run of losses, the trace taken as a ring."""
        n_ends = int((self._lost & ~np.roll(self._lost, -1)).sum())
        return float(self._lost.sum()) / n_ends if n_ends else (math.inf if self._lost.all() else 1.0)

    def state(self) -> State:
        return self._next

    def restore(self, state: State) -> None:
        self._next = state

    def lost(self, n_transmissions: int) -> NDArray[np.bool_]:
        """[n_transmissions] True where lost."""
        end = self._next + n_transmissions
        if end <= len(self._lost):
            fates = self._lost[self._next : end]
        else:
            fates = self._lost[np.arange(self._next, end) % len(self._lost)]
        self._next = end % len(self._lost)
        return fates

"""Random mobility of nodes in a rectangle; the position of a node depends on its own random stream only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .gauss_markov import gauss_markov
from .scene import Array

#: Steps drawn at once; the trajectory does not depend on this number.
_STEPS_AT_ONCE = 256


class Wanderer:
    """Mobility of one node: Gauss-Markov velocity, with reflection at the borders.

    Args:
        draws: random stream of this node.
        area_m: [2] width and depth of the rectangle, from the origin on.
        speed_m_per_s: root mean square of its speed.
        memory_s: correlation time of the velocity.
        step_s: time step of the velocity, which is constant in between.

    Source: Liang and Haas 1999, the Gauss-Markov model of mobility, with mean velocity 0.
    """

    def __init__(
        self,
        draws: np.random.Generator,
        area_m: tuple[float, float],
        speed_m_per_s: float,
        memory_s: float,
        step_s: float,
    ) -> None:
        self._draws, self._area_m = draws, np.asarray(area_m, dtype=np.float64)
        # Per axis: the variances of two axes add up to the mean square of the speed.
        self._deviation, self._memory_s, self._step_s = speed_m_per_s / np.sqrt(2.0), memory_s, step_s
        self._way_m = draws.uniform(size=(1, 2)) * self._area_m  # [n, 2] without borders
        self._drift = draws.standard_normal(2)

    def at(self, now_s: float) -> Array:
        """[2] position in m; memory grows with the latest requested instant."""
        steps, part = divmod(now_s / self._step_s, 1.0)
        index = int(steps)
        # The position is interpolated, so the step after the instant must exist, too.
        while index + 1 >= len(self._way_m):
            self._extend()
        before, after = self._way_m[index : index + 2]
        return mirrored(before + part * (after - before), self._area_m)

    def _extend(self) -> None:
        steps_s = np.full(_STEPS_AT_ONCE, self._step_s)
        drift = gauss_markov(steps_s, self._memory_s, self._drift, self._draws)
        self._drift = drift[-1]
        way_m = [self._way_m[-1]]  # step by step, so that rounding does not depend on _STEPS_AT_ONCE
        for velocity in self._deviation * drift:
            way_m.append(way_m[-1] + self._step_s * velocity)
        self._way_m = np.concatenate([self._way_m, np.stack(way_m[1:])])


def mirrored(way_m: Array, area_m: Array) -> Array:
    """A trajectory without borders, reflected into [0, area_m]."""
    # Reflections at both borders repeat with twice the width: there and back.
    behind = np.mod(way_m, 2.0 * area_m)
    return np.minimum(behind, 2.0 * area_m - behind)


def distances_m(places_m: Sequence[Array]) -> Array:
    """[n, n] between all pairs of places [2]."""
    places = np.stack(places_m)
    distances: Array = np.sqrt(((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2))
    return distances

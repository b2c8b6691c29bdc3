"""Nodes that wander about in a rectangle: where each is at any instant follows from its stream alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .gauss_markov import gauss_markov
from .scene import Array

#: Steps that are drawn at once; in pieces of any size a stream gives the same way.
_STEPS_AT_ONCE = 256


class Wanderer:
    """One node with a velocity that drifts and forgets (Gauss-Markov), turned back at the walls like light by a mirror.

    Args:
        draws: of this node alone.
        area_m: [2] width and depth of the rectangle, from the origin on.
        speed_m_per_s: root mean square of its speed.
        memory_s: time over which it forgets where it was going.
        step_s: between instants at which it may turn; it goes straight ahead from one to the next.

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
        self._deviation, self._memory_s, self._step_s = speed_m_per_s / np.sqrt(2.0), memory_s, step_s
        self._way_m = draws.uniform(size=(1, 2)) * self._area_m  # [n, 2] as if there were no walls
        self._drift = draws.standard_normal(2)

    def at(self, now_s: float) -> Array:
        """[2] where it is, in m; memory grows with the latest instant that was ever asked for."""
        steps, part = divmod(now_s / self._step_s, 1.0)
        index = int(steps)
        while index + 1 >= len(self._way_m):
            self._walk_on()
        before, after = self._way_m[index : index + 2]
        return mirrored(before + part * (after - before), self._area_m)

    def _walk_on(self) -> None:
        steps_s = np.full(_STEPS_AT_ONCE, self._step_s)
        drift = gauss_markov(steps_s, self._memory_s, self._drift, self._draws)
        self._drift = drift[-1]
        way_m = [self._way_m[-1]]  # step by step, so that rounding does not depend on the size of a piece
        for velocity in self._deviation * drift:
            way_m.append(way_m[-1] + self._step_s * velocity)
        self._way_m = np.concatenate([self._way_m, np.stack(way_m[1:])])


def mirrored(way_m: Array, area_m: Array) -> Array:
    """A way without walls, folded into [0, area_m] at every wall that it crosses."""
    behind = np.mod(way_m, 2.0 * area_m)
    return np.minimum(behind, 2.0 * area_m - behind)


def distances_m(places_m: Sequence[Array]) -> Array:
    """[n, n] between all pairs of places [2]."""
    places = np.stack(places_m)
    distances: Array = np.sqrt(((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2))
    return distances

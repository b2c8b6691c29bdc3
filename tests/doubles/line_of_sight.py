"""Who stands on the straight line between the two antennas: the plain geometry that all must agree with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sheafedge.emulator.world.scene import Scene


def blockers(scene: Scene) -> NDArray[np.bool_]:
    """[F, B] boxes that the segment from the base station to the user meets."""
    origin = scene.base_station_m
    across = (scene.user_m - origin)[:, None]
    level = across == 0.0  # the segment does not move along this axis: it is between the faces or never
    safe = np.where(level, 1.0, across)
    to_lower, to_upper = (scene.lower_m - origin) / safe, (scene.upper_m - origin) / safe
    between = (scene.lower_m <= origin) & (origin <= scene.upper_m)
    enter = np.where(level, np.where(between, -np.inf, np.inf), np.minimum(to_lower, to_upper))
    leave = np.where(level, np.where(between, np.inf, -np.inf), np.maximum(to_lower, to_upper))
    meets = np.maximum(enter.max(axis=-1), 0.0) <= np.minimum(leave.min(axis=-1), 1.0)
    return np.asarray(meets & scene.present)

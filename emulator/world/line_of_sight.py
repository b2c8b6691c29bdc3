"""Who stands between the base station and its user, by geometry alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .scene import Array, Kind, Scene


def blockers(scene: Scene, start_m: Array | None = None) -> NDArray[np.bool_]:
    """Which boxes the straight line to the user meets.

    The carrier of the transmitter never blocks its own antenna.

    Args:
        scene: F instants with B boxes.
        start_m: [3] where the line begins; None: at the base station's antenna.

    Returns:
        [F, B] bool.
    """
    start_m = scene.base_station_m if start_m is None else start_m
    way_m = (scene.user_m - start_m)[:, None, :]
    way_m = np.where(way_m == 0.0, 1e-12, way_m)
    one, other = (scene.lower_m - start_m) / way_m, (scene.upper_m - start_m) / way_m
    enters = np.maximum(np.minimum(one, other).max(axis=-1), 0.0)
    leaves = np.minimum(np.maximum(one, other).min(axis=-1), 1.0)
    return np.asarray(scene.present & (scene.kind != Kind.TARGET) & (enters < leaves))

"""Which box a camera sees at every sample: what the geometry of its images is checked against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sheafedge.emulator.sensors.backdrop import backdrop
from sheafedge.emulator.sensors.camera import CHUNK, CameraSettings, nearest_faces, view_of
from sheafedge.emulator.sensors.camera_boxes import faces
from sheafedge.emulator.world.scene import Scene


def seen_slots(scene: Scene, settings: CameraSettings) -> NDArray[np.int16]:
    """Which box is seen where.

    Returns:
        [F, n, n] slot of the nearest box at every sample's center, -1 where none is; n = n_pixels * supersampling.
    """
    view = view_of(scene, settings)
    behind = backdrop(scene.surroundings, view)
    n = view.n_samples
    slots = np.empty((len(scene), n, n), dtype=np.int16)
    for begin in range(0, len(scene), CHUNK):
        some = slice(begin, begin + CHUNK)
        seen = faces(scene.frames(some), view, behind)
        slots[some] = np.append(seen.slot, np.int16(-1))[nearest_faces(seen, len(slots[some]), n)[0] - 1].reshape(
            -1, n, n
        )
    return slots

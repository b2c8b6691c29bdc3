"""`Scene`: boxes, walls and antennas of a site at some instants, shared by all sensors.

LiDAR, camera, radio and plots are all computed from this value, so they are always consistent.
Frame of reference: x along the street, y across it, z up, all in metres; the base station is at x = y = 0 and faces
+y. Time is in seconds from 0. Everything that moves or blocks is a box with faces along the axes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .trees import NO_TREES, Trees
from .weather import CLEAR, Weather

Array = NDArray[np.float64]


class Kind(IntEnum):
    """Kind of a box."""

    NONE = 0
    CAR = 1
    VAN = 2
    BUS = 3
    PEDESTRIAN = 4
    TARGET = 5  # carries the transmitter that the base station tracks: a car or a drone
    CROWN = 6  # leaves, which attenuate and do not block
    TRUNK = 7


@dataclass(frozen=True, slots=True)
class Facade:
    """A wall along the street.

    Attributes:
        y_m: position.
        x_min_m, x_max_m: extent along the street.
        height_m: height above the ground.
        material: a row of `radio/tables/materials.csv`.
    """

    y_m: float
    x_min_m: float
    x_max_m: float
    height_m: float
    material: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Static parts of a scene.

    Attributes:
        facades: walls, which reflect and are visible.
        ground_material: material of the plane z = 0.
        kerbs_y_m: near and far edge of the roadway; empty in the open.
        lanes_y_m: centers of the lanes.
        weather: rain and fog.
        trees: settings of the trees that are among the boxes.
    """

    facades: tuple[Facade, ...] = ()
    ground_material: str = "concrete"
    kerbs_y_m: tuple[float, ...] = ()
    lanes_y_m: tuple[float, ...] = ()
    weather: Weather = CLEAR
    trees: Trees = NO_TREES


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A site at F instants, with room for B boxes.

    Attributes:
        time_s: [F] instants.
        center_m, size_m: [F, B, 3] box centers and extents along x, y, z.
        velocity_m_per_s: [F, B, 3].
        kind: [F, B] uint8 of `Kind`.
        present: [F, B] bool; all other values of a slot are undefined where it is False.
        base_station_m: [3] antenna of the base station.
        user_m: [F, 3] antenna at the other end.
        surroundings: walls, ground, kerbs.
    """

    time_s: Array
    center_m: Array
    size_m: Array
    velocity_m_per_s: Array
    kind: NDArray[np.uint8]
    present: NDArray[np.bool_]
    base_station_m: Array
    user_m: Array
    surroundings: Surroundings

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def lower_m(self) -> Array:
        """[F, B, 3] lower corners."""
        return self.center_m - self.size_m / 2

    @property
    def upper_m(self) -> Array:
        """[F, B, 3] upper corners."""
        return self.center_m + self.size_m / 2

    @property
    def user_velocity_m_per_s(self) -> Array:
        """[F, 3] of the box that carries the transmitter; 0 where none does, because the user stands."""
        carries = self.present & (self.kind == Kind.TARGET)
        return np.asarray(np.where(carries[..., None], self.velocity_m_per_s, 0.0).sum(axis=1))

    def frames(self, index: Any) -> Scene:
        """The scene at some of its instants; `index` as for numpy's first axis."""
        moving = {"time_s", "center_m", "size_m", "velocity_m_per_s", "kind", "present", "user_m"}
        return Scene(
            **{
                field.name: getattr(self, field.name)[index] if field.name in moving else getattr(self, field.name)
                for field in fields(self)
            }
        )


def blockers(scene: Scene, start_m: Array | None = None) -> NDArray[np.bool_]:
    """[F, B] bool: whether a box intersects the straight line to the user.

    The box that carries the transmitter never blocks it, and leaves only attenuate.

    Args:
        scene: F instants with B boxes.
        start_m: [3] start of the line; None: antenna of the base station.

    Returns:
        [F, B] bool.
    """
    start_m = scene.base_station_m if start_m is None else start_m
    way_m = (scene.user_m - start_m)[:, None, :]
    # Slab test: a line along a face would divide 0 by 0.
    way_m = np.where(way_m == 0.0, 1e-12, way_m)
    one, other = (scene.lower_m - start_m) / way_m, (scene.upper_m - start_m) / way_m
    # Clipped to the piece between the two antennas.
    enters = np.maximum(np.minimum(one, other).max(axis=-1), 0.0)
    leaves = np.minimum(np.maximum(one, other).min(axis=-1), 1.0)
    opaque = (scene.kind != Kind.TARGET) & (scene.kind != Kind.CROWN)
    return np.asarray(scene.present & opaque & (enters < leaves))

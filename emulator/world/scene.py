"""One scene for everybody: the boxes, walls and antennas of a site at some instants.

LiDAR, camera, radio and plots are all drawn from this value, so they cannot disagree about who stands where.
Frame of reference: x along the street, y across it, z up, all in metres; the base station stands at x = y = 0 and looks
along +y. Time is in seconds from 0. Whatever moves or blocks is a box with faces along the axes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Kind(IntEnum):
    """What a box is."""

    NONE = 0
    CAR = 1
    VAN = 2
    BUS = 3
    PEDESTRIAN = 4
    TARGET = 5  # carries the transmitter that the base station tracks: a car or a drone


@dataclass(frozen=True, slots=True)
class Facade:
    """A wall along the street.

    Attributes:
        y_m: where it stands.
        x_min_m, x_max_m: how far it reaches.
        height_m: from the ground.
        material: a name of `radio.materials`.
    """

    y_m: float
    x_min_m: float
    x_max_m: float
    height_m: float
    material: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What never moves.

    Attributes:
        facades: walls that reflect and are seen.
        ground_material: of the plane z = 0.
        kerbs_y_m: near and far edge of the roadway; empty in the open.
        lanes_y_m: centers of the lanes.
    """

    facades: tuple[Facade, ...] = ()
    ground_material: str = "concrete"
    kerbs_y_m: tuple[float, ...] = ()
    lanes_y_m: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A site at F instants, with room for B boxes.

    Attributes:
        time_s: [F] instants.
        center_m, size_m: [F, B, 3] box centers and extents along x, y, z.
        velocity_m_per_s: [F, B, 3].
        kind: [F, B] uint8 of `Kind`.
        present: [F, B] bool; the rest of a slot means nothing where it is False.
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

    def frames(self, index: Any) -> Scene:
        """The scene at some of its instants; `index` as for numpy's first axis."""
        moving = {"time_s", "center_m", "size_m", "velocity_m_per_s", "kind", "present", "user_m"}
        return Scene(
            **{
                field.name: getattr(self, field.name)[index] if field.name in moving else getattr(self, field.name)
                for field in fields(self)
            }
        )

"""Streets for radio tests: a few boxes between two antennas, or many drawn at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sheafedge.emulator.radio.segments import PathSegments
from sheafedge.emulator.world.scene import Array, Facade, Kind, Scene, Surroundings

STATION = (0.0, 0.0, 1.2)
USER = (0.0, 12.0, 1.2)
SIZES_M = {
    Kind.CAR: (4.8, 1.8, 1.4),
    Kind.VAN: (5.5, 2.0, 2.3),
    Kind.BUS: (12.0, 2.5, 3.0),
    Kind.PEDESTRIAN: (0.3, 0.3, 1.7),
    Kind.TARGET: (4.8, 1.8, 1.4),
}
WALLS = (Facade(-3.0, -60.0, 60.0, 12.0, "concrete"), Facade(18.0, -60.0, 60.0, 9.0, "glass"))

#: One box: what it is, where its center is in x and y, and its size if it is unusual.
Box = tuple[Kind, float, float] | tuple[Kind, float, float, tuple[float, float, float]]


def street(
    boxes: Sequence[Box] = (),
    facades: tuple[Facade, ...] = (),
    station: Sequence[float] = STATION,
    user: Sequence[float] = USER,
) -> Scene:
    """One instant; boxes stand on the ground."""
    sizes = [box[3] if len(box) == 4 else SIZES_M[box[0]] for box in boxes]
    size_m = np.array(sizes, dtype=float).reshape(1, len(boxes), 3)
    centers = [(box[1], box[2], size[2] / 2) for box, size in zip(boxes, sizes, strict=True)]
    return Scene(
        time_s=np.zeros(1),
        center_m=np.array(centers, dtype=float).reshape(1, len(boxes), 3),
        size_m=size_m,
        velocity_m_per_s=np.zeros_like(size_m),
        kind=np.array([[box[0] for box in boxes]], dtype=np.uint8).reshape(1, len(boxes)),
        present=np.ones((1, len(boxes)), dtype=bool),
        base_station_m=np.array(station, dtype=float),
        user_m=np.array([user], dtype=float),
        surroundings=Surroundings(facades=facades),
    )


def busy_street(n_frames: int, n_boxes: int, seed: int, facades: tuple[Facade, ...] = WALLS) -> Scene:
    """Unrelated instants of random boxes between the kerbs, antennas at random heights beyond them."""
    draws = np.random.default_rng(seed)
    kinds = np.array([Kind.CAR, Kind.VAN, Kind.BUS, Kind.PEDESTRIAN], dtype=np.uint8)
    kind = draws.choice(kinds, size=(n_frames, n_boxes), p=[0.5, 0.2, 0.1, 0.2])
    table = np.zeros((len(Kind), 3))
    for name, size in SIZES_M.items():
        table[name] = size
    size_m = table[kind]
    x_m, y_m = draws.uniform(-30, 30, kind.shape), draws.choice([3.0, 6.5, 10.0, 13.0], size=kind.shape)
    return Scene(
        time_s=np.arange(n_frames, dtype=np.float64) / 10,
        center_m=np.stack([x_m, y_m, size_m[..., 2] / 2], axis=-1),
        size_m=size_m,
        velocity_m_per_s=np.zeros_like(size_m),
        kind=kind,
        present=draws.random(kind.shape) < 0.8,
        base_station_m=np.array([0.0, 0.0, draws.uniform(1, 6)]),
        user_m=np.stack([draws.uniform(-8, 8, n_frames), np.full(n_frames, 15.5), draws.uniform(1, 2, n_frames)], -1),
        surroundings=Surroundings(facades=facades),
    )


def shifted(scene: Scene, x_m: float) -> Scene:
    """The same street seen from a map whose origin lies elsewhere along it."""
    by: Array = np.array([x_m, 0.0, 0.0])
    walls = tuple(
        Facade(wall.y_m, wall.x_min_m + x_m, wall.x_max_m + x_m, wall.height_m, wall.material)
        for wall in scene.surroundings.facades
    )
    return Scene(
        time_s=scene.time_s,
        center_m=scene.center_m + by,
        size_m=scene.size_m,
        velocity_m_per_s=scene.velocity_m_per_s,
        kind=scene.kind,
        present=scene.present,
        base_station_m=scene.base_station_m + by,
        user_m=scene.user_m + by,
        surroundings=Surroundings(facades=walls),
    )


def los_segments(scene: Scene) -> PathSegments:
    """The line of sight of every frame."""
    n = len(scene)
    return PathSegments(
        frame=np.arange(n),
        path=np.zeros(n, dtype=np.int64),
        start_m=np.broadcast_to(scene.base_station_m, (n, 3)),
        end_m=scene.user_m,
        first=np.zeros(n),
        last=np.ones(n),
        mirror_box=np.full(n, -1),
        over_ground=np.zeros(n, dtype=bool),
    )

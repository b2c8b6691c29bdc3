"""Paths that two different surfaces reflect in a row: ground and facade, ground and vehicle, facade and vehicle.

Reflections in the ground and in an upright surface commute: there is one image, and the order of the two points follows
from where the unfolded line meets them. A facade and a face of a vehicle are followed in both orders.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..world.scene import Scene
from .images import (
    NO_BOX,
    Bounce,
    Complex,
    Images,
    Mask,
    Mirrors,
    PathKind,
    Surfaces,
    X,
    Y,
    Z,
    bounced,
    facade_mirrors,
    facade_reflection,
    ground_reflection,
    vehicle_mirrors,
    vehicle_reflection,
)
from .waves import Array


def pair_images(scene: Scene, surfaces: Surfaces) -> Iterator[Images]:
    """Paths over two different surfaces that may exist, kind by kind in a fixed order."""
    station, user = scene.base_station_m, scene.user_m[:, None]
    n_facades, n_boxes = len(scene.surroundings.facades), scene.present.shape[1]
    if n_facades:
        indices = list(range(n_facades))
        bounce, hits = _with_ground(station, user, facade_mirrors(scene, indices, station[Y]))
        reflection = facade_reflection(scene, surfaces, indices, bounce.cos_incidence)
        yield _ground_pair(scene, surfaces, bounce, hits, reflection, _no_boxes(n_facades), Y)
    if not (surfaces.vehicle_sides and n_boxes):
        return
    slots = np.arange(n_boxes, dtype=np.int64)
    for axis in (X, Y):
        mirrors, stand = vehicle_mirrors(scene, station, axis)
        bounce, hits = _with_ground(station, user, mirrors)
        bounce = Bounce(bounce.valid & stand, bounce.image_m, bounce.hit_m, bounce.cos_incidence)
        reflection = vehicle_reflection(surfaces, bounce.cos_incidence)
        yield _ground_pair(scene, surfaces, bounce, hits, reflection, slots, axis)
    for facade in range(n_facades):
        for axis in (X, Y):
            yield _vehicle_then_facade(scene, surfaces, facade, axis)
            yield _facade_then_vehicle(scene, surfaces, facade, axis)


def _with_ground(station_m: Array, user_m: Array, mirrors: Mirrors) -> tuple[Bounce, tuple[Array, Array]]:
    """Reflections of the user's image in the ground, and the two reflection points in their order, [F, S, 3] each.

    Below the ground, where the line is unfolded, the mirrors are there as images.
    """
    lower, upper = mirrors.lower_m.copy(), mirrors.upper_m
    lower[..., Z] = -upper[..., Z]
    unfolded = Mirrors(mirrors.axis, mirrors.plane_m, mirrors.side, lower, upper)
    bounce = bounced(station_m, user_m * (1.0, 1.0, -1.0), unfolded)
    across = bounce.image_m - station_m
    fall_m = np.where(across[..., Z] < 0.0, -across[..., Z], 1.0)
    touch = station_m + (station_m[Z] / fall_m)[..., None] * across  # where the unfolded line meets the ground
    upright_first = bounce.hit_m[..., Z] > 0.0
    # The second point is folded back: over the upright surface, or over the ground.
    folded = touch.copy()
    folded[..., mirrors.axis] = 2.0 * mirrors.plane_m - folded[..., mirrors.axis]
    above = bounce.hit_m * (1.0, 1.0, -1.0)
    first = np.where(upright_first[..., None], bounce.hit_m, touch)
    second = np.where(upright_first[..., None], folded, above)
    valid = bounce.valid & (station_m[Z] > 0.0) & (user_m[..., Z] > 0.0)
    return Bounce(valid, bounce.image_m, bounce.hit_m, bounce.cos_incidence), (first, second)


def _ground_pair(
    scene: Scene,
    surfaces: Surfaces,
    bounce: Bounce,
    hits_m: tuple[Array, Array],
    reflection: Complex,
    mirror_box: NDArray[np.int64],
    axis: int,
) -> Images:
    """Paths over upright surfaces across an axis, whose `reflection` is given, and the ground."""
    across = bounce.image_m - scene.base_station_m
    cos_ground = np.abs(across[..., Z]) / np.maximum(np.sqrt((across**2).sum(axis=-1)), 1e-12)
    reflection = reflection * ground_reflection(scene, surfaces, cos_ground)
    is_vehicle = bool((mirror_box != NO_BOX).any())
    return Images(
        PathKind.VEHICLE_GROUND if is_vehicle else PathKind.FACADE_GROUND,
        bounce.valid,
        bounce.image_m,
        hits_m,
        reflection,
        mirror_box,
        # The vehicle stands behind its face, which all three legs lie before.
        mirror_legs=(0, 1, 2),
        # In this order or the other: mirrors across two axes commute.
        axes=(axis, Z),
        moving_bounce=0 if is_vehicle else -1,
    )


def _vehicle_then_facade(scene: Scene, surfaces: Surfaces, facade: int, axis: int) -> Images:
    """From the base station on over a face of a vehicle and then over a facade."""
    station, user = scene.base_station_m, scene.user_m[:, None]
    faces, stand = vehicle_mirrors(scene, station, axis)
    behind = _mirrored(user, Y, np.full((len(scene), 1), scene.surroundings.facades[facade].y_m))
    first = bounced(station, behind, faces)
    wall = _repeated(facade_mirrors(scene, [facade], user[:, :, Y]), faces.plane_m.shape[1])
    second = bounced(first.hit_m, np.broadcast_to(user, first.hit_m.shape), wall)
    return _vehicle_pair(scene, surfaces, facade, (first, second), stand, axis, moving_bounce=0)


def _facade_then_vehicle(scene: Scene, surfaces: Surfaces, facade: int, axis: int) -> Images:
    """From the base station on over a facade and then over a face of a vehicle."""
    station, user = scene.base_station_m, scene.user_m[:, None]
    faces, stand = vehicle_mirrors(scene, scene.user_m[:, None], axis)
    behind = _mirrored(user, axis, faces.plane_m)
    wall = _repeated(facade_mirrors(scene, [facade], station[Y]), faces.plane_m.shape[1])
    first = bounced(station, behind, wall)
    second = bounced(first.hit_m, np.broadcast_to(user, first.hit_m.shape), faces)
    return _vehicle_pair(scene, surfaces, facade, (first, second), stand, axis, moving_bounce=1)


def _vehicle_pair(
    scene: Scene,
    surfaces: Surfaces,
    facade: int,
    in_turn: tuple[Bounce, Bounce],
    stand: Mask,
    axis: int,
    *,
    moving_bounce: int,
) -> Images:
    """Paths over a face and a facade; on the leg that does not touch the vehicle, it may block its own reflection."""
    first, second = in_turn
    at_vehicle, at_facade = in_turn[moving_bounce], in_turn[1 - moving_bounce]
    n_boxes = stand.shape[1]
    reflection = vehicle_reflection(surfaces, at_vehicle.cos_incidence)
    reflection = reflection * facade_reflection(scene, surfaces, [facade] * n_boxes, at_facade.cos_incidence)
    return Images(
        PathKind.FACADE_VEHICLE,
        first.valid & second.valid & stand,
        first.image_m,
        (first.hit_m, second.hit_m),
        reflection,
        np.arange(n_boxes, dtype=np.int64),
        mirror_legs=(moving_bounce, moving_bounce + 1),
        axes=(axis, Y) if moving_bounce == 0 else (Y, axis),
        moving_bounce=moving_bounce,
    )


def _mirrored(source_m: Array, axis: int, plane_m: Array) -> Array:
    """[F, S, 3] images of a source [F, 1, 3] behind planes [F, S]."""
    image = np.broadcast_to(source_m, (*plane_m.shape, 3)).copy()
    image[..., axis] = 2.0 * plane_m - image[..., axis]
    return image


def _repeated(wall: Mirrors, n: int) -> Mirrors:
    """One wall as n mirrors."""
    shape = (len(wall.plane_m), n)
    return Mirrors(
        wall.axis, np.broadcast_to(wall.plane_m, shape), np.broadcast_to(wall.side, shape), wall.lower_m, wall.upper_m
    )


def _no_boxes(n_paths: int) -> NDArray[np.int64]:
    return np.full(n_paths, NO_BOX, dtype=np.int64)

"""Boxes as a camera's columns meet them: stretches of rows, each with a color and a depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..world.scene import Array, Kind, Scene
from .backdrop import Backdrop, hazed
from .pinhole import Pinhole

Index = NDArray[np.int64]
Float32 = NDArray[np.float32]

#: What is closer to the lens than this is not drawn.
NEAREST_M = 0.05
#: Lamps reach this far into a vehicle and out of it, and stand at these shares of its height.
LAMP_M, LAMP_OUT_M, LAMP_LOW, LAMP_HIGH = 0.5, 0.05, 0.35, 0.6
#: What is shorter than this has no lamps: a drone, a pedestrian.
LEAST_VEHICLE_M = 2.0
#: Kinds of a vehicle's lamps, beyond those of `Kind`.
HEADLIGHT, TAILLIGHT = 8, 9


class Paint(NamedTuple):
    """Paint of a kind of box: colors in 0..1, and the heights of its lower and upper band as shares of its own.

    The upper band are windows, or a face; the lower one are wheels, or legs.
    """

    body: tuple[float, float, float]
    lower: tuple[float, float, float]
    lower_top: float
    upper: tuple[float, float, float]
    upper_bottom: float
    upper_top: float


_TYRES, _WINDOWS = (0.10, 0.10, 0.11), (0.16, 0.22, 0.28)
PAINTS: dict[int, Paint] = {
    Kind.NONE: Paint((0, 0, 0), (0, 0, 0), 0, (0, 0, 0), 1, 1),
    Kind.CAR: Paint((0.20, 0.38, 0.78), _TYRES, 0.18, _WINDOWS, 0.56, 0.90),
    Kind.VAN: Paint((0.92, 0.92, 0.88), _TYRES, 0.14, _WINDOWS, 0.58, 0.86),
    Kind.BUS: Paint((0.95, 0.66, 0.10), _TYRES, 0.12, _WINDOWS, 0.48, 0.84),
    Kind.PEDESTRIAN: Paint((0.15, 0.55, 0.28), (0.16, 0.16, 0.30), 0.46, (0.90, 0.72, 0.58), 0.86, 1.0),
    Kind.TARGET: Paint((0.80, 0.12, 0.12), (0.14, 0.05, 0.05), 0.18, (0.20, 0.10, 0.12), 0.56, 0.90),
    Kind.CROWN: Paint((0.22, 0.44, 0.16), (0, 0, 0), 0, (0, 0, 0), 1, 1),
    Kind.TRUNK: Paint((0.34, 0.26, 0.20), (0, 0, 0), 0, (0, 0, 0), 1, 1),
    HEADLIGHT: Paint((1.0, 0.96, 0.80), (0, 0, 0), 0, (0, 0, 0), 1, 1),
    TAILLIGHT: Paint((0.9, 0.10, 0.08), (0, 0, 0), 0, (0, 0, 0), 1, 1),
}
#: Light on the faces towards +-y, towards +-x, on the roof and below.
FRONT_LIGHT, SIDE_LIGHT, ROOF_LIGHT, BELOW_LIGHT = 1.0, 0.78, 1.15, 0.45
_BODY = np.array([PAINTS[kind].body for kind in range(len(PAINTS))], dtype=np.float32)
_LOWER = np.array([PAINTS[kind].lower for kind in range(len(PAINTS))], dtype=np.float32)
_UPPER = np.array([PAINTS[kind].upper for kind in range(len(PAINTS))], dtype=np.float32)
_BANDS = np.array(
    [(PAINTS[kind].lower_top, PAINTS[kind].upper_bottom, PAINTS[kind].upper_top) for kind in range(len(PAINTS))]
)


@dataclass(frozen=True, slots=True, eq=False)
class Faces:
    """Stretches of one color in a column, far to near.

    Attributes:
        frame, column: [n] where.
        first_row, last_row: [n] samples from the first to before the last, at least one.
        color: [n, 3] in daylight, 0..1.
        slot: [n] whose.
        shines: [n] bool, a lamp.
    """

    frame: Index
    column: Index
    first_row: Index
    last_row: Index
    color: Float32
    slot: NDArray[np.int16]
    shines: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Hits:
    """Columns that meet a box, far to near.

    Attributes:
        frame, slot, column: [n].
        near_m, far_m: [n] depths at which the box begins and ends there.
        is_side: [n] bool, the face met first looks along x.
        bottom_m, top_m: [n] heights of the box.
        kind: [n] index into the paints.
    """

    frame: Index
    slot: Index
    column: Index
    near_m: Array
    far_m: Array
    is_side: NDArray[np.bool_]
    bottom_m: Array
    top_m: Array
    kind: NDArray[np.uint8]


def with_lamps(scene: Scene) -> Scene:
    """The scene with head and tail lamps as boxes of their own, in 2 B more slots."""
    no_lamps = np.isin(scene.kind, (Kind.PEDESTRIAN, Kind.CROWN, Kind.TRUNK))
    vehicle = scene.present & ~no_lamps & (scene.size_m[..., 0] >= LEAST_VEHICLE_M)
    ahead = np.where(scene.velocity_m_per_s[..., 0] < 0.0, -1.0, 1.0)
    size_m = scene.size_m.copy()
    # Lamps stick out: flush with the body they would have its depth, and the nearest face of a sample wins.
    size_m[..., 0] = LAMP_M + LAMP_OUT_M
    size_m[..., 1] += 2.0 * LAMP_OUT_M
    size_m[..., 2] *= LAMP_HIGH - LAMP_LOW
    centers, kinds = [scene.center_m], [scene.kind]
    for kind, side in ((HEADLIGHT, ahead), (TAILLIGHT, -ahead)):
        center_m = scene.center_m.copy()
        center_m[..., 0] += side * (scene.size_m[..., 0] - LAMP_M + LAMP_OUT_M) / 2.0
        center_m[..., 2] += scene.size_m[..., 2] * ((LAMP_LOW + LAMP_HIGH) / 2.0 - 0.5)
        centers.append(center_m)
        kinds.append(np.full_like(scene.kind, kind))
    return Scene(
        time_s=scene.time_s,
        center_m=np.concatenate(centers, axis=1),
        size_m=np.concatenate([scene.size_m, size_m, size_m], axis=1),
        velocity_m_per_s=np.concatenate([scene.velocity_m_per_s] * 3, axis=1),
        kind=np.concatenate(kinds, axis=1),
        present=np.concatenate([scene.present, vehicle, vehicle], axis=1),
        base_station_m=scene.base_station_m,
        user_m=scene.user_m,
        surroundings=scene.surroundings,
    )


def faces(scene: Scene, view: Pinhole, behind: Backdrop) -> Faces:
    """Everything that boxes show to the camera, hidden or not, except for what walls hide."""
    hits = _hits(scene, view)
    lowest_row = behind.lowest_row(hits.column, hits.near_m)
    bands_m = hits.bottom_m[:, None] + _BANDS[hits.kind] * (hits.top_m - hits.bottom_m)[:, None]
    light = np.where(hits.is_side, SIDE_LIGHT, FRONT_LIGHT).astype(np.float32)[:, None]
    # From above the camera sees the roof of a box, from below its lower side, level with it neither.
    camera_m = view.position_m[2]
    lid_m = np.clip(camera_m, hits.bottom_m, hits.top_m)
    lid_light = np.where(camera_m > hits.top_m, ROOF_LIGHT, BELOW_LIGHT).astype(np.float32)[:, None]
    near_m = np.stack([hits.top_m, hits.bottom_m, *bands_m.T, lid_m])
    top, bottom, lower_top, upper_bottom, upper_top, lid_near = view.row_at(near_m, hits.near_m)
    lid_far = view.row_at(lid_m, hits.far_m)
    firsts = np.stack([top, lower_top, upper_top, np.minimum(lid_far, lid_near)], axis=1)
    lasts = np.stack([bottom, bottom, upper_bottom, np.maximum(lid_far, lid_near)], axis=1)
    body = _BODY[hits.kind]
    colors = np.stack([body * light, _LOWER[hits.kind] * light, _UPPER[hits.kind] * light, body * lid_light], axis=1)
    colors = hazed(colors, hits.near_m[:, None], scene.surroundings.weather)
    return _visible(hits, firsts, np.minimum(lasts, lowest_row[:, None]), colors, view)


def _visible(hits: _Hits, firsts: Array, lasts: Array, colors: Float32, view: Pinhole) -> Faces:
    """Those of n hits times 4 stretches that cover the center of a sample; later ones of a hit lie on earlier ones."""
    first_row = np.clip(np.ceil(firsts - 0.5), 0, view.n_samples).astype(np.int64).ravel()
    last_row = np.clip(np.ceil(lasts - 0.5), 0, view.n_samples).astype(np.int64).ravel()
    shown = np.flatnonzero(first_row < last_row)
    hit = shown // firsts.shape[1]
    return Faces(
        frame=hits.frame[hit],
        column=hits.column[hit],
        first_row=first_row[shown],
        last_row=last_row[shown],
        color=colors.reshape(-1, 3)[shown],
        slot=hits.slot[hit].astype(np.int16),
        shines=hits.kind[hit] >= HEADLIGHT,
    )


def _hits(scene: Scene, view: Pinhole) -> _Hits:
    """Every column against every box, seen from above: where the ray enters and leaves the box's outline."""
    along_x, along_y = view.directions(view.n_samples)
    center_m = scene.center_m - np.array([view.position_m[0], view.position_m[1], 0.0])
    half_m = _half_sizes(scene, view, center_m)
    low, high = (center_m - half_m)[..., None], (center_m + half_m)[..., None]
    # Slab test in top view; `Pinhole.directions` never gives 0.
    one_x, other_x = low[:, :, 0] / along_x, high[:, :, 0] / along_x
    one_y, other_y = low[:, :, 1] / along_y, high[:, :, 1] / along_y
    enters_x, enters_y = np.minimum(one_x, other_x), np.minimum(one_y, other_y)
    near_m = np.maximum(enters_x, enters_y)
    far_m = np.minimum(np.maximum(one_x, other_x), np.maximum(one_y, other_y))
    met = (far_m > np.maximum(near_m, NEAREST_M)) & scene.present[..., None]
    frame, slot, column = np.nonzero(met)
    near = near_m[frame, slot, column]
    # `nearest_faces` needs them far to near; stable, so that boxes at equal depth keep a fixed order.
    order = np.argsort(-near, kind="stable")
    frame, slot, column = frame[order], slot[order], column[order]
    return _Hits(
        frame=frame,
        slot=slot,
        column=column,
        near_m=np.maximum(near[order], NEAREST_M),
        far_m=far_m[frame, slot, column],
        is_side=(enters_x > enters_y)[frame, slot, column],
        bottom_m=low[frame, slot, 2, 0],
        top_m=high[frame, slot, 2, 0],
        kind=scene.kind[frame, slot],
    )


def _half_sizes(scene: Scene, view: Pinhole, center_m: Array) -> Array:
    """[F, B, 3] half extents; a target far away is blurred to the least size that a pixel image can show."""
    half_m = scene.size_m / 2.0
    if not view.least_target_px:
        return half_m
    depth_m = center_m[..., 0] * view.axis[0] + center_m[..., 1] * view.axis[1]
    least_m = view.least_target_px * view.half_width / view.n_pixels * np.maximum(depth_m, 0.0)
    return np.where((scene.kind == Kind.TARGET)[..., None], np.maximum(half_m, least_m[..., None]), half_m)

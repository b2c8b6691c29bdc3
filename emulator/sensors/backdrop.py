"""What a camera sees of a site when it is empty: sky, facades, pavement, road, kerbs and lane marks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..world.scene import Array, Facade, Surroundings
from ..world.weather import Weather
from .pinhole import Pinhole

Color = tuple[float, float, float]
Float32 = NDArray[np.float32]

#: Samples per pixel along each axis: thin marks fade with distance instead of flickering.
SAMPLES = 4
#: Things fade into the haze over this distance, in clear weather.
HAZE_M = 150.0
HAZE: Color = (0.80, 0.85, 0.90)
#: Depth of rain or fog that the sky is seen through. Our choice.
OVERCAST_M = 300.0
ZENITH: Color = (0.42, 0.62, 0.90)
ROAD: Color = (0.36, 0.36, 0.38)
PAVEMENT: Color = (0.62, 0.59, 0.55)
MEADOW: Color = (0.42, 0.50, 0.32)
KERB: Color = (0.80, 0.79, 0.76)
MARK: Color = (0.93, 0.93, 0.90)
FACADES: dict[str, Color] = {
    "concrete": (0.70, 0.66, 0.60),
    "brick": (0.62, 0.38, 0.30),
    "glass": (0.50, 0.62, 0.68),
    "wood": (0.58, 0.44, 0.30),
    "metal": (0.66, 0.68, 0.72),
}
WINDOW: Color = (0.28, 0.34, 0.40)
#: A facade repeats a window of this width and height per bay and floor, this far from the bay's corner.
BAY_M, FLOOR_M, WINDOW_WIDTH_M, WINDOW_HEIGHT_M, WINDOW_FROM_M = 3.5, 3.2, 1.5, 1.5, 1.0
KERB_WIDTH_M, MARK_WIDTH_M, DASH_M, DASH_EVERY_M = 0.25, 0.18, 3.0, 6.0


@dataclass(frozen=True, slots=True, eq=False)
class Backdrop:
    """The empty site.

    Attributes:
        color: [n_pixels, n_pixels, 3] in daylight, 0..1.
        wall_depth_m: [n_walls, n_samples] depth of each facade per column, infinite where it is not met.
        wall_top_row: [n_walls, n_samples] row of its upper edge.
    """

    color: Float32
    wall_depth_m: Array
    wall_top_row: Array

    def lowest_row(self, column: NDArray[np.int64], depth_m: Array) -> Array:
        """[n] row from which on walls hide what stands at columns and depths [n]."""
        lowest = np.full(len(column), np.inf)
        for wall_depth_m, top_row in zip(self.wall_depth_m, self.wall_top_row, strict=True):
            lowest = np.where(depth_m > wall_depth_m[column], np.minimum(lowest, top_row[column]), lowest)
        return lowest


def hazed(color: Float32, depth_m: Array, weather: Weather) -> Float32:
    """Colors [..., 3] as they look from depths [...].

    Source: Koschmieder's law, contrast falls with e^(-extinction * distance) and air takes its place.
    """
    depth_m = np.asarray(depth_m)
    clear = np.exp(-depth_m / HAZE_M - weather.extinction_per_m * depth_m).astype(np.float32)[..., None]
    return np.asarray(color * clear + np.array(HAZE, dtype=np.float32) * (np.float32(1.0) - clear))


@lru_cache(maxsize=64)
def backdrop(surroundings: Surroundings, view: Pinhole) -> Backdrop:
    """The empty site; made once per site and camera, and shared, so do not write to it."""
    n = view.n_pixels * SAMPLES
    along_x, along_y = view.directions(n)
    up = np.broadcast_to(view.row_slopes(n)[:, None], (n, n))
    weather = surroundings.weather
    color = _sky(up, weather)
    below = up < 0.0
    depth_m = np.where(below, view.position_m[2] / np.maximum(-up, 1e-9), np.inf)
    # A row's slope is height lost per metre of depth, so rows below the horizon meet z = 0 at this depth.
    x_m = view.position_m[0] + depth_m[below] * np.broadcast_to(along_x, (n, n))[below]
    y_m = view.position_m[1] + depth_m[below] * np.broadcast_to(along_y, (n, n))[below]
    color[below] = hazed(_ground(surroundings, x_m, y_m), depth_m[below], weather)
    for wall in surroundings.facades:
        wall_m = _depth_of(wall, view, along_x, along_y)
        # What it does not meet has an infinite depth, and infinity times a slope of 0 would be no number.
        reached_m = np.where(np.isfinite(wall_m), wall_m, 0.0)
        height_m = view.position_m[2] + reached_m * up
        shown = np.isfinite(wall_m) & (wall_m < depth_m) & (height_m >= 0.0) & (height_m <= wall.height_m)
        along_m = np.broadcast_to(view.position_m[0] + reached_m * along_x, (n, n))
        painted = _facade(wall, along_m[shown], height_m[shown])
        color[shown] = hazed(painted, np.broadcast_to(wall_m, (n, n))[shown], weather)
        depth_m = np.where(shown, wall_m, depth_m)
    pixels = color.reshape(view.n_pixels, SAMPLES, view.n_pixels, SAMPLES, 3).mean(axis=(1, 3))
    pixels.setflags(write=False)
    return Backdrop(pixels, *_walls(surroundings, view))


def _walls(surroundings: Surroundings, view: Pinhole) -> tuple[Array, Array]:
    """[n_walls, n_samples] depth and upper row of every facade."""
    along_x, along_y = view.directions(view.n_samples)
    depth_m = np.array([_depth_of(wall, view, along_x, along_y) for wall in surroundings.facades])
    depth_m = depth_m.reshape(-1, view.n_samples)
    height_m = np.array([wall.height_m for wall in surroundings.facades]).reshape(-1, 1)
    return depth_m, view.row_at(height_m, depth_m)


def _depth_of(wall: Facade, view: Pinhole, along_x: Array, along_y: Array) -> Array:
    """[n] depth at which columns meet a wall, infinite where they pass it."""
    depth_m = (wall.y_m - view.position_m[1]) / along_y
    x_m = view.position_m[0] + depth_m * along_x
    return np.where((depth_m > 0.0) & (x_m >= wall.x_min_m) & (x_m <= wall.x_max_m), depth_m, np.inf)


def _sky(up: Array, weather: Weather) -> Float32:
    """[n, n, 3] from haze at the horizon to blue above, as far as rain or fog lets it through."""
    share = np.clip(up, 0.0, 1.0)[..., None] ** 0.7 * math.exp(-weather.extinction_per_m * OVERCAST_M)
    return (np.array(HAZE) * (1.0 - share) + np.array(ZENITH) * share).astype(np.float32)


def _ground(surroundings: Surroundings, x_m: Array, y_m: Array) -> Float32:
    """[n, 3] colors of places on the ground."""
    if not surroundings.kerbs_y_m:
        return np.tile(np.array(MEADOW, dtype=np.float32), (len(x_m), 1))
    near_m, far_m = min(surroundings.kerbs_y_m), max(surroundings.kerbs_y_m)
    color = np.where(((y_m > near_m) & (y_m < far_m))[:, None], ROAD, PAVEMENT)
    for kerb_m in surroundings.kerbs_y_m:
        color[np.abs(y_m - kerb_m) < KERB_WIDTH_M / 2.0] = KERB
    lanes_m = sorted(surroundings.lanes_y_m)
    for one_m, other_m in pairwise(lanes_m):
        marked = np.abs(y_m - (one_m + other_m) / 2.0) < MARK_WIDTH_M / 2.0
        color[marked & (np.mod(x_m, DASH_EVERY_M) < DASH_M)] = MARK
    return color.astype(np.float32)


def _facade(wall: Facade, along_m: Array, height_m: Array) -> Float32:
    """[n, 3] colors of places on a wall."""
    in_bay, on_floor = np.mod(along_m, BAY_M) - WINDOW_FROM_M, np.mod(height_m, FLOOR_M) - WINDOW_FROM_M
    window = (in_bay >= 0) & (in_bay < WINDOW_WIDTH_M) & (on_floor >= 0) & (on_floor < WINDOW_HEIGHT_M)
    return np.where(window[:, None], WINDOW, FACADES.get(wall.material, FACADES["concrete"])).astype(np.float32)

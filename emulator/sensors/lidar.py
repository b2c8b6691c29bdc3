"""A flat LiDAR on the base station: how far it is to whatever stands at its height, all around the street side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from ..modalities import LIDAR_REACH_M
from ..ranges import check_ranges
from ..world.scene import Array, Kind, Scene

Scans = NDArray[np.float32]

#: How little a surface sends back, 0 to 1: scales the share of far echoes that are lost. Our choice.
DARKNESS: dict[Kind, float] = {
    Kind.CAR: 0.5,
    Kind.VAN: 0.2,
    Kind.BUS: 0.3,
    Kind.PEDESTRIAN: 0.6,
    Kind.TARGET: 0.5,
    Kind.CROWN: 0.6,
    Kind.TRUNK: 0.7,
}
FACADE_DARKNESS, POLE_DARKNESS = 0.3, 0.5


@dataclass(frozen=True, slots=True)
class LidarSettings:
    """A 2-D LiDAR above the origin of the site.

    Attributes:
        n_rays: per sweep, evenly from one end of the field of view to the other.
        field_of_view_deg: centered on where the base station looks.
        max_range_m: farther echoes are not seen, and this is the reading where there is none.
        height_m: height of the scanning plane; lower boxes are not seen.
        sweep_s: duration of a sweep.
        rolling: rays are taken one after the other; otherwise all at the instant of the scene.
        noise_m, noise_share: standard deviation of a range is the larger of the first and the second times the range.
        dropout: share of echoes lost anywhere.
        far_dropout: share of echoes of a black surface lost at the greatest range, on top; falls with the fourth power.
        pole_radius_m: half the width of the pole that a standing user's antenna is on; 0: no pole.

    Raises:
        ConfigError: a value outside its range.

    Source: rays, span and range as in DeepSense scenarios 8 and 9; noise of the RPLIDAR class (below 1 % of range).
    """

    n_rays: int = 216
    field_of_view_deg: float = 209.5
    max_range_m: float = LIDAR_REACH_M
    height_m: float = 1.1
    sweep_s: float = 0.1
    rolling: bool = False
    noise_m: float = 0.02
    noise_share: float = 0.01
    dropout: float = 0.02
    far_dropout: float = 0.3
    pole_radius_m: float = 0.1

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("lidar", self, _RANGES)
        if self.dropout + self.far_dropout > 1.0:
            raise ConfigError(
                f"lidar.dropout + lidar.far_dropout must not exceed 1, got {self.dropout} + {self.far_dropout}"
            )

    @property
    def angles_rad(self) -> Array:
        """[n_rays] azimuths, ascending: 0 along +y, positive towards +x."""
        half_rad = np.radians(self.field_of_view_deg / 2.0)
        return np.asarray(np.linspace(-half_rad, half_rad, self.n_rays), dtype=np.float64)

    @property
    def delays_s(self) -> Array:
        """[n_rays] when each ray is taken, relative to the scene: a rolling sweep is complete at its time stamp.

        Rays are thus never newer than the stamp, and a label one frame ahead stays unseen.
        """
        steps = np.arange(self.n_rays) - (self.n_rays - 1)
        return np.asarray(steps * (self.sweep_s / self.n_rays * self.rolling), dtype=np.float64)


#: Lowest and highest value of each number.
_RANGES: dict[str, tuple[float, float]] = {
    "n_rays": (2, 10_000),
    "field_of_view_deg": (1, 360),
    "max_range_m": (1, 200),
    "height_m": (0.05, 5),
    "sweep_s": (0.001, 1),
    "noise_m": (0, 1),
    "noise_share": (0, 0.2),
    "dropout": (0, 1),
    "far_dropout": (0, 1),
    "pole_radius_m": (0, 1),
}


class Lidar:
    """Draws noise for one LiDAR; the same scenes in the same order give the same scans, in chunks of any size."""

    def __init__(self, settings: LidarSettings, draws: np.random.Generator) -> None:
        self.settings = settings
        # Two streams, because draws of both kinds from one would depend on where chunks begin.
        self._noise_draws, self._dropout_draws = draws.spawn(2)

    def sense(self, scene: Scene) -> Scans:
        """Scans of every instant of a scene.

        In rain and fog the power of an echo falls by e^(-2 s r) on top of r^-2, s the extinction: it is that of an
        echo from r e^(s r) in clear air. Drops send back no echoes of their own here.

        Returns:
            [F, n_rays, 2] float32: range in m, from 0 to `max_range_m`, which also stands for "no echo"; azimuth in
            rad, 0 along +y, positive towards +x, the same in every scan.
        """
        settings = self.settings
        range_m, darkness = echoes(scene, settings)
        # An echo through rain or fog is as weak, as noisy and as often lost as one from farther away in clear air.
        clear_air_m = range_m * np.exp(scene.surroundings.weather.extinction_per_m * range_m)
        sigma_m = np.maximum(settings.noise_m, settings.noise_share * clear_air_m)
        noisy_m = range_m + sigma_m * self._noise_draws.standard_normal(range_m.shape, dtype=np.float32)
        lost = settings.dropout + settings.far_dropout * darkness * (clear_air_m / settings.max_range_m) ** 4
        is_lost = self._dropout_draws.random(range_m.shape, dtype=np.float32) < lost
        # Noise around the largest range must not turn the absence of an echo into an echo.
        is_lost |= clear_air_m >= settings.max_range_m
        scans = np.empty((*range_m.shape, 2), dtype=np.float32)
        scans[..., 0] = np.where(is_lost, settings.max_range_m, np.clip(noisy_m, 0.0, settings.max_range_m))
        scans[..., 1] = settings.angles_rad
        return scans


def echoes(scene: Scene, settings: LidarSettings) -> tuple[Array, Array]:
    """Ranges without noise and losses.

    Every ray meets the footprints of the boxes that reach its height by the slab test: it is inside a box while it is
    between the box's two faces across x and between the two across y.

    Returns:
        [F, n_rays] ranges in m, `max_range_m` where there is nothing nearer, and [F, n_rays] darkness of what is there.
    """
    angles_rad = settings.angles_rad
    per_x, per_y = 1.0 / _away_from_zero(np.sin(angles_rad)), 1.0 / _away_from_zero(np.cos(angles_rad))
    wall_m = _facade_ranges_m(scene, settings)
    range_m = np.tile(np.minimum(wall_m, settings.max_range_m), (len(scene), 1))
    darkness = np.tile(np.where(wall_m < settings.max_range_m, FACADE_DARKNESS, 0.0), (len(scene), 1))
    for box in _boxes(scene, settings):
        reach = settings.max_range_m + np.linalg.norm(box.half_m, axis=1)
        # The oldest ray of a rolling sweep met the box where it was `-delays_s[0]` before.
        reach += np.linalg.norm(box.velocity_m_per_s, axis=1) * -settings.delays_s[0]
        frames = np.flatnonzero(box.seen & ((box.center_m**2).sum(axis=1) < reach**2))
        if not len(frames):
            continue
        near_m = _slab_m(box, frames, per_x, per_y, settings.delays_s if settings.rolling else None)
        nearest_m = range_m[frames]
        nearer = near_m < nearest_m
        range_m[frames] = np.where(nearer, near_m, nearest_m)
        darkness[frames] = np.where(nearer, box.darkness[frames, None], darkness[frames])
    return range_m, darkness


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    """One column of a scene as the LiDAR sees it, F instants: footprint [F, 2] around its own place, and how dark."""

    seen: NDArray[np.bool_]
    center_m: Array
    half_m: Array
    velocity_m_per_s: Array
    darkness: Array


def _boxes(scene: Scene, settings: LidarSettings) -> list[_Box]:
    """Boxes that reach the scanning plane, and the pole of a user who stands on the ground."""
    origin = scene.base_station_m[:2]
    darkness_of = np.zeros(len(Kind))
    for kind, value in DARKNESS.items():
        darkness_of[kind] = value
    z_m, half_z_m = scene.center_m[..., 2], scene.size_m[..., 2] / 2.0
    seen = scene.present & (np.abs(z_m - settings.height_m) <= half_z_m)
    boxes = [
        _Box(
            seen=seen[:, slot],
            center_m=scene.center_m[:, slot, :2] - origin,
            half_m=scene.size_m[:, slot, :2] / 2.0,
            velocity_m_per_s=scene.velocity_m_per_s[:, slot, :2],
            darkness=darkness_of[scene.kind[:, slot]],
        )
        for slot in range(scene.present.shape[1])
    ]
    # A user whose antenna rides on a car or drone has no pole.
    carried = (scene.present & (scene.kind == Kind.TARGET)).any(axis=1)
    stands = ~carried & (scene.user_m[:, 2] >= settings.height_m) & (settings.pole_radius_m > 0.0)
    boxes.append(
        _Box(
            seen=stands,
            center_m=scene.user_m[:, :2] - origin,
            half_m=np.full((len(scene), 2), settings.pole_radius_m),
            velocity_m_per_s=np.zeros((len(scene), 2)),
            darkness=np.full(len(scene), POLE_DARKNESS),
        )
    )
    return boxes


def _slab_m(box: _Box, frames: NDArray[np.int64], per_x: Array, per_y: Array, delays_s: Array | None) -> Array:
    """[n, n_rays] where each ray enters the box at these n frames; infinite where it does not."""
    center = box.center_m[frames]
    x_m, y_m = center[:, :1], center[:, 1:]
    if delays_s is not None:
        velocity = box.velocity_m_per_s[frames]
        x_m, y_m = x_m + velocity[:, :1] * delays_s, y_m + velocity[:, 1:] * delays_s
    half_x, half_y = box.half_m[frames, :1] * np.abs(per_x), box.half_m[frames, 1:] * np.abs(per_y)
    middle_x, middle_y = x_m * per_x, y_m * per_y
    enter_m = np.maximum(middle_x - half_x, middle_y - half_y)
    leave_m = np.minimum(middle_x + half_x, middle_y + half_y)
    # A box around the LiDAR itself has its entry behind it and is not seen.
    return np.asarray(np.where((enter_m <= leave_m) & (enter_m > 0.0), enter_m, np.inf))


def _facade_ranges_m(scene: Scene, settings: LidarSettings) -> Array:
    """[n_rays] to the nearest wall that reaches the scanning plane, infinite where there is none."""
    sine, cosine = np.sin(settings.angles_rad), _away_from_zero(np.cos(settings.angles_rad))
    origin_x, origin_y, _ = scene.base_station_m
    nearest_m = np.full(settings.n_rays, np.inf)
    for facade in scene.surroundings.facades:
        range_m = (facade.y_m - origin_y) / cosine
        x_m = origin_x + range_m * sine
        hit = (range_m > 0.0) & (facade.x_min_m <= x_m) & (x_m <= facade.x_max_m)
        hit &= facade.height_m >= settings.height_m
        nearest_m = np.where(hit, np.minimum(nearest_m, range_m), nearest_m)
    return nearest_m


def _away_from_zero(values: Array) -> Array:
    """Directions that never quite run along a wall, so that they can be divided by."""
    return np.where(np.abs(values) < 1e-12, np.copysign(1e-12, values), values)

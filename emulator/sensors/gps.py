"""What a GPS receiver at the user reports: late, with an error that drifts and one that is new every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..contracts import DataError
from ..ranges import check_ranges
from ..world.gauss_markov import gauss_markov
from ..world.scene import Array

#: Per degree of latitude, everywhere; of longitude, times the cosine of the latitude. The equator over 360, rounded.
METERS_PER_DEGREE = 111_320.0
#: Drifting and white error of a receiver with real-time corrections: together 0.02 m.
RTK_BIAS_M, RTK_WHITE_M = 0.0173, 0.01


@dataclass(frozen=True, slots=True)
class GpsSettings:
    """One receiver and where its site lies.

    Attributes:
        bias_m, bias_time_s: standard deviation per horizontal axis of the error that drifts, and how long it lasts.
        white_m: standard deviation per horizontal axis of the error that is new in every fix.
        vertical_factor: errors in height are so many times larger.
        latency_s: age of the position that a fix reports.
        rtk: real-time corrections replace `bias_m` and `white_m` by 0.0173 and 0.01 m.
        latitude_deg, longitude_deg: position of the base station.
        heading_deg: bearing of the base station's broadside, clockwise from north.

    Raises:
        ConfigError: a value outside its range.

    Source: bias and its time constant as in flight simulators (60 s); the rest is our choice.
    """

    bias_m: float = 1.5
    bias_time_s: float = 60.0
    white_m: float = 0.1
    vertical_factor: float = 2.0
    latency_s: float = 0.2
    rtk: bool = False
    # Tempe, Arizona, where DeepSense 6G was recorded.
    latitude_deg: float = 33.42
    longitude_deg: float = -111.93
    heading_deg: float = 0.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("gps", self, _RANGES)

    @property
    def drift_m(self) -> Array:
        """[3] standard deviations of the drifting error."""
        return self._per_axis(RTK_BIAS_M if self.rtk else self.bias_m)

    @property
    def jitter_m(self) -> Array:
        """[3] standard deviations of the white error."""
        return self._per_axis(RTK_WHITE_M if self.rtk else self.white_m)

    def _per_axis(self, horizontal_m: float) -> Array:
        return horizontal_m * np.array([1.0, 1.0, self.vertical_factor])


#: Lowest and highest value of each number.
_RANGES: dict[str, tuple[float, float]] = {
    "bias_m": (0, 100),
    "bias_time_s": (0.01, 1e6),
    "white_m": (0, 100),
    "vertical_factor": (0, 10),
    "latency_s": (0, 5),
    # Near the poles a degree of longitude has no length to divide by.
    "latitude_deg": (-85, 85),
    "longitude_deg": (-180, 180),
    "heading_deg": (-360, 360),
}


class MovingUser(Protocol):
    """A world that knows where its user was."""

    def user_before_m(self, times_s: Array, delay_s: float) -> Array:
        """[F, 3] position of the user's antenna a delay before each instant, inside the same flight or pass."""
        ...


class GpsReceiver:
    """One receiver. Its drifting error goes on from fix to fix, so that chunks of any size give the same fixes."""

    def __init__(self, settings: GpsSettings, draws: np.random.Generator) -> None:
        self.settings = settings
        # Two streams, because draws of both kinds from one would depend on where chunks begin.
        self._drift_draws, self._jitter_draws = draws.spawn(2)
        self._drift, self._last_s = self._drift_draws.standard_normal(3), np.nan

    def sense(self, world: MovingUser, times_s: Array) -> Array:
        """Fixes in the frame of the site.

        Args:
            world: world in which the user moves.
            times_s: [F] not descending, and not before those of the last call.

        Returns:
            [F, 3] x, y, z in m.

        Raises:
            DataError: an instant before the one before it; errors drift forwards only.
        """
        times_s = np.asarray(times_s, dtype=np.float64)
        true_m = world.user_before_m(times_s, self.settings.latency_s)
        if not len(times_s):
            return true_m
        # The first step lasts 0 s and leaves the stationary start as it is.
        before_s = times_s[0] if np.isnan(self._last_s) else self._last_s
        steps_s = np.diff(times_s, prepend=before_s)
        if not (steps_s >= 0.0).all():
            row = int((steps_s < 0.0).argmax())
            raise DataError(f"times_s[{row}] = {times_s[row]} lies before the fix before it; ask in order of time")
        drift = gauss_markov(steps_s, self.settings.bias_time_s, self._drift, self._drift_draws)
        self._drift, self._last_s = drift[-1].copy(), float(times_s[-1])
        jitter = self._jitter_draws.standard_normal(true_m.shape)
        return np.asarray(true_m + self.settings.drift_m * drift + self.settings.jitter_m * jitter)


def degrees(position_m: Array, settings: GpsSettings) -> Array:
    """Latitude and longitude: [..., 3] or [..., 2] in the frame of the site -> [..., 2] in degrees.

    Keep them in float64: at these longitudes a float32 steps by 0.7 m.

    Source: flat earth around the base station, good to a millimeter per 100 m.
    """
    turn_rad = np.radians(settings.heading_deg)
    sine, cosine = np.sin(turn_rad), np.cos(turn_rad)
    x_m, y_m = position_m[..., 0], position_m[..., 1]
    east_m, north_m = x_m * cosine + y_m * sine, y_m * cosine - x_m * sine
    per_longitude_m = METERS_PER_DEGREE * np.cos(np.radians(settings.latitude_deg))
    latitude_deg = settings.latitude_deg + north_m / METERS_PER_DEGREE
    return np.stack([latitude_deg, settings.longitude_deg + east_m / per_longitude_m], axis=-1)


def drone_fix(position_m: Array, settings: GpsSettings) -> Array:
    """Position features of a beam predictor for a drone: [..., 3] fix in the frame of the site -> [..., 4].

    Latitude and longitude in degrees, distance to the base station along the ground and height above it, both in m;
    all four from the same fix, with its errors.
    """
    distance_m = np.hypot(position_m[..., 0], position_m[..., 1])
    return np.concatenate([degrees(position_m, settings), distance_m[..., None], position_m[..., 2:3]], axis=-1)

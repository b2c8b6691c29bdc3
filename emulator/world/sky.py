"""`SkyWorld`: a drone that flies over a sector, one flight after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from ..ranges import check_ranges
from .gauss_markov import gauss_markov
from .scene import Array, Kind, Scene, Surroundings

Index = NDArray[np.int64]

#: Standard deviations of wobble that fit between the waypoints' limits and the drone's.
WOBBLE_MARGIN = 5.0
#: Wobble is drawn on this grid and straight in between: 10 Hz recordings see the exact process.
WOBBLE_STEP_S = 0.1
#: The highest speed of a leg is this times its mean: it starts and ends at rest, along 3 u^2 - 2 u^3.
PEAK_OVER_MEAN = 1.5


@dataclass(frozen=True, slots=True)
class SkySettings:
    """Geometry of a sector, and flight parameters of the drone.

    Attributes:
        base_station_height_m: height of the base station's antenna.
        sector_deg: largest bearing of the drone from the broadside of the base station.
        min_distance_m, max_distance_m: distance from the base station, on the ground.
        min_height_m, max_height_m: above the ground.
        max_elevation_deg: flights stay below, where a camera tilted upwards still sees them.
        min_speed_m_per_s, max_speed_m_per_s: highest speeds of the legs are uniform between them; wind comes on top.
        hover_share: share of the waypoints where the drone stays for a while.
        max_hover_s: longest stay.
        wobble_m, wobble_time_s: standard deviation per axis of the displacement by wind, and its correlation time.
        min_flight_s, max_flight_s: flights last a uniform time between the two, the last one until the end.
        drone_size_m: edge of the box.

    Raises:
        ConfigError: a value outside its range, or limits that leave no room to fly.

    Source: ranges as in DeepSense scenario 23; wobble, legs and hovering are our choice.
    """

    base_station_height_m: float = 1.5
    sector_deg: float = 45.0
    min_distance_m: float = 15.0
    max_distance_m: float = 80.0
    min_height_m: float = 5.0
    max_height_m: float = 60.0
    max_elevation_deg: float = 50.0
    min_speed_m_per_s: float = 2.0
    max_speed_m_per_s: float = 15.0
    # Multirotors stand still a lot: with these, 32 beams last as long as measured ones, see docs/calibration.md.
    hover_share: float = 0.4
    max_hover_s: float = 12.0
    wobble_m: float = 0.3
    wobble_time_s: float = 2.0
    min_flight_s: float = 30.0
    max_flight_s: float = 240.0
    drone_size_m: float = 0.4

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("sky", self, _RANGES)
        for quantity in ("distance_m", "height_m", "speed_m_per_s", "flight_s"):
            low, high = getattr(self, f"min_{quantity}"), getattr(self, f"max_{quantity}")
            if low > high:
                raise ConfigError(f"sky.min_{quantity} must not exceed sky.max_{quantity} = {high:g}, got {low:g}")
        room = _Room.of(self)
        if not room.is_roomy:
            raise ConfigError(
                "sky leaves no room to fly: with its limits of distance, height, sector and elevation each "
                f"{room.margin_m:g} m tighter ({WOBBLE_MARGIN:g} times sky.wobble_m), the drone must fit in straight "
                "ahead, at the middle distance and the lowest height; widen the limits or lower sky.wobble_m"
            )


#: Lowest and highest value of each number.
_RANGES: dict[str, tuple[float, float]] = {
    "base_station_height_m": (0.3, 100),
    "sector_deg": (10, 60),
    "min_distance_m": (1, 1000),
    "max_distance_m": (1, 1000),
    "min_height_m": (1, 500),
    "max_height_m": (1, 500),
    "max_elevation_deg": (10, 80),
    "min_speed_m_per_s": (0.1, 40),
    "max_speed_m_per_s": (0.1, 40),
    "hover_share": (0, 1),
    "max_hover_s": (0, 600),
    "wobble_m": (0, 5),
    "wobble_time_s": (0.1, 1000),
    "min_flight_s": (5, 36000),
    "max_flight_s": (5, 36000),
    "drone_size_m": (0.05, 5),
}


@dataclass(frozen=True, slots=True)
class _Room:
    """Region of waypoints; convex, so that straight legs never leave it."""

    margin_m: float
    base_height_m: float
    sector_slope: float
    nearest_m: float
    farthest_m: float
    lowest_m: float
    highest_m: float
    elevation_slope: float

    @classmethod
    def of(cls, settings: SkySettings) -> _Room:
        margin_m = WOBBLE_MARGIN * settings.wobble_m
        return cls(
            margin_m=margin_m,
            base_height_m=settings.base_station_height_m,
            sector_slope=float(np.tan(np.radians(settings.sector_deg))),
            nearest_m=settings.min_distance_m + margin_m,
            farthest_m=settings.max_distance_m - margin_m,
            lowest_m=settings.min_height_m + margin_m,
            highest_m=settings.max_height_m - margin_m,
            elevation_slope=float(np.tan(np.radians(settings.max_elevation_deg))),
        )

    @property
    def is_roomy(self) -> bool:
        """Whether waypoints are found quickly: a region valid at the middle distance is valid farther out as well."""
        middle_m = (self.nearest_m + self.farthest_m) / 2.0
        return (
            self.nearest_m < self.farthest_m
            and self.lowest_m < self.highest_m
            and self._holds(np.array([0.0, middle_m, self.lowest_m]))
        )

    def waypoint(self, draws: np.random.Generator) -> Array:
        """[3] even in azimuth, distance and height, as far as the corners of the room allow."""
        # Rejection is fast where `is_roomy`, which the settings have checked.
        while True:
            azimuth_rad = np.arctan(self.sector_slope) * draws.uniform(-1.0, 1.0)
            distance_m = draws.uniform(self.nearest_m, self.farthest_m)
            place = np.array(
                [
                    distance_m * np.sin(azimuth_rad),
                    distance_m * np.cos(azimuth_rad),
                    draws.uniform(self.lowest_m, self.highest_m),
                ]
            )
            if self._holds(place):
                return place

    def _holds(self, place_m: Array) -> bool:
        across_m, ahead_m, height_m = place_m
        # Tightened by the margin on both axes, because wobble displaces along each.
        in_sector = abs(across_m) + self.margin_m <= self.sector_slope * (ahead_m - self.margin_m)
        ceiling_m = self.base_height_m + self.elevation_slope * (ahead_m - self.margin_m) - self.margin_m
        return bool(ahead_m >= self.nearest_m and in_sector and height_m <= ceiling_m)


class SkyWorld:
    """One sector for some time: consecutive flights without pauses, all drawn in advance.

    The drone flies from waypoint to waypoint with smooth acceleration, displaced by wind. Positions are closed-form
    functions of time, so instants can be evaluated in any order. Memory grows by about 250 bytes per second of flight,
    plus the instants of one scene.

    Attributes:
        settings: settings of the sector.
        duration_s: last valid instant; the first is 0.
        flights_s: [n_flights] first instant of each flight; it lasts until the next one begins.
    """

    def __init__(self, settings: SkySettings, draws: np.random.Generator, duration_s: float) -> None:
        if not 0.0 < duration_s < np.inf:
            raise ConfigError(f"duration_s must be a positive number of seconds, got {duration_s}")
        self.settings, self.duration_s = settings, float(duration_s)
        flight_draws, leg_draws, wind_draws = draws.spawn(3)
        self.flights_s = _flights_s(settings, flight_draws, self.duration_s)
        self._leg_s, self._from_m, self._to_m = _legs(settings, leg_draws, [*self.flights_s.tolist(), self.duration_s])
        n_steps = int(np.ceil(self.duration_s / WOBBLE_STEP_S)) + 2
        steps_s = np.full(n_steps, WOBBLE_STEP_S)
        wind = gauss_markov(steps_s, settings.wobble_time_s, wind_draws.standard_normal(3), wind_draws)
        self._wobble_m = settings.wobble_m * wind

    def scene(self, times_s: Array) -> Scene:
        """The sector at some instants: one box, the drone, with the antenna in its middle.

        Args:
            times_s: [F] in any order, each from 0 to the duration.

        Raises:
            ConfigError: an instant outside the duration.
        """
        times_s = self._checked(times_s)
        position, velocity = self._motion(times_s, self.sequence_index(times_s))
        shape = (len(times_s), 1)
        return Scene(
            time_s=times_s,
            center_m=position[:, None],
            size_m=np.full((*shape, 3), self.settings.drone_size_m),
            velocity_m_per_s=velocity[:, None],
            kind=np.full(shape, Kind.TARGET, dtype=np.uint8),
            present=np.ones(shape, dtype=np.bool_),
            base_station_m=np.array([0.0, 0.0, self.settings.base_station_height_m]),
            user_m=position,
            surroundings=Surroundings(),
        )

    def sequence_index(self, times_s: Array) -> Index:
        """[F] number of the flight at each instant."""
        return np.searchsorted(self.flights_s, self._checked(times_s), side="right") - 1

    def user_before_m(self, times_s: Array, delay_s: float) -> Array:
        """[F, 3] where the drone was a delay ago, but not before its flight began: what a slow GPS reports.

        Raises:
            ConfigError: an instant outside the duration.
        """
        flight = self.sequence_index(times_s)
        return self._motion(np.maximum(np.asarray(times_s) - delay_s, self.flights_s[flight]), flight)[0]

    def _motion(self, times_s: Array, flight: Index) -> tuple[Array, Array]:
        """[F, 3] positions and velocities, wind included."""
        leg = np.searchsorted(self._leg_s, times_s, side="right") - 1
        # the last instant belongs to the last leg, and the first instant of a flight to that flight
        leg = np.clip(leg, 0, len(self._from_m) - 1)
        lasts_s = self._leg_s[leg + 1] - self._leg_s[leg]
        done = np.clip((times_s - self._leg_s[leg]) / lasts_s, 0.0, 1.0)[:, None]
        way = self._to_m[leg] - self._from_m[leg]
        along = done**2 * (3.0 - 2.0 * done)
        speed_share = 6.0 * done * (1.0 - done) / lasts_s[:, None]

        step = np.minimum((times_s / WOBBLE_STEP_S).astype(np.int64), len(self._wobble_m) - 2)
        since = (times_s / WOBBLE_STEP_S - step)[:, None]
        push = self._wobble_m[step + 1] - self._wobble_m[step]
        position = self._from_m[leg] + along * way + self._wobble_m[step] + since * push
        return position, speed_share * way + push / WOBBLE_STEP_S

    def _checked(self, times_s: Array) -> Array:
        times_s = np.asarray(times_s, dtype=np.float64)
        outside = ~((times_s >= 0.0) & (times_s <= self.duration_s))
        if outside.any():
            raise ConfigError(
                f"times_s[{int(outside.argmax())}] = {times_s[outside.argmax()]} lies outside of the sky's "
                f"[0, {self.duration_s:g}] s; make the world last longer"
            )
        return times_s


def _flights_s(settings: SkySettings, draws: np.random.Generator, duration_s: float) -> Array:
    """[n_flights] when flights begin; one that would leave too little for another lasts until the end."""
    begins_s = [0.0]
    while True:
        end_s = begins_s[-1] + float(draws.uniform(settings.min_flight_s, settings.max_flight_s))
        if end_s + settings.min_flight_s > duration_s:
            return np.array(begins_s)
        begins_s.append(end_s)


def _legs(settings: SkySettings, draws: np.random.Generator, borders_s: list[float]) -> tuple[Array, Array, Array]:
    """Legs of all flights: [L + 1] their instants, [L, 3] where they begin and [L, 3] end.

    A flight's last leg is planned to end on time: it is slower than drawn, never faster.
    """
    room = _Room.of(settings)
    leg_s, from_m, to_m = [0.0], [], []
    for end_s in borders_s[1:]:
        here = room.waypoint(draws)
        while leg_s[-1] < end_s:
            hovers = draws.random() < settings.hover_share
            there = here if hovers else room.waypoint(draws)
            peak = draws.uniform(settings.min_speed_m_per_s, settings.max_speed_m_per_s)
            lasts_s = float(np.linalg.norm(there - here)) * PEAK_OVER_MEAN / peak
            lasts_s += float(draws.uniform(0.0, settings.max_hover_s)) * hovers
            # A hover without duration (max_hover_s = 0) would be a leg whose progress divides by 0.
            if lasts_s == 0.0:
                continue
            left_s = end_s - leg_s[-1]
            if lasts_s > left_s:  # shortened to the time that is left
                there, lasts_s = here + (there - here) * (left_s / lasts_s), left_s
            from_m.append(here)
            to_m.append(there)
            # Not the rounded sum: instants are assigned to flights and to legs by two searches that must agree.
            leg_s.append(leg_s[-1] + lasts_s if lasts_s < left_s else end_s)
            here = there
    return np.array(leg_s), np.array(from_m), np.array(to_m)

"""`StreetSettings`: geometry and traffic of a street, as one frozen value that checks itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..contracts import ConfigError
from ..ranges import check_ranges
from .scene import Kind

FacadeMaterial = Literal["concrete", "glass", "wood", "metal"]

#: Length, width and height in m. Source: cars as in TR 38.901 Table 7.6.4.2-5; vans and buses are typical ones.
VEHICLE_SIZES_M: dict[Kind, tuple[float, float, float]] = {
    Kind.CAR: (4.8, 1.8, 1.4),
    Kind.VAN: (5.5, 2.0, 2.3),
    Kind.BUS: (12.0, 2.5, 3.0),
}
#: Drivers aim at this share of the limit; standard deviation relative to that, cut at so many deviations.
MEAN_SPEED_SHARE, SPEED_SPREAD, SPEED_CUT = 0.9, 0.1, 3.0
#: The rear of a vehicle passes a point at least this long before the next one's front.
CLEARANCE_S = 0.6
#: An antenna and a wall are at least this far apart.
WALL_MARGIN_M = 0.5
PEDESTRIAN_HEIGHT_M = 1.7
#: Lowest and highest width of a pedestrian, along x and y alike.
PEDESTRIAN_WIDTHS_M = (0.3, 0.5)
PEDESTRIAN_SPEED_M_PER_S, PEDESTRIAN_SPREAD_M_PER_S, PEDESTRIAN_CUT = 1.4, 0.2, 2.0


@dataclass(frozen=True, slots=True)
class StreetSettings:
    """One street with a base station on the near kerb and a user on the far one.

    Attributes:
        n_lanes: 2 to 6; the near half drives to +x, the far half to -x.
        lane_width_m: width of each lane.
        roadway_offset_m: distance from the base station at y = 0 to the near edge of the roadway.
        base_station_height_m: height of the base station's antenna.
        user_x_m: position of the user along the street, from the point opposite of the base station.
        user_setback_m: distance of the user from the far edge of the roadway.
        user_height_m: height of the user's antenna; people and cars pass at this height.
        facade_setback_m: distance from the far edge of the roadway to the wall behind the user; 0: no wall.
        facade_height_m, facade_material: height and material of that wall.
        near_facade_setback_m: distance from the base station to the wall behind it; 0: no wall.
        near_facade_height_m, near_facade_material: height and material of that wall.
        facade_half_length_m: both walls reach this far along the street to either side.
        speed_limit_m_per_s: vehicles aim at 0.9 of it, with 10 % standard deviation.
        arrivals_per_s: vehicles per lane.
        min_headway_s: between the fronts of two vehicles of a lane at any point.
        van_share, bus_share: share of the vehicles; the others are cars.
        walkers_per_s: people who walk along each kerb.
        crossings_per_s: people who cross the street in gaps of the traffic.
        crosswalk_x_m: position of the crosswalk.
        reach_m: boxes exist where |x| is below this.

    Raises:
        ConfigError: a value outside its range, or two that contradict each other.

    Source: DeepSense street widths (10.6-13 m with two lanes, 24 m with six); the rest is our choice.
    """

    n_lanes: int = 2
    lane_width_m: float = 3.5
    roadway_offset_m: float = 2.2
    base_station_height_m: float = 1.1
    user_x_m: float = 0.0
    user_setback_m: float = 2.2
    user_height_m: float = 1.1
    facade_setback_m: float = 5.0
    facade_height_m: float = 12.0
    facade_material: FacadeMaterial = "concrete"
    near_facade_setback_m: float = 3.0
    near_facade_height_m: float = 12.0
    near_facade_material: FacadeMaterial = "concrete"
    facade_half_length_m: float = 60.0
    speed_limit_m_per_s: float = 11.1
    arrivals_per_s: float = 0.1
    min_headway_s: float = 1.5
    van_share: float = 0.2
    bus_share: float = 0.1
    walkers_per_s: float = 0.015
    crossings_per_s: float = 0.005
    crosswalk_x_m: float = 10.0
    reach_m: float = 40.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("street", self, _RANGES)
        if self.van_share + self.bus_share > 1.0:
            raise ConfigError(
                f"street.van_share + street.bus_share must not exceed 1, got {self.van_share} + {self.bus_share}; "
                "the rest are cars"
            )
        if 0.0 < self.facade_setback_m < self.user_setback_m + WALL_MARGIN_M:
            raise ConfigError(
                f"street.facade_setback_m must be 0 (no wall) or at least street.user_setback_m + {WALL_MARGIN_M:g} = "
                f"{self.user_setback_m + WALL_MARGIN_M:g}, so that the user stands before the wall, "
                f"got {self.facade_setback_m}"
            )
        if 0.0 < self.near_facade_setback_m < WALL_MARGIN_M:
            raise ConfigError(
                f"street.near_facade_setback_m must be 0 (no wall) or at least {WALL_MARGIN_M:g}, so that the base "
                f"station stands before the wall, got {self.near_facade_setback_m}"
            )
        # Gaps are the shortest allowed one plus a random one (traffic.py), whose mean would be 0 or less.
        if self.arrivals_per_s * self.mean_least_gap_s >= 1.0:
            raise ConfigError(
                f"street.arrivals_per_s must be below {1.0 / self.mean_least_gap_s:.3g} at these speeds, lengths and "
                f"headways, got {self.arrivals_per_s}; raise street.speed_limit_m_per_s or lower street.bus_share"
            )

    @property
    def far_kerb_y_m(self) -> float:
        """Far edge of the roadway."""
        return self.roadway_offset_m + self.n_lanes * self.lane_width_m

    @property
    def lanes_y_m(self) -> tuple[float, ...]:
        """Centers of the lanes, near to far."""
        return tuple(self.roadway_offset_m + (lane + 0.5) * self.lane_width_m for lane in range(self.n_lanes))

    @property
    def user_y_m(self) -> float:
        """Y position of the user, which is also the distance across the street from the base station."""
        return self.far_kerb_y_m + self.user_setback_m

    @property
    def mean_speed_m_per_s(self) -> float:
        """Mean desired speed of vehicles."""
        return MEAN_SPEED_SHARE * self.speed_limit_m_per_s

    @property
    def vehicle_shares(self) -> dict[Kind, float]:
        """Share of each kind, adding up to 1."""
        return {
            Kind.CAR: 1.0 - self.van_share - self.bus_share,
            Kind.VAN: self.van_share,
            Kind.BUS: self.bus_share,
        }

    @property
    def mean_least_gap_s(self) -> float:
        """Mean of the shortest times that may lie between two vehicles of a lane, at the mean speed."""
        gaps_s = {kind: self.least_gap_s(size[0] / self.mean_speed_m_per_s) for kind, size in VEHICLE_SIZES_M.items()}
        return sum(share * gaps_s[kind] for kind, share in self.vehicle_shares.items())

    def least_gap_s(self, leader_lasts_s: float) -> float:
        """Shortest time between two fronts, behind a leader that takes this long to pass a point."""
        return max(self.min_headway_s, leader_lasts_s + CLEARANCE_S)

    def direction(self, lane: int) -> int:
        """+1 where the lane drives to +x, -1 where it drives to -x: as in right-hand traffic, seen from the kerb."""
        return 1 if lane < (self.n_lanes + 1) // 2 else -1


#: Lowest and highest value of each number.
_RANGES: dict[str, tuple[float, float]] = {
    "n_lanes": (2, 6),
    "lane_width_m": (2.8, 6),
    "roadway_offset_m": (1.2, 60),
    "base_station_height_m": (0.3, 30),
    "user_x_m": (-60, 60),
    "user_setback_m": (1.2, 60),
    "user_height_m": (1.0, 1.5),
    "facade_setback_m": (0, 200),
    "facade_height_m": (1, 200),
    "near_facade_setback_m": (0, 200),
    "near_facade_height_m": (1, 200),
    "facade_half_length_m": (1, 1000),
    "speed_limit_m_per_s": (3, 30),
    "arrivals_per_s": (0.05, 0.3),
    "min_headway_s": (1.5, 3),
    "van_share": (0, 1),
    "bus_share": (0, 1),
    "walkers_per_s": (0, 1),
    "crossings_per_s": (0, 0.2),
    "crosswalk_x_m": (-30, 30),
    "reach_m": (20, 100),
}

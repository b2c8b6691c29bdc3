"""Different streets for the base stations of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from .pedestrians import kerb_strips
from .street_settings import (
    PEDESTRIAN_HEIGHT_M,
    PEDESTRIAN_SPEED_M_PER_S,
    PEDESTRIAN_WIDTHS_M,
    SPEED_SPREAD,
    VEHICLE_SIZES_M,
    StreetSettings,
)

#: Lanes of one site after the other, over and over. Six are rare: a LiDAR that reaches 16 m sees little of the far side
#: of 24 m, and less of what drives 18 m/s there.
LANES_OF_SITES = (2, 3, 2, 4, 2, 2, 6, 2, 3, 4, 2, 3, 2, 4, 2, 2, 4, 2, 3, 4)
#: Limits in m/s, lowest and highest: 30-40 km/h where streets are narrow, 60-72 km/h on six lanes.
SPEED_LIMITS_M_PER_S = {2: (8.4, 11.1), 3: (9.7, 12.5), 4: (11.1, 13.9), 6: (16.7, 20.0)}
#: Largest bearing of the user from the broadside of the base station.
USER_BEARING_DEG = 30.0
#: Share of time with something on the line of sight, lowest and highest; measured shares then lie in 5-15 %.
BLOCKED_SHARES = (0.07, 0.115)
#: Where cars are tracked: lanes of one site after the other, and how far back from the roadway the base station stands.
#: Source: DeepSense scenarios 1, 5 and 8 have 9 to 23 m from the base station to the car.
TRACKED_LANES_OF_SITES = (2, 3, 2, 4)
TRACKED_OFFSETS_M = (14.0, 24.0)
#: Speed limit per meter between the base station and the middle of the roadway, lowest and highest. With 64 beams over
#: 90 degrees and 10 sweeps per second the best beam then stays in 0.33 to 0.40 of the sweeps (DeepSense: 0.31 to 0.44).
TRACKED_LIMITS_PER_S = (0.185, 0.215)
FACADE_MATERIALS: tuple[Literal["concrete", "glass"], ...] = ("concrete", "glass")


def site_street(index: int, draws: np.random.Generator, base: StreetSettings | None = None) -> StreetSettings:
    """Street of one site: lanes, width, heights, walls, bearing of the user, speeds and traffic differ between sites.

    Multiples of irrational numbers spread any number of sites evenly over the ranges; small random offsets are added.
    Streets are 10.6 to 24 m wide from antenna to antenna, and traffic is such that the line of sight is blocked in 5 to
    15 % of the time, as far as the range of arrival rates allows.

    Args:
        index: number of the site, from 0.
        draws: random stream of this site.
        base: everything else.
    """
    even = (index + 0.5) * np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0]) % 1
    shares = np.clip(even + draws.uniform(-0.05, 0.05, size=len(even)), 0.0, 1.0).tolist()
    n_lanes = LANES_OF_SITES[index % len(LANES_OF_SITES)]
    roomy = (6 - n_lanes) / 4  # wide roads have narrow lanes and kerbs, or they would not fit
    lane_width_m = 3.3 + 0.4 * roomy * shares[0]
    kerb_m = 2.0 + 0.8 * roomy * shares[1]
    user_y_m = n_lanes * lane_width_m + 2.0 * kerb_m
    user_x_m = user_y_m * float(np.tan(np.radians(USER_BEARING_DEG * (2.0 * shares[2] - 1.0))))
    slowest, fastest = SPEED_LIMITS_M_PER_S[n_lanes]
    street = replace(
        base or StreetSettings(),
        n_lanes=n_lanes,
        lane_width_m=lane_width_m,
        roadway_offset_m=kerb_m,
        user_setback_m=kerb_m,
        user_x_m=user_x_m,
        base_station_height_m=1.0 + 0.25 * shares[3],
        user_height_m=1.0 + 0.25 * shares[4],
        facade_setback_m=kerb_m + 1.5 + 4.0 * shares[5],
        facade_height_m=6.0 + 14.0 * shares[6],
        # The two walls change with different periods, so that all pairs of materials occur.
        facade_material=FACADE_MATERIALS[index // 2 % 2],
        near_facade_setback_m=2.0 + 4.0 * shares[7],
        near_facade_material=FACADE_MATERIALS[index // 3 % 2],
        speed_limit_m_per_s=slowest + (fastest - slowest) * shares[8],
        crosswalk_x_m=float(np.copysign(8.0 + 7.0 * abs(2.0 * shares[9] - 1.0), shares[9] - 0.5)),
    )
    return replace(street, arrivals_per_s=_fitting_arrivals_per_s(street, BLOCKED_SHARES, float(draws.random())))


def tracked_street(index: int, draws: np.random.Generator, base: StreetSettings | None = None) -> StreetSettings:
    """Street of one site where cars are tracked; the base station is farther from the road.

    Base stations nearer to the road have slower cars, so that the best beam changes about equally often at all sites.

    Args:
        index: number of the site, from 0.
        draws: random stream of this site.
        base: everything else.
    """
    even = (index + 0.5) * np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0]) % 1
    shares = np.clip(even + draws.uniform(-0.05, 0.05, size=len(even)), 0.0, 1.0).tolist()
    nearest_m, farthest_m = TRACKED_OFFSETS_M
    slowest_per_s, fastest_per_s = TRACKED_LIMITS_PER_S
    street = replace(
        base or StreetSettings(),
        n_lanes=TRACKED_LANES_OF_SITES[index % len(TRACKED_LANES_OF_SITES)],
        lane_width_m=3.3 + 0.4 * shares[0],
        roadway_offset_m=nearest_m + (farthest_m - nearest_m) * shares[1],
        base_station_height_m=1.0 + 3.0 * shares[2],
        facade_setback_m=4.0 + 6.0 * shares[3],
        facade_height_m=6.0 + 14.0 * shares[4],
        facade_material=FACADE_MATERIALS[index // 2 % 2],
        near_facade_setback_m=2.0 + 4.0 * shares[5],
        near_facade_material=FACADE_MATERIALS[index // 3 % 2],
        arrivals_per_s=0.06 + 0.06 * shares[6],
    )
    limit_per_s = slowest_per_s + (fastest_per_s - slowest_per_s) * shares[7]
    return replace(street, speed_limit_m_per_s=float(np.mean(street.lanes_y_m)) * limit_per_s)


def expected_blocked_share(settings: StreetSettings) -> float:
    """Share of time with a box on the line of sight, without people who cross the street.

    Lanes and kerbs block independently: arrival rate times mean blocking time.
    """
    clear = (1.0 - settings.walkers_per_s * _walker_blocks_s(settings, near=True)) * (
        1.0 - settings.walkers_per_s * _walker_blocks_s(settings, near=False)
    )
    for y_m in settings.lanes_y_m:
        clear *= 1.0 - settings.arrivals_per_s * _vehicle_blocks_s(settings, y_m)
    return 1.0 - clear


def _fitting_arrivals_per_s(street: StreetSettings, blocked: tuple[float, float], share: float) -> float:
    """Arrivals per lane with which the line of sight is blocked for a share between the two."""
    target = blocked[0] + (blocked[1] - blocked[0]) * share
    # What StreetSettings accepts; it refuses 1 / mean_least_gap_s, so 10 % below.
    low, high = 0.05, min(0.3, 0.9 / street.mean_least_gap_s)
    for _ in range(30):  # the share grows with the arrivals: halve until it fits
        middle = (low + high) / 2.0
        if expected_blocked_share(replace(street, arrivals_per_s=middle)) < target:
            low = middle
        else:
            high = middle
    return low


def _vehicle_blocks_s(settings: StreetSettings, y_m: float) -> float:
    """Mean blocking time of a vehicle in the middle of a lane."""
    # Mean of 1 / speed, to second order in the spread: the mean of a reciprocal exceeds the reciprocal of the mean.
    mean_s_per_m = (1.0 + SPEED_SPREAD**2) / settings.mean_speed_m_per_s
    total_s = 0.0
    for kind, share in settings.vehicle_shares.items():
        length_m, width_m, height_m = VEHICLE_SIZES_M[kind]
        # Cars are lower than some lines of sight, and then never block.
        if _line_height_m(settings, y_m) < height_m:
            total_s += share * _shadow_m(settings, length_m, width_m) * mean_s_per_m
    return total_s


def _walker_blocks_s(settings: StreetSettings, near: bool) -> float:
    """Mean blocking time of a pedestrian on a kerb; people behind the user never block."""
    strips = kerb_strips(settings, near)
    if _line_height_m(settings, strips[0][0]) >= PEDESTRIAN_HEIGHT_M:
        return 0.0
    # The strip in front always comes first and exists: setbacks are at least 1.2 m, margins 0.5 m to either side.
    in_front = (strips[0][1] - strips[0][0]) / sum(high - low for low, high in strips)
    width_m = sum(PEDESTRIAN_WIDTHS_M) / 2.0
    return in_front * _shadow_m(settings, width_m, width_m) / PEDESTRIAN_SPEED_M_PER_S


def _shadow_m(settings: StreetSettings, length_m: float, width_m: float) -> float:
    """Distance along the street over which a box is on the line of sight."""
    # The line of sight is slanted, so the box's width adds by the slope.
    return length_m + width_m * abs(settings.user_x_m) / settings.user_y_m


def _line_height_m(settings: StreetSettings, y_m: float) -> float:
    """Height of the line of sight above a point of the street."""
    rise_m = settings.user_height_m - settings.base_station_height_m
    return settings.base_station_height_m + rise_m * y_m / settings.user_y_m

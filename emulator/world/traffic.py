"""Vehicles of a lane: arrival times, kinds, and speeds without collisions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .street_settings import SPEED_CUT, SPEED_SPREAD, VEHICLE_SIZES_M, StreetSettings
from .tracks import Way

#: Standard deviation of the lateral position in the lane; vehicles never leave it.
LANE_KEEPING_M = 0.2


def vehicles(settings: StreetSettings, lane: int, draws: np.random.Generator, duration_s: float) -> Iterator[Way]:
    """All vehicles of one lane that are on the street at some instant from 0 to `duration_s`.

    Arrivals are Poisson with a dead time: the gap between two fronts is the shortest allowed one plus an exponential
    one, whose mean makes the rate right. A vehicle that would come closer than the shortest gap to the one before it
    anywhere on the street drives slower, so that it just keeps the shortest gap. Speeds are constant, so gaps change
    linearly and it is sufficient to check both ends.

    Args:
        lane: number of the lane, from 0, the nearest.
        draws: random stream of this lane.
        duration_s: length of the recording in s.
    """
    direction, middle_y_m = settings.direction(lane), settings.lanes_y_m[lane]
    kinds, shares = list(settings.vehicle_shares), list(settings.vehicle_shares.values())
    spare_mean_s = 1.0 / settings.arrivals_per_s - settings.mean_least_gap_s
    # from the entry of a front until the rear of the longest vehicle has left
    street_m = 2.0 * settings.reach_m + max(size[0] for size in VEHICLE_SIZES_M.values())
    slowest_s_per_m = 1.0 / (settings.mean_speed_m_per_s * (1.0 - SPEED_CUT * SPEED_SPREAD))
    entry_s = -street_m * slowest_s_per_m  # vehicles that came earlier have left at 0
    leader_s_per_m, leader_lasts_s = 0.0, 0.0
    while True:
        spare_s = draws.exponential(spare_mean_s)
        entry_s += settings.least_gap_s(leader_lasts_s) + spare_s
        if entry_s > duration_s:
            return
        kind = kinds[draws.choice(len(kinds), p=shares)]
        # Cut, because the earliest entry above needs a slowest speed.
        speed_share = 1.0 + SPEED_SPREAD * np.clip(draws.standard_normal(), -SPEED_CUT, SPEED_CUT)
        desired_s_per_m = 1.0 / (settings.mean_speed_m_per_s * float(speed_share))
        # At the exit the gap has changed by street_m times the difference in s/m; it may shrink by the spare time only.
        s_per_m = max(desired_s_per_m, leader_s_per_m - spare_s / street_m)
        length_m, width_m, _ = VEHICLE_SIZES_M[kind]
        aside_m = min(3.0 * LANE_KEEPING_M, (settings.lane_width_m - width_m) / 2.0)
        y_m = middle_y_m + float(np.clip(LANE_KEEPING_M * draws.standard_normal(), -aside_m, aside_m))
        outside_m = settings.reach_m + length_m / 2.0
        exit_s = entry_s + 2.0 * outside_m * s_per_m
        if exit_s > 0.0:
            ends = ((entry_s, -direction * outside_m, y_m), (exit_s, direction * outside_m, y_m))
            yield Way(kind, VEHICLE_SIZES_M[kind], ends)
        leader_s_per_m, leader_lasts_s = s_per_m, length_m * s_per_m


def busy_times(traffic: list[Way], x_m: float, half_width_m: float, margin_s: float) -> list[tuple[float, float]]:
    """Intervals in s with a vehicle in the strip |x - x_m| < half_width_m of a lane, extended by a margin."""
    times = []
    for way in traffic:
        (entry_s, from_x_m, _), (exit_s, to_x_m, _) = way.knots
        s_per_m = (exit_s - entry_s) / (to_x_m - from_x_m)
        middle_s = entry_s + (x_m - from_x_m) * s_per_m
        half_s = (way.size_m[0] / 2.0 + half_width_m) * abs(s_per_m) + margin_s
        times.append((middle_s - half_s, middle_s + half_s))
    return times

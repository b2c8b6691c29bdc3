"""Pedestrians: along the kerbs, and across the street in gaps of the traffic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .scene import Kind
from .street_settings import (
    PEDESTRIAN_CUT,
    PEDESTRIAN_HEIGHT_M,
    PEDESTRIAN_SPEED_M_PER_S,
    PEDESTRIAN_SPREAD_M_PER_S,
    PEDESTRIAN_WIDTHS_M,
    StreetSettings,
)
from .tracks import Way
from .traffic import busy_times

#: Distance of people from kerbs, antennas and walls; largest distance behind the user.
MARGIN_M, BEHIND_USER_M = 0.5, 2.5
#: A crossing needs a lane that is free this long before and after; after the longest wait a person stays on the kerb.
CROSSING_MARGIN_S, PATIENCE_S = 0.5, 60.0
CROSSWALK_HALF_WIDTH_M = 2.0

Strip = tuple[float, float]


def kerb_strips(settings: StreetSettings, near: bool) -> list[Strip]:
    """Strips where people walk along a kerb: lowest and highest y of centers, in front of the user and behind it."""
    if near:
        return [(MARGIN_M, settings.roadway_offset_m - MARGIN_M)]
    wall_y_m = settings.far_kerb_y_m + settings.facade_setback_m if settings.facade_setback_m else np.inf
    in_front = (settings.far_kerb_y_m + MARGIN_M, settings.user_y_m - MARGIN_M)
    behind = (settings.user_y_m + MARGIN_M, min(wall_y_m - MARGIN_M, settings.user_y_m + BEHIND_USER_M))
    return [strip for strip in (in_front, behind) if strip[0] < strip[1]]


def walkers(settings: StreetSettings, near: bool, draws: np.random.Generator, duration_s: float) -> Iterator[Way]:
    """People along one kerb, in either direction, present at some instant from 0 to `duration_s`."""
    strips = kerb_strips(settings, near)
    for start_s, size_m, speed in _passers(settings, settings.walkers_per_s, draws, duration_s):
        outside_m = settings.reach_m + size_m[0] / 2.0
        end_s = start_s + 2.0 * outside_m / speed
        y_m, direction = _place(strips, draws), _side(draws)
        if end_s > 0.0:
            ends = ((start_s, -direction * outside_m, y_m), (end_s, direction * outside_m, y_m))
            yield Way(Kind.PEDESTRIAN, size_m, ends)


def crossers(
    settings: StreetSettings, lanes: list[list[Way]], draws: np.random.Generator, duration_s: float
) -> Iterator[Way]:
    """People who walk along one kerb to the crosswalk, wait for a gap, cross, and walk off along the other kerb.

    Args:
        lanes: vehicles of each lane; they do not brake for people.
        draws: random stream of crossing people.
        duration_s: length of the recording.
    """
    near_strips, far_strips = kerb_strips(settings, near=True), kerb_strips(settings, near=False)
    for start_s, size_m, speed in _passers(settings, settings.crossings_per_s, draws, duration_s):
        from_y_m, to_y_m = _place(near_strips, draws), _place(far_strips, draws)
        if draws.random() < 0.5:
            from_y_m, to_y_m = to_y_m, from_y_m
        x_m = settings.crosswalk_x_m + CROSSWALK_HALF_WIDTH_M * float(draws.uniform(-1.0, 1.0))
        from_x_m, to_x_m = (_side(draws) * (settings.reach_m + size_m[0] / 2.0) for _ in range(2))
        at_kerb_s = start_s + abs(x_m - from_x_m) / speed
        leave_s = _departure_s(settings, lanes, (x_m, from_y_m, to_y_m), at_kerb_s, size_m[0] / 2.0, speed)
        knots = [(start_s, from_x_m, from_y_m), (at_kerb_s, x_m, from_y_m)]
        # Without a gap the person stays on this kerb and leaves the scene on the other side.
        if leave_s > at_kerb_s + PATIENCE_S:
            to_y_m, to_x_m = from_y_m, -from_x_m
            leave_s = at_kerb_s + PATIENCE_S
        across_s = leave_s + abs(to_y_m - from_y_m) / speed
        knots += [(leave_s, x_m, from_y_m), (across_s, x_m, to_y_m)]
        knots.append((across_s + abs(to_x_m - x_m) / speed, to_x_m, to_y_m))
        if knots[-1][0] > 0.0:
            yield Way(Kind.PEDESTRIAN, size_m, tuple(knots))


def _departure_s(
    settings: StreetSettings,
    lanes: list[list[Way]],
    way_m: tuple[float, float, float],
    earliest_s: float,
    half_width_m: float,
    speed: float,
) -> float:
    """First departure time in s at which a walk (x, from y, to y) meets no vehicle in any lane."""
    x_m, from_y_m, to_y_m = way_m
    latest_s = earliest_s + PATIENCE_S + abs(to_y_m - from_y_m) / speed + CROSSING_MARGIN_S
    forbidden = []
    for middle_y_m, lane in zip(settings.lanes_y_m, lanes, strict=True):
        traffic = [way for way in lane if way.knots[-1][0] > earliest_s and way.knots[0][0] < latest_s]
        half_m = settings.lane_width_m / 2.0 + half_width_m
        enter_s = (abs(middle_y_m - from_y_m) - half_m) / speed
        leave_s = (abs(middle_y_m - from_y_m) + half_m) / speed
        for begin_s, end_s in busy_times(traffic, x_m, half_width_m, CROSSING_MARGIN_S):
            forbidden.append((begin_s - leave_s, end_s - enter_s))
    departure_s = earliest_s
    for begin_s, end_s in sorted(forbidden):
        # Sorted by their beginning, one pass suffices: an instant past all earlier intervals stays past them.
        if begin_s < departure_s < end_s:
            departure_s = end_s
    return departure_s


def _passers(
    settings: StreetSettings, per_s: float, draws: np.random.Generator, duration_s: float
) -> Iterator[tuple[float, tuple[float, float, float], float]]:
    """Poisson arrivals: (start in s, size, speed) of all people who may be present at 0 or later."""
    if per_s == 0.0:
        return
    slowest_m_per_s = PEDESTRIAN_SPEED_M_PER_S - PEDESTRIAN_CUT * PEDESTRIAN_SPREAD_M_PER_S
    # The longest walk: in from the border, up to PATIENCE_S of waiting, across, and out to the border.
    start_s = -(4.0 * settings.reach_m + settings.user_y_m) / slowest_m_per_s - PATIENCE_S
    while (start_s := start_s + draws.exponential(1.0 / per_s)) <= duration_s:
        width_m = float(draws.uniform(*PEDESTRIAN_WIDTHS_M))
        spread = float(np.clip(draws.standard_normal(), -PEDESTRIAN_CUT, PEDESTRIAN_CUT))
        speed = PEDESTRIAN_SPEED_M_PER_S + PEDESTRIAN_SPREAD_M_PER_S * spread
        yield start_s, (width_m, width_m, PEDESTRIAN_HEIGHT_M), speed


def _place(strips: list[Strip], draws: np.random.Generator) -> float:
    """A y drawn evenly over the strips."""
    widths = np.array([high - low for low, high in strips])
    low, high = strips[draws.choice(len(strips), p=widths / widths.sum())]
    return float(draws.uniform(low, high))


def _side(draws: np.random.Generator) -> int:
    return 1 if draws.random() < 0.5 else -1

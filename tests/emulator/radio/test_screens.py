"""What stands beyond an antenna blocks nothing, and no box costs more than exact diffraction by sheets inside it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from doubles.radio_scenes import SIZES_M, Box, los_segments, street
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sheafedge.emulator.radio.model_b import segments_loss_db
from sheafedge.emulator.radio.screens import box_screens
from sheafedge.emulator.world.scene import Kind, blockers

CARRIER_HZ = 60e9
WAVE_M = 299_792_458.0 / CARRIER_HZ
#: Beside an edge model B falls slowly, where the exact field ripples around that of free space: an edge 1.2 Fresnel
#: units off has a gain of 1.4 dB there and a loss of 1.6 dB here.
LIT_SIDE_DB = 3.1
#: Half the field, which is what an edge on the line leaves.
GRAZING_DB = 20 * math.log10(2) + 1e-6
VEHICLES = (Kind.CAR, Kind.VAN, Kind.BUS)
KINDS = (*VEHICLES, Kind.PEDESTRIAN)

Point = tuple[float, float, float]
Corner = tuple[float, float]


def loss_db(box: Box, station: Point, user: Point) -> float:
    scene = street([box], station=station, user=user)
    return float(segments_loss_db(los_segments(scene), scene, CARRIER_HZ).sum())


def driven_past_db(
    kind: Kind, x_m: NDArray[np.float64], y_m: float, station: Point, user: Point
) -> NDArray[np.float64]:
    """[n] loss of one vehicle at every place along its lane."""
    scenes = street([(kind, 0.0, y_m)], station=station, user=user).frames(np.zeros(len(x_m), dtype=np.int64))
    scenes.center_m[:, 0, 0] = x_m
    return segments_loss_db(los_segments(scenes), scenes, CARRIER_HZ)[:, 0]


# --- an independent reference: Fresnel integrals over thin sheets that are cut out of the box ------------------------

_GRID = np.linspace(0.0, 40.0, 80_001)
_STEPS = np.exp(-0.5j * np.pi * _GRID**2)
#: Integral of exp(-j pi u^2 / 2) from 0, by the trapezoidal rule; the phase turns by 0.06 rad a step at most.
_INTEGRAL = np.concatenate([[0.0], np.cumsum((_STEPS[1:] + _STEPS[:-1]) / 2) * (_GRID[1] - _GRID[0])])


def fresnel(u: float) -> complex:
    # beyond the grid, its limit: the rest swings by 1 / (40 pi)
    value = complex(np.interp(abs(u), _GRID, _INTEGRAL)) if abs(u) < _GRID[-1] else 0.5 - 0.5j
    return math.copysign(1.0, u) * value


def exact_sheet_db(
    along_m: float, length_m: float, sides_m: tuple[float, float], edges_m: tuple[float, float]
) -> float:
    """Loss of a thin rectangular sheet across a line: 1 less what Kirchhoff's integral lets through its outline."""
    unit = math.sqrt(2 * length_m / (WAVE_M * along_m * (length_m - along_m)))
    wide, tall = (fresnel(unit * high) - fresnel(unit * low) for low, high in (sides_m, edges_m))
    return -20 * math.log10(max(abs(1 - 0.5j * wide * tall), 1e-9))


def test_the_reference_gives_the_losses_of_recommendation_p_526() -> None:
    """Over one edge, with the other three far away: 6.9 + 20 log10(sqrt((v - 0.1)^2 + 1) + v - 0.1) dB."""
    half_way = math.sqrt(2 * 12.0 / (WAVE_M * 6.0 * 6.0))
    for v in (0.0, 0.5, 1.0, 2.0, 3.0):
        printed = 6.9 + 20 * math.log10(math.sqrt((v - 0.1) ** 2 + 1) + v - 0.1)
        found = exact_sheet_db(6.0, 12.0, (-5.0, 5.0), (-5.0, v / half_way))
        assert found == pytest.approx(printed, abs=0.2)  # the approximation, and three edges 5 m away


def cut_corners(box: Box, station: Point, user: Point) -> list[Corner]:
    """Corners in top view of what lies between the antennas (Sutherland and Hodgman), along the line and beside it."""
    size = box[3] if len(box) == 4 else SIZES_M[box[0]]
    run = math.dist(station[:2], user[:2])
    ahead = ((user[0] - station[0]) / run, (user[1] - station[1]) / run)
    corners: list[Corner] = []
    for right, up in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        x, y = box[1] + right * size[0] / 2 - station[0], box[2] + up * size[1] / 2 - station[1]
        corners.append((x * ahead[0] + y * ahead[1], x * ahead[1] - y * ahead[0]))
    for sign, end in ((1.0, 0.0), (-1.0, -run)):
        kept: list[Corner] = []
        for (a, b), (c, d) in zip(corners, corners[1:] + corners[:1], strict=True):
            inside, next_inside = sign * a > end, sign * c > end
            if inside:
                kept.append((a, b))
            if inside != next_inside:
                share = (sign * end - a) / (c - a)
                kept.append((sign * end, b + share * (d - b)))
        corners = kept
    return corners


def exact_db(box: Box, station: Point, user: Point) -> float:
    """Largest exact loss of thin sheets across the line, each a cut through the box between the antennas."""
    corners = cut_corners(box, station, user)
    if not corners:
        return 0.0
    size = box[3] if len(box) == 4 else SIZES_M[box[0]]
    run = math.dist(station[:2], user[:2])
    low, high = min(a for a, _ in corners), max(a for a, _ in corners)
    # at the corners as well: beside the line one of them comes closest
    stations = {*np.linspace(low, high, 40), *(min(max(a, low + 1e-6), high - 1e-6) for a, _ in corners)}
    worst = 0.0
    for along in stations:
        sides = [
            b + (along - a) / (c - a) * (d - b)
            for (a, b), (c, d) in zip(corners, corners[1:] + corners[:1], strict=True)
            if min(a, c) <= along <= max(a, c) and a != c
        ]
        if not sides or not 1e-3 < along < run - 1e-3:
            continue
        line = station[2] + (user[2] - station[2]) * along / run
        sheet = exact_sheet_db(along, run, (min(sides), max(sides)), (-line, size[2] - line))
        worst = max(worst, sheet)
    return worst


# --- properties ------------------------------------------------------------------------------------------------------

stations = st.tuples(st.just(0.0), st.just(0.0), st.floats(1.0, 6.0))
users = st.tuples(st.floats(-25, 25), st.floats(5, 25), st.floats(0.8, 2.0))
boxes = st.tuples(st.sampled_from(KINDS), st.floats(-30, 30), st.floats(-5, 30))


def test_a_bus_beyond_the_tracked_car_costs_nothing() -> None:
    """The moment in which it was found: slantwise, a bus in the lane behind reached across the line as a whole."""
    user = (20.0, 18.0, 1.5)
    along_m, beside_m = zip(*uncut_corners((Kind.BUS, 18.0, 22.5), (0.0, 0.0, 4.0), user), strict=True)
    assert min(beside_m) < 0.0 < max(beside_m)  # its outline does lie across the line
    assert max(along_m) > math.dist((0.0, 0.0), user[:2])
    assert not blockers(street([(Kind.BUS, 18.0, 22.5)], station=(0.0, 0.0, 4.0), user=user)).any()
    assert loss_db((Kind.BUS, 18.0, 22.5), (0.0, 0.0, 4.0), user) < 0.5
    assert loss_db((Kind.BUS, 14.0, 15.0), (0.0, 0.0, 4.0), user) > 10.0  # in the lane before it blocks


def uncut_corners(box: Box, station: Point, user: Point) -> list[Corner]:
    return cut_corners(box, station, (user[0] * 100, user[1] * 100, user[2]))


@given(box=boxes, station=stations, user=users)
def test_a_box_that_does_not_reach_between_the_antennas_costs_nothing(box: Box, station: Point, user: Point) -> None:
    assume(not cut_corners(box, station, user))
    assert loss_db(box, station, user) == 0.0
    assert loss_db(box, user, station) == 0.0


@given(box=boxes, station=stations, user=users)
def test_a_box_off_the_line_of_sight_leaves_half_the_field(box: Box, station: Point, user: Point) -> None:
    assume(not blockers(street([box], station=station, user=user)).any())
    assert loss_db(box, station, user) <= GRAZING_DB


@given(box=boxes, station=stations, user=users)
def test_no_box_costs_more_than_exact_diffraction(box: Box, station: Point, user: Point) -> None:
    assert loss_db(box, station, user) <= exact_db(box, station, user) + LIT_SIDE_DB


@given(box=boxes, station=stations, user=users)
def test_exchanging_the_antennas_changes_nothing(box: Box, station: Point, user: Point) -> None:
    assume(math.dist(box[1:3], user[:2]) > 1e-6)  # a pedestrian's screen would stand neither before nor behind it
    there, back = loss_db(box, station, user), loss_db(box, user, station)
    assert back == pytest.approx(there, abs=1e-4)


@given(
    kind=st.sampled_from(KINDS),
    lane_m=st.floats(-4, 4),
    user=users,
    height_m=st.floats(1.0, 6.0),
    start=st.floats(-9, 8),
)
def test_the_loss_has_no_steps_while_something_moves_past_the_receiver(
    kind: Kind, lane_m: float, user: Point, height_m: float, start: float
) -> None:
    assume(abs(lane_m) > SIZES_M[kind][1] / 2 + 0.3)  # it does not drive over the antenna
    x_m = user[0] + start + np.arange(0.0, 1.0, 0.001)
    found = driven_past_db(kind, x_m, user[1] + lane_m, (0.0, 0.0, height_m), user)
    # 0.3 m before the antenna the first Fresnel zone is 4 cm wide: 20 dB within 8 cm, or 0.5 dB each 2 mm
    assert np.abs(np.diff(found)).max() < 0.5


def test_driving_off_the_line_the_loss_only_falls() -> None:
    """Past the receiver of a tracked car, in a lane before it and in one behind it."""
    user = (12.0, 15.0, 1.5)
    for kind, lane_m, way in itertools.product(VEHICLES, (12.0, 18.0), (-1.0, 1.0)):
        x_m = user[0] + way * np.arange(9.0, 40.0, 0.01)
        found = driven_past_db(kind, x_m, lane_m, (0.0, 0.0, 4.0), user)
        assert np.diff(found).max() < 0.005, (kind, lane_m, way)  # what is left out below 0.01 dB makes small steps
        assert found[-1] < 0.05


def test_screens_lie_between_the_ends_and_inside_the_outline() -> None:
    draws = np.random.default_rng(3)
    turn = draws.uniform(0, np.pi / 2, 500)
    half_m = draws.uniform(0.1, 6.0, (500, 2, 1)) * np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]])
    along_m = (
        np.cos(turn)[:, None] * half_m[:, 0] - np.sin(turn)[:, None] * half_m[:, 1] + draws.uniform(-8, 28, (500, 1))
    )
    beside_m = (
        np.sin(turn)[:, None] * half_m[:, 0] + np.cos(turn)[:, None] * half_m[:, 1] + draws.uniform(-8, 8, (500, 1))
    )
    near_m, far_m = np.full(500, 2.0), np.full(500, 18.0)
    screens = box_screens(along_m, beside_m, near_m, far_m)
    assert 0.3 < screens[0].stand.mean() < 0.9
    for screen in screens:
        stand = screen.stand
        assert np.all((screen.along_m[stand] >= 2.0) & (screen.along_m[stand] <= 18.0))
        assert np.all(screen.left_m[stand] >= beside_m.min(axis=1)[stand] - 1e-9)
        assert np.all(screen.right_m[stand] <= beside_m.max(axis=1)[stand] + 1e-9)
        assert np.all(screen.left_m[stand] <= screen.right_m[stand])
    whole = (along_m.min(axis=1) > 2.0) & (along_m.max(axis=1) < 18.0)
    assert_allclose(screens[0].left_m[whole], beside_m.min(axis=1)[whole])
    assert_allclose(screens[0].right_m[whole], beside_m.max(axis=1)[whole])


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_an_antenna_inside_a_vehicle_is_blocked_by_it(share: float) -> None:
    user = (4.0, 12.0, 1.2)
    scene = street([(Kind.BUS, share * user[0], share * user[1])], user=user)
    assert float(segments_loss_db(los_segments(scene), scene, CARRIER_HZ)[0, 0]) > 15.0

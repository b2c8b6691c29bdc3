"""The LiDAR: ranges of plain geometry, noise as specified, and the same blockers as the line of sight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from doubles.line_of_sight import blockers
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.sensors.lidar import (
    FACADE_DARKNESS,
    Lidar,
    LidarSettings,
    echoes,
)
from sheafedge.emulator.world.scene import Facade, Kind, Scene, Surroundings
from sheafedge.emulator.world.sites import site_street
from sheafedge.emulator.world.sky import SkySettings, SkyWorld
from sheafedge.emulator.world.street import StreetWorld
from sheafedge.emulator.world.weather import Weather

SETTINGS = LidarSettings(pole_radius_m=0.0)
ANGLES_RAD = SETTINGS.angles_rad
EXACT = LidarSettings(pole_radius_m=0.0, noise_m=0.0, noise_share=0.0, dropout=0.0, far_dropout=0.0)
GEOMETRY_M = 1e-9
FLOAT32_M = 1e-6
STANDARD_ERRORS = 3.0
NOTHING_M = SETTINGS.max_range_m
#: A box: center, size, kind and, where it moves, velocity.
Box = tuple[tuple[float, float, float], tuple[float, float, float], Kind, tuple[float, float, float]]
CAR: Box = ((0.0, 6.0, 0.7), (4.8, 1.8, 1.4), Kind.CAR, (10.0, 0.0, 0.0))


def scene_of(boxes: list[Box], facades: tuple[Facade, ...] = (), n_frames: int = 1) -> Scene:
    """The same boxes in every frame, and a user far away."""
    columns = [np.array([box[part] for box in boxes], dtype=float).reshape(len(boxes), 3) for part in (0, 1, 3)]
    center, size, velocity = (np.tile(column, (n_frames, 1, 1)) for column in columns)
    return Scene(
        time_s=np.arange(n_frames) * 0.1,
        center_m=center,
        size_m=size,
        velocity_m_per_s=velocity,
        kind=np.tile(np.array([box[2] for box in boxes], dtype=np.uint8), (n_frames, 1)),
        present=np.ones((n_frames, len(boxes)), dtype=bool),
        base_station_m=np.array([0.0, 0.0, 1.2]),
        user_m=np.tile([3.0, 12.0, 1.2], (n_frames, 1)),
        surroundings=Surroundings(facades),
    )


def ranges_m(scene: Scene, settings: LidarSettings = SETTINGS) -> np.ndarray:
    return echoes(scene, settings)[0]


def test_216_rays_span_209_5_degrees_around_the_street() -> None:
    scans = Lidar(SETTINGS, np.random.default_rng(0)).sense(scene_of([CAR], n_frames=3))
    assert scans.shape == (3, 216, 2)
    assert scans.dtype == np.float32
    angles_deg = np.degrees(scans[0, :, 1])
    assert_allclose(angles_deg[[0, -1]], [-104.75, 104.75], atol=1e-4)
    assert_allclose(np.diff(angles_deg), 209.5 / 215, atol=1e-4)
    assert_array_equal(scans[0, :, 1], scans[2, :, 1])


def test_a_car_ahead_is_as_far_as_its_near_side() -> None:
    on_side = np.abs(5.1 * np.tan(ANGLES_RAD)) <= 2.4
    on_side &= np.cos(ANGLES_RAD) > 0
    assert on_side.sum() > 40
    expected = np.where(on_side, 5.1 / np.cos(ANGLES_RAD), NOTHING_M)
    assert_allclose(ranges_m(scene_of([CAR]))[0], expected, atol=GEOMETRY_M)


def test_a_car_aside_shows_two_sides() -> None:
    """Center (8, 3): one side at x = 5.6 for y from 2.1 to 3.9, the other at y = 2.1 for x from 5.6 to 10.4."""
    aside = ((8.0, 3.0, 0.7), *CAR[1:])
    sine, cosine = np.sin(ANGLES_RAD), np.cos(ANGLES_RAD)
    expected = np.full(216, NOTHING_M)
    for ray in range(216):
        if sine[ray] > 0 and 2.1 <= 5.6 / sine[ray] * cosine[ray] <= 3.9:
            expected[ray] = 5.6 / sine[ray]
        elif cosine[ray] > 0 and 5.6 <= 2.1 / cosine[ray] * sine[ray] <= 10.4:
            expected[ray] = 2.1 / cosine[ray]
    assert len({round(value * cosine[ray], 6) for ray, value in enumerate(expected) if value < NOTHING_M}) > 2
    assert_allclose(ranges_m(scene_of([aside]))[0], expected, atol=GEOMETRY_M)


def test_a_facade_is_a_line_with_two_ends() -> None:
    wall = Facade(9.0, -4.0, 6.0, 10.0, "concrete")
    x_m = 9.0 * np.tan(ANGLES_RAD)
    hit = (np.cos(ANGLES_RAD) > 0) & (x_m >= -4.0) & (x_m <= 6.0)
    expected = np.where(hit, 9.0 / np.cos(ANGLES_RAD), NOTHING_M)
    assert_allclose(ranges_m(scene_of([], (wall,)))[0], expected, atol=GEOMETRY_M)


def test_the_wall_behind_is_seen_at_both_ends_of_the_sweep() -> None:
    behind = Facade(-3.0, -60.0, 60.0, 10.0, "concrete")
    expected = np.full(216, NOTHING_M)
    backwards = np.cos(ANGLES_RAD) < 0
    expected[backwards] = np.minimum(-3.0 / np.cos(ANGLES_RAD[backwards]), NOTHING_M)
    assert (expected < NOTHING_M).sum() > 4
    assert_allclose(ranges_m(scene_of([], (behind,)))[0], expected, atol=GEOMETRY_M)


def test_the_nearest_thing_hides_the_others() -> None:
    bus = ((0.0, 10.0, 1.5), (12.0, 2.5, 3.0), Kind.BUS, (0.0, 0.0, 0.0))
    wall = Facade(14.0, -60.0, 60.0, 10.0, "concrete")
    straight = slice(106, 110)
    ahead = ranges_m(scene_of([bus, CAR], (wall,)))[0, straight] * np.cos(ANGLES_RAD[straight])
    assert_allclose(ahead, 5.1, atol=GEOMETRY_M)
    assert_array_equal(ranges_m(scene_of([bus, CAR], (wall,))), ranges_m(scene_of([CAR, bus], (wall,))))
    absent = replace(scene_of([bus, CAR], (wall,)), present=np.array([[True, False]]))
    assert_allclose(ranges_m(absent)[0, straight] * np.cos(ANGLES_RAD[straight]), 8.75, atol=GEOMETRY_M)


@pytest.mark.parametrize(
    "box",
    [
        ((0.0, 6.0, 0.5), (4.8, 1.8, 1.0), Kind.CAR, (0.0, 0.0, 0.0)),  # lower than the plane
        ((0.0, 6.0, 20.0), (0.4, 0.4, 0.4), Kind.TARGET, (0.0, 0.0, 0.0)),  # a drone above it
        ((0.0, 18.0, 0.7), (4.8, 1.8, 1.4), Kind.CAR, (0.0, 0.0, 0.0)),  # beyond the greatest range
        ((0.0, -6.0, 0.7), (1.0, 1.0, 1.4), Kind.CAR, (0.0, 0.0, 0.0)),  # behind the field of view
    ],
    ids=["low", "high", "far", "behind"],
)
def test_what_does_not_meet_the_plane_is_not_seen(box: Box) -> None:
    assert (ranges_m(scene_of([box])) == NOTHING_M).all()
    assert (ranges_m(scene_of([CAR])) < NOTHING_M).any()  # negative control


def test_a_standing_user_has_a_pole_and_a_drone_has_none() -> None:
    with_pole = replace(SETTINGS, pole_radius_m=0.2)
    pole_m = ranges_m(scene_of([]), with_pole)[0]
    bearing = np.abs(ANGLES_RAD - np.arctan2(3.0, 12.0)).argmin()
    assert np.hypot(3.0, 12.0) - 0.3 < pole_m[bearing] < np.hypot(3.0, 12.0)
    flying = SkyWorld(SkySettings(), np.random.default_rng(0), 30.0).scene(np.arange(0.0, 30.0, 1.0))
    assert (ranges_m(flying, with_pole) == NOTHING_M).all()


def test_noise_is_2_cm_or_1_percent() -> None:
    """Walls at 1.5 m (floor of the noise) and 12 m (share of the range)."""
    n_frames = 4000
    for distance_m, expected_m in ((1.5, 0.02), (12.0, 0.12)):
        wall = Facade(distance_m, -60.0, 60.0, 10.0, "concrete")
        lidar = Lidar(replace(SETTINGS, dropout=0.0, far_dropout=0.0), np.random.default_rng(1))
        scans = lidar.sense(scene_of([], (wall,), n_frames))
        error_m = scans[:, 107:109, 0] - distance_m / np.cos(ANGLES_RAD[107:109])
        n = error_m.size
        assert abs(error_m.mean()) < STANDARD_ERRORS * expected_m / np.sqrt(n)
        assert abs(error_m.std() / expected_m - 1) < STANDARD_ERRORS / np.sqrt(2 * n) + 1e-3  # rays are 0.5 degrees off


def test_more_echoes_drop_out_far_away() -> None:
    n_frames = 4000
    for distance_m in (2.0, 15.0):
        wall = Facade(distance_m, -60.0, 60.0, 10.0, "concrete")
        lidar = Lidar(replace(SETTINGS, noise_share=0.0), np.random.default_rng(2))
        scans = lidar.sense(scene_of([], (wall,), n_frames))
        lost = scans[:, 107:109, 0] == NOTHING_M
        expected = 0.02 + 0.3 * FACADE_DARKNESS * (distance_m / np.cos(ANGLES_RAD[107]) / 16.0) ** 4
        assert abs(lost.mean() - expected) < STANDARD_ERRORS * np.sqrt(expected / lost.size)


def test_without_noise_scans_are_the_geometry() -> None:
    scene = scene_of([CAR], (Facade(9.0, -60.0, 60.0, 10.0, "glass"),))
    scans = Lidar(EXACT, np.random.default_rng(0)).sense(scene)
    assert_allclose(scans[..., 0], ranges_m(scene), atol=FLOAT32_M)


def test_a_rolling_ray_sees_the_car_where_it_was_when_the_ray_was_taken() -> None:
    rolling = replace(SETTINGS, rolling=True)
    seen_m = ranges_m(scene_of([CAR]), rolling)[0]
    assert rolling.delays_s[-1] == 0.0
    assert_allclose(np.diff(rolling.delays_s), 0.1 / 216)
    moved = 0
    for ray, delay_s in enumerate(rolling.delays_s):
        (x_m, y_m, z_m), *rest = CAR
        then_m = ranges_m(scene_of([((x_m + 10.0 * delay_s, y_m, z_m), *rest)]))[0]
        assert_allclose(seen_m[ray], then_m[ray], atol=GEOMETRY_M)
        moved += then_m[ray] != ranges_m(scene_of([CAR]))[0, ray]
    assert moved > 0  # negative control: without rolling some rays differ


def test_chunks_of_any_size_give_the_same_bytes_and_another_seed_others() -> None:
    street = StreetWorld(site_street(0, np.random.default_rng(0)), np.random.default_rng(1), 60.0)
    scene = street.scene(np.arange(0.0, 30.0, 0.1))
    whole = Lidar(LidarSettings(), np.random.default_rng(5)).sense(scene)
    lidar = Lidar(LidarSettings(), np.random.default_rng(5))
    pieces = [lidar.sense(scene.frames(part)) for part in (slice(0, 7), slice(7, 200), slice(200, None))]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()
    assert Lidar(LidarSettings(), np.random.default_rng(6)).sense(scene).tobytes() != whole.tobytes()


def test_a_blocker_shows_at_the_users_bearing() -> None:
    """Wherever the line of sight is blocked within range, the LiDAR sees something nearer than the user there."""
    checked = 0
    for site in range(6):
        street = StreetWorld(site_street(site, np.random.default_rng(site)), np.random.default_rng(site), 400.0)
        scene = street.scene(np.arange(0.0, 400.0, 0.2))
        toward = scene.user_m[:, None, :2] - scene.base_station_m[:2]
        nearest_m = (
            np.linalg.norm(scene.center_m[..., :2], axis=-1) + np.linalg.norm(scene.size_m[..., :2], axis=-1) / 2
        )
        in_range = (blockers(scene) & (nearest_m < NOTHING_M)).any(axis=1)
        bearing_rad = np.arctan2(toward[:, 0, 0], toward[:, 0, 1])
        range_m = ranges_m(scene, LidarSettings())
        ray = np.searchsorted(ANGLES_RAD, bearing_rad)
        frames = np.arange(len(scene))
        beside = np.minimum(range_m[frames, ray - 1], range_m[frames, ray])  # the rays on both sides of the line
        user_distance_m = np.linalg.norm(toward[:, 0], axis=-1)
        shows = beside < np.minimum(user_distance_m - 0.5, NOTHING_M)
        assert shows[in_range].mean() > 0.99
        clear = ~blockers(scene).any(axis=1)
        assert shows[clear].mean() < 0.1  # negative control: only what is about to block or has just blocked
        checked += in_range.sum()
    assert checked > 500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_rays": 1}, r"lidar.n_rays must lie in \[2, 10000\], got 1"),
        ({"max_range_m": 0.0}, "lidar.max_range_m"),
        ({"noise_m": float("nan")}, "lidar.noise_m"),
        ({"dropout": 0.8, "far_dropout": 0.3}, "must not exceed 1, got 0.8"),
    ],
)
def test_lidars_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LidarSettings(**changes)


def test_fog_takes_the_far_echoes_and_no_near_one() -> None:
    """An echo from r is as weak as one from r e^(s r): with 50 m of visibility 20 m are as 66 m, and 30 m as 181 m."""
    walls = tuple(Facade(at_m, -200.0, 200.0, 9.0, "concrete") for at_m in (20.0, 30.0))
    nearer, farther = (scene_of([], (wall,)) for wall in walls)
    for scene, seen in ((nearer, True), (farther, False)):
        foggy = replace(scene, surroundings=replace(scene.surroundings, weather=Weather(fog_visibility_m=50.0)))
        reach_m = replace(EXACT, max_range_m=80.0)
        clear, fog = (Lidar(reach_m, np.random.default_rng(0)).sense(one)[0, 108, 0] for one in (scene, foggy))
        assert clear == pytest.approx(scene.surroundings.facades[0].y_m, rel=1e-3)
        assert fog == (clear if seen else np.float32(80.0))


def test_echoes_through_rain_are_as_noisy_as_from_farther_away() -> None:
    scene = scene_of([], (Facade(40.0, -200.0, 200.0, 9.0, "concrete"),), n_frames=400)
    weather = Weather(rain_mm_per_h=200.0)
    rainy = replace(scene, surroundings=replace(scene.surroundings, weather=weather))
    settings = replace(EXACT, max_range_m=200.0, noise_share=0.01)
    clear, wet = (Lidar(settings, np.random.default_rng(0)).sense(one)[:, 108, 0].std() for one in (scene, rainy))
    assert wet / clear == pytest.approx(np.exp(40.0 * weather.extinction_per_m), rel=1e-3)

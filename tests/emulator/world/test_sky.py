"""The sky: flights that stay in their sector, move like a drone, and shake as the wind says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.world.scene import Kind
from sheafedge.emulator.world.sky import SkySettings, SkyWorld

STEP_S = 0.1
CALM = SkySettings(wobble_m=0.0)
HOUR_S = 3600.0
STANDARD_ERRORS = 3.0


def sky(settings: SkySettings | None = None, seed: int = 0, duration_s: float = HOUR_S) -> SkyWorld:
    return SkyWorld(settings or SkySettings(), np.random.default_rng(seed), duration_s)


def test_flights_stay_in_their_sector() -> None:
    settings = SkySettings()
    x_m, y_m, z_m = sky().scene(np.arange(0.0, HOUR_S, STEP_S)).user_m.T
    distance_m = np.hypot(x_m, y_m)
    assert (np.abs(np.degrees(np.arctan2(x_m, y_m))) <= settings.sector_deg).all()
    assert distance_m.min() >= settings.min_distance_m
    assert distance_m.max() <= settings.max_distance_m
    assert z_m.min() >= settings.min_height_m
    assert z_m.max() <= settings.max_height_m
    elevation_deg = np.degrees(np.arctan2(z_m - settings.base_station_height_m, y_m))
    assert elevation_deg.max() <= settings.max_elevation_deg
    # And they use it: otherwise the bounds above say little.
    assert np.ptp(np.degrees(np.arctan2(x_m, y_m))) > 70
    assert np.ptp(distance_m) > 50
    assert np.ptp(z_m) > 40


def test_a_drone_flies_no_faster_than_allowed_and_rests_now_and_then() -> None:
    velocity = sky(CALM).scene(np.arange(0.0, HOUR_S, STEP_S)).velocity_m_per_s[:, 0]
    speed = np.linalg.norm(velocity, axis=-1)
    assert speed.max() <= CALM.max_speed_m_per_s + 1e-9
    assert speed.max() > 0.8 * CALM.max_speed_m_per_s
    assert 0.02 < (speed < 0.1).mean() < 0.5


def test_movement_is_continuous_inside_a_flight() -> None:
    step_s = 0.01
    time_s = np.arange(0.0, 600.0, step_s)
    world = sky()
    scene = world.scene(time_s)
    moved_m = np.diff(scene.user_m, axis=0)
    same_flight = np.diff(world.sequence_index(time_s)) == 0
    assert not same_flight.all()
    speed = np.maximum(np.abs(scene.velocity_m_per_s[:-1, 0]), np.abs(scene.velocity_m_per_s[1:, 0]))
    # Acceleration is bounded, but the wind turns within a step.
    assert (np.abs(moved_m) <= (speed + 0.5) * step_s)[same_flight].all()


def test_velocities_are_the_slopes_of_positions() -> None:
    world, step_s = sky(), 1e-4
    time_s = np.arange(0.03, 100.0, STEP_S)  # away from the wind's own grid
    here, there = world.scene(time_s), world.scene(time_s + step_s)
    assert_allclose(
        (there.user_m - here.user_m) / step_s, here.velocity_m_per_s[:, 0], atol=1e-2
    )  # 1e-4 s of acceleration


def test_flights_last_30_seconds_to_4_minutes() -> None:
    settings, world = SkySettings(), sky()
    lasts_s = np.diff(world.flights_s)
    assert len(lasts_s) > 10
    assert lasts_s.min() >= settings.min_flight_s
    assert lasts_s.max() <= settings.max_flight_s
    assert_array_equal(world.sequence_index(world.flights_s), np.arange(len(world.flights_s)))
    assert_array_equal(world.sequence_index(world.flights_s[1:] - 1e-6), np.arange(len(lasts_s)))


def test_wind_shakes_the_drone_as_wide_and_as_long_as_set() -> None:
    """The same waypoints with and without wind: the difference is an Ornstein-Uhlenbeck process."""
    settings, time_s = SkySettings(wobble_m=0.3, hover_share=0.0), np.arange(0.0, 4 * HOUR_S, STEP_S)
    windy = sky(settings, duration_s=4 * HOUR_S)
    still = SkyWorld(settings, np.random.default_rng(0), 4 * HOUR_S)
    still._wobble_m = np.zeros_like(still._wobble_m)
    push = windy.scene(time_s).user_m - still.scene(time_s).user_m
    # Values 2 s apart are far from independent: (1 + r) / (1 - r) samples of 0.1 s count for one of r^2 = e^(-0.1).
    kept = np.exp(-2 * STEP_S / settings.wobble_time_s)
    n_effective = push.size * (1 - kept) / (1 + kept)
    assert abs(push.std() / settings.wobble_m - 1) < STANDARD_ERRORS / np.sqrt(2 * n_effective)
    lag = round(settings.wobble_time_s / STEP_S)
    correlation = (push[lag:] * push[:-lag]).mean() / push.var()
    assert abs(correlation - np.exp(-1)) < STANDARD_ERRORS / np.sqrt(n_effective)


def test_the_drone_is_the_target_and_carries_the_antenna() -> None:
    scene = sky(duration_s=60.0).scene(np.arange(0.0, 60.0, STEP_S))
    assert (scene.kind == Kind.TARGET).all()
    assert scene.present.all()
    assert_array_equal(scene.user_m, scene.center_m[:, 0])
    assert_allclose(scene.size_m, 0.4)
    assert scene.surroundings.facades == ()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_flight() -> None:
    time_s = np.arange(0.0, 60.0, STEP_S)
    one, same, other = (sky(seed=seed, duration_s=60.0).scene(time_s).user_m for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes()
    assert one.tobytes() != other.tobytes()


def test_instants_can_be_asked_for_in_any_order() -> None:
    world, time_s = sky(), np.arange(0.0, HOUR_S, 1.0)
    order = np.random.default_rng(0).permutation(len(time_s))[:50]
    assert_array_equal(world.scene(time_s[order]).user_m, world.scene(time_s).user_m[order])
    assert np.isfinite(world.scene(np.array([0.0, HOUR_S])).user_m).all()


def test_a_delay_never_reaches_back_before_a_flight() -> None:
    world = sky()
    begin_s = world.flights_s[2]
    late = world.user_before_m(np.array([begin_s + 0.1, begin_s + 1.0]), 0.3)
    assert_allclose(late, world.scene(np.array([begin_s, begin_s + 0.7])).user_m, atol=1e-9)


def test_beams_repeat_about_as_often_as_measured() -> None:
    """DeepSense scenario 23, 32 beams at 6.4 Hz: the last beam is right in 82 %, that of 10 rows ago in 45 %."""
    time_s = np.arange(0.0, HOUR_S, 1 / 6.4)
    x_m, y_m, _ = sky().scene(time_s).user_m.T
    beam = np.round((np.degrees(np.arctan2(x_m, y_m)) + 45) / 90 * 31)
    assert 0.75 < (beam[1:] == beam[:-1]).mean() < 0.89
    assert 0.2 < (beam[10:] == beam[:-10]).mean() < 0.55


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_speed_m_per_s": 1.0}, r"sky.min_speed_m_per_s must not exceed sky.max_speed_m_per_s = 1, got 2"),
        ({"min_distance_m": 90.0}, "sky.min_distance_m must not exceed"),
        ({"wobble_m": 5.0, "max_height_m": 30.0}, "sky leaves no room to fly"),
        ({"max_elevation_deg": 10.0, "max_distance_m": 30.0}, "sky leaves no room to fly"),
        ({"wobble_time_s": float("nan")}, "sky.wobble_time_s"),
    ],
)
def test_skies_without_room_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(SkySettings(), **changes)


def test_instants_after_the_end_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"times_s\[0\] = 61.0 lies outside of the sky's \[0, 60\] s"):
        sky(duration_s=60.0).scene(np.array([61.0]))

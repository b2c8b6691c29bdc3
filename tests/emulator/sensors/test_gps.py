"""GPS: errors as wide and as long as specified, positions as late as specified, degrees as on a map."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.sensors.gps import GpsReceiver, GpsSettings, degrees, drone_fix
from sheafedge.emulator.world.sky import SkySettings, SkyWorld
from sheafedge.emulator.world.street import StreetWorld
from sheafedge.emulator.world.street_settings import StreetSettings

N_RECEIVERS = 1500
STANDARD_ERRORS = 3.5  # some 40 comparisons: at 3, one in ten sets of draws would fail
SETTINGS = GpsSettings()
SILENT = GpsSettings(bias_m=0.0, white_m=0.0)


@dataclass(frozen=True)
class Eastbound:
    """A user that moves 10 m/s along x from the origin."""

    def user_before_m(self, times_s: NDArray[np.float64], delay_s: float) -> NDArray[np.float64]:
        x_m = 10.0 * (times_s - delay_s)
        return np.column_stack([x_m, np.zeros_like(x_m), np.zeros_like(x_m)])


def errors_m(settings: GpsSettings, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n_receivers, F, 3] of receivers that have nothing to do with each other."""
    true_m = Eastbound().user_before_m(times_s, settings.latency_s)
    streams = np.random.default_rng(7).spawn(N_RECEIVERS)
    return np.array([GpsReceiver(settings, stream).sense(Eastbound(), times_s) - true_m for stream in streams])


def test_bias_spreads_and_fades_as_specified_over_uneven_steps() -> None:
    settings = replace(SETTINGS, white_m=0.0)
    times_s = np.array([0.0, 0.1, 10.0, 60.0, 200.0])
    error_m = errors_m(settings, times_s) / settings.drift_m
    for axis in range(3):
        covariance = error_m[..., axis].T @ error_m[..., axis] / N_RECEIVERS
        expected = np.exp(-np.abs(times_s[:, None] - times_s) / settings.bias_time_s)
        standard_error = np.sqrt((1.0 + expected**2) / N_RECEIVERS)
        assert (np.abs(covariance - expected) < STANDARD_ERRORS * standard_error).all()


def test_bias_keeps_its_spread_along_one_long_recording() -> None:
    """One receiver for 300 hours: the stationary spread is reached and kept."""
    settings = replace(SETTINGS, white_m=0.0, latency_s=0.0)
    times_s = np.arange(0.0, 300 * 3600.0, 30.0)
    error_m = GpsReceiver(settings, np.random.default_rng(2)).sense(Eastbound(), times_s)
    error_m -= Eastbound().user_before_m(times_s, 0.0)
    kept = np.exp(-2 * 30.0 / settings.bias_time_s)
    n_effective = len(times_s) * (1 - kept) / (1 + kept)
    spread = error_m.std(axis=0) / settings.drift_m
    assert (np.abs(spread - 1.0) < STANDARD_ERRORS / np.sqrt(2 * n_effective)).all()
    lag_1 = (error_m[1:] * error_m[:-1]).mean(axis=0) / error_m.var(axis=0)
    assert (np.abs(lag_1 - np.exp(-0.5)) < STANDARD_ERRORS / np.sqrt(n_effective)).all()


def test_white_noise_is_new_in_every_fix() -> None:
    settings = replace(SETTINGS, bias_m=0.0)
    error_m = errors_m(settings, np.array([0.0, 0.0, 0.1]))
    for axis, sigma_m in enumerate((0.1, 0.1, 0.2)):
        correlation = error_m[..., axis].T @ error_m[..., axis] / N_RECEIVERS / sigma_m**2
        standard_error = np.sqrt((1.0 + np.eye(3)) / N_RECEIVERS)
        assert (np.abs(correlation - np.eye(3)) < STANDARD_ERRORS * standard_error).all()


def test_corrections_leave_2_cm() -> None:
    error_m = errors_m(replace(SETTINGS, rtk=True), np.array([5.0]))[:, 0]
    spread = error_m.std(axis=0) / np.array([0.02, 0.02, 0.04])
    assert (np.abs(spread - 1.0) < STANDARD_ERRORS / np.sqrt(2 * N_RECEIVERS)).all()


def test_a_fix_tells_where_the_receiver_was() -> None:
    fixes_m = GpsReceiver(SILENT, np.random.default_rng(0)).sense(Eastbound(), np.array([1.0, 2.0]))
    assert_allclose(fixes_m[:, 0], [8.0, 18.0])


def test_fixes_of_both_worlds_follow_their_users() -> None:
    times_s = np.arange(1.0, 20.0, 0.1)
    sky = SkyWorld(SkySettings(), np.random.default_rng(0), 20.0)
    fixes_m = GpsReceiver(SILENT, np.random.default_rng(0)).sense(sky, times_s)
    assert_allclose(fixes_m, sky.scene(times_s - SILENT.latency_s).user_m, atol=1e-9)
    street = StreetWorld(StreetSettings(), np.random.default_rng(0), 20.0)
    fixes_m = GpsReceiver(SILENT, np.random.default_rng(0)).sense(street, times_s)
    assert_allclose(fixes_m, street.scene(times_s).user_m)


def test_chunks_of_any_size_give_the_same_bytes_and_another_seed_others() -> None:
    times_s = np.arange(0.0, 30.0, 0.1)
    whole = GpsReceiver(SETTINGS, np.random.default_rng(1)).sense(Eastbound(), times_s)
    receiver = GpsReceiver(SETTINGS, np.random.default_rng(1))
    pieces = [receiver.sense(Eastbound(), part) for part in np.split(times_s, [0, 3, 100])]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()
    assert GpsReceiver(SETTINGS, np.random.default_rng(2)).sense(Eastbound(), times_s).tobytes() != whole.tobytes()


def test_time_runs_forwards_only() -> None:
    receiver = GpsReceiver(SETTINGS, np.random.default_rng(0))
    receiver.sense(Eastbound(), np.array([5.0]))
    with pytest.raises(DataError, match=r"times_s\[0\] = 4.0 lies before the fix before it"):
        receiver.sense(Eastbound(), np.array([4.0, 6.0]))


@pytest.mark.parametrize(
    ("heading_deg", "east_north_m"),
    [(0.0, (30.0, 40.0)), (90.0, (40.0, -30.0)), (180.0, (-30.0, -40.0)), (-90.0, (-40.0, 30.0))],
)
def test_the_street_is_turned_by_its_heading(heading_deg: float, east_north_m: tuple[float, float]) -> None:
    settings = GpsSettings(latitude_deg=60.0, longitude_deg=25.0, heading_deg=heading_deg)
    latitude_deg, longitude_deg = degrees(np.array([30.0, 40.0, 1.0]), settings)
    east_m, north_m = east_north_m
    assert_allclose(latitude_deg - 60.0, north_m / 111_320.0, atol=1e-12)
    assert_allclose(longitude_deg - 25.0, east_m / (111_320.0 * 0.5), atol=1e-12)


def test_a_drone_reports_latitude_longitude_distance_and_height() -> None:
    fix = drone_fix(np.array([[30.0, 40.0, 25.0], [0.0, 0.0, 5.0]]), SETTINGS)
    assert fix.shape == (2, 4)
    assert fix.dtype == np.float64
    assert_allclose(fix[:, 2:], [[50.0, 25.0], [0.0, 5.0]])
    assert_array_equal(fix[1, :2], [SETTINGS.latitude_deg, SETTINGS.longitude_deg])
    assert_allclose(fix[0, 0] - SETTINGS.latitude_deg, 40.0 / 111_320.0, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias_m": -1.0}, r"gps.bias_m must lie in \[0, 100\], got -1.0"),
        ({"bias_time_s": 0.0}, "gps.bias_time_s"),
        ({"latitude_deg": 90.0}, "gps.latitude_deg"),
        ({"latency_s": float("nan")}, "gps.latency_s"),
    ],
)
def test_receivers_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GpsSettings(**changes)

"""The analytic road: its array is the one of the measurements, and its recordings behave like measured ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.world.road import (
    RoadPasses,
    RoadSettings,
    beam_azimuths_rad,
    codebook,
    drive_bys,
    mean_powers,
    site_settings,
    steering_vector,
)

N_SITES = 6
PRINTED_DB = 0.05  # golden values are printed with one digit
PRINTED_DEG = 0.05
#: Exact positions, almost no noise and no wall: what is left is geometry.
CLEAN: dict[str, Any] = {
    "gps_bias_m": 0.0, "gps_white_m": 0.0, "noise_floor_db": 100.0, "reflection_loss_db": 200.0,
}  # fmt: skip


def gains_db(azimuth_deg: Any) -> np.ndarray:
    """[..., 64] of every beam towards this azimuth."""
    response = steering_vector(np.radians(np.asarray(azimuth_deg, dtype=float)))
    return 10 * np.log10(np.abs(response @ codebook().conj().T) ** 2)


def street(site: int, **changes: Any) -> RoadPasses:
    settings = replace(site_settings(site, np.random.default_rng(100 + site)), **changes)
    return drive_bys(settings, np.random.default_rng(200 + site))


def persistence(passes: RoadPasses) -> float:
    beams = passes.powers.argmax(axis=1)
    return float((beams[1:] == beams[:-1])[passes.sequence[1:] == passes.sequence[:-1]].mean())


def test_a_beam_gains_12_db_where_it_points() -> None:
    azimuths_deg = np.degrees(beam_azimuths_rad())
    assert_allclose(np.diag(gains_db(azimuths_deg)), 12.04, atol=0.005)
    assert_allclose(azimuths_deg[[0, -1]], [-45, 45])
    assert_allclose(np.diff(azimuths_deg), 90 / 63)


def test_a_beam_at_broadside_is_6_4_degrees_wide() -> None:
    azimuths_deg = np.linspace(-10, 10, 200_001)
    beam = np.ones(16) / 4  # points to 0 degrees; the codebook's own lie 0.7 degrees to either side
    gain_db = 10 * np.log10(np.abs(steering_vector(np.radians(azimuths_deg)) @ beam) ** 2)
    above_half = azimuths_deg[gain_db >= gain_db.max() - 10 * np.log10(2)]
    assert np.ptp(above_half) == pytest.approx(6.4, abs=PRINTED_DEG)


@pytest.mark.parametrize(("azimuth_deg", "n_beams"), [(0.0, 4), (30.0, 6)])
def test_beams_overlap(azimuth_deg: float, n_beams: int) -> None:
    gain_db = gains_db(azimuth_deg)
    assert (gain_db >= gain_db.max() - 3).sum() == n_beams


@pytest.mark.parametrize(("beam", "gap_db"), [(32, 0.6), (63, 0.3)])
def test_on_a_beam_the_neighbor_is_only_a_little_weaker(beam: int, gap_db: float) -> None:
    gain_db = np.sort(gains_db(np.degrees(beam_azimuths_rad()[beam])))
    assert gain_db[-1] - gain_db[-2] == pytest.approx(gap_db, abs=PRINTED_DB)


def test_half_way_between_two_beams_they_tie() -> None:
    gain_db = np.sort(gains_db(0.0))
    assert gain_db[-1] - gain_db[-2] == pytest.approx(0, abs=1e-9)


def test_one_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    first, again, other = (drive_bys(RoadSettings(), np.random.default_rng(seed)) for seed in (1, 1, 2))
    for field in ("positions_m", "powers", "sequence", "time_s"):
        assert getattr(first, field).tobytes() == getattr(again, field).tobytes()
        assert getattr(first, field).tobytes() != getattr(other, field).tobytes()


def test_rows_are_grouped_by_pass_and_in_time_order() -> None:
    settings = RoadSettings()
    passes = drive_bys(settings, np.random.default_rng(0))
    n_rows = len(passes.sequence)
    assert passes.positions_m.shape == (n_rows, 2)
    assert passes.powers.shape == (n_rows, 64)
    assert (passes.powers > 0).all()
    assert np.isfinite(passes.powers).all()
    assert_array_equal(np.unique(passes.sequence), np.arange(settings.n_passes))
    assert np.isin(np.diff(passes.sequence), [0, 1]).all()
    lengths = np.bincount(passes.sequence)
    assert lengths.min() >= settings.min_rows
    assert lengths.max() <= settings.max_rows
    within = np.diff(passes.sequence) == 0
    assert_allclose(np.diff(passes.time_s)[within], settings.sample_interval_s)
    assert (np.diff(passes.time_s)[~within] > settings.sample_interval_s).all()


@pytest.mark.parametrize("site", range(N_SITES))
def test_the_beam_wanders_over_the_codebook_about_as_fast_as_measured(site: int) -> None:
    passes = street(site)
    assert len(np.unique(passes.powers.argmax(axis=1))) >= 40
    assert 0.25 <= persistence(passes) <= 0.6


def test_a_car_that_hardly_moves_keeps_its_beam() -> None:
    """Negative control: persistence follows the speed, not the settings of the noise."""
    still = street(0, speed_limit_m_per_s=0.1, sample_interval_s=0.01, **CLEAN)
    racing = street(0, speed_limit_m_per_s=12.0, min_rows=8, max_rows=10, **CLEAN)
    assert persistence(still) > 0.95
    assert persistence(racing) < 0.1


def test_nearer_is_stronger_by_20_db_per_decade() -> None:
    passes = street(0, orientation_deg=0.0, **CLEAN)
    distance_db = 20 * np.log10(np.linalg.norm(passes.positions_m, axis=1))
    strength_db = 10 * np.log10(passes.powers.max(axis=1))
    slope, _ = np.polyfit(distance_db, strength_db, 1)
    assert slope == pytest.approx(-1, abs=0.05)
    assert np.ptp(strength_db + distance_db) < 0.3  # between two beams the best loses up to 0.15 dB


def test_the_best_beam_points_at_the_car() -> None:
    passes = street(1, orientation_deg=7.0, **CLEAN)
    azimuth_deg = np.degrees(np.arctan2(*passes.positions_m.T))
    pointed_deg = 7.0 + np.degrees(beam_azimuths_rad())[passes.powers.argmax(axis=1)]
    assert np.abs(azimuth_deg - pointed_deg).max() < 90 / 63  # half a beam, and a little for noise on ties


def test_the_wall_makes_power_ripple() -> None:
    positions_m = np.stack([np.linspace(-0.5, 0.5, 400), np.full(400, 12.0)], axis=1)
    bare, walled = (
        10 * np.log10(mean_powers(RoadSettings(reflection_loss_db=loss), positions_m).max(axis=1)) for loss in (200, 10)
    )
    assert np.ptp(bare) < 0.5
    assert np.ptp(walled) > np.ptp(bare) + 0.5


def test_noise_lies_where_the_settings_put_it() -> None:
    """Beams that look away from the car read the floor: 20 dB below 0.4."""
    passes = street(0, noise_floor_db=20.0, reflection_loss_db=200.0, peak_power=0.4)
    weakest = np.sort(passes.powers, axis=1)[:, :48].mean()
    assert 10 * np.log10(weakest / 0.4) == pytest.approx(-20, abs=1.5)  # side lobes add, sorting takes away


def test_gps_error_drifts_slowly_and_has_the_set_size() -> None:
    settings = RoadSettings(n_passes=3000, min_rows=30, max_rows=30)
    exact = replace(settings, gps_bias_m=0.0, gps_white_m=0.0)
    noisy_m, true_m = (drive_bys(s, np.random.default_rng(3)).positions_m for s in (settings, exact))
    error_m = (noisy_m - true_m).reshape(3000, 30, 2)
    n = 3000 * 2
    variance = settings.gps_bias_m**2 + settings.gps_white_m**2
    standard_error = variance * np.sqrt(2 / n)
    assert abs((error_m[:, 0] ** 2).mean() - variance) < 4 * standard_error
    lag_s = 29 * settings.sample_interval_s
    covariance = settings.gps_bias_m**2 * np.exp(-lag_s / settings.gps_bias_time_s)
    assert abs((error_m[:, 0] * error_m[:, -1]).mean() - covariance) < 4 * standard_error


def test_sites_differ_in_distance_orientation_speed_and_noise() -> None:
    sites = [site_settings(i, np.random.default_rng(i)) for i in range(N_SITES)]
    ranges: dict[str, Callable[[RoadSettings], bool]] = {
        "distance_m": lambda s: 8 <= s.distance_m <= 20,
        "orientation_deg": lambda s: -10 <= s.orientation_deg <= 10,
        "speed_limit_m_per_s": lambda s: 3 <= s.speed_limit_m_per_s <= 7,
        "noise_floor_db": lambda s: 15 <= s.noise_floor_db <= 25,
    }
    for name, inside in ranges.items():
        assert all(inside(site) for site in sites)
        assert len({getattr(site, name) for site in sites}) == N_SITES
    assert np.ptp([site.distance_m for site in sites]) > 5
    assert np.ptp([site.orientation_deg for site in sites]) > 8
    assert site_settings(2, np.random.default_rng(2)) == sites[2]
    assert site_settings(0, np.random.default_rng(0), RoadSettings(n_passes=7)).n_passes == 7


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_passes": 0}, "road.n_passes must lie in"),
        ({"distance_m": -3.0}, "road.distance_m must lie in"),
        ({"noise_floor_db": float("nan")}, "road.noise_floor_db must lie in"),
        ({"orientation_deg": 60.0}, "road.orientation_deg must lie in"),
        ({"min_rows": 60}, "road.min_rows must not exceed road.max_rows = 50, got 60"),
        ({"distance_m": 18.0}, "road.facade_distance_m must be at least road.distance_m"),
    ],
)
def test_an_impossible_road_is_refused_by_field(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        RoadSettings(**changes)
    assert words in str(refused.value)

"""Link budget between stations: noise floors, beams, layout and long-term loss."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.radio.link_budget import (
    JITTER_SHARE,
    distances_m,
    lattice_places_m,
    noise_floor_dbm,
    off_beam_loss_db,
    station_loss_db,
)
from sheafedge.emulator.radio.pathloss import oxygen_db, umi_pathloss_db

STANDARD_ERRORS = 3.0


@pytest.mark.parametrize(("bandwidth_hz", "printed_dbm"), [(100e6, -87.0), (1e9, -77.0)])
def test_noise_floors_equal_the_printed_ones(bandwidth_hz: float, printed_dbm: float) -> None:
    assert_allclose(noise_floor_dbm(bandwidth_hz, 7.0), printed_dbm, atol=1e-9)


def test_a_beam_is_three_db_down_at_half_its_width_and_never_below_its_back() -> None:
    assert_allclose(off_beam_loss_db(np.radians([0.0, 5.0, -5.0, 90.0, 180.0]), 10.0, 30.0), [0, 3, 3, 30, 30])


def test_whole_turns_do_not_matter() -> None:
    angles = np.radians([2.0, -4.0])
    assert_allclose(off_beam_loss_db(angles + 4.0 * np.pi, 10.0, 30.0), off_beam_loss_db(angles, 10.0, 30.0))


def _apart_m(n_stations: int, inter_site_m: float, seed: int = 0) -> np.ndarray:
    return distances_m(lattice_places_m(n_stations, inter_site_m, np.random.default_rng(seed)))


def test_nearest_stations_are_about_one_site_distance_apart() -> None:
    nearest_m = (_apart_m(61, 100.0) + np.diag(np.full(61, np.inf))).min(axis=1)
    assert (nearest_m >= 100.0 * (1.0 - 2.0 * JITTER_SHARE)).all()
    assert (nearest_m <= 100.0 * (1.0 + 2.0 * JITTER_SHARE)).all()


def test_stations_with_small_numbers_stand_in_the_middle() -> None:
    places_m = lattice_places_m(61, 100.0, np.random.default_rng(0))
    from_middle_m = np.hypot(*places_m.T)
    assert from_middle_m[:7].max() < from_middle_m[37:].min()


def test_the_same_draws_give_the_same_places_and_others_do_not() -> None:
    assert_allclose(_apart_m(9, 100.0), _apart_m(9, 100.0), rtol=0.0)
    assert np.abs(_apart_m(9, 100.0) - _apart_m(9, 100.0, seed=1)).max() > 1.0


def test_without_shadowing_stations_in_sight_lose_what_the_standard_says() -> None:
    apart_m = _apart_m(12, 150.0)
    everybody = np.ones(apart_m.shape, dtype=np.bool_)
    loss_db = station_loss_db(apart_m, 60e9, everybody, np.random.default_rng(0), shadowing=False)
    distance_m = float(apart_m[0, 1])
    expected = umi_pathloss_db(distance_m, 60e9, is_los=True, user_height_m=10.0) + oxygen_db(distance_m, 60e9)
    assert_allclose(loss_db[0, 1], expected, rtol=1e-12)
    assert_allclose(loss_db, loss_db.T, rtol=0.0)
    assert np.isinf(np.diag(loss_db)).all()


def test_stations_out_of_sight_lose_more_and_far_ones_hear_nothing() -> None:
    far_m = np.array([[0.0, 4000.0, 6000.0], [4000.0, 0.0, 2000.0], [6000.0, 2000.0, 0.0]])
    nobody, everybody = np.zeros((3, 3), dtype=np.bool_), np.ones((3, 3), dtype=np.bool_)
    hidden = station_loss_db(far_m, 28e9, nobody, np.random.default_rng(0), shadowing=False)
    seen = station_loss_db(far_m, 28e9, everybody, np.random.default_rng(0), shadowing=False)
    assert hidden[0, 1] > seen[0, 1] + 10.0
    assert np.isinf(seen[0, 2])


def test_shadowing_spreads_as_much_as_the_standard_says() -> None:
    apart_m = _apart_m(60, 30.0)
    everybody = np.ones(apart_m.shape, dtype=np.bool_)
    clear, shadowed = (
        station_loss_db(apart_m, 60e9, everybody, np.random.default_rng(5), shadowing=on)[np.triu_indices(60, 1)]
        for on in (False, True)
    )
    spread_db = (shadowed - clear).std()
    assert abs(spread_db - 4.0) < STANDARD_ERRORS * 4.0 / np.sqrt(2 * len(clear))

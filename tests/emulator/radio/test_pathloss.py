"""Path loss and shadowing of a street canyon: printed rows of the standard, and statistics that come back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.radio.link_budget import correlated_normal, shadow_fading_db, umi_large_scale
from sheafedge.emulator.radio.pathloss import los_probability, oxygen_db, umi_pathloss_db

PRINTED_DB = 1e-4 / 2 * 1.01  # golden values are printed with four digits
PRINTED = 6e-4  # and probabilities with three
N_DRAWS = 100_000

#: distance, carrier in GHz, line of sight, dB; the 5 GHz ones are test vectors of ns-3.
GOLDEN = [
    *((d, 5, True, loss) for d, loss in ((10, 69.8591), (100, 88.4122), (1000, 119.3114), (5000, 147.2696))),
    *((d, 5, False, loss) for d, loss in ((10, 76.7563), (100, 107.9432), (1000, 143.1886), (5000, 167.8617))),
    *((d, 60, True, loss) for d, loss in ((10, 91.4427), (25, 97.8186), (50, 103.7713), (100, 109.9959))),
    *((d, 60, False, loss) for d, loss in ((10, 99.7428), (25, 110.4604), (50, 120.4666), (100, 130.9298))),
    (200, 60, True, 116.2929),
    (200, 60, False, 141.5148),
]  # fmt: skip


def test_path_loss_equals_all_eighteen_printed_values() -> None:
    checked = 0
    for distance_m, carrier_ghz, is_los, printed_db in GOLDEN:
        found = umi_pathloss_db(float(distance_m), carrier_ghz * 1e9, is_los=is_los)
        assert_allclose(found, printed_db, atol=PRINTED_DB, err_msg=f"{distance_m} m, {carrier_ghz} GHz, {is_los}")
        checked += 1
    assert checked == 18


def test_distances_and_views_can_be_mixed_in_one_call() -> None:
    rows = [row for row in GOLDEN if row[1] == 60]
    found = umi_pathloss_db([row[0] for row in rows], 60e9, is_los=[row[2] for row in rows])
    assert_allclose(found, [row[3] for row in rows], atol=PRINTED_DB)


def test_loss_grows_with_distance_and_never_falls_without_a_view() -> None:
    distance_m = np.linspace(10, 5000, 2000)
    los, nlos = (umi_pathloss_db(distance_m, 5e9, is_los=view) for view in (True, False))
    assert (np.diff(los) > 0).all()
    assert (nlos >= los).all()


def test_the_two_slopes_meet_at_the_breakpoint() -> None:
    breakpoint_m = 4 * 9 * 0.5 * 5e9 / 3e8
    before, after = umi_pathloss_db([breakpoint_m - 1e-6, breakpoint_m + 1e-6], 5e9, is_los=True)
    assert after == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: umi_pathloss_db(9.99, 60e9, is_los=True), "distance_2d_m must lie in"),
        (lambda: umi_pathloss_db([20.0, 5000.1], 60e9, is_los=True), r"distance_2d_m .*got 5000.1"),
        (lambda: umi_pathloss_db(20.0, 0.4e9, is_los=True), "carrier_hz"),
        (lambda: umi_pathloss_db(20.0, 101e9, is_los=True), "carrier_hz"),
        (lambda: umi_pathloss_db(20.0, 60e9, is_los=True, user_height_m=1.4), "user_height_m"),
        (lambda: umi_pathloss_db(20.0, 60e9, is_los=True, user_height_m=23.0), "user_height_m"),
        (lambda: umi_pathloss_db(20.0, 60e9, is_los=True, bs_height_m=25.0), "bs_height_m must be 10"),
        (lambda: umi_pathloss_db(np.nan, 60e9, is_los=True), "distance_2d_m"),
        (lambda: los_probability(-1.0), "distance_2d_m must be above 0"),
        (lambda: oxygen_db(10.0, 101e9), "carrier_hz"),
    ],
)
def test_values_outside_the_range_of_validity_are_refused(call: Callable[[], object], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        call()


def test_probability_of_a_view_equals_the_printed_values() -> None:
    assert_allclose(los_probability([10, 18, 25, 50, 100, 200]), [1, 1, 0.860, 0.520, 0.231, 0.094], atol=PRINTED)


def test_views_are_as_frequent_as_their_probability() -> None:
    expected = 18 / 50 + np.exp(-50 / 36) * (1 - 18 / 50)
    seen = np.random.default_rng(1).random(N_DRAWS) < los_probability(50.0)
    assert seen.mean() == pytest.approx(expected, abs=3 * np.sqrt(expected * (1 - expected) / N_DRAWS))


def test_oxygen_costs_what_the_table_says() -> None:
    rows = {28: 0, 57: 9.7, 58: 12.6, 59: 14.6, 60: 15, 61: 14.6, 62: 14.3, 63: 10.5, 64: 6.8}
    assert_allclose([oxygen_db(1000.0, ghz * 1e9) for ghz in rows], list(rows.values()), atol=1e-12)
    assert oxygen_db(12.0, 60e9) == pytest.approx(0.18)
    assert oxygen_db(1000.0, 62.5e9) == pytest.approx(12.4)


@pytest.mark.parametrize(("is_los", "sigma_db", "correlation_m"), [(True, 4.0, 10.0), (False, 7.82, 13.0)])
def test_shadowing_has_the_spread_and_the_reach_of_the_table(
    is_los: bool, sigma_db: float, correlation_m: float
) -> None:
    step_m = np.array([0.0, 4.0, 6.0])  # two steps: the correlation over both must be that of their sum
    draws = np.random.default_rng(2)
    shadow = shadow_fading_db(step_m, 60e9, draws, is_los=is_los, n_tracks=N_DRAWS)
    assert shadow.shape == (N_DRAWS, 3)
    assert_allclose(shadow.mean(axis=0), 0, atol=3 * sigma_db / np.sqrt(N_DRAWS))
    assert_allclose(shadow.std(axis=0), sigma_db, atol=3 * sigma_db / np.sqrt(2 * N_DRAWS))
    likeness = np.corrcoef(shadow[:, 0], shadow[:, 2])[0, 1]
    reach_m = -10.0 / np.log(likeness)
    standard_error_m = (1 - likeness**2) / np.sqrt(N_DRAWS) * reach_m**2 / (10.0 * likeness)
    assert reach_m == pytest.approx(correlation_m, abs=3 * standard_error_m)


def test_the_reach_test_tells_10_m_from_13_m() -> None:
    values = correlated_normal(np.array([0.0, 10.0]), 13.0, N_DRAWS, np.random.default_rng(3))
    likeness = np.corrcoef(values[:, 0], values[:, 1])[0, 1]
    assert abs(-10.0 / np.log(likeness) - 10.0) > 1.0


def test_shadowing_at_rest_stays() -> None:
    values = shadow_fading_db(np.zeros(5), 60e9, np.random.default_rng(4), is_los=True)
    assert_allclose(values, np.broadcast_to(values[:, :1], values.shape), atol=1e-12)


@pytest.mark.parametrize(("is_los", "median_ns"), [(True, 27), (False, 55)])
def test_median_delay_spread_at_60_ghz(is_los: bool, median_ns: float) -> None:
    law = umi_large_scale("log10_delay_spread_s", 60e9, is_los=is_los)
    assert 1e9 * 10**law.mean == pytest.approx(median_ns, abs=0.5)


def test_large_scale_parameters_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown large-scale parameter 'luck'"):
        umi_large_scale("luck", 60e9, is_los=True)
    with pytest.raises(ConfigError, match="line of sight only"):
        umi_large_scale("rician_factor_db", 60e9, is_los=False)

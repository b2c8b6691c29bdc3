"""Blockage model A and the single edge, against printed values and their own statistics."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.radio.blockage_regions import (
    Regions,
    draw_regions,
    regions_loss_db,
    self_blocking_loss_db,
)
from sheafedge.emulator.radio.knife_edge import fresnel_parameter, knife_edge_loss_db

PRINTED_DB = 0.005 * 1.01  # golden values are printed with two digits
N_POINTS = 25_000


def one_region(azimuth_deg: float = 90.0, n_regions: int = 1) -> Regions:
    """10 degrees wide and 5 high at one point, or several in the same place."""
    azimuth, width, zenith, height = (np.full((1, n_regions), value) for value in (azimuth_deg, 10.0, 90.0, 5.0))
    return Regions(azimuth, width, zenith, height, distance_m=10.0)


@pytest.mark.parametrize(("carrier_hz", "printed_db"), [(30e9, 10.06), (60e9, 12.73)])
def test_a_ray_through_the_center_of_a_region_loses_the_printed_value(carrier_hz: float, printed_db: float) -> None:
    assert regions_loss_db(one_region(), 90.0, 90.0, carrier_hz) == pytest.approx(printed_db, abs=PRINTED_DB)


def test_a_region_fades_with_the_angle_and_ends_at_its_full_width() -> None:
    regions = one_region()
    loss_db = [float(regions_loss_db(regions, 90.0 + off, 90.0, 60e9)[0]) for off in np.linspace(0, 12, 49)]
    assert (np.diff(loss_db) <= 1e-9).all()
    assert loss_db[39] > 0.0  # 9.75 degrees off, twice the region's extent
    assert loss_db[40:] == [0.0] * 9


def test_regions_reach_across_north() -> None:
    west, east = (regions_loss_db(one_region(azimuth), 1.0, 90.0, 60e9) for azimuth in (359.0, 3.0))
    assert_allclose(west, east, atol=1e-9)
    assert west[0] > 10.0


def test_several_regions_add_their_decibels() -> None:
    twice = one_region(n_regions=2)
    once = regions_loss_db(one_region(), 92.0, 91.0, 60e9)
    assert_allclose(regions_loss_db(twice, 92.0, 91.0, 60e9), 2 * once, atol=1e-9)


def test_regions_are_spread_as_the_table_says() -> None:
    far_apart_m = np.full(N_POINTS, 1e6)
    regions = draw_regions(far_apart_m, np.random.default_rng(1))
    assert regions.azimuth_deg.shape == (N_POINTS, 4)
    n_draws = 4 * N_POINTS
    for values, low, high in ((regions.azimuth_deg, 0, 360), (regions.azimuth_width_deg, 5, 15)):
        assert values.min() >= low
        assert values.max() <= high
        sigma = (high - low) / np.sqrt(12)
        assert values.mean() == pytest.approx((low + high) / 2, abs=3 * sigma / np.sqrt(n_draws))
        assert values.var() == pytest.approx(sigma**2, abs=3 * sigma**2 * np.sqrt(0.8 / n_draws))  # kurtosis 1.8
    assert (regions.zenith_deg == 90).all()
    assert_allclose(regions.zenith_width_deg, 5.0)


@pytest.mark.parametrize(("environment", "reach_m"), [("outdoor", 10.0), ("indoor", 5.0)])
def test_regions_move_slowly_with_the_user(environment: str, reach_m: float) -> None:
    steps_m = np.where(np.arange(2 * N_POINTS) % 2 == 0, 1e6, reach_m)  # independent pairs one reach apart
    azimuth = draw_regions(steps_m, np.random.default_rng(2), environment).azimuth_deg.reshape(N_POINTS, 2, 4)  # type: ignore[arg-type]
    likeness = np.corrcoef(azimuth[:, 0].ravel(), azimuth[:, 1].ravel())[0, 1]
    expected = 6 / np.pi * np.arcsin(np.exp(-1) / 2)
    assert likeness == pytest.approx(expected, abs=3 * (1 - expected**2) / np.sqrt(4 * N_POINTS))
    assert abs(expected - np.exp(-1)) < 0.02  # as the docstring promises


def test_indoor_regions_are_wider_and_closer() -> None:
    indoor = draw_regions(np.full(1000, 1e6), np.random.default_rng(3), "indoor")
    assert indoor.distance_m == 2.0
    assert indoor.azimuth_width_deg.min() >= 15
    assert 5 <= indoor.zenith_width_deg.min() < 7
    assert indoor.zenith_width_deg.max() <= 15


def test_a_holder_blocks_30_db_on_one_side_only() -> None:
    assert_allclose(self_blocking_loss_db([260, 200.5, 199.5, 80], [100, 100, 100, 100]), [30, 30, 0, 0])
    assert_allclose(self_blocking_loss_db([260, 260], [139, 141]), [30, 0])
    assert_allclose(self_blocking_loss_db([40, 321, 319, 119], 110.0, "landscape"), [30, 30, 0, 30])


def test_one_edge_costs_the_printed_values() -> None:
    assert_allclose(knife_edge_loss_db([0, 0.5, 1, 2, 3]), [6.03, 10.29, 13.93, 19.04, 22.42], atol=PRINTED_DB)
    assert_allclose(knife_edge_loss_db([0, 0.5, 1, 2, 3]), [6.02, 10.23, 13.86, 19.09, 22.52], atol=0.11)  # exact


def test_an_edge_far_below_the_path_costs_nothing() -> None:
    assert_allclose(knife_edge_loss_db([-0.78, -1.0, -50.0]), 0.0, atol=0.02)
    assert (np.diff(knife_edge_loss_db(np.linspace(-3, 5, 200))) >= 0).all()


def test_the_fresnel_parameter_counts_reach_into_the_path() -> None:
    assert fresnel_parameter(0.5, 6.0, 6.0, 60e9) == pytest.approx(0.5 * np.sqrt(2 * 12 / (0.2998 / 60 * 36)), rel=1e-3)
    assert fresnel_parameter(-0.5, 6.0, 6.0, 60e9) == -fresnel_parameter(0.5, 6.0, 6.0, 60e9)

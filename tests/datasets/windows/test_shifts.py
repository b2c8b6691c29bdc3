"""Harder days: what they change, what they leave, and that they are the same for whoever asks again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.windows.shifts import (
    HIDDEN_RAYS,
    NIGHT_LIGHT,
    SHIFTS,
    Inputs,
    at_night,
    noisy,
    occluded,
)
from sheafedge.emulator.contracts import MODALITY_SPECS, Modality

N = 40
REACH_M = 16.0


@dataclass(frozen=True)
class Facts:
    unit: str
    nothing: float | None = None


SENSORS: dict[Modality, Facts] = {
    "lidar": Facts("m, rad", REACH_M),
    "camera": Facts("0 to 255", 0.0),
    "rf": Facts("dB"),
    "gps": Facts("deg, deg, m, m"),
    "radar": Facts("dB", 0.0),
}
#: Of an estimated standard deviation, five of its own: some thousand draws each.
SPREAD_TOLERANCE = 0.1
M_PER_DEGREE = 111_320.0


def inputs(color: bool = False) -> Inputs:
    draws = np.random.default_rng(1)
    scans = np.stack([draws.uniform(1.0, 15.0, (N, 4, 60)), np.tile(np.linspace(0, 3, 60), (N, 4, 1))], axis=1)
    scans[:, 0, :, ::7] = REACH_M  # no echo
    scans[:, 0, :, 3] = 0.0  # an obstacle at the sensor
    arrays: dict[Modality, np.ndarray] = {
        "lidar": scans,
        "camera": draws.uniform(100.0, 150.0, (N, 3 if color else 4, 16, 20)),
        "rf": draws.normal(-60.0, 5.0, (N, 4, 64)),
        "gps": np.concatenate([draws.normal(0.0, 1e-4, (N, 2)), draws.normal(20.0, 5.0, (N, 2))], axis=1),
    }
    return {name: values.astype(np.float32) for name, values in arrays.items()}


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_is_a_function_of_its_draws_and_leaves_what_it_was_given(name: str) -> None:
    shift, changes = SHIFTS[name]
    given, untouched = inputs(), inputs()
    once = shift(given, SENSORS, np.random.default_rng(4))
    again = shift(given, SENSORS, np.random.default_rng(4))
    other = shift(given, SENSORS, np.random.default_rng(5))
    for modality, values in given.items():
        assert_array_equal(values, untouched[modality])
        assert_array_equal(once[modality], again[modality])
        assert once[modality].dtype == np.float32
        assert once[modality].shape == values.shape
        assert np.array_equal(once[modality], values) == (modality not in changes)
        assert np.array_equal(once[modality], other[modality]) == (modality not in changes)


def test_noise_is_as_strong_as_it_says_in_the_unit_of_every_column() -> None:
    before = inputs()
    after = noisy(before, SENSORS, np.random.default_rng(2))
    spread = {name: (after[name] - before[name]).std(axis=tuple(range(before[name].ndim - 1))) for name in before}
    assert_allclose(spread["rf"].mean(), MODALITY_SPECS["rf"].noise_sigma, rtol=SPREAD_TOLERANCE)
    assert_allclose(spread["camera"].mean(), MODALITY_SPECS["camera"].noise_sigma, rtol=SPREAD_TOLERANCE)
    in_meters = spread["gps"] * [M_PER_DEGREE, M_PER_DEGREE, 1.0, 1.0]
    assert_allclose(in_meters, MODALITY_SPECS["gps"].noise_sigma, rtol=0.4)  # N draws per column


def test_noise_moves_echoes_and_makes_none() -> None:
    before = inputs()["lidar"]
    after = noisy({"lidar": before}, SENSORS, np.random.default_rng(2))["lidar"]
    echo = before[:, 0] < REACH_M
    inside = echo & (before[:, 0] > 0.5)  # far from both ends of the scale, which cut noise off
    assert_allclose((after - before)[:, 0][inside].std(), MODALITY_SPECS["lidar"].noise_sigma, rtol=SPREAD_TOLERANCE)
    assert_array_equal(after[:, 0][~echo], REACH_M)
    assert 0.0 <= after[:, 0].min() <= after[:, 0].max() <= REACH_M
    assert np.ptp(after[:, 0][before[:, 0] == 0.0]) > 0.0  # 0 m is an echo like others
    assert_array_equal(after[:, 1], before[:, 1])


def test_a_night_is_dark() -> None:
    before = inputs()["camera"]
    after = at_night({"camera": before}, SENSORS, np.random.default_rng(2))["camera"]
    assert_allclose(after.mean(), NIGHT_LIGHT * before.mean(), rtol=SPREAD_TOLERANCE)
    assert 0.0 <= after.min() <= after.max() <= 255.0


@pytest.mark.parametrize("color", [False, True], ids=["frames", "colors"])
def test_the_same_part_of_all_images_of_a_sample_is_hidden(color: bool) -> None:
    before = inputs(color)["camera"]
    after = occluded({"camera": before}, SENSORS, np.random.default_rng(2))["camera"]
    hidden = after == 0.0
    assert_array_equal(hidden, np.broadcast_to(hidden[:, :1], hidden.shape))
    assert_array_equal(after[~hidden], before[~hidden])
    share = hidden.mean(axis=(1, 2, 3))
    assert 0.25 < share.min() < share.max() < 0.65  # 0.3 to 0.6, in whole pixels
    assert len(np.unique(share)) > 2


def test_a_sector_of_the_rays_of_a_sample_has_no_echo() -> None:
    before = inputs()["lidar"]
    after = occluded({"lidar": before}, SENSORS, np.random.default_rng(2))["lidar"]
    lost = (before[:, 0] < REACH_M) & (after[:, 0] == REACH_M)
    assert_allclose(lost.mean() / (before[:, 0] < REACH_M).mean(), HIDDEN_RAYS, rtol=0.05)
    assert_array_equal(after[:, 0][~lost], before[:, 0][~lost])  # no obstacle appears where there was none
    hidden = np.isin(np.arange(60), np.arange(0, 60, 7)) | lost  # rays without an echo cannot lose one
    assert_array_equal(hidden, np.broadcast_to(hidden[:, :1], hidden.shape))
    assert_array_equal(after[:, 1], before[:, 1])


def test_noise_moves_echoes_of_a_radar_in_whole_decibels_and_makes_none() -> None:
    draws = np.random.default_rng(3)
    maps = np.where(draws.random((N, 16, 32, 32)) < 0.3, draws.integers(1, 60, (N, 16, 32, 32)), 0).astype(np.float32)
    after = noisy({"radar": maps}, SENSORS, np.random.default_rng(2))["radar"]
    assert not after[maps == 0].any()
    assert after.min() >= 0.0
    assert_array_equal(after, np.round(after))
    strong = maps > 20.0  # far from the floor that cuts noise off
    assert_allclose((after - maps)[strong].std(), MODALITY_SPECS["radar"].noise_sigma, rtol=SPREAD_TOLERANCE)

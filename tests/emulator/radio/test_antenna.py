"""Arrays and codebooks: beams are as wide, as high and as close to each other as 16 elements make them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.radio.antenna import (
    angle_codebook,
    dft_codebook,
    steering_vector,
    with_element_errors,
    with_quantized_phases,
)

PRINTED_DB = 0.05  # golden values are printed with one digit
PRINTED_DEG = 0.05
EXACT = 1e-12
BEAMS_DEG = np.linspace(-45, 45, 64)


def beam_gains(codebook: np.ndarray, direction_sine: float | np.ndarray) -> np.ndarray:
    """[..., n_beams] linear power |f^H a|^2 for a wave of power 1 per element; [...] direction sines."""
    response = steering_vector(direction_sine, codebook.shape[1]) @ codebook.conj().T
    return response.real**2 + response.imag**2


def gains_db(azimuth_deg: float | np.ndarray) -> np.ndarray:
    """[..., 64] of the default codebook."""
    return 10 * np.log10(beam_gains(angle_codebook(), np.sin(np.radians(azimuth_deg))))


def test_a_beam_gains_12_04_db_where_it_points() -> None:
    assert_allclose(np.diag(gains_db(BEAMS_DEG)), 10 * np.log10(16), atol=1e-9)
    assert round(float(gains_db(BEAMS_DEG)[3, 3]), 2) == 12.04


def test_the_best_beam_is_the_one_that_points_there() -> None:
    assert_array_equal(gains_db(BEAMS_DEG).argmax(axis=1), np.arange(64))


def test_a_beam_at_broadside_is_6_4_degrees_wide() -> None:
    azimuth_deg = np.linspace(-10, 10, 200_001)
    gain = beam_gains(np.full((1, 16), 0.25, dtype=complex), np.sin(np.radians(azimuth_deg)))[:, 0]
    above_half = azimuth_deg[gain >= gain.max() / 2]
    assert above_half[-1] - above_half[0] == pytest.approx(6.4, abs=PRINTED_DEG)


@pytest.mark.parametrize(("azimuth_deg", "n_beams"), [(0.0, 4), (30.0, 6)])
def test_several_beams_are_within_3_db_of_the_best(azimuth_deg: float, n_beams: int) -> None:
    nearest = BEAMS_DEG[np.abs(BEAMS_DEG - azimuth_deg).argmin()]
    for offset_deg in (0.0, 0.2, 0.7):
        found = gains_db(nearest + offset_deg)
        assert abs(int((found >= found.max() - 3.0).sum()) - n_beams) <= 1
    between = gains_db(azimuth_deg)
    assert int((between >= between.max() - 3.0).sum()) == n_beams


def test_two_beams_tie_half_way_between_them() -> None:
    halfway = gains_db((BEAMS_DEG[:-1] + BEAMS_DEG[1:]) / 2)
    best_two = np.sort(halfway, axis=1)[:, -2:]
    assert_allclose(best_two[:, 1], best_two[:, 0], atol=5e-3)  # printed as 0.00; the sine is not quite straight
    assert not np.allclose(np.ptp(np.sort(gains_db(BEAMS_DEG), axis=1)[:, -2:], axis=1), 0.0, atol=0.1)


@pytest.mark.parametrize(("beam", "step_down_db"), [(63, 0.3), (32, 0.6)])
def test_the_next_beam_is_little_lower(beam: int, step_down_db: float) -> None:
    found = np.sort(gains_db(BEAMS_DEG[beam]))
    assert found[-1] - found[-2] == pytest.approx(step_down_db, abs=PRINTED_DB)


@pytest.mark.parametrize("make", [angle_codebook, dft_codebook])
def test_beams_have_norm_one(make: Callable[[int, int], np.ndarray]) -> None:
    assert_allclose(np.linalg.norm(make(32, 8), axis=1), 1.0, atol=EXACT)


def test_dft_beams_are_orthogonal_and_others_are_not() -> None:
    square = dft_codebook(16, 16)
    assert_allclose(square @ square.conj().T, np.eye(16), atol=EXACT)
    angular = angle_codebook(16, 16)
    assert not np.allclose(angular @ angular.conj().T, np.eye(16), atol=0.1)


def test_dft_beams_are_even_in_the_sine_and_symmetric() -> None:
    sines = np.angle(dft_codebook()[:, 1] / dft_codebook()[:, 0]) / np.pi
    assert_allclose(np.diff(sines), 2 / 64, atol=EXACT)
    assert_allclose(sines, -sines[::-1], atol=EXACT)


def test_elevation_makes_a_wave_look_closer_to_broadside() -> None:
    level, raised = steering_vector(np.sin(0.5)), steering_vector(np.sin(0.5) * np.cos(0.6))
    assert np.angle(raised[1]) < np.angle(level[1])


def test_phase_shifters_with_5_bits_cost_little_and_with_1_bit_much() -> None:
    sines = np.sin(np.radians(BEAMS_DEG))
    loss_db = {}
    for bits in (1, 5):
        gain = np.diag(beam_gains(with_quantized_phases(angle_codebook(), bits), sines))
        loss_db[bits] = float(10 * np.log10(16 / gain).mean())
    assert 0.0 < loss_db[5] < 0.05  # (pi / 2^5)^2 / 3 in power
    assert loss_db[1] > 2.0


def test_quantized_phases_are_multiples_of_a_step() -> None:
    steps = np.angle(with_quantized_phases(angle_codebook(), 3)) / (np.pi / 4)
    assert_allclose(steps, np.round(steps), atol=1e-9)


def test_element_errors_belong_to_the_element_not_to_the_beam() -> None:
    ratio = with_element_errors(angle_codebook(), np.random.default_rng(1)) / angle_codebook()
    assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape), atol=EXACT)
    assert np.ptp(np.abs(ratio[0])) > 0.01


def test_element_errors_have_the_spreads_asked_for() -> None:
    n_elements = 40_000
    flat = np.ones((2, n_elements), dtype=complex)
    errors = with_element_errors(flat, np.random.default_rng(2), gain_sigma_db=0.5, phase_sigma_deg=5.0)[0]
    standard_error = 1 / np.sqrt(2 * n_elements)
    assert (20 * np.log10(np.abs(errors))).std() / 0.5 == pytest.approx(1, abs=3 * standard_error)
    assert np.degrees(np.angle(errors)).std() / 5.0 == pytest.approx(1, abs=3 * standard_error)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: angle_codebook(1), "n_beams"),
        (lambda: dft_codebook(8, 1), "n_antennas"),
        (lambda: angle_codebook(half_width_deg=91), "half_width_deg"),
        (lambda: with_quantized_phases(angle_codebook(), 0), "phase_bits"),
        (lambda: with_element_errors(angle_codebook(), np.random.default_rng(0), -1.0), "gain_sigma_db"),
    ],
)
def test_an_impossible_codebook_is_refused(call: Callable[[], object], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        call()

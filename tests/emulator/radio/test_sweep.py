"""Beam sweeps: the short sum over pairs of paths is the long one over subcarriers, and noise is what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from doubles.radio_scenes import USER, WALLS, busy_street, street
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.radio.antenna import angle_codebook, dft_codebook, steering_vector
from sheafedge.emulator.radio.channel import ChannelSettings, Paths, trace_paths
from sheafedge.emulator.radio.segments import BlockageModel
from sheafedge.emulator.radio.sweep import (
    SweepNoise,
    beam_powers,
    clear_power,
    measured_powers,
    strongest_beam_spectrum,
)
from sheafedge.emulator.world.scene import Kind

EXACT = 1e-10
CODEBOOK = angle_codebook()
PLAIN = ChannelSettings(oxygen=False, ground_roughness_m=0.0)


def powers_by_subcarrier(paths: Paths, codebook: np.ndarray, n_subcarriers: int, bandwidth_hz: float) -> np.ndarray:
    """[F, n_beams] the definition, one subcarrier after another."""
    total = np.zeros((len(paths.gain), len(codebook)))
    for index in range(n_subcarriers):
        offset_hz = (index - (n_subcarriers - 1) / 2) * bandwidth_hz / n_subcarriers
        gain = paths.gain * np.exp(-2j * np.pi * offset_hz * paths.delay_s)
        channel = (gain[..., None] * steering_vector(paths.direction_sine, codebook.shape[1])).sum(axis=1)
        total += np.abs(channel @ codebook.conj().T) ** 2
    return total / n_subcarriers


@given(
    seed=st.integers(0, 10_000),
    n_subcarriers=st.sampled_from([1, 2, 7, 64]),
    bandwidth_hz=st.sampled_from([1e6, 100e6, 2e9]),
)
def test_pairs_of_paths_give_the_same_powers_as_subcarriers(seed: int, n_subcarriers: int, bandwidth_hz: float) -> None:
    paths = trace_paths(busy_street(3, 8, seed), ChannelSettings(double_facade=True))
    expected = powers_by_subcarrier(paths, CODEBOOK, n_subcarriers, bandwidth_hz)
    found = beam_powers(paths, CODEBOOK, n_subcarriers, bandwidth_hz)
    assert_allclose(found, expected, rtol=EXACT, atol=EXACT * expected.max())


def test_the_band_averages_over_the_ripple_of_two_paths() -> None:
    """Negative control of the test above: one subcarrier and a wide band see different channels."""
    paths = trace_paths(street(facades=WALLS), PLAIN)
    narrow, wide = beam_powers(paths, CODEBOOK, 1), beam_powers(paths, CODEBOOK, 64, 2e9)
    assert not np.allclose(narrow, wide, rtol=1e-2)


def test_delays_of_whole_periods_of_the_subcarriers_are_no_trouble() -> None:
    spacing_hz = 100e6 / 64
    two = trace_paths(street(), PLAIN)
    paths = Paths(
        **{name: getattr(two, name) for name in two.__slots__} | {"delay_s": np.array([[0.0, 1.0 / spacing_hz]])}
    )
    assert_allclose(beam_powers(paths, CODEBOOK), powers_by_subcarrier(paths, CODEBOOK, 64, 100e6), rtol=1e-8)


def turning_paths(seed: int) -> Paths:
    """Paths of a busy street, each with a Doppler shift of its own."""
    paths = trace_paths(busy_street(4, 8, seed))
    return replace(paths, doppler_hz=np.random.default_rng(seed).uniform(-6e3, 6e3, paths.valid.shape) * paths.valid)


@pytest.mark.parametrize("duration_s", [0.5e-3, 5e-3, 20e-3])
def test_a_sweep_that_takes_time_averages_every_beam_over_its_own_part_of_it(duration_s: float) -> None:
    """The definition: gains turn, and every beam is heard in its turn, here at 400 instants."""
    paths, codebook = turning_paths(2), angle_codebook(16)
    expected = np.zeros((4, 16))
    for frame in range(4):
        one = {name: getattr(paths, name)[[frame]] for name in ("valid", "delay_s", "direction_sine")}
        for beam in range(16):
            at_s = (beam + (np.arange(400) + 0.5) / 400) * duration_s / 16
            gain = paths.gain[frame] * np.exp(2j * np.pi * paths.doppler_hz[frame] * at_s[:, None])
            instants = replace(paths, gain=gain, **{name: np.repeat(rows, 400, axis=0) for name, rows in one.items()})
            expected[frame, beam] = beam_powers(instants, codebook[[beam]]).mean()
    found = beam_powers(paths, codebook, duration_s=duration_s)
    assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * expected.max())
    # negative control: all at one instant
    assert not np.allclose(beam_powers(paths, codebook), expected, rtol=0.05, atol=0.0)


def test_a_sweep_of_no_time_does_not_hear_doppler_shifts() -> None:
    paths = turning_paths(3)
    still = replace(paths, doppler_hz=np.zeros_like(paths.doppler_hz))
    assert_array_equal(beam_powers(paths, CODEBOOK), beam_powers(still, CODEBOOK))
    assert_allclose(beam_powers(still, CODEBOOK, duration_s=20e-3), beam_powers(still, CODEBOOK), rtol=EXACT)


def test_one_path_alone_is_as_strong_however_long_a_sweep_takes() -> None:
    """A common turn of all antennas changes no power."""
    paths = turning_paths(4)
    direct = replace(paths, gain=np.where(paths.kind == 0, paths.gain, 0.0))
    assert_allclose(beam_powers(direct, CODEBOOK, duration_s=20e-3), beam_powers(direct, CODEBOOK), rtol=1e-9)


def test_the_spectrum_of_a_beam_is_that_of_the_paths_that_it_points_to() -> None:
    paths = trace_paths(street(facades=WALLS), replace(PLAIN, double_facade=False, bounce_pairs=False))
    paths = replace(paths, doppler_hz=np.where(paths.valid, np.arange(len(paths.kind)) * 100.0, 0.0))
    found = strongest_beam_spectrum(paths, CODEBOOK)
    power = (
        np.abs(paths.gain[0]) ** 2
    )  # all paths lie in the plane of the array's broadside: every beam sees them alike
    mean_hz = (power * paths.doppler_hz[0]).sum() / power.sum()
    spread_hz = np.sqrt((power * (paths.doppler_hz[0] - mean_hz) ** 2).sum() / power.sum())
    assert_allclose((found.shift_hz[0], found.spread_hz[0]), (mean_hz, spread_hz), rtol=1e-9)


def test_a_clear_line_of_sight_gives_the_power_of_free_space() -> None:
    paths = trace_paths(street(), PLAIN)
    paths.gain[:, 1] = 0.0  # without the ground
    straight = np.full((1, 16), 0.25, dtype=complex)
    assert beam_powers(paths, straight)[0, 0] == pytest.approx(clear_power(12.0, 60e9, 16), rel=EXACT)


@pytest.mark.parametrize("codebook", [angle_codebook(), dft_codebook(32), angle_codebook(16, 8)])
def test_any_codebook_can_be_swept(codebook: np.ndarray) -> None:
    powers = beam_powers(trace_paths(busy_street(5, 4, seed=1)), codebook)
    assert powers.shape == (5, len(codebook))
    assert (powers >= 0).all()


def test_the_best_beam_points_to_the_user() -> None:
    for azimuth_deg in (-40.0, -5.0, 20.0):
        user = (12 * np.tan(np.radians(azimuth_deg)), 12.0, 1.2)
        best = beam_powers(trace_paths(street(user=user)), CODEBOOK)[0].argmax()
        assert np.linspace(-45, 45, 64)[best] == pytest.approx(azimuth_deg, abs=90 / 63)


@pytest.mark.parametrize(
    ("model", "kind", "low_db", "high_db"),
    [
        ("3gpp_b", Kind.CAR, 12, 25),
        ("3gpp_b", Kind.BUS, 20, 32),
        ("3gpp_b", Kind.PEDESTRIAN, 6, 16),
        ("fresnel", Kind.CAR, 25, 40),
        ("fresnel", Kind.BUS, 55, 80),
        ("fresnel", Kind.PEDESTRIAN, 8, 25),
    ],
)
def test_a_blocker_in_the_way_takes_the_best_beam_down(
    model: BlockageModel, kind: Kind, low_db: float, high_db: float
) -> None:
    scenes = [street(boxes, facades=WALLS, user=USER) for boxes in ((), ((kind, 0.0, 8.0),))]
    settings = ChannelSettings(blockage=model)
    clear, blocked = (beam_powers(trace_paths(scene, settings), CODEBOOK).max() for scene in scenes)
    assert low_db < 10 * np.log10(clear / blocked) < high_db


def test_frames_may_be_swept_in_any_portions() -> None:
    scene = busy_street(40, 12, seed=2)
    together = beam_powers(trace_paths(scene), CODEBOOK)
    portions = [beam_powers(trace_paths(scene.frames(slice(at, at + 8))), CODEBOOK) for at in range(0, 40, 8)]
    assert_allclose(np.concatenate(portions), together, rtol=EXACT, atol=EXACT * together.max())


def test_noise_adds_its_mean_power_and_averages_over_snapshots() -> None:
    n_readings = 100_000
    noise = SweepNoise(reference_power=1.0, floor_db=20.0, n_snapshots=8)
    assert noise.mean_power == pytest.approx(0.01)
    for signal in (0.0, 0.3):
        readings = measured_powers(np.full((n_readings, 1), signal), noise, np.random.default_rng(3))
        variance = (noise.mean_power**2 + 2 * noise.mean_power * signal) / noise.n_snapshots
        assert readings.mean() == pytest.approx(signal + 0.01, abs=3 * np.sqrt(variance / n_readings))
        assert readings.var() == pytest.approx(variance, rel=0.03)
        assert (readings > 0).all()


def test_the_same_draws_give_the_same_reading_and_others_another() -> None:
    paths, noise = trace_paths(busy_street(10, 4, seed=4)), SweepNoise(1e-8)
    first, again, other = (
        beam_powers(paths, CODEBOOK, noise=noise, draws=np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_missing_beams_hit_the_share_of_rows_asked_for_and_move_nothing_else() -> None:
    n_rows, share = 20_000, 0.01
    powers = np.full((n_rows, 8), 0.5)
    whole = measured_powers(powers, SweepNoise(1.0), np.random.default_rng(7))
    gaps = measured_powers(powers, SweepNoise(1.0, nan_row_share=share), np.random.default_rng(7))
    per_row = np.isnan(gaps).sum(axis=1)
    assert set(per_row) == {0, 1}
    assert per_row.mean() == pytest.approx(share, abs=3 * np.sqrt(share * (1 - share) / n_rows))
    assert_array_equal(gaps[~np.isnan(gaps)], whole[~np.isnan(gaps)])
    assert not np.isnan(whole).any()


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: SweepNoise(0.0), "reference_power"),
        (lambda: SweepNoise(1.0, floor_db=-1.0), "floor_db"),
        (lambda: SweepNoise(1.0, n_snapshots=0), "n_snapshots"),
        (lambda: SweepNoise(1.0, nan_row_share=1.1), "nan_row_share"),
        (lambda: beam_powers(trace_paths(street()), CODEBOOK, 0), "n_subcarriers"),
        (lambda: beam_powers(trace_paths(street()), CODEBOOK, 64, 0.0), "bandwidth_hz"),
        (lambda: beam_powers(trace_paths(street()), CODEBOOK, noise=SweepNoise(1.0)), "needs draws"),
    ],
)
def test_an_impossible_sweep_is_refused(call: Callable[[], object], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        call()

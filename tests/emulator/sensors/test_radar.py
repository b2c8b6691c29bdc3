"""The radar: the radar equation, cells of range and angle, boxes that hide others, and noise as specified."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from doubles.radio_scenes import busy_street, street
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.sensors.radar import REFLECTORS, Radar, RadarSettings, echoes, power_map
from sheafedge.emulator.world.scene import Kind, Scene

SETTINGS = RadarSettings()
#: A reflector lies up to half a cell beside the middle of its own, where a periodic sinc has lost 3.92 dB.
HALF_CELL = 0.40
ROUNDING = 1e-9


def moving(scene: Scene, velocity: tuple[float, float, float] = (0.0, 7.0, 0.0)) -> Scene:
    """Every box drives away from the radar, so that none is taken for clutter."""
    return replace(scene, velocity_m_per_s=np.broadcast_to(np.array(velocity), scene.center_m.shape).copy())


def small_box(x_m: float, y_m: float) -> Scene:
    """A box that is small against a cell, at the height of the radar."""
    return moving(street([(Kind.CAR, x_m, y_m, (0.02, 0.02, 2.4))], user=(30.0, 40.0, 1.2)))


def test_a_resolution_of_20_cm_comes_from_768_mhz_and_the_map_reaches_25_m() -> None:
    assert SETTINGS.range_cell_m == pytest.approx(0.195, abs=0.001)
    assert SETTINGS.range_cell_m * SETTINGS.n_ranges == pytest.approx(25.0, abs=0.1)
    scene = replace(busy_street(3, 4, seed=0), time_s=np.arange(3) / 10)
    maps = Radar(SETTINGS, np.random.default_rng(0)).sense(scene)
    assert (maps.shape, maps.dtype) == ((3, 128, 64), np.uint8)


@pytest.mark.parametrize("far_m", [8.0, 16.0])
def test_received_power_falls_with_the_fourth_power_of_range(far_m: float) -> None:
    near, far = (echoes(small_box(0.0, y_m), replace(SETTINGS, n_chirps=16)) for y_m in (4.0, far_m))
    expected = (near[1] / far[1]) ** 4
    assert_allclose(far[0] / near[0], expected, rtol=1e-3)  # what is left once clutter is removed differs by less
    assert expected.max() == pytest.approx((4.0 / far_m) ** 4, rel=0.02)


def test_the_signal_of_a_car_at_10_m_is_what_the_radar_equation_gives() -> None:
    """Typed again: P G^2 lambda^2 sigma / ((4 pi)^3 R^4) over k T F / chirp."""
    scene = moving(street([(Kind.CAR, 0.0, 10.0 + 0.9, (4.8, 1.8, 2.4))], user=(30.0, 40.0, 1.2)))
    section_m2 = 1.5 * 4.8 * 2.4 / len(REFLECTORS)
    received_w = 0.016 * 10**1.8 * (299_792_458.0 / 77e9) ** 2 * section_m2 / ((4 * np.pi) ** 3 * 10.0**4)
    noise_w = 1.380649e-23 * 290 * 10**1.4 / 51.2e-6
    snr, range_m, _ = echoes(scene, SETTINGS)
    assert range_m[0, 1] == pytest.approx(10.0)
    assert snr[0, 1] == pytest.approx(received_w / noise_w, rel=0.01)  # clutter removal takes less


@pytest.mark.parametrize(("x_m", "y_m"), [(0.0, 5.0), (3.0, 7.0), (-6.0, 12.0), (10.0, 10.0), (-1.5, 20.0)])
def test_a_reflector_appears_in_its_own_cell(x_m: float, y_m: float) -> None:
    power = power_map(small_box(x_m, y_m), SETTINGS)[0]
    row, column = np.unravel_index(power.argmax(), power.shape)
    range_m = np.hypot(x_m, y_m - 0.01)
    assert abs(row * SETTINGS.range_cell_m - range_m) <= 0.51 * SETTINGS.range_cell_m
    assert abs(SETTINGS.sines[column] - x_m / range_m) <= 1.01 / SETTINGS.n_angles
    snr = echoes(small_box(x_m, y_m), SETTINGS)[0].sum()
    assert HALF_CELL * SETTINGS.n_antennas * snr < power.max() - 1.0 <= 1.01 * SETTINGS.n_antennas * snr


def test_the_gain_of_both_antennas_falls_with_the_cosine_of_the_azimuth() -> None:
    ahead = echoes(small_box(0.0, 10.01), SETTINGS)[0]
    aside = echoes(small_box(10.0 * np.sin(np.pi / 3), 5.01), SETTINGS)[0]
    assert_allclose(aside / ahead, 0.5**2, rtol=0.02)  # clutter removal takes less


def test_the_grid_of_sines_is_symmetric_and_mirrored_scenes_give_mirrored_maps() -> None:
    assert_allclose(SETTINGS.sines[[0, 31, 32, 63]], np.array([-63, -1, 1, 63]) / 64, rtol=ROUNDING)
    left, right = (power_map(small_box(x_m, 12.0), SETTINGS) for x_m in (-4.0, 4.0))
    assert_allclose(left, right[..., ::-1], rtol=1e-6)
    assert not np.allclose(left, right, rtol=1e-6)


def test_height_adds_to_the_range_and_takes_from_the_sine_along_the_array() -> None:
    tall = moving(street([(Kind.CAR, 3.0, 5.01, (0.0, 0.02, 10.0))], user=(30.0, 40.0, 1.2)))
    range_m = np.hypot(np.hypot(3.0, 5.0), 5.0 - 1.2)
    _, found_m, sine = echoes(tall, SETTINGS)
    assert_allclose(found_m, range_m, rtol=ROUNDING)
    assert_allclose(sine, 3.0 / range_m, rtol=ROUNDING)


@pytest.mark.parametrize(
    ("turns", "left"), [(1.0, 1.0), (0.5, 1.0 - (2.0 / np.pi) ** 2), (2.5, 1.0 - (0.4 / np.pi) ** 2)]
)
def test_clutter_removal_takes_what_turns_little_in_phase_during_a_frame(turns: float, left: float) -> None:
    """A reflector at v turns 2 v / wavelength times per second: the wave goes there and back."""
    wavelength_m = 299_792_458.0 / SETTINGS.carrier_hz
    frame_s = SETTINGS.n_chirps * SETTINGS.chirp_interval_s
    of_speed = [turns * wavelength_m / (2.0 * frame_s), 4.0 * wavelength_m / (2.0 * frame_s)]
    some, whole = (echoes(moving(small_box(0.0, 10.0), (0.0, v, 0.0)), SETTINGS)[0] for v in of_speed)
    assert_allclose(some / whole, left, rtol=1e-3)


def test_two_reflectors_are_told_apart_by_range_and_not_within_the_aperture() -> None:
    two = [(Kind.CAR, 0.0, y_m, (0.02, 0.02, 2.4)) for y_m in (6.0, 9.0)]
    aside = [(Kind.CAR, x_m, 8.0, (0.02, 0.02, 2.4)) for x_m in (-0.5, 0.5)]
    ahead = power_map(moving(street(two, station=(0.3, 0.0, 1.2))), SETTINGS)[0].max(axis=1)
    assert sum(ahead[cell - 3 : cell + 4].max() > 20.0 for cell in (31, 46)) == 2
    assert ahead[36:42].max() < ahead[46 - 2 : 46 + 3].max()
    beside = power_map(moving(street(aside)), SETTINGS)[0].max(axis=0)
    peaks = (beside[1:-1] > beside[:-2]) & (beside[1:-1] >= beside[2:]) & (beside[1:-1] > 0.5 * beside.max())
    assert peaks.sum() == 1


def test_what_stands_behind_a_nearer_box_vanishes() -> None:
    pedestrian = (Kind.PEDESTRIAN, 0.0, 12.0)
    alone = echoes(moving(street([pedestrian])), SETTINGS)[0]
    behind = echoes(moving(street([pedestrian, (Kind.BUS, 0.0, 6.0)])), SETTINGS)[0]
    beside = echoes(moving(street([pedestrian, (Kind.BUS, 9.0, 6.0)])), SETTINGS)[0]
    n = len(REFLECTORS)
    assert (alone > 0.0).all()
    assert (behind[:, :n] == 0.0).all()
    assert_allclose(beside[:, :n], alone, rtol=ROUNDING)
    absent = moving(street([pedestrian, (Kind.BUS, 0.0, 6.0)]))
    absent.present[:, 1] = False
    assert_allclose(echoes(absent, SETTINGS)[0][:, :n], alone, rtol=ROUNDING)


def test_what_stands_still_is_taken_for_clutter_and_what_is_behind_is_not_seen() -> None:
    parked = street([(Kind.CAR, 0.0, 8.0)])
    assert_array_equal(echoes(parked, SETTINGS)[0], np.zeros((1, len(REFLECTORS))))
    assert_allclose(power_map(parked, SETTINGS), 1.0, rtol=ROUNDING)
    assert_array_equal(echoes(moving(street([(Kind.CAR, 0.0, -8.0)])), SETTINGS)[0], np.zeros((1, len(REFLECTORS))))


def test_noise_has_mean_1_and_the_spread_of_128_chirps() -> None:
    empty = street().frames(np.zeros(40, dtype=int))
    power = power_map(empty, SETTINGS, np.random.default_rng(3))
    cells = power[:, :, ::16]  # four antennas: four directions that are independent
    n = cells.size
    assert power.mean() == pytest.approx(1.0, abs=4.0 / np.sqrt(128 * n))
    assert cells.std() == pytest.approx(1.0 / np.sqrt(128), rel=4.0 / np.sqrt(2 * n))
    one, beside, apart = power[:, :, 0].ravel(), power[:, :, 1].ravel(), power[:, :, 16].ravel()
    assert np.corrcoef(one, beside)[0, 1] > 0.9, "within the aperture"
    assert abs(np.corrcoef(one, apart)[0, 1]) < 4.0 / np.sqrt(len(one))


def test_where_nothing_is_the_map_is_0() -> None:
    maps = Radar(SETTINGS, np.random.default_rng(0)).sense(street().frames(np.zeros(5, dtype=int)))
    assert (maps == 0).mean() > 0.85  # 0.5 dB and more, 1.4 standard deviations of the noise
    assert maps.max() <= 3


def test_chunks_of_any_size_give_the_same_maps() -> None:
    scene = moving(replace(busy_street(70, 6, seed=2), time_s=np.arange(70) / 10))
    whole = Radar(SETTINGS, np.random.default_rng(5)).sense(scene)
    pieces = Radar(SETTINGS, np.random.default_rng(5))
    cut = [pieces.sense(scene.frames(slice(*borders))) for borders in ((0, 1), (1, 40), (40, 70))]
    assert_array_equal(np.concatenate(cut), whole)
    assert not np.array_equal(Radar(SETTINGS, np.random.default_rng(6)).sense(scene), whole)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_ranges": 300}, r"radar\.n_ranges must lie in \[4, 256\]"),
        ({"n_antennas": 1}, r"radar\.n_antennas must lie in \[2, 32\]"),
        ({"bandwidth_hz": float("nan")}, r"radar\.bandwidth_hz must lie in"),
    ],
    ids=str,
)
def test_a_radar_that_cannot_be_is_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RadarSettings(**wrong)  # type: ignore[arg-type]

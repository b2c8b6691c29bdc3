"""Paths over two different surfaces: their images, orders and losses, and a ray tracer that finds the same ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubles.radio_scenes import WALLS, busy_street, street
from doubles.ray_traced_street import Instant, ray_traced_instants
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sheafedge.emulator.radio.antenna import angle_codebook
from sheafedge.emulator.radio.channel import ChannelSettings, Paths, trace_paths
from sheafedge.emulator.radio.images import PathKind, complex_permittivity, reflection_te, reflection_tm
from sheafedge.emulator.radio.sweep import beam_powers
from sheafedge.emulator.radio.waves import SPEED_OF_LIGHT_M_PER_S, wavelength_m
from sheafedge.emulator.world.scene import Facade, Kind, Scene

PLAIN = ChannelSettings(oxygen=False, ground_roughness_m=0.0, vehicle_loss_db=0.0)
WAVE_M = wavelength_m(60e9)
FAR_WALL = Facade(18.0, -60.0, 60.0, 9.0, "glass")
#: Antennas of the ray tracer are vertical; ours see walls as TE and the ground as TM, exact for level paths only.
POLARIZATION_DB, POLARIZATION_RAD = 0.1, 0.05
#: The same path: delays and direction sines agree to what six digits hold.
SAME_DELAY_S, SAME_SINE = 2e-11, 2e-3
#: A path that a ray tracer without diffraction does not find is blocked by half of its field at least.
UNSEEN_FROM_DB = 6.0


def of_kind(paths: Paths, kind: PathKind) -> NDArray[np.int64]:
    return np.flatnonzero(paths.valid[0] & (paths.kind == kind))


def length_m(paths: Paths, column: int) -> float:
    return float(paths.delay_s[0, column] * SPEED_OF_LIGHT_M_PER_S)


def size(paths: Paths, column: int) -> float:
    """Product of the reflection coefficients, without blockage and spreading."""
    spread = WAVE_M / (4 * np.pi * length_m(paths, column))
    return float(abs(paths.gain[0, column]) / spread * 10 ** (paths.blockage_db[0, column] / 20))


@pytest.mark.parametrize("heights_m", [(1.2, 3.0), (3.0, 1.2)])
def test_ground_and_facade_reflect_as_one_image_whichever_comes_first(heights_m: tuple[float, float]) -> None:
    station, user = (0.0, 0.0, heights_m[0]), (5.0, 12.0, heights_m[1])
    paths = trace_paths(street(facades=(FAR_WALL,), station=station, user=user), PLAIN)
    (column,) = of_kind(paths, PathKind.FACADE_GROUND)
    across = np.array([5.0, 36.0 - 12.0, -sum(heights_m)])
    assert length_m(paths, column) == pytest.approx(np.linalg.norm(across))
    cosines = np.abs(across) / np.linalg.norm(across)
    expected = abs(reflection_te(complex_permittivity("glass", 60e9), cosines[1]))
    expected *= abs(reflection_tm(complex_permittivity("concrete", 60e9), cosines[2]))
    assert size(paths, column) == pytest.approx(float(expected), rel=1e-9)


def test_a_facade_too_low_for_the_way_over_the_ground_reflects_nothing() -> None:
    """The line from 1.2 m meets the ground half way, and the wall 0.6 m above it in the image."""
    for height_m, found in ((0.5, 0), (0.7, 1)):
        wall = replace(FAR_WALL, y_m=18.0, height_m=height_m)
        paths = trace_paths(street(facades=(wall,), user=(0.0, 12.0, 1.2)), PLAIN)
        assert len(of_kind(paths, PathKind.FACADE_GROUND)) == found, height_m


def test_the_rear_of_a_bus_and_the_ground_reflect_together() -> None:
    paths = trace_paths(street([(Kind.BUS, 12.0, 6.0)]), PLAIN)
    (column,) = of_kind(paths, PathKind.VEHICLE_GROUND)
    across = np.array([12.0, 12.0, -2.4])
    assert length_m(paths, column) == pytest.approx(np.linalg.norm(across))
    expected = abs(reflection_tm(complex_permittivity("concrete", 60e9), 2.4 / np.linalg.norm(across)))
    assert size(paths, column) == pytest.approx(float(expected), rel=1e-3)  # metal reflects all but 0.1 %
    assert paths.blockage_db[0, column] == 0.0  # a mirror does not block its own reflection


@pytest.mark.parametrize(("bus_y_m", "user_y_m"), [(14.67, 12.0), (16.5, 17.0)])
def test_a_facade_and_a_bus_reflect_in_both_orders(bus_y_m: float, user_y_m: float) -> None:
    """The rear of a bus at x = 16 behind the user at x = 14, beside a wall: the wall comes first, or the bus."""
    scene = street([(Kind.BUS, 22.0, bus_y_m)], facades=(FAR_WALL,), user=(14.0, user_y_m, 1.2))
    paths = trace_paths(scene, PLAIN)
    columns = of_kind(paths, PathKind.FACADE_VEHICLE)
    expected_m = np.hypot(2 * 16.0 - 14.0, 2 * 18.0 - user_y_m)
    (found,) = [column for column in columns if abs(length_m(paths, column) - expected_m) < 1e-9]
    assert 0.0 < size(paths, found) < 1.0


def test_a_vehicle_blocks_its_own_reflection_on_the_leg_that_does_not_touch_it() -> None:
    """A car between the antennas shows its far side to the wall; the way to the wall leads through the car."""
    paths = trace_paths(street([(Kind.CAR, 0.0, 6.0)], facades=(FAR_WALL,), user=(0.5, 12.0, 1.2)), PLAIN)
    columns = of_kind(paths, PathKind.FACADE_VEHICLE)
    assert len(columns) == 1
    assert paths.blockage_db[0, columns[0]] > 10.0


def test_pairs_come_last_and_leave_all_other_paths_as_they_are() -> None:
    scene = busy_street(30, 10, seed=3)
    alone, paired = trace_paths(scene, replace(PLAIN, bounce_pairs=False)), trace_paths(scene, PLAIN)
    n = alone.gain.shape[1]
    np.testing.assert_array_equal(paired.gain[:, :n], alone.gain)
    assert paired.valid[:, n:].any()
    assert set(paired.kind[n:].tolist()) == {
        PathKind.FACADE_GROUND,
        PathKind.VEHICLE_GROUND,
        PathKind.FACADE_VEHICLE,
    }


@given(seed=st.integers(0, 10_000))
def test_the_way_back_over_two_surfaces_is_the_way_there(seed: int) -> None:
    scene = busy_street(1, 6, seed, facades=(WALLS[1],))
    one = scene.frames(slice(0, 1))
    back = Scene(
        **{
            **{name: getattr(one, name) for name in Scene.__slots__},
            "base_station_m": one.user_m[0],
            "user_m": one.base_station_m[None],
        }
    )

    def lengths(paths: Paths) -> NDArray[np.float64]:
        found = paths.valid[0] & np.isin(paths.kind, (PathKind.VEHICLE_GROUND, PathKind.FACADE_VEHICLE))
        return np.sort(np.round(np.abs(paths.gain[0, found]) * 10 ** (paths.blockage_db[0, found] / 20), 12))

    everywhere = [trace_paths(one, replace(PLAIN, orientation_deg=turn)) for turn in (0.0, 180.0)]
    and_back = [trace_paths(back, replace(PLAIN, orientation_deg=turn)) for turn in (0.0, 180.0)]
    there, here = (np.sort(np.concatenate([lengths(paths) for paths in both])) for both in (everywhere, and_back))
    assert_allclose(here, there, rtol=1e-6, atol=1e-11)


def in_front(instant: Instant) -> list[tuple[complex, float, float]]:
    """Gain, delay and direction sine of the ray tracer's paths that arrive in front of the array.

    Not the one over a pedestrian (kind 4), 20 dB under the direct path: people do not reflect here.
    """
    return [
        (complex(path["re"], path["im"]), path["tau"], path["x"])
        for path in instant.paths
        if path["y"] > 0.0 and ":k4" not in path["type"]
    ]


def test_the_ray_tracer_finds_the_same_paths(data_folder: Callable[[str], Path]) -> None:
    settings = replace(PLAIN, double_facade=True)
    n_found = 0
    for instant in ray_traced_instants(data_folder("ray_tracer")):
        paths = trace_paths(instant.scene, settings)
        free_gain = paths.gain[0] * 10 ** (paths.blockage_db[0] / 20)
        unseen = paths.valid[0].copy()
        for gain, delay_s, direction_sine in in_front(instant):
            apart_s = np.where(paths.valid[0], np.abs(paths.delay_s[0] - delay_s), np.inf)
            apart_s[np.abs(paths.direction_sine[0] - direction_sine) > SAME_SINE] = np.inf
            column = int(apart_s.argmin())
            assert apart_s[column] < SAME_DELAY_S, (instant.label, gain, delay_s)
            assert 20 * np.log10(abs(free_gain[column] / gain)) == pytest.approx(0.0, abs=POLARIZATION_DB)
            if abs(paths.blockage_db[0, column]) < 0.05:  # boxes turn phases
                assert np.angle(free_gain[column] / gain) == pytest.approx(0.0, abs=POLARIZATION_RAD)
            unseen[column] = False
            n_found += 1
        assert (paths.blockage_db[0, unseen] > UNSEEN_FROM_DB).all(), instant.label
    assert n_found == 103


def test_the_best_beam_is_that_of_the_ray_tracer(data_folder: Callable[[str], Path]) -> None:
    """Its paths and the direct one, behind a box with the exact loss. All above the noise floor, 23 dB down."""
    codebook = angle_codebook(64, 16, 45.0)
    same: dict[str, list[bool]] = {"fresnel": [], "3gpp_b": []}
    for instant in ray_traced_instants(data_folder("ray_tracer")):
        found = in_front(instant)
        empty = trace_paths(replace(instant.scene, present=np.zeros_like(instant.scene.present)), PLAIN)
        floor = beam_powers(empty, codebook).max() * 10**-2.3
        if instant.loss_db:
            direct = empty.gain[0, 0] * 10 ** (-instant.loss_db["thick"] / 20)
            found.append((complex(direct), float(empty.delay_s[0, 0]), float(empty.direction_sine[0, 0])))
        gain, delay_s, sine = (np.array([row]) for row in zip(*found, strict=True))
        reference = replace(
            empty,
            kind=np.zeros(len(found), dtype=np.uint8),
            valid=np.ones(gain.shape, dtype=bool),
            gain=gain,
            delay_s=delay_s,
            azimuth_rad=np.zeros(gain.shape),
            direction_sine=sine,
            blockage_db=np.zeros(gain.shape),
        )
        powers = beam_powers(reference, codebook)[0]
        if not instant.loss_db or powers.max() < floor:
            continue
        for model, settings in (
            ("fresnel", PLAIN),
            ("3gpp_b", replace(PLAIN, blockage="3gpp_b", bounce_pairs=False)),
        ):
            ours = beam_powers(trace_paths(instant.scene, settings), codebook)[0]
            same[model].append(bool(ours.argmax() == powers.argmax()))
    assert len(same["fresnel"]) == 6  # behind pedestrians; behind vehicles all is below the floor
    assert np.mean(same["fresnel"]) >= 0.7
    assert np.mean(same["3gpp_b"]) < 0.7  # the channel without phases and pairs stays on the line of sight

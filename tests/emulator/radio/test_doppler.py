"""Doppler shifts follow from velocities alone, and are how fast the lengths of paths change."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from doubles.radio_scenes import busy_street, street
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.radio.channel import ChannelSettings, Paths, trace_paths
from sheafedge.emulator.radio.doppler import coherence_time_s, direct_doppler_hz, spectrum_moments
from sheafedge.emulator.radio.images import PathKind
from sheafedge.emulator.radio.waves import wavelength_m
from sheafedge.emulator.world.scene import Kind, Scene
from sheafedge.emulator.world.sky import SkySettings, SkyWorld
from sheafedge.emulator.world.street import StreetWorld
from sheafedge.emulator.world.street_settings import StreetSettings

CARRIER_HZ = 60e9
#: Lengths are compared over so long, half of it before and half of it after the instant.
STEP_S = 1e-3
#: And shifts with their differences: relatively, and in Hz, which the curvature of a path and rounding cost.
RELATIVE, ABSOLUTE_HZ = 1e-3, 0.1
EVERYTHING = ChannelSettings(double_facade=True)


def from_lengths(before: Paths, after: Paths) -> np.ndarray:
    """[F, P] shifts by the difference of path lengths."""
    return -(after.delay_s - before.delay_s) * CARRIER_HZ / STEP_S


def check(before: Scene, now: Scene, after: Scene) -> set[int]:
    """Compares shifts with lengths; the kinds of paths that were compared and do move."""
    paths, *around = (trace_paths(scene, EVERYTHING) for scene in (now, before, after))
    there = paths.valid & around[0].valid & around[1].valid
    assert_allclose(paths.doppler_hz[there], from_lengths(*around)[there], rtol=RELATIVE, atol=ABSOLUTE_HZ)
    assert_array_equal(paths.doppler_hz[~paths.valid], 0.0)
    return set(paths.kind[(there & (np.abs(paths.doppler_hz) > 100.0)).any(axis=0)].tolist())


@pytest.mark.parametrize("user", ["kerb", "car"])
def test_shifts_on_a_street_are_how_fast_paths_become_shorter(user: Literal["kerb", "car"]) -> None:
    settings = StreetSettings(near_facade_setback_m=3.0)
    world = StreetWorld(settings, np.random.default_rng(0), 120.0, user)
    times_s = np.arange(1.0, 119.0, 0.31)
    for passes_s in world.passes_s:  # within one pass, the user does not change
        near = np.abs(times_s[:, None] - passes_s).min(axis=1) < STEP_S
        times_s = times_s[~near]
    times_s = times_s[world.sequence_index(times_s) >= 0]
    moving = check(*(world.scene(times_s + off_s) for off_s in (-STEP_S / 2, 0.0, STEP_S / 2)))
    # who stands on the kerb has shifts by what reflects alone
    assert (PathKind.LOS in moving, PathKind.FACADE in moving) == (user == "car", user == "car")
    assert PathKind.FACADE_VEHICLE in moving


def test_shifts_of_a_drone_are_how_fast_its_paths_become_shorter() -> None:
    world = SkyWorld(SkySettings(), np.random.default_rng(0), 120.0)
    times_s = np.arange(0.05, 119.0, 0.1)  # wind changes every tenth of a second
    scenes = [world.scene(times_s + off_s) for off_s in (-STEP_S / 2, 0.0, STEP_S / 2)]
    assert check(*scenes) == {PathKind.LOS, PathKind.GROUND}
    assert_allclose(direct_doppler_hz(scenes[1], CARRIER_HZ), trace_paths(scenes[1]).doppler_hz[:, 0])


def moved(scene: Scene, user_velocity: np.ndarray, by_s: float) -> Scene:
    center_m = scene.center_m + by_s * scene.velocity_m_per_s
    return replace(scene, center_m=center_m, user_m=scene.user_m + by_s * user_velocity)


def test_shifts_of_all_kinds_of_paths_are_how_fast_they_become_shorter() -> None:
    """Boxes and a user with random velocities: no street has all reflections in a few minutes."""
    draws, moving = np.random.default_rng(5), set[int]()
    for seed in range(8):
        scene = busy_street(40, 8, seed)
        # vehicles beside the user mirror as well, seen from behind
        center_m = scene.center_m + np.array([0.0, 8.0, 0.0]) * (draws.random((40, 8, 1)) < 0.3)
        velocity = draws.uniform(-20.0, 20.0, scene.center_m.shape) * [1.0, 1.0, 0.0]
        kind = scene.kind.copy()
        kind[:, 0] = Kind.TARGET
        present = scene.present.copy()
        present[:, 0] = True
        scene = replace(scene, center_m=center_m, velocity_m_per_s=velocity, kind=kind, present=present)
        moving |= check(*(moved(scene, velocity[:, 0], off_s) for off_s in (-STEP_S / 2, 0.0, STEP_S / 2)))
    assert moving == set(PathKind)


def test_a_vehicle_that_reflects_shifts_twice_by_its_normal_component() -> None:
    """A bus across the end of a street comes nearer while it reflects; antennas stand side by side."""
    scene = street([(Kind.BUS, 40.0, 6.0, (2.5, 40.0, 3.0))], user=(0.0, 12.0, 1.2))
    scene = replace(scene, velocity_m_per_s=np.array([[[-10.0, 7.0, 0.0]]]))
    paths = trace_paths(scene, replace(ChannelSettings(bounce_pairs=False), orientation_deg=45.0))
    (column,) = np.flatnonzero((paths.kind == PathKind.VEHICLE) & paths.valid[0])
    cosine = 38.75 / np.hypot(38.75, 6.0)
    assert paths.doppler_hz[0, column] == pytest.approx(2 * 10.0 * cosine / wavelength_m(CARRIER_HZ))
    assert paths.doppler_hz[0, 0] == 0.0


def test_moments_weigh_paths_by_their_power() -> None:
    spectrum = spectrum_moments(np.array([[1.0, 1.0], [3.0, 1.0], [0.0, 0.0]]), np.array([[-40.0, 40.0]] * 3))
    assert_allclose(spectrum.shift_hz, [0.0, -20.0, 0.0])
    assert_allclose(spectrum.spread_hz, [40.0, np.sqrt(1200.0), 0.0])


def test_fields_half_a_coherence_apart_are_half_correlated() -> None:
    """The definition, by waves drawn from a Gaussian spectrum."""
    shifts_hz = np.random.default_rng(0).normal(300.0, 80.0, 100_000)
    later_s = coherence_time_s(80.0)
    correlation = np.abs(np.exp(2j * np.pi * shifts_hz * later_s).mean())
    assert correlation == pytest.approx(0.5, abs=4.0 / np.sqrt(100_000))
    assert coherence_time_s(0.0) == np.inf

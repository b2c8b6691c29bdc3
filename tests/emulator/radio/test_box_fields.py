"""Fields past boxes: against exact diffraction, a plain version of a screen, and what must hold for any box."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubles.radio_scenes import SIZES_M, USER, Box, busy_street, los_segments, street
from doubles.ray_traced_street import ray_traced_instants
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.special import fresnel
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.radio import box_fields
from sheafedge.emulator.radio.box_fields import segments_field
from sheafedge.emulator.radio.channel import ChannelSettings, trace_paths
from sheafedge.emulator.world.scene import Kind, Scene

CARRIER_HZ = 60e9
WAVE_M = 299_792_458.0 / CARRIER_HZ
VEHICLES = (Kind.CAR, Kind.VAN, Kind.BUS)
#: The aim against exact diffraction past thick boxes.
LEAST_ACCURATE_DB = 3.0
#: The table of two edges in a row is interpolated to so much.
TABLE = 5e-3


def fields(scene: Scene) -> NDArray[np.complex128]:
    """[F, B] past every box on the line of sight."""
    return segments_field(los_segments(scene), scene, CARRIER_HZ)


def field(*boxes: Box, user: tuple[float, float, float] = USER) -> complex:
    return complex(fields(street(boxes, user=user)).prod())


def loss_db(*boxes: Box, user: tuple[float, float, float] = USER) -> float:
    return float(-20.0 * np.log10(abs(field(*boxes, user=user))))


def driven_past(kind: Kind, x_m: NDArray[np.float64], y_m: float = 6.0, user_x_m: float = 0.0) -> Scene:
    """One vehicle at every place along its lane."""
    scene = street([(kind, 0.0, y_m)], user=(user_x_m, 12.0, 1.2)).frames(np.zeros(len(x_m), dtype=np.int64))
    scene.center_m[:, 0, 0] = x_m
    return scene


def test_vehicles_cost_what_exact_diffraction_by_thick_boxes_says(data_folder: Callable[[str], Path]) -> None:
    """Against an absorbing box, 2-D quadratures past two corners per side; measured: -1.6 to 0.6 dB."""
    instants = [instant for instant in ray_traced_instants(data_folder("ray_tracer")) if instant.loss_db]
    for kind in ("car", "van", "bus"):
        off_db = {}
        for model in ("fresnel", "3gpp_b"):
            settings = ChannelSettings(blockage=model)  # type: ignore[arg-type]
            off_db[model] = [
                float(trace_paths(instant.scene, settings).los_blockage_db[0]) - instant.loss_db["thick"]
                for instant in instants
                if instant.label == kind and instant.loss_db
            ]
        assert len(off_db["fresnel"]) == 6
        assert np.abs(off_db["fresnel"]).max() < LEAST_ACCURATE_DB
        assert np.median(off_db["3gpp_b"]) < -10.0  # what the model of the standard lacks


def test_pedestrians_cost_what_exact_diffraction_by_a_sheet_says_in_the_median(
    data_folder: Callable[[str], Path],
) -> None:
    """One by one they differ by up to 12 dB: behind a narrow screen the fields of its sides nearly cancel."""
    instants = [one for one in ray_traced_instants(data_folder("ray_tracer")) if one.label == "pedestrian"]
    exact_db = [one.loss_db["sheet"] for one in instants if one.loss_db]
    found_db = {
        model: [float(trace_paths(one.scene, ChannelSettings(blockage=model)).los_blockage_db[0]) for one in instants]  # type: ignore[arg-type]
        for model in ("fresnel", "3gpp_b")
    }
    assert len(exact_db) == 6
    assert np.median(found_db["fresnel"]) == pytest.approx(np.median(exact_db), abs=1.0)
    assert np.median(found_db["3gpp_b"]) < np.median(exact_db) - 4.0


def edge(height_m: float, along_m: float, length_m: float = 12.0) -> complex:
    """The exact field past one edge, from its height over the line."""
    detour_m = np.hypot(along_m, height_m) + np.hypot(length_m - along_m, height_m) - length_m
    sine, cosine = fresnel(np.copysign(2.0 * np.sqrt(detour_m / WAVE_M), height_m))
    return complex(0.5 + 0.5j) * complex(0.5 - cosine, sine - 0.5)


@pytest.mark.parametrize("x_m", [0.0, 0.1, 0.3, 1.0])
def test_a_pedestrian_is_a_thin_screen_that_stands_on_the_ground(x_m: float) -> None:
    """By Babinet's principle what is missing is the product of what is missing across and upright; nothing below."""
    beside = edge(0.15 - x_m, 4.0) + edge(0.15 + x_m, 4.0)
    expected = 1.0 - (1.0 - beside) * (1.0 - edge(0.5, 4.0))
    assert field((Kind.PEDESTRIAN, x_m, 4.0)) == pytest.approx(expected, abs=TABLE)


def test_a_vehicle_costs_more_than_a_screen_of_its_outline() -> None:
    """Two edges in a row: thickness adds some 10 dB, and length along the path more."""
    for kind in VEHICLES:
        length_m, width_m, height_m = SIZES_M[kind]
        thin_db = loss_db((kind, 0.3, 6.0, (length_m, 1e-3, height_m)))
        thick_db = loss_db((kind, 0.3, 6.0))
        assert thick_db > thin_db + 5.0
        assert loss_db((kind, 0.3, 6.0, (length_m, 2.0 * width_m, height_m))) > thick_db


def test_the_field_ripples_around_free_space_before_a_car_arrives() -> None:
    """Model B falls monotonically; exact fields rise above free space and their phase turns."""
    nose_m = np.linspace(0.05, 1.0, 200)
    past = fields(driven_past(Kind.CAR, 2.4 + nose_m))[:, 0]
    size_db = 20.0 * np.log10(np.abs(past))
    assert 1.0 < size_db.max() < 2.5
    assert (np.diff(np.sign(size_db)) != 0).sum() >= 6
    assert np.ptp(np.angle(past)) > 0.2


def test_what_is_left_where_a_side_of_a_bus_reaches_the_line_is_less_than_half() -> None:
    """Both edges of its side touch the line: an orthant's share, 1/4 + arcsin(correlation) / (2 pi)."""
    correlation = 4.75 / 7.25  # sides are from 4.75 m to 7.25 m, half way of 12 m
    expected = 0.25 + np.arcsin(correlation) / (2.0 * np.pi)
    assert abs(fields(driven_past(Kind.BUS, np.array([6.0])))[0, 0]) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("user_x_m", [0.0, -5.5, 8.0])
@pytest.mark.parametrize("kind", [*VEHICLES, Kind.PEDESTRIAN])
def test_the_field_never_jumps_as_a_box_passes(kind: Kind, user_x_m: float) -> None:
    """In steps of 2 mm; a change of faces or of the roof would show. Ripples are finer the farther the edge is."""
    past = fields(driven_past(kind, np.arange(-9.0, 9.0, 0.002), user_x_m=user_x_m))[:, 0]
    near = np.abs(np.abs(past) - 1.0) > 0.03
    steps = np.abs(np.diff(past))
    assert steps[near[1:]].max() < 0.05
    assert steps.max() < 0.05


@given(x_m=st.floats(-3, 3), y_m=st.floats(3, 9), user_x_m=st.floats(-8, 8))
def test_a_street_that_runs_the_other_way_is_no_different(x_m: float, y_m: float, user_x_m: float) -> None:
    length_m, width_m, height_m = SIZES_M[Kind.CAR]
    along = field((Kind.CAR, x_m, y_m), user=(user_x_m, 12.0, 1.2))
    across = field((Kind.CAR, y_m, x_m, (width_m, length_m, height_m)), user=(12.0, user_x_m, 1.2))
    assert across == pytest.approx(along, abs=1e-6)


@given(
    kind=st.sampled_from(VEHICLES), share=st.floats(0.25, 0.75), shift=st.floats(-0.9, 0.9), user_x_m=st.floats(-8, 8)
)
def test_a_vehicle_in_the_path_leaves_less_than_a_third(
    kind: Kind, share: float, shift: float, user_x_m: float
) -> None:
    x_m = share * user_x_m + shift * SIZES_M[kind][0] / 2
    crosses = abs(x_m - share * user_x_m) < SIZES_M[kind][0] / 2 - 0.15
    left = abs(field((kind, x_m, share * 12.0), user=(user_x_m, 12.0, 1.2)))
    assert left < (0.33 if crosses else 1.3)


def test_boxes_multiply_their_fields() -> None:
    car, bus = (Kind.CAR, 1.0, 4.0), (Kind.BUS, 0.0, 8.0)
    assert field(car, bus) == pytest.approx(field(car) * field(bus), rel=1e-12)


def test_the_carrier_of_the_transmitter_and_absent_boxes_let_all_pass() -> None:
    assert field((Kind.TARGET, 0.0, 6.0)) == 1.0
    scene = street([(Kind.CAR, 0.0, 6.0)])
    scene.present[:] = False
    scene.center_m[:] = np.nan  # the rest of an absent slot means nothing
    scene.size_m[:] = np.inf
    assert fields(scene)[0, 0] == 1.0


@pytest.mark.parametrize("y_m", [-5.0, 17.0])
def test_boxes_beyond_the_ends_let_all_pass(y_m: float) -> None:
    assert field((Kind.CAR, 0.0, y_m)) == 1.0


@pytest.mark.parametrize(("last", "blocked"), [(0.3, False), (0.5, True)])
def test_a_box_blocks_its_leg_only(last: float, blocked: bool) -> None:
    scene = street([(Kind.CAR, 0.0, 6.0)])
    part = replace(los_segments(scene), last=np.array([last]))
    assert bool(abs(segments_field(part, scene, CARRIER_HZ)[0, 0]) < 0.3) is blocked


def test_boxes_that_are_left_out_change_less_than_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = busy_street(1000, 12, seed=1)
    found = fields(scene)
    monkeypatch.setattr(box_fields, "SKIPPED_RIPPLE_DB", 1e-4)
    complete = fields(scene)
    left_out = (found == 1.0) & (complete != 1.0)
    assert left_out.mean() > 0.1  # or the rule would save nothing
    change_db = np.abs(20.0 * np.log10(np.abs(complete[left_out])))
    assert 0.005 < change_db.max() < 3 * 0.02  # two edges a side
    assert_allclose(found[~left_out], complete[~left_out])


def test_amplitude_and_phase_of_the_field_enter_the_path() -> None:
    scene, empty = (street(boxes) for boxes in ([(Kind.CAR, 2.6, 6.0)], []))
    settings = ChannelSettings(vehicle_sides=False)
    blocked, clear = trace_paths(scene, settings), trace_paths(empty, settings)
    past = complex(blocked.gain[0, 0] / clear.gain[0, 0])
    assert past == pytest.approx(field((Kind.CAR, 2.6, 6.0)), rel=1e-9)
    assert abs(np.angle(past)) > 0.04
    assert blocked.los_blockage_db[0] == pytest.approx(-20.0 * np.log10(abs(past)), abs=1e-9)
    without_phase = trace_paths(scene, replace(settings, blockage="3gpp_b")).gain[0, 0] / clear.gain[0, 0]
    assert abs(np.angle(without_phase)) < 1e-12


@given(seed=st.integers(0, 1000))
def test_a_vehicle_that_reaches_an_antenna_never_gives_nonsense(seed: int) -> None:
    """Boxes around both ends, cut there: fields stay finite and near or below free space."""
    draws = np.random.default_rng(seed)
    for kind, y_m in itertools.product((*VEHICLES, Kind.PEDESTRIAN), (0.3, 11.6)):
        size = (*draws.uniform(0.3, 12.0, 2), SIZES_M[kind][2])
        left = abs(field((kind, draws.uniform(-6, 6), y_m, size), user=(draws.uniform(-8, 8), 12.0, 1.2)))
        assert np.isfinite(left)
        assert left < 2.0


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"channel\.blockage must be one of fresnel, 3gpp_b, got 'rays'"):
        ChannelSettings(blockage="rays")  # type: ignore[arg-type]

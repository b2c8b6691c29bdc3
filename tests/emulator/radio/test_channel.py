"""The few-ray channel: mirrors are where geometry puts them, and physics holds for any street."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pytest
from doubles.radio_scenes import STATION, USER, WALLS, busy_street, shifted, street
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.radio.channel import ChannelSettings, Paths, trace_paths
from sheafedge.emulator.radio.images import PathKind, complex_permittivity, reflection_te, reflection_tm
from sheafedge.emulator.radio.segments import BlockageModel
from sheafedge.emulator.world.scene import Facade, Kind, Scene

EXACT = 1e-9
PHASE = 1e-6  # 15 m are 3000 waves at 60 GHz, and a float holds 1e-16 of that
#: Nothing but mirrors: no oxygen and smooth surfaces.
PLAIN = ChannelSettings(bounce_pairs=False, oxygen=False, ground_roughness_m=0.0, vehicle_loss_db=0.0)
SPEED_OF_LIGHT = 299_792_458.0
WAVE_M = SPEED_OF_LIGHT / 60e9
FAR_WALL = WALLS[1]


def of_kind(paths: Paths, kind: PathKind) -> np.ndarray:
    """[F, n] columns of this kind."""
    return np.flatnonzero(paths.kind == kind)


def length_m(paths: Paths) -> np.ndarray:
    return paths.delay_s * SPEED_OF_LIGHT


def free_space_db(distance_m: float, carrier_hz: float) -> float:
    """Friis: 20 log10(4 pi d f / c), written anew."""
    return float(20.0 * np.log10(4.0 * np.pi * distance_m * carrier_hz / SPEED_OF_LIGHT))


def test_free_space_at_12_m_and_60_ghz_costs_89_6_db() -> None:
    assert free_space_db(12.0, 60e9) == pytest.approx(89.6, abs=0.05)
    assert free_space_db(12.0, 60e9) == pytest.approx(32.45 + 20 * np.log10(60) + 20 * np.log10(12), abs=0.05)


def test_an_empty_street_has_the_line_of_sight_and_the_ground() -> None:
    paths = trace_paths(street(), PLAIN)
    assert_array_equal(paths.kind, [PathKind.LOS, PathKind.GROUND])
    assert paths.valid.all()
    assert -20 * np.log10(abs(paths.gain[0, 0])) == pytest.approx(free_space_db(12.0, 60e9), abs=EXACT)
    assert_allclose(length_m(paths)[0], [12.0, np.hypot(12.0, 2.4)], atol=EXACT)
    assert_allclose(np.angle(paths.gain[0, 0] * np.exp(2j * np.pi * 12.0 / WAVE_M)), 0.0, atol=PHASE)


def test_oxygen_costs_0_18_db_at_12_m() -> None:
    plain, air = (trace_paths(street(), replace(PLAIN, oxygen=oxygen)).gain[0, 0] for oxygen in (False, True))
    assert 20 * np.log10(abs(plain / air)) == pytest.approx(0.18, abs=EXACT)


def test_the_ground_reflects_tm_and_facades_te() -> None:
    paths = trace_paths(street(facades=(FAR_WALL,)), PLAIN)
    ground, wall = of_kind(paths, PathKind.GROUND)[0], of_kind(paths, PathKind.FACADE)[0]
    spread = WAVE_M / (4 * np.pi * length_m(paths)[0])
    turned = np.exp(-2j * np.pi * length_m(paths)[0] / WAVE_M)
    ground_cosine = 2.4 / np.hypot(12.0, 2.4)
    expected = reflection_tm(complex_permittivity("concrete", 60e9), ground_cosine)
    assert_allclose(paths.gain[0, ground] / (spread * turned)[ground], expected, atol=PHASE)
    expected = reflection_te(complex_permittivity("glass", 60e9), 1.0)
    assert_allclose(paths.gain[0, wall] / (spread * turned)[wall], expected, atol=PHASE)
    assert length_m(paths)[0, wall] == pytest.approx(2 * 18 - 12)


def test_a_facade_reflects_only_where_it_stands() -> None:
    """The station at x = 0 and the user at x = 6 meet a wall behind them at x = 4.5."""
    user, station = (6.0, 12.0, 1.2), STATION
    for x_min, x_max, height, reflects in (
        (4.4, 60, 9, True),
        (4.6, 60, 9, False),
        (-9, 4.4, 9, False),
        (4, 5, 1, False),
    ):
        paths = trace_paths(street(facades=(Facade(18.0, x_min, x_max, height, "glass"),), user=user, station=station))
        assert bool(paths.valid[0, of_kind(paths, PathKind.FACADE)[0]]) is reflects


def test_a_wall_behind_the_array_is_not_heard_unless_the_array_looks_there() -> None:
    scene = street(facades=(WALLS[0],))
    ahead, behind = (trace_paths(scene, replace(PLAIN, orientation_deg=turn)) for turn in (0.0, 180.0))
    column = of_kind(ahead, PathKind.FACADE)[0]
    assert not ahead.valid[0, column]
    assert ahead.gain[0, column] == 0.0
    assert behind.valid[0].tolist() == [False, False, True]
    assert length_m(behind)[0, column] == pytest.approx(2 * 3 + 12)


def test_two_facades_in_a_row() -> None:
    """The station hears station -> far -> near -> user in front of it; the other order comes from behind."""
    scene = street(facades=WALLS, user=(5.0, 12.0, 1.2))
    paths = trace_paths(scene, replace(PLAIN, double_facade=True))
    columns = of_kind(paths, PathKind.DOUBLE_FACADE)
    assert paths.valid[0, columns].tolist() == [False, True]
    across_m = 18.0 + (18.0 + 3.0) + (12.0 + 3.0)
    assert length_m(paths)[0, columns[1]] == pytest.approx(np.hypot(across_m, 5.0))
    cosine = across_m / np.hypot(across_m, 5.0)
    materials = (complex_permittivity(wall.material, 60e9) for wall in WALLS)
    expected = np.prod([abs(reflection_te(material, cosine)) for material in materials])
    gain = abs(paths.gain[0, columns[1]]) * 4 * np.pi * length_m(paths)[0, columns[1]] / WAVE_M
    assert gain == pytest.approx(float(expected), abs=EXACT)


def test_a_vehicle_side_reflects_only_where_the_ray_meets_it() -> None:
    """A bus at x = 12 shows its rear at x = 6; the ray half way to the other kerb meets it at y = 6."""
    for y_m, reflects in ((6.0, True), (7.2, True), (7.3, False), (4.8, True), (4.7, False)):
        paths = trace_paths(street([(Kind.BUS, 12.0, y_m)]), PLAIN)
        column = of_kind(paths, PathKind.VEHICLE)[0]
        assert bool(paths.valid[0, column]) is reflects, y_m
    paths = trace_paths(street([(Kind.BUS, 12.0, 6.0)]), PLAIN)
    assert length_m(paths)[0, column] == pytest.approx(np.hypot(12.0, 12.0))
    assert paths.azimuth_rad[0, column] == pytest.approx(np.pi / 4)
    assert paths.blockage_db[0, column] == 0.0  # a mirror does not block its own reflection
    assert 20 * np.log10(abs(paths.gain[0, column])) == pytest.approx(-free_space_db(12 * 2**0.5, 60e9), abs=0.02)


def test_bodywork_reflects_less_than_a_flat_mirror_and_nothing_else_changes() -> None:
    scene = street([(Kind.BUS, 12.0, 6.0)], facades=WALLS)
    mirror, bodywork = (trace_paths(scene, replace(PLAIN, vehicle_loss_db=loss_db)) for loss_db in (0.0, 10.0))
    column = of_kind(mirror, PathKind.VEHICLE)[0]
    lost_db = np.zeros(mirror.gain.shape[1])
    heard = mirror.valid[0]
    lost_db[heard] = 20 * np.log10(np.abs(mirror.gain[0, heard] / bodywork.gain[0, heard]))
    assert lost_db[column] == pytest.approx(10.0)
    assert np.flatnonzero(np.abs(lost_db) > 1e-9).tolist() == [column]


@pytest.mark.parametrize(
    "box", [(Kind.CAR, 8.4, 6.0, (4.8, 1.8, 1.1)), (Kind.PEDESTRIAN, 6.15, 6.0), (Kind.TARGET, 8.4, 6.0)]
)
def test_low_cars_people_and_the_carrier_are_no_mirrors(box: tuple[Kind, float, float]) -> None:
    """The car's rear at x = 6 ends at 1.1 m, below the ray."""
    paths = trace_paths(street([box]), PLAIN)
    assert not paths.valid[:, paths.kind == PathKind.VEHICLE].any()


def test_a_long_mirror_does_not_block_what_it_reflects() -> None:
    """The ray meets the bus at x = 16.5, after it has passed the bus's middle at x = 13."""
    scene = street([(Kind.BUS, 13.0, 4.0), (Kind.BUS, 13.0, 4.0)], user=(30.0, 0.5, 1.2))
    paths = trace_paths(scene, PLAIN)
    assert paths.valid[0].tolist() == [True, True, False, False, True, True]  # no end, but the side of each
    one_of_two_db = paths.blockage_db[0, 4:]
    assert (one_of_two_db > 1.0).all()  # each is blocked by its twin, which does not reflect it
    scene.present[0, 1] = False
    assert trace_paths(scene, PLAIN).blockage_db[0, 4] == 0.0


def test_a_rough_ground_reflects_less() -> None:
    scene = street(user=(0.0, 6.0, 3.0), station=(0.0, 0.0, 3.0))
    smooth, rough = (trace_paths(scene, replace(PLAIN, ground_roughness_m=sigma)).gain[0] for sigma in (0.0, 1e-3))
    cosine = 1 / 2**0.5
    expected = np.exp(-8 * (np.pi * 1e-3 * cosine / WAVE_M) ** 2)
    assert_allclose(np.abs(rough / smooth), [1.0, expected], atol=EXACT)


def test_a_car_between_the_antennas_shows_them_different_faces() -> None:
    paths = trace_paths(street([(Kind.CAR, 0.0, 6.0)]), PLAIN)
    assert not paths.valid[:, paths.kind == PathKind.VEHICLE].any()


def test_azimuth_is_positive_towards_x_and_turns_with_the_array() -> None:
    scene = street(user=(12.0, 12.0, 1.2))
    assert trace_paths(scene, PLAIN).azimuth_rad[0, 0] == pytest.approx(np.pi / 4)
    assert trace_paths(scene, replace(PLAIN, orientation_deg=30.0)).azimuth_rad[0, 0] == pytest.approx(np.radians(15))


def test_a_drone_overhead_looks_closer_to_broadside_than_its_azimuth() -> None:
    paths = trace_paths(street(user=(20.0, 20.0, 41.2)), PLAIN)
    assert paths.azimuth_rad[0, 0] == pytest.approx(np.pi / 4)
    assert paths.direction_sine[0, 0] == pytest.approx(20.0 / np.sqrt(20**2 + 20**2 + 40**2))


def test_each_path_is_blocked_where_it_runs() -> None:
    """A bus between user and wall: the line of sight is clear, both legs of the echo are not."""
    paths = trace_paths(street([(Kind.BUS, 0.0, 15.0)], facades=(FAR_WALL,)), PLAIN)
    wall = of_kind(paths, PathKind.FACADE)[0]
    assert paths.los_blockage_db[0] < 1.0
    assert paths.blockage_db[0, wall] > 20.0
    crossing = trace_paths(street([(Kind.CAR, 0.0, 6.0)], facades=(FAR_WALL,)), PLAIN)
    assert (crossing.blockage_db[0, [0, 1, wall]] > 15.0).all()
    clear = trace_paths(street(facades=(FAR_WALL,)), PLAIN)
    assert_allclose(
        20 * np.log10(np.abs(clear.gain[0, [0, 1, wall]] / crossing.gain[0, [0, 1, wall]])),
        crossing.blockage_db[0, [0, 1, wall]],
        atol=EXACT,
    )


@given(seed=st.integers(0, 10_000), x_m=st.floats(-500, 500))
def test_a_street_has_the_same_channel_wherever_the_map_begins(seed: int, x_m: float) -> None:
    scene = busy_street(2, 6, seed)
    here, there = trace_paths(scene), trace_paths(shifted(scene, x_m))
    assert_array_equal(here.valid, there.valid)
    assert_allclose(there.gain, here.gain, rtol=1e-6, atol=1e-12)
    assert_allclose(there.direction_sine, here.direction_sine, atol=EXACT)
    assert_allclose(there.blockage_db, here.blockage_db, atol=1e-6)


def exchanged(scene: Scene) -> Scene:
    """Station and user of the first frame in each other's place."""
    one = scene.frames(slice(0, 1))
    moved = {field.name: getattr(one, field.name) for field in fields(one)}
    moved |= {"base_station_m": one.user_m[0], "user_m": one.base_station_m[None]}
    return Scene(**moved)


@given(seed=st.integers(0, 10_000))
def test_the_way_back_is_the_way_there(seed: int) -> None:
    """For paths that arrive in front of both arrays: all but those over walls behind one of them."""
    scene = busy_street(1, 8, seed, facades=())
    there, back = trace_paths(scene), trace_paths(exchanged(scene), ChannelSettings(orientation_deg=180.0))
    both = there.valid & back.valid
    assert both[:, :2].all()
    assert_allclose(back.gain[both], there.gain[both], rtol=1e-4)  # the table of two edges in a row is interpolated


@given(seed=st.integers(0, 10_000), share=st.floats(0.1, 0.9), kind=st.sampled_from([Kind.CAR, Kind.PEDESTRIAN]))
def test_a_blocker_lowers_the_power_of_the_line_of_sight_and_by_model_b_raises_no_other_path(
    seed: int, share: float, kind: Kind
) -> None:
    scene = busy_street(1, 5, seed)
    scene.present[0, 0] = False
    models = [ChannelSettings(blockage=model, bounce_pairs=False) for model in get_args(BlockageModel)]
    without = [trace_paths(scene, settings) for settings in models]
    scene.present[0, 0] = True
    scene.kind[0, 0] = kind
    middle = scene.base_station_m + share * (scene.user_m[0] - scene.base_station_m)
    scene.size_m[0, 0] = (3.0, 1.0, 2 * middle[2])
    scene.center_m[0, 0] = middle
    within = [trace_paths(scene, settings) for settings in models]
    for before, after in zip(without, within, strict=True):
        assert after.los_blockage_db[0] > before.los_blockage_db[0] + 10.0
    same = within[1].kind != PathKind.VEHICLE
    assert (np.abs(within[1].gain[:, same]) <= np.abs(without[1].gain[:, same]) * (1 + EXACT)).all()


def test_the_same_place_has_the_same_channel_bit_for_bit() -> None:
    scene = busy_street(50, 12, seed=4)
    first, again = trace_paths(scene), trace_paths(scene)
    for name in ("gain", "delay_s", "azimuth_rad", "blockage_db", "valid"):
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes()
    assert trace_paths(busy_street(50, 12, seed=5)).gain.tobytes() != first.gain.tobytes()


def test_frames_do_not_know_of_each_other() -> None:
    scene = busy_street(64, 12, seed=6)
    together = trace_paths(scene)
    for start in (0, 17, 63):
        alone = trace_paths(scene.frames(slice(start, start + 1)))
        assert_array_equal(alone.gain[0], together.gain[start])
        assert_array_equal(alone.blockage_db[0], together.blockage_db[start])


def test_what_lies_in_absent_slots_does_not_matter() -> None:
    scene = busy_street(40, 10, seed=7)
    clean = trace_paths(scene)
    scene.center_m[~scene.present] = np.nan
    scene.size_m[~scene.present] = np.inf
    dirty = trace_paths(scene)
    assert_array_equal(dirty.gain, clean.gain)


@pytest.mark.parametrize("n_frames", [0, 3])
def test_empty_scenes_keep_their_shapes(n_frames: int) -> None:
    paths = trace_paths(busy_street(n_frames, 0, seed=8))
    assert paths.gain.shape == (n_frames, 6)  # direct, over the ground, over two walls, and over either and the ground
    assert paths.los_blockage_db.shape == (n_frames,)


@pytest.mark.parametrize(
    "change",
    [{"carrier_hz": 0.5e9}, {"ground_roughness_m": -1.0}, {"vehicle_loss_db": -1.0}, {"orientation_deg": float("nan")}],
)
def test_impossible_settings_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"channel.{next(iter(change))} must lie in"):
        ChannelSettings(**change)  # type: ignore[arg-type]


def test_a_brick_wall_at_60_ghz_is_refused_and_at_28_ghz_is_not() -> None:
    scene = street(facades=(Facade(18.0, -60.0, 60.0, 9.0, "brick"),))
    with pytest.raises(ConfigError, match="material 'brick' is specified from 1 to 40 GHz"):
        trace_paths(scene)
    assert trace_paths(scene, ChannelSettings(carrier_hz=28e9)).valid.all()


def test_a_user_on_top_of_the_station_is_refused() -> None:
    with pytest.raises(DataError, match="frame 0"):
        trace_paths(street(user=STATION))
    assert trace_paths(street(user=USER)).valid.all()

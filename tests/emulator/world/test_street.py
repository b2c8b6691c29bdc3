"""The street: traffic that keeps its distances, people who look before they cross, and blockages as often as set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from doubles.line_of_sight import blockers
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.world.scene import Kind, Scene
from sheafedge.emulator.world.sites import expected_blocked_share, site_street
from sheafedge.emulator.world.street import ROOF_ANTENNA_M, TRACKED_SECTOR_DEG, StreetWorld
from sheafedge.emulator.world.street_settings import VEHICLE_SIZES_M, StreetSettings
from sheafedge.emulator.world.tracks import Way
from sheafedge.emulator.world.traffic import vehicles

N_SITES = 20
ROUNDING = 1e-9
STANDARD_ERRORS = 3.0
#: As dense as traffic gets, with many people who cross.
BUSY = StreetSettings(arrivals_per_s=0.3, crossings_per_s=0.05, speed_limit_m_per_s=13.9)
FIELDS = ("center_m", "size_m", "velocity_m_per_s", "kind", "present", "user_m")


def world(settings: StreetSettings, seed: int = 0, duration_s: float = 300.0, **options: Any) -> StreetWorld:
    return StreetWorld(settings, np.random.default_rng(seed), duration_s, **options)


def lane_of(settings: StreetSettings, seed: int, duration_s: float, lane: int = 0) -> list[Way]:
    return list(vehicles(settings, lane, np.random.default_rng(seed), duration_s))


def front_times_s(lane: list[Way], x_m: float) -> NDArray[np.float64]:
    """When each front passes a point."""
    times = []
    for way in lane:
        (entry_s, from_x_m, _), (exit_s, to_x_m, _) = way.knots
        front_m = np.sign(to_x_m - from_x_m) * way.size_m[0] / 2
        times.append(entry_s + (x_m - front_m - from_x_m) * (exit_s - entry_s) / (to_x_m - from_x_m))
    return np.array(times)


def overlaps(scene: Scene, kinds: tuple[Kind, ...], others: tuple[Kind, ...]) -> NDArray[np.bool_]:
    """[F, B, B] whether a box of the kinds and another one of the others share ground."""
    lower, upper = scene.lower_m[..., :2], scene.upper_m[..., :2]
    shared = (lower[:, :, None] < upper[:, None]) & (lower[:, None] < upper[:, :, None])
    one, other = (np.isin(scene.kind, group) & scene.present for group in (kinds, others))
    apart = ~np.eye(scene.present.shape[1], dtype=bool)
    return np.asarray(shared.all(axis=-1) & one[:, :, None] & other[:, None] & apart)


@pytest.mark.parametrize("settings", [BUSY, site_street(6, np.random.default_rng(6))], ids=["busy", "six lanes"])
def test_nobody_jumps_appears_or_vanishes_inside_the_street(settings: StreetSettings) -> None:
    step_s = 0.02
    scene = world(settings).scene(np.arange(0.0, 120.0, step_s))
    top_speed = 1.3 * settings.mean_speed_m_per_s
    # At the ends one box may leave a column and another one take it.
    edge_m = settings.reach_m - 2 * top_speed * step_s
    at_edge = np.abs(scene.center_m[..., 0]) + scene.size_m[..., 0] / 2 > edge_m
    stays = scene.present[:-1] & scene.present[1:] & ~at_edge[:-1] & ~at_edge[1:]
    moved_m = np.diff(scene.center_m, axis=0)[stays]
    assert np.linalg.norm(moved_m, axis=-1).max() <= top_speed * step_s + ROUNDING

    changes = scene.present[:-1] != scene.present[1:]
    assert changes.sum() > 20
    assert (at_edge[:-1] | ~scene.present[:-1])[changes].all()
    assert (at_edge[1:] | ~scene.present[1:])[changes].all()


def test_velocities_are_the_slopes_of_positions() -> None:
    settings, step_s = replace(BUSY, crossings_per_s=0.0), 1e-3
    time_s = np.arange(0.0, 60.0, 0.5)
    here, there = world(settings).scene(time_s), world(settings).scene(time_s + step_s)
    stays = here.present & there.present & (np.abs(here.center_m[..., 0]) < settings.reach_m - 1)
    slope = (there.center_m - here.center_m)[stays] / step_s
    assert stays.sum() > 100
    assert_allclose(slope, here.velocity_m_per_s[stays], atol=1e-8)  # positions of 40 m in float64, over 1 ms


def test_frames_that_follow_each_other_differ_a_little() -> None:
    scene = world(BUSY).scene(np.arange(0.0, 20.0, 0.1))
    assert (scene.present.sum(axis=1) > 0).all()
    assert (np.abs(np.diff(scene.center_m[..., 0], axis=0)).max(axis=1) > 0.05).all()


@pytest.mark.parametrize("limit", [3.0, 8.0, 20.0])
@pytest.mark.parametrize("lane", [0, 1])
def test_headways_hold_everywhere_on_the_street(limit: float, lane: int) -> None:
    settings = replace(BUSY, speed_limit_m_per_s=limit, arrivals_per_s=0.25)
    lane_ways = lane_of(settings, 1, 3600.0, lane)
    entry_gaps_s = np.diff(front_times_s(lane_ways, -settings.direction(lane) * settings.reach_m))
    for x_m in np.linspace(-settings.reach_m, settings.reach_m, 9):
        assert np.diff(front_times_s(lane_ways, x_m)).min() >= settings.min_headway_s - ROUNDING
    exit_gaps_s = np.diff(front_times_s(lane_ways, settings.direction(lane) * settings.reach_m))
    assert (exit_gaps_s < entry_gaps_s - 0.5).any()  # some do catch up, so there is something to hold


def test_a_faster_follower_drives_slower_than_it_wished() -> None:
    """Without the cap the headways above would break: that many would have driven too fast."""
    lane = lane_of(replace(BUSY, speed_limit_m_per_s=8.0), 1, 3600.0)
    speed = np.array([(way.knots[1][1] - way.knots[0][1]) / (way.knots[1][0] - way.knots[0][0]) for way in lane])
    free = lane_of(replace(BUSY, speed_limit_m_per_s=8.0, arrivals_per_s=0.05), 1, 3600.0)
    free_speed = np.array([(way.knots[1][1] - way.knots[0][1]) / (way.knots[1][0] - way.knots[0][0]) for way in free])
    assert speed.mean() < free_speed.mean() - 3 * free_speed.std() / np.sqrt(len(free_speed))


def test_boxes_on_the_roadway_never_overlap() -> None:
    driving = (Kind.CAR, Kind.VAN, Kind.BUS)
    scene = world(BUSY, seed=3).scene(np.arange(0.0, 300.0, 0.1))
    assert not overlaps(scene, driving, driving).any()
    assert not overlaps(scene, (Kind.PEDESTRIAN,), driving).any()
    kerb_m, far_kerb_m = scene.surroundings.kerbs_y_m
    on_foot = (scene.kind == Kind.PEDESTRIAN) & scene.present
    crossing = on_foot & (scene.center_m[..., 1] > kerb_m) & (scene.center_m[..., 1] < far_kerb_m)
    assert crossing.any(axis=1).mean() > 0.05
    lined_up = replace(scene, center_m=scene.center_m * (0.2, 1.0, 1.0))
    assert overlaps(lined_up, driving, driving).any()  # negative control


@pytest.mark.parametrize("per_s", [0.05, 0.12, 0.3])
def test_vehicles_arrive_as_often_as_asked_with_exponential_gaps(per_s: float) -> None:
    settings = replace(BUSY, arrivals_per_s=per_s)
    lane = lane_of(settings, 5, 3000.0 / per_s)
    gaps_s = np.diff(front_times_s(lane, -settings.reach_m))
    n_gaps = len(gaps_s)
    assert abs(gaps_s.mean() - 1 / per_s) < STANDARD_ERRORS * gaps_s.std() / np.sqrt(n_gaps)
    lasts_s = [
        way.size_m[0] * (way.knots[1][0] - way.knots[0][0]) / (way.knots[1][1] - way.knots[0][1]) for way in lane
    ]
    spare_s = gaps_s - [settings.least_gap_s(leader_s) for leader_s in lasts_s[:-1]]
    assert spare_s.min() > 0
    # Mean and standard deviation of an exponential agree; the latter's standard error is sqrt(2 / n) of it.
    assert abs(spare_s.std() / spare_s.mean() - 1) < STANDARD_ERRORS * np.sqrt(2 / n_gaps)


def test_kinds_and_sizes_are_those_of_the_settings() -> None:
    lane = lane_of(BUSY, 2, 10_000.0)
    for kind, share in BUSY.vehicle_shares.items():
        observed = np.mean([way.kind == kind for way in lane])
        assert abs(observed - share) < STANDARD_ERRORS * np.sqrt(share * (1 - share) / len(lane))
    assert all(way.size_m == VEHICLE_SIZES_M[way.kind] for way in lane)


def test_lanes_drive_on_the_right_and_inside_their_edges() -> None:
    settings = replace(BUSY, n_lanes=4)
    scene = world(settings).scene(np.arange(0.0, 60.0, 0.5))
    driving = scene.present & (scene.kind != Kind.PEDESTRIAN)
    offset = (scene.center_m[..., 1] - settings.roadway_offset_m) / settings.lane_width_m
    lane = np.floor(offset)[driving].astype(int)
    assert set(lane.tolist()) == {0, 1, 2, 3}
    assert_array_equal(np.sign(scene.velocity_m_per_s[..., 0][driving]), np.where(lane < 2, 1, -1))
    half = scene.size_m[..., 1][driving] / 2 / settings.lane_width_m
    inside = offset[driving] - lane
    assert ((inside - half > -ROUNDING) & (inside + half < 1 + ROUNDING)).all()


def test_the_line_of_sight_is_blocked_in_5_to_15_percent_of_frames_at_every_site() -> None:
    blocked = []
    for site in range(N_SITES):
        settings = site_street(site, np.random.default_rng(site))
        scene = world(settings, 100 + site, 1800.0).scene(np.arange(0.0, 1800.0, 0.5))
        blocked.append(blockers(scene).any(axis=1).mean())
    assert all(0.05 <= share <= 0.15 for share in blocked)
    assert max(blocked) - min(blocked) > 0.02  # sites differ


def test_blockage_is_as_frequent_as_expected() -> None:
    settings = replace(StreetSettings(user_x_m=4.0), crossings_per_s=0.0, walkers_per_s=0.1)
    n_parts, part_s = 120, 120.0
    scene = world(settings, 4, n_parts * part_s).scene(np.arange(0.0, n_parts * part_s, 0.5))
    shares = blockers(scene).any(axis=1).reshape(n_parts, -1).mean(axis=1)
    standard_error = shares.std(ddof=1) / np.sqrt(n_parts)
    assert abs(shares.mean() - expected_blocked_share(settings)) < STANDARD_ERRORS * standard_error


def test_sites_differ_in_geometry_and_stay_within_measured_widths() -> None:
    sites = [site_street(site, np.random.default_rng(site)) for site in range(N_SITES)]
    widths_m = np.array([site.user_y_m for site in sites])
    assert widths_m.min() >= 10.6 - ROUNDING
    assert widths_m.max() <= 24.0
    assert {site.n_lanes for site in sites} == {2, 3, 4, 6}
    bearing_deg = np.degrees([np.arctan2(site.user_x_m, site.user_y_m) for site in sites])
    assert bearing_deg.min() < -15
    assert bearing_deg.max() > 15
    assert len({(site.facade_material, site.near_facade_material) for site in sites}) > 2
    assert site_street(3, np.random.default_rng(3)) == sites[3]
    assert site_street(3, np.random.default_rng(4)) != sites[3]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_street() -> None:
    time_s = np.arange(0.0, 50.0, 0.1)
    one, same, other = (world(BUSY, seed).scene(time_s) for seed in (1, 1, 2))
    for field in FIELDS:
        assert getattr(one, field).tobytes() == getattr(same, field).tobytes()
    assert one.center_m.tobytes() != other.center_m.tobytes()


def test_instants_can_be_asked_for_in_any_order_and_any_chunks() -> None:
    street, time_s = world(BUSY), np.arange(0.0, 50.0, 0.1)
    order = np.random.default_rng(0).permutation(len(time_s))[:40]
    whole, some = street.scene(time_s).frames(order), street.scene(time_s[order])
    for field in FIELDS:
        assert_array_equal(getattr(some, field), getattr(whole, field))
    assert some.present.shape[1] == street.n_boxes


def test_boxes_that_are_not_there_are_all_zero() -> None:
    scene = world(BUSY).scene(np.arange(0.0, 50.0, 0.1))
    absent = ~scene.present
    assert absent.any()
    assert not scene.center_m[absent].any()
    assert not scene.size_m[absent].any()
    assert not scene.kind[absent].any()
    assert (scene.kind[scene.present] != Kind.NONE).all()


def test_tracked_cars_carry_the_antenna_through_the_sector_one_after_the_other() -> None:
    street = world(BUSY, user="car")
    begin_s, end_s = street.passes_s.T
    assert len(begin_s) > 10
    assert (begin_s[1:] > end_s[:-1]).all()
    time_s = np.concatenate([np.linspace(*ends, 20) for ends in street.passes_s])
    assert_array_equal(street.sequence_index(time_s), np.repeat(np.arange(len(begin_s)), 20))
    scene = street.scene(time_s)
    is_target = scene.present & (scene.kind == Kind.TARGET)
    assert (is_target.sum(axis=1) == 1).all()
    roof_m = scene.upper_m[is_target][:, 2] + ROOF_ANTENNA_M
    assert_allclose(scene.user_m, np.column_stack([scene.center_m[is_target][:, :2], roof_m]), atol=ROUNDING)
    assert_allclose(scene.size_m[is_target], np.tile(VEHICLE_SIZES_M[Kind.CAR], (len(time_s), 1)))
    bearing_deg = np.degrees(np.arctan2(scene.user_m[:, 0], scene.user_m[:, 1])).reshape(-1, 20)
    assert_allclose(np.abs(bearing_deg[:, [0, -1]]), TRACKED_SECTOR_DEG, atol=1e-6)
    assert (np.abs(bearing_deg) <= TRACKED_SECTOR_DEG + 1e-6).all()


def test_a_delay_never_reaches_back_before_a_pass() -> None:
    street = world(BUSY, user="car")
    time_s = street.passes_s[3, 0] + np.array([0.1, 0.5])
    late = street.user_before_m(time_s, 0.3)
    first, earlier = street.scene(np.array([street.passes_s[3, 0], time_s[1] - 0.3])).user_m
    assert_allclose(late, [first, earlier], atol=ROUNDING)


def test_instants_without_an_answer_are_refused() -> None:
    street = world(BUSY, user="car", duration_s=60.0)
    with pytest.raises(ConfigError, match=r"times_s\[1\] = 60.5 lies outside of the street's \[0, 60\] s"):
        street.scene(np.array([0.0, 60.5]))
    with pytest.raises(ConfigError, match="between two passes"):
        street.scene(street.passes_s[:1, 1] + 1e-3)
    with pytest.raises(ConfigError, match=r"no car passes within 0\.1 s"):
        world(BUSY, user="car", duration_s=0.1)
    with pytest.raises(ConfigError, match="duration_s must be a positive number of seconds, got nan"):
        world(BUSY, duration_s=float("nan"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_lanes": 7}, r"street.n_lanes must lie in \[2, 6\], got 7"),
        ({"arrivals_per_s": 0.4}, r"street.arrivals_per_s must lie in \[0.05, 0.3\], got 0.4"),
        ({"user_height_m": 1.6}, r"street.user_height_m must lie in \[1, 1.5\]"),
        ({"min_headway_s": 1.0}, r"street.min_headway_s must lie in \[1.5, 3\]"),
        ({"speed_limit_m_per_s": float("nan")}, "street.speed_limit_m_per_s"),
        ({"van_share": 0.6, "bus_share": 0.6}, "the rest are cars"),
        ({"facade_setback_m": 2.3}, "so that the user stands before the wall"),
        ({"near_facade_setback_m": 0.1}, "so that the base station stands before the wall"),
        (
            {"speed_limit_m_per_s": 3.0, "van_share": 0.0, "bus_share": 1.0, "arrivals_per_s": 0.3},
            "must be below 0.198",
        ),
    ],
)
def test_streets_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StreetSettings(**changes)


def test_a_scenario_cannot_misspell_a_field() -> None:
    with pytest.raises(ValidationError, match="lanes"):
        TypeAdapter(StreetSettings).validate_python({"lanes": 3})


def test_walls_kerbs_and_lanes_are_part_of_the_scene() -> None:
    settings = StreetSettings(facade_material="glass")
    surroundings = world(settings, duration_s=10.0).scene(np.zeros(1)).surroundings
    far, near = surroundings.facades
    assert (far.y_m, far.material) == (settings.far_kerb_y_m + settings.facade_setback_m, "glass")
    assert near.y_m == -settings.near_facade_setback_m
    assert surroundings.lanes_y_m == settings.lanes_y_m
    open_street = replace(settings, facade_setback_m=0.0, near_facade_setback_m=0.0)
    assert world(open_street, duration_s=10.0).scene(np.zeros(1)).surroundings.facades == ()

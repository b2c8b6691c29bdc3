"""Vehicles and people of a file drive through a street of the emulator: where they are, as large, as long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.world.scene import Kind, Scene
from sheafedge.scenarios.recording.inspection import plot_recording
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.recording_cache import recording_key
from sheafedge.scenarios.recording.world_file import WorldFile, parse_world
from sheafedge.scenarios.schema.world_section import SHIPPED_TRACKS, WorldSection

HEADING = "time_s,id,kind,x_m,y_m,heading_deg\n"


def world(file: Path | str, tracks: dict[str, Any] | None = None, **changes: Any) -> WorldSection:
    """A default street without variation: lanes 3.95 and 7.45 m, the user 11.4 m from the base station."""
    common = {"n_sites": 1, "vary_sites": False, "duration_s": 10.0, "sensors": ("rf",)}
    return WorldSection.model_validate({**common, "tracks": {"file": str(file), **(tracks or {})}, **changes})


def scene(section: WorldSection, time_s: Any, index: int = 0) -> Scene:
    return RecordedSite.of(WorldFile(section, 0), index).scene(np.asarray(time_s, dtype=float))


def table(folder: Path, *rows: str, until_s: float = 10.0) -> Path:
    """A table with these rows, and somebody far behind who stays until the end of the recording."""
    path = folder / "mine.csv"
    stays = [f"{time_s},stays,pedestrian,-30,12,0" for time_s in np.arange(0.0, until_s + 0.5, 0.5)]
    path.write_text(HEADING + "\n".join([*rows, *stays]) + "\n")
    return path


def straight(name: str, kind: str, y_m: float, speed: float, heading_deg: float = 90.0) -> list[str]:
    """Samples of a drive along x, passing x = 0 at 5 s."""
    signed = speed if heading_deg == 90.0 else -speed
    times_s = np.arange(0.0, 10.5, 0.5)
    return [f"{time_s},{name},{kind},{signed * (time_s - 5.0):.3f},{y_m},{heading_deg}" for time_s in times_s]


def fcd(folder: Path, *elements: str) -> Path:
    """Floating-car data with an element per vehicle or person at 0, 1, ... 10 s; {t} is the instant."""
    steps = [
        f'<timestep time="{time_s}">' + "".join(one.replace("{x}", f"{8.0 * (time_s - 5)}") for one in elements)
        for time_s in range(11)
    ]
    path = folder / "sumo.xml"
    path.write_text("<fcd-export>" + "</timestep>\n".join([*steps, ""]) + "</fcd-export>")
    return path


def boxes(found: Scene, row: int, kind: Kind) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    here = found.present[row] & (found.kind[row] == kind)
    return found.center_m[row, here], found.size_m[row, here], found.velocity_m_per_s[row, here]


def test_a_car_of_a_table_is_where_its_samples_are_and_between_them(tmp_path: Path) -> None:
    found = scene(world(table(tmp_path, *straight("c", "car", 3.95, 8.0))), [3.0, 5.0, 5.25])
    for row, x_m in enumerate((-16.0, 0.0, 2.0)):
        center_m, size_m, velocity = boxes(found, row, Kind.CAR)
        assert_allclose(center_m, [[x_m, 3.95, 0.75]], atol=1e-9)
        assert_allclose(size_m, [[5.0, 1.8, 1.5]])
        assert_allclose(velocity, [[8.0, 0.0, 0.0]])


def test_sumo_gives_the_front_of_a_vehicle_and_the_middle_of_a_person(tmp_path: Path) -> None:
    file = fcd(
        tmp_path,
        '<vehicle id="b" x="{x}" y="3.95" angle="90" type="bus_bus"/>',
        '<person id="p" x="{x}" y="1.0" angle="90" type="DEFAULT_PEDTYPE"/>',
    ).rename(tmp_path / "s.xml")
    section = world(file, street={"base_station_height_m": 2.0})
    found = scene(section, [4.0])
    assert_allclose(boxes(found, 0, Kind.BUS)[0], [[-8.0 - 6.0, 3.95, 1.7]])
    assert_allclose(boxes(found, 0, Kind.PEDESTRIAN)[0], [[-8.0, 1.0, 0.86]])


@pytest.mark.parametrize(
    ("place", "x_y_m", "long_along_x"),
    [
        ((0.0, 0.0, 0.0), (-16.0, 4.0), True),
        ((-20.0, 1.0, 0.0), (4.0, 3.0), True),
        ((-20.0, 9.0, 180.0), (-4.0, 5.0), True),
        ((-21.0, 6.0, 90.0), (2.0, 5.0), False),
    ],
)
def test_a_street_is_placed_and_turned_in_the_map(
    tmp_path: Path, place: tuple[float, float, float], x_y_m: tuple[float, float], long_along_x: bool
) -> None:
    file = table(tmp_path, *straight("c", "car", 4.0, 8.0))
    # low cars pass below the antennas, so that a street across the road is possible
    street = {"base_station_height_m": 6.0, "facade_setback_m": 0, "near_facade_setback_m": 0, "user_x_m": 50.0}
    center_m, size_m, _ = boxes(scene(world(file, {"places": [place]}, street=street), [3.0]), 0, Kind.CAR)
    assert_allclose(center_m[0, :2], x_y_m, atol=1e-9)
    assert_allclose(size_m[0, :2], (5.0, 1.8) if long_along_x else (1.8, 5.0))


def test_what_turns_is_long_along_where_it_drives(tmp_path: Path) -> None:
    rows = [f"{t},c,car,{-40 + 8 * t},4,{0 if t >= 5 else 90}" for t in range(6)]
    rows += [f"{t},c,car,0,{4 + 1.0 * (t - 5)},0" for t in range(6, 9)]
    found = scene(world(table(tmp_path, *rows), street={"base_station_height_m": 6.0}), [4.5, 5.5])
    assert_allclose(boxes(found, 0, Kind.CAR)[1][0, :2], (5.0, 1.8))
    assert_allclose(boxes(found, 1, Kind.CAR)[1][0, :2], (1.8, 5.0))


def test_boxes_exist_within_the_reach_and_between_the_walls(tmp_path: Path) -> None:
    rows = [*straight("c", "car", 3.95, 12.0), *straight("behind", "bus", -9.0, 8.0), *straight("far", "bus", 30, 8.0)]
    found = scene(world(table(tmp_path, *rows), street={"reach_m": 20.0}), np.arange(0.0, 10.0, 0.1))
    cars = found.present & (found.kind == Kind.CAR)
    assert_array_equal(found.time_s[cars.any(axis=1)], found.time_s[np.abs(12.0 * (found.time_s - 5.0)) < 22.5])
    assert not (found.present & (found.kind == Kind.BUS)).any()


def test_who_stands_still_and_who_is_gone_for_long_is_not_invented(tmp_path: Path) -> None:
    rows = [f"{t},c,car,-10,4,90" for t in np.arange(0.0, 3.1, 0.5)] + [f"{t},c,car,-9,4,90" for t in (8.0, 8.5, 9.0)]
    found = scene(world(table(tmp_path, *rows)), [0.0, 2.9, 3.1, 5.5, 7.9, 8.2])
    assert_array_equal((found.present & (found.kind == Kind.CAR)).any(axis=1), [True, True, False, False, False, True])
    assert_array_equal(boxes(found, 1, Kind.CAR)[2], [[0.0, 0.0, 0.0]])


def test_what_jumps_does_not_fly(tmp_path: Path) -> None:
    """SUMO puts vehicles that are stuck somewhere else."""
    rows = [f"{t},c,car,{-20 if t < 5 else 80 + t},4,90" for t in np.arange(0.0, 10.0, 0.5)]
    found = scene(world(table(tmp_path, *rows)), [4.4, 4.6, 4.8])
    assert_array_equal((found.present & (found.kind == Kind.CAR)).any(axis=1), [True, False, False])


def test_long_ways_do_not_make_all_arrays_as_wide(tmp_path: Path) -> None:
    rows = [f"{t:.3f},c,car,{10 * np.sin(t):.3f},4,90" for t in np.arange(0.0, 10.001, 0.01)]
    site = RecordedSite.of(WorldFile(world(table(tmp_path, *rows)), 0), 0)
    found = site.scene(np.arange(0.005, 9.9, 0.1))
    assert_allclose(found.center_m[..., 0].max(axis=1, where=found.kind == Kind.CAR, initial=-99),
                    10 * np.sin(found.time_s), atol=1e-3)  # fmt: skip
    assert site.world._tracks.knot_s.shape[1] <= 512  # type: ignore[union-attr]


def test_cars_of_a_file_are_tracked_while_they_are_in_the_sector(tmp_path: Path) -> None:
    """One stands still for two seconds on its way; the bus is no user, and the car behind waits for its turn."""
    stops = [
        f"{t},c,car,{x},4,90" for t, x in ((0.0, -16), (1.0, -8), (2.0, 0), (3.0, 0), (4.0, 0), (5.0, 8), (6.0, 16))
    ]
    rows = [
        *stops,
        *straight("bus", "bus", 7.45, 8.0, 270.0),
        "6.5,d,car,-6,4,90",
        "7.5,d,car,0,4,90",
        "8.5,d,car,6,4,90",
    ]
    section = world(table(tmp_path, *rows), user="car", sensors=("rf", "gps"))
    site = RecordedSite.of(WorldFile(section, 0), 0)
    # x = -4 and 4, where the bearing is 45 degrees
    assert_allclose(site.world.passes_s, [[1.5, 4.5], [6.5 + 1 / 3, 8.5 - 1 / 3]], atol=1e-9)  # type: ignore[union-attr]
    found = site.scene(np.array([2.5, 7.5]))
    assert_allclose(found.user_m, [[0.0, 4.0, 1.6]] * 2)
    assert_array_equal((found.present & (found.kind == Kind.TARGET)).sum(axis=1), [1, 1])
    report = record_world(section, 0, tmp_path / "tracked.h5")
    assert (report.stations[0].n_sequences, report.stations[0].n_frames) == (2, 31 + 13)


def test_a_file_without_cars_in_view_tracks_nobody(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no car passes within 10 s; .* or take a file with cars"):
        scene(world(table(tmp_path), user="car"), [0.0])


def test_types_that_say_nothing_need_a_class(tmp_path: Path) -> None:
    file = table(tmp_path, *straight("c", "gas", 3.95, 8.0))
    with pytest.raises(DataError, match=r"mine\.csv:2: 'c' is of type 'gas', which does not say what it is; name its"):
        scene(world(file), [0.0])
    found = scene(world(file, {"classes": {"gas": "delivery"}}), [5.0])
    assert_allclose(boxes(found, 0, Kind.VAN)[1], [[6.5, 2.16, 2.86]])


@pytest.mark.parametrize(
    ("rows", "tracks", "sentence"),
    [
        (straight("c", "car", 0.3, 8.0), {}, r"mine\.csv:\d+: 'c' passes through the base station of the street"),
        (straight("c", "car", 11.0, 8.0), {}, r"'c' passes through the user on the kerb .* 4\.7 s after its beginning"),
        (
            straight("c", "car", 4.0, 8.0),
            {"start_s": 5.0},
            r"has tracks from 0 to 10 s, the recording needs them",
        ),
        (straight("c", "car", 4.0, 8.0), {"start_s": -9.0}, r"set world\.tracks\.start_s and world\.duration_s"),
        (
            straight("c", "car", 4.0, 8.0),
            {"places": [[500, 0, 0]]},
            r"nobody within 100 m .* -40 to 40 m in x, 4 to",
        ),
        (straight("c", "car", 4.0, 8.0), {"places": [[90, 0, 0]]}, r"nobody between the walls of the street of base s"),
    ],
)
def test_tracks_that_do_not_fit_the_street_are_refused(
    tmp_path: Path, rows: list[str], tracks: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence) as refused:
        record_world(world(table(tmp_path, *rows), tracks), 0, tmp_path / "out.h5")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vary_sites": True}, r"world\.tracks\.file goes with world\.vary_sites = false alone, got true"),
        ({"kind": "sky"}, r'goes with world\.kind = "street" alone, got "sky"'),
        ({"n_sites": 3, "tracks": {"file": "a.csv", "places": [[0, 0, 0]] * 2}}, r"one for each of world\.n_sites = 3"),
    ],
)
def test_worlds_that_do_not_go_with_tracks_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=sentence):
        world("a.csv", **changes)


def test_a_world_without_tracks_says_nothing_of_them() -> None:
    plain = WorldFile(WorldSection(), 0)
    assert "tracks" not in plain.text()
    tracked = WorldFile(world("two_lanes", duration_s=60.0), 0)
    assert parse_world(tracked.text(), "here") == tracked


def test_a_run_with_fewer_clients_than_places_records_the_first(tmp_path: Path) -> None:
    places = [[-5, 0, 0], [0, 0, 0], [5, 0, 0]]
    file = table(tmp_path, *straight("c", "car", 4.0, 8.0))
    whole, fewer = (world(file, n_sites=n, tracks={"file": str(file), "places": places}) for n in (3, 2))
    assert parse_world(WorldFile(fewer, 0).text(), "here").section == fewer
    for index in range(2):
        assert_array_equal(scene(fewer, [4.0], index).center_m, scene(whole, [4.0], index).center_m)


def test_a_changed_file_is_another_recording(tmp_path: Path) -> None:
    section = world(table(tmp_path, *straight("c", "car", 3.95, 8.0)))
    before = recording_key(section, 0)
    assert recording_key(section, 0) == before
    table(tmp_path, *straight("c", "car", 3.90, 8.0))
    assert recording_key(section, 0) != before


def test_the_tracks_that_ship_block_the_line_of_sight_now_and_then(tmp_path: Path) -> None:
    assert (SHIPPED_TRACKS / "two_lanes.xml.gz").stat().st_size < 50_000
    section = world("two_lanes", n_sites=2, tracks={"file": "two_lanes", "places": [[0, 0, 0], [0, 11.4, 180]]},
                    duration_s=170.0, sensors=("lidar", "camera", "rf"))  # fmt: skip
    report = record_world(section, 0, tmp_path / "tracked.h5")
    for station in report.stations:
        assert 0.05 < station.blocked_share < 0.3
        assert station.n_events > 15
    with RecordingReader(tmp_path / "tracked.h5") as reader:
        one, other = (station.read("blocked_geometric") for station in reader.base_stations)
    # the second stands where the first has its user, and the other way round: the same boxes block both lines
    assert (one == other).mean() > 0.95


def test_pictures_show_the_scene_while_its_file_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    drawn = []
    for name in ("_from_world", "_from_data"):
        import sheafedge.scenarios.recording.inspection as module

        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, real=real, name=name: (drawn.append(name), real(*a))[1])
    file = table(tmp_path, *straight("c", "car", 3.95, 8.0))
    record_world(world(file, sensors=("lidar", "rf")), 0, tmp_path / "out.h5")
    plot_recording(tmp_path / "out.h5", tmp_path / "one", (0,))
    file.write_text(HEADING)
    plot_recording(tmp_path / "out.h5", tmp_path / "two", (0,))
    assert drawn == ["_from_world", "_from_data"]

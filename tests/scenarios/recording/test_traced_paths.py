"""Paths of a ray tracer take the place of the emulator's own in the sweeps of its world, and nowhere else."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.emulator.contracts import DataError
from sheafedge.emulator.radio.channel import trace_paths
from sheafedge.emulator.radio.sweep import beam_powers
from sheafedge.scenarios.recording.own_paths import write_paths
from sheafedge.scenarios.recording.record import CHUNK_FRAMES, RecordReport, record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.world_file import WorldFile, load_world
from sheafedge.scenarios.schema.world_section import WorldSection
from sheafedge.scenarios.terminal.cli import main

Series = dict[str, Any]
SEED = 3
#: Amplitudes are stored in single precision; where beams cancel them, the rounding of a strong path shows.
SINGLE_PRECISION = 2e-5
#: Power of the best beam over Sionna's paths and over the emulator's, with nothing near: oxygen, the roughness of the
#: ground and double facades, which only one of the two has, and noise.
CLEAR_DB = 1.0


def world(**changes: Any) -> WorldSection:
    """A street of two base stations, long enough for two pieces and some cars."""
    return WorldSection.model_validate({"n_sites": 2, "duration_s": 30.0, "sensors": ("lidar", "rf", "gps"), **changes})


def own_paths(section: WorldSection, index: int, keep: Any = slice(None)) -> Series:
    """The emulator's own paths at some instants, as a ray tracer would hand them over."""
    site = RecordedSite.of(WorldFile(section, SEED), index)
    time_s = site.instants(np.arange(section.n_ticks))[1][keep]
    scene = site.scene(time_s)
    paths = trace_paths(scene, site.channel)
    frame, column = np.nonzero(paths.valid)
    from_broadside, sine = paths.azimuth_rad[frame, column], paths.direction_sine[frame, column]
    # sine = sin(azimuth) cos(elevation); a path along the broadside has no elevation to find out
    level = np.where(np.abs(from_broadside) < 1e-9, 1.0, sine / np.sin(from_broadside))
    return {
        "time_s": time_s,
        "user_m": scene.user_m,
        "offset": np.concatenate([[0], np.cumsum(paths.valid.sum(axis=1))]),
        "gain": paths.gain[frame, column],
        "delay_s": paths.delay_s[frame, column],
        "arrival_zenith_rad": np.arcsin(np.clip(level, -1.0, 1.0)),
        "arrival_azimuth_rad": np.pi / 2.0 - from_broadside,
        "interactions": paths.kind[column],
        "doppler_hz": paths.doppler_hz[frame, column],
    }


def traced(folder: Path, section: WorldSection, stations: list[Series], name: str = "traced") -> RecordReport:
    paths = write_paths(folder / f"{name}.paths.h5", section.carrier_hz, stations)
    return record_world(section, SEED, folder / f"{name}.h5", paths=paths)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"user": "car", "duration_s": 60.0, "doppler": True, "sweep": {"duration_s": 0.005}},
        {"kind": "sky", "sensors": ("rf", "gps"), "duration_s": 60.0},
    ],
)
def test_own_paths_that_were_written_and_read_give_the_own_recording(tmp_path: Path, changes: dict[str, Any]) -> None:
    section = world(**changes)
    record_world(section, SEED, tmp_path / "own.h5")
    report = traced(tmp_path, section, [own_paths(section, index) for index in range(2)])
    assert [one.n_missing for one in report.paths] == [0, 0]
    with RecordingReader(tmp_path / "own.h5") as own, RecordingReader(tmp_path / "traced.h5") as other:
        assert max(station.n_frames for station in own.base_stations) > CHUNK_FRAMES
        for mine, theirs in zip(own.base_stations, other.base_stations, strict=True):
            assert mine.field_names == theirs.field_names
            rounded = {"rf", "doppler_shift_hz", "doppler_spread_hz"}
            for name in set(mine.field_names) - rounded:
                assert_array_equal(theirs.read(name), mine.read(name), err_msg=name)
            for name in rounded & set(mine.field_names):
                assert_allclose(theirs.read(name), mine.read(name), rtol=SINGLE_PRECISION, atol=1e-15, err_msg=name)


def test_the_same_paths_give_the_same_bytes_on_any_number_of_threads(tmp_path: Path) -> None:
    section = world()
    paths = write_paths(tmp_path / "p.h5", 60e9, [own_paths(section, index) for index in range(2)])
    for threads in (0, 3):
        record_world(section, SEED, tmp_path / f"{threads}.h5", threads=threads, paths=paths)
    assert (tmp_path / "0.h5").read_bytes() == (tmp_path / "3.h5").read_bytes()


def test_other_paths_change_the_sweeps_and_no_other_sensor(tmp_path: Path) -> None:
    section = world()
    stations = [own_paths(section, index) for index in range(2)]
    traced(tmp_path, section, stations, "own")
    direct = [one["interactions"] == 0 for one in stations]
    fewer = [
        {
            **one,
            "offset": np.concatenate([[0], np.cumsum(kept)])[one["offset"]],
            **{name: one[name][kept] for name in one if name not in {"time_s", "user_m", "offset"}},
        }
        for one, kept in zip(stations, direct, strict=True)
    ]
    traced(tmp_path, section, fewer, "fewer")
    with RecordingReader(tmp_path / "own.h5") as own, RecordingReader(tmp_path / "fewer.h5") as other:
        for mine, theirs in zip(own.base_stations, other.base_stations, strict=True):
            for name in ("lidar", "gps", "los_loss_db", "blocked_geometric"):
                if name in mine.field_names:
                    assert_array_equal(theirs.read(name), mine.read(name), err_msg=name)
            assert not np.allclose(theirs.read("rf"), mine.read("rf"), rtol=0.01, atol=0.0)


def test_only_the_instants_of_the_file_are_recorded_and_holes_are_marked(tmp_path: Path) -> None:
    section = world()
    keep = np.r_[10:20, 30:35, 290:300]
    report = traced(tmp_path, section, [own_paths(section, 0, keep), own_paths(section, 1)])
    assert [one.n_missing for one in report.paths] == [300 - 25, 0]
    with RecordingReader(tmp_path / "traced.h5") as reader:
        assert_array_equal(reader.base_stations[0].read("frame_index"), keep)
        assert_array_equal(reader.base_stations[1].read("frame_index"), np.arange(300))


def test_a_frame_without_a_path_measures_noise(tmp_path: Path) -> None:
    section = world(n_sites=1)
    nothing = own_paths(section, 0) | {"offset": np.zeros(301, int)}
    nothing |= {name: [] for name in nothing if name not in {"time_s", "user_m", "offset"}}
    report = traced(tmp_path, section, [nothing])
    assert report.paths[0].n_empty == 300
    with RecordingReader(tmp_path / "traced.h5") as reader:
        powers = reader.base_stations[0].read("rf")
    noise = RecordedSite.of(WorldFile(section, SEED), 0).noise.mean_power * section.sweep.transmit_power_w
    assert_allclose(powers.mean(), noise, rtol=0.01)


def test_what_arrives_from_behind_the_array_is_not_received(tmp_path: Path) -> None:
    section = world(n_sites=1)
    paths = own_paths(section, 0)
    report = traced(tmp_path, section, [paths | {"arrival_azimuth_rad": -paths["arrival_azimuth_rad"]}])
    assert report.paths[0].n_behind == report.paths[0].n_paths > 0


@pytest.mark.parametrize(
    ("turned", "share"), [(lambda gain, _: gain, 0.0), (lambda gain, _: -gain, 0.0), (lambda gain, w: gain / w, 1.0)]
)
def test_a_forgotten_phase_is_noticed(tmp_path: Path, turned: Callable[[Any, Any], Any], share: float) -> None:
    section = world()
    stations = [own_paths(section, index) for index in range(2)]
    for one in stations:
        one["gain"] = turned(one["gain"], np.exp(-2j * np.pi * section.carrier_hz * one["delay_s"]))
    assert all(
        one.wrong_phase_share == pytest.approx(share, abs=0.1) for one in traced(tmp_path, section, stations).paths
    )


@pytest.mark.parametrize(
    ("change", "share"), [(lambda hz: hz, 0.0), (lambda hz: -hz, 1.0), (lambda hz: hz * 0.005, 1.0)]
)
def test_shifts_of_another_sign_or_unit_are_noticed(tmp_path: Path, change: Callable[[Any], Any], share: float) -> None:
    section = world(kind="sky", sensors=("rf",), n_sites=1, sky={"hover_share": 0.0})
    paths = own_paths(section, 0)
    report = traced(tmp_path, section, [paths | {"doppler_hz": change(paths["doppler_hz"])}])
    assert report.paths[0].wrong_doppler_share == pytest.approx(share, abs=0.1)


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"doppler": True}, "world.doppler = true needs"), ({"sweep": {"duration_s": 0.01}}, "duration_s above 0 needs")],
)
def test_paths_without_shifts_are_refused_where_these_are_needed(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    section = world(**changes)
    stations = [own_paths(section, index) for index in range(2)]
    for one in stations:
        del one["doppler_hz"]
    with pytest.raises(DataError, match="there is no series doppler_hz") as refused:
        traced(tmp_path, section, stations)
    assert what in str(refused.value)
    assert "\n" not in str(refused.value)
    assert traced(tmp_path, world(), stations, "plain").paths[0].wrong_doppler_share is None


def _changed(name: str, change: Callable[[Any], Any]) -> Callable[[Series], Series]:
    return lambda series: series | {name: change(np.array(series[name]))}


def _moved(at: Any, by: float) -> Callable[[Any], Any]:
    def move(values: Any) -> Any:
        values[at] += by
        return values

    return move


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_changed("user_m", _moved((7, 0), 0.01)), r"user_m is .* in frame 7, where the user of this world stands at"),
        (_changed("user_m", _moved((slice(None), 2), -1.1)), "trace the world of --world, with its seed"),
        (_changed("time_s", _moved(5, 0.01)), r"time_s is 0\.51 in frame 5, which is no instant of this world"),
        (_changed("time_s", _moved(-1, 5.0)), "which is no instant of this world: it records every"),
        (_changed("delay_s", lambda delay_s: delay_s * 1e3), "over 3000 m of detour"),
        (_changed("delay_s", lambda delay_s: delay_s * 0.99), "shorter than the straight line"),
        (_changed("delay_s", lambda delay_s: delay_s - delay_s.min()), "give delays in seconds"),
        (_changed("gain", lambda gain: gain * 10), "between isotropic antennas, not powers, decibels or beams"),
        (_changed("gain", lambda gain: np.full_like(gain, 0.5)), "free space over its"),
    ],
)
def test_paths_of_another_world_are_refused_in_one_sentence(
    tmp_path: Path, change: Callable[[Series], Series], sentence: str
) -> None:
    section = world(n_sites=1)
    with pytest.raises(DataError, match=sentence) as refused:
        traced(tmp_path, section, [change(own_paths(section, 0))])
    assert "\n" not in str(refused.value)
    assert [one.name for one in tmp_path.iterdir()] == ["traced.paths.h5"]


def test_another_number_of_base_stations_and_another_carrier_are_refused(tmp_path: Path) -> None:
    section = world()
    with pytest.raises(DataError, match=r"has 1 base stations, the world 2; set world\.n_sites=1"):
        traced(tmp_path, section, [own_paths(section, 0)], "one")
    paths = write_paths(tmp_path / "p.h5", 28e9, [own_paths(section, index) for index in range(2)])
    with pytest.raises(DataError, match=r"traced at carrier_hz = 2\.8e"):
        record_world(section, SEED, tmp_path / "other.h5", paths=paths)


def test_instants_without_a_tracked_car_are_refused(tmp_path: Path) -> None:
    section = world(user="car", n_sites=1, duration_s=60.0)
    site = RecordedSite.of(WorldFile(section, SEED), 0)
    paths = own_paths(section, 0)
    between = np.setdiff1d(np.arange(section.n_ticks), site.instants(np.arange(section.n_ticks))[0])[0]
    row = int(np.searchsorted(paths["time_s"], between / 10.0))
    paths["time_s"][row - 1 if row else 0] = between / 10.0
    with pytest.raises(DataError, match="when this world has no user: it lies between two passes or flights"):
        traced(tmp_path, section, [paths])


def test_the_command_records_reports_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["sheafedge", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    section = load_world("street", {"world.n_sites": 1, "world.duration_s": 10.0, "seed": SEED}).section
    paths = write_paths(tmp_path / "p.h5", 60e9, [own_paths(section, 0, slice(20, 80))])
    words = ["import", "paths", str(paths), "--world", "street", "--set", "world.n_sites=1", "--out"]
    out = tmp_path / "traced.h5"
    assert command(*words, str(out), "--set", "world.duration_s=10", "--set", f"seed={SEED}") == 0
    said = capsys.readouterr().out
    assert "60 frames" in said
    assert "40 frames of the world" in said
    with RecordingReader(out) as reader:
        assert reader.description.scenario.startswith("# paths of 'p.h5', sha256 ")
    assert "do not attenuate" not in said
    fog = ("--set", "world.weather.fog_visibility_m=40", "--set", "world.trees.spacing_m=6")
    same = ("--set", "world.duration_s=10", "--set", f"seed={SEED}")
    assert command(*words, str(tmp_path / "foggy.h5"), *same, *fog) == 0
    assert "note: world.weather and world.trees do not attenuate paths of a file" in capsys.readouterr().out
    assert command(*words, str(tmp_path / "other.h5"), "--set", "world.duration_s=10", "--set", "seed=4") == 2
    refused = capsys.readouterr().err
    assert "user_m is" in refused
    assert "Traceback" not in refused
    assert not (tmp_path / "other.h5").exists()


# --- a real ray tracer ------------------------------------------------------------------------------------------------


def _golden() -> dict[str, Any]:
    """One street traced by Sionna RT 2.2.0, see the README beside it."""
    found = Path(os.environ.get("SHEAFEDGE_DATA", "/nowhere")) / "ray_tracer" / "street_site0.json"
    if not found.is_file():
        pytest.skip("SHEAFEDGE_DATA has no ray_tracer/street_site0.json")
    content: dict[str, Any] = json.loads(found.read_text())
    return content


def _of_sionna(golden: dict[str, Any]) -> tuple[Series, list[str]]:
    """Its frames in the order of time, in the neutral layout, and what happens in each."""
    both = sorted(
        zip(golden["geometry"]["frames"], golden["specular_paths"], strict=True), key=lambda pair: pair[0]["t"]
    )
    flat = [path for _, frame in both for path in frame["paths"]]
    x, y = (np.array([path[axis] for path in flat]) for axis in "xy")
    return {
        "time_s": [frame["t"] for frame, _ in both],
        "user_m": [frame["user"] for frame, _ in both],
        "offset": np.concatenate([[0], np.cumsum([len(frame["paths"]) for _, frame in both])]),
        "gain": [path["re"] + 1j * path["im"] for path in flat],
        "delay_s": [path["tau"] for path in flat],
        "arrival_zenith_rad": np.arcsin(np.clip(np.hypot(x, y), 0.0, 1.0)),
        "arrival_azimuth_rad": np.arctan2(y, x),
        "interactions": [0 if path["type"] == "LOS" else len(path["type"].split()) for path in flat],
    }, [frame["label"] for frame, _ in both]


def test_paths_of_sionna_are_recorded_as_sweeps_of_the_emulators_street(tmp_path: Path) -> None:
    series, labels = _of_sionna(_golden())
    file = load_world("blockage", {"world.n_sites": 1, "world.duration_s": 1200.0})
    paths = write_paths(tmp_path / "sionna.h5", 60e9, [series])
    report = record_world(file.section, file.seed, tmp_path / "traced.h5", paths=paths)
    figures = report.paths[0]
    assert (figures.n_frames, figures.n_missing, figures.wrong_phase_share) == (41, 12_000 - 41, 0.0)
    with RecordingReader(tmp_path / "traced.h5") as reader:
        station = reader.base_stations[0]
        swept, blocked, time_s = (station.read(name) for name in ("rf", "blocked_geometric", "time_s"))
    assert_array_equal(blocked, [label in {"car", "van", "bus", "person", "pedestrian"} for label in labels])
    site = RecordedSite.of(file, 0)
    own = beam_powers(trace_paths(site.scene(time_s), site.channel), site.codebook) * 0.1
    # while a vehicle comes near, the two differ in what diffracts and in paths over two surfaces
    clear = np.isin(labels, ["clear", "empty"])
    difference_db = 10.0 * np.log10(swept[clear].max(axis=1) / own[clear].max(axis=1))
    assert np.abs(difference_db).max() < CLEAR_DB
    assert (np.abs(swept[clear].argmax(axis=1) - own[clear].argmax(axis=1)) <= 1).all()

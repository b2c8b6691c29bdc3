"""A world becomes one recording file: the same bytes from the same seed, whole or not there at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.power_blockage import CLEAR_SWEEPS, POWER_DROP_DB, PowerBlockage
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.sensor_windows import beam_windows, blockage_windows
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.radio.channel import trace_paths
from sheafedge.emulator.sensors.camera import pixels_of
from sheafedge.scenarios.recording import recording_cache
from sheafedge.scenarios.recording.inspection import inspect_recording, plot_recording
from sheafedge.scenarios.recording.record import CHUNK_FRAMES, RecordReport, record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.recording_cache import (
    cached_recording,
    found_recording,
    keep_recording,
    recording_key,
)
from sheafedge.scenarios.recording.site_sensors import SiteSensors
from sheafedge.scenarios.recording.world_file import WorldFile, load_world, parse_world
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.schema.world_section import WorldSection
from sheafedge.scenarios.terminal.cli import main

#: An instant as a sum of a frame and a step, and as a multiple of the step, differ by rounding; cars pass at 15 m/s.
SAME_INSTANT_DB = 1e-4


def world(**changes: Any) -> WorldSection:
    """A street of two base stations, long enough for two pieces and some cars."""
    return WorldSection.model_validate({"n_sites": 2, "duration_s": 30.0, **changes})


def recorded(section: WorldSection, path: Path, seed: int = 3, **options: Any) -> RecordReport:
    return record_world(section, seed, path, **options)


def sensed(section: WorldSection, index: int, pieces: tuple[int, ...], seed: int = 3) -> dict[str, np.ndarray]:
    """All fields of one base station, sensed in pieces of these sizes."""
    sensors = SiteSensors(RecordedSite.of(WorldFile(section, seed), index))
    borders = np.cumsum((0, *pieces))
    parts = [sensors.sense(np.arange(*ends)) for ends in pairwise(borders)]
    return {name: np.concatenate([part[name] for part in parts if part]) for name in parts[0] or parts[-1]}


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("street") / "street.h5"
    recorded(world(duration_s=60.0), path)
    return path


@pytest.fixture(scope="module")
def sky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sky") / "sky.h5"
    section = {"kind": "sky", "duration_s": 90.0, "sky": {"min_flight_s": 10.0, "max_flight_s": 20.0}}
    recorded(world(**section), path)
    return path


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(tmp_path: Path, threads: int) -> None:
    assert world().n_ticks > CHUNK_FRAMES  # more than one piece, or there would be no order to get wrong
    recorded(world(), tmp_path / "one.h5", threads=0)
    recorded(world(), tmp_path / "other.h5", threads=threads)
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "other.h5").read_bytes()


def test_another_seed_gives_another_world() -> None:
    one, other = (sensed(world(), 0, (300,), seed) for seed in (3, 4))
    for name in ("rf", "lidar", "camera", "los_loss_db"):
        assert not np.array_equal(one[name], other[name])


def test_the_power_of_the_link_between_frames_moves_nothing_else() -> None:
    without, with_links = (sensed(world(link_rate_hz=rate_hz), 1, (40,)) for rate_hz in (0.0, 100.0))
    assert with_links.pop("link_power_dbw").shape == (40, 10)
    assert without.keys() == with_links.keys()
    for name, values in without.items():
        assert_array_equal(values, with_links[name])


def test_the_power_of_the_link_between_frames_is_that_of_a_faster_recording() -> None:
    slow = sensed(world(link_rate_hz=100.0), 1, (60, 40))["link_power_dbw"]
    fast = sensed(world(rate_hz=100.0, link_rate_hz=100.0), 1, (1000,))["link_power_dbw"]
    assert slow.std() > 1.0  # cars pass
    assert_allclose(slow.ravel(), fast.ravel(), atol=SAME_INSTANT_DB)


def test_a_world_that_ends_between_two_frames_has_links_until_its_last_frame(tmp_path: Path) -> None:
    section = world(duration_s=1.06, link_rate_hz=100.0)
    recorded(section, tmp_path / "short.h5")
    with RecordingReader(tmp_path / "short.h5") as reader:
        assert reader.base_stations[0].read("link_power_dbw").shape == (11, 10)


def test_a_world_without_links_between_frames_has_the_text_that_it_always_had() -> None:
    assert "link_rate_hz" not in WorldFile(world(), 0).text()
    file = WorldFile(world(link_rate_hz=100.0), 0)
    assert parse_world(file.text(), "text") == file


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"link_rate_hz": 25.0}, "whole multiple of world.rate_hz = 10, got 25; set it to 20"),
        ({"link_rate_hz": 20.0, "kind": "sky"}, "needs a standing user"),
        ({"link_rate_hz": 20.0, "user": "car"}, "needs a standing user"),
    ],
)
def test_links_between_frames_are_refused_where_they_do_not_fit(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        world(**changes)


@pytest.mark.parametrize("pieces", [(150, 150), (100, 1, 199), (299, 1)])
def test_frames_do_not_depend_on_the_pieces_they_are_sensed_in(pieces: tuple[int, ...]) -> None:
    section = world(sensors=("lidar", "camera", "rf", "gps"))
    whole, parts = sensed(section, 1, (300,)), sensed(section, 1, pieces)
    for name, values in whole.items():
        assert_array_equal(parts[name], values)


def test_a_base_station_does_not_change_when_others_join_or_a_sensor_is_left_out() -> None:
    full = sensed(world(n_sites=2, sensors=("lidar", "camera", "rf", "gps")), 1, (300,))
    fewer = sensed(world(n_sites=5, sensors=("camera",)), 1, (300,))
    assert "lidar" not in fewer
    for name, values in fewer.items():
        assert_array_equal(full[name], values)


def blocked_by_power(best_power_db: np.ndarray) -> np.ndarray:
    """The labels of a whole recording, by a plain loop."""
    first = np.sort(best_power_db[:CLEAR_SWEEPS])
    clear = first[len(first) // 2 :].tolist()
    blocked = []
    for power_db in best_power_db.tolist():
        blocked.append(power_db <= np.median(clear[-CLEAR_SWEEPS:]) - POWER_DROP_DB)
        if not blocked[-1]:
            clear.append(power_db)
    return np.array(blocked)


def test_labels_are_what_the_recorded_numbers_say(street: Path) -> None:
    with RecordingReader(street) as reader:
        for station in reader.base_stations:
            powers, blocked = station.read("rf"), station.read("blocked_geometric")
            assert 0 < blocked.sum() < len(blocked) / 2
            assert_array_equal(blocked, station.read("los_loss_db") >= 10)
            assert_array_equal(station.read("best_beam"), powers.argmax(axis=1))
            best_db = 10 * np.log10(powers.max(axis=1).astype(np.float64))
            assert_array_equal(station.read("blocked_power"), blocked_by_power(best_db))
            assert best_db[~blocked].mean() > best_db[blocked].mean() + 5


@pytest.mark.parametrize("cut", [100, 101, 250])
def test_power_labels_in_pieces_are_those_of_the_whole(cut: int) -> None:
    draws = np.random.default_rng(5)
    power_db = draws.normal(-80, 1, 900) - 15 * (np.sin(np.arange(900) / 30) > 0.6)
    labels = PowerBlockage()
    in_pieces = np.concatenate([labels.label(piece) for piece in (power_db[:cut], power_db[cut:600], power_db[600:])])
    assert_array_equal(in_pieces, blocked_by_power(power_db))
    assert 0.1 < in_pieces.mean() < 0.5


def test_the_report_counts_what_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "street.h5"
    report = recorded(world(duration_s=60.0), path)
    assert report.n_bytes == path.stat().st_size
    for ours, facts in zip(report.stations, inspect_recording(path).stations, strict=True):
        assert (ours.n_frames, ours.n_sequences, ours.n_events) == (600, facts.n_sequences, facts.n_events)
        assert ours.blocked_share == pytest.approx(facts.blocked_shares["blocked_geometric"])
        assert ours.power_blocked_share == pytest.approx(facts.blocked_shares["blocked_power"])
        assert ours.disagreement == pytest.approx(facts.disagreement)
        assert ours.beam_persistence == pytest.approx(facts.beam_persistence)
        assert ours.n_events > 0


def test_pairs_are_off_where_model_b_stands_for_the_channel_as_it_was() -> None:
    assert WorldSection().has_bounce_pairs
    assert not WorldSection.model_validate({"blockage": "3gpp_b"}).has_bounce_pairs
    assert WorldSection.model_validate({"blockage": "3gpp_b", "bounce_pairs": True}).has_bounce_pairs
    # of a scenario too, whose fields are all set when one of them is changed
    world = load_scenario("beam_tracking").edited({"world.blockage": "3gpp_b"}).world
    assert world is not None
    assert not world.has_bounce_pairs
    by_model_b = WorldFile(WorldSection.model_validate({"blockage": "3gpp_b"}), 0)
    assert parse_world(by_model_b.text(), "the recording") == by_model_b


def test_the_scene_can_be_made_again_from_what_the_file_says(street: Path) -> None:
    with RecordingReader(street) as reader:
        assert reader.description.seed == 3
        file = parse_world(reader.description.scenario, "the recording")
        for station in reader.base_stations:
            site = RecordedSite.of(file, station.index)
            scene = site.scene(station.read("time_s"))
            loss_db = np.maximum(trace_paths(scene, site.channel).los_blockage_db, 0.0)
            assert_array_equal(loss_db.astype(np.float32), station.read("los_loss_db"))
            assert station.geometry["street"]["n_lanes"] == site.world.settings.n_lanes  # type: ignore[union-attr]
            assert station.geometry["user_m"] == scene.user_m[0].tolist()


def test_streets_feed_blockage_windows(street: Path) -> None:
    with RecordingReader(street) as reader:
        sensed = SensedFrames.of(reader.base_stations[0], ("lidar", "camera", "rf"))
        windows = blockage_windows(sensed, sensed.modalities)
        inputs = windows.inputs(slice(0, 4))
    assert {name: rows.shape for name, rows in inputs.items()} == {
        "lidar": (4, 2, 16, 216),
        "camera": (4, 16, 64, 64),
        "rf": (4, 16, 64),
    }
    assert 0 < windows.label.mean() < 0.5


def test_drones_feed_beam_windows(sky: Path) -> None:
    with RecordingReader(sky) as reader:
        station = reader.base_stations[1]
        sensed = SensedFrames.of(station, ("gps", "camera"), color=True, keep_powers=True)
        windows = beam_windows(sensed, sensed.modalities, n_beams=32)
        assert station.field("gps").columns == ("latitude_deg", "longitude_deg", "distance_m", "height_m")
        fix, distance_m = windows.inputs()["gps"], station.read("gps")[:, 2]
        assert len(np.unique(station.read("sequence"))) > 2
        assert "blocked_power" not in station.field_names
    assert distance_m.min() > 10
    assert distance_m.max() < 90
    assert np.abs(fix[:, :2]).max() < 0.001  # degrees from the base station: within 111 m


def test_tracked_cars_leave_holes_between_their_passes(tmp_path: Path) -> None:
    recorded(world(user="car", duration_s=60.0, n_sites=1), tmp_path / "cars.h5")
    with RecordingReader(tmp_path / "cars.h5") as reader:
        station = reader.base_stations[0]
        sequence, frame_index = station.read("sequence"), station.read("frame_index")
        assert set(station.modalities) == {"lidar", "camera", "rf", "gps"}
        np.testing.assert_allclose(station.read("time_s"), frame_index / 10)
    same = np.diff(sequence) == 0
    assert (np.diff(frame_index)[same] == 1).all()
    assert (np.diff(frame_index)[~same] > 1).any()


def test_night_falls_on_the_share_of_base_stations_asked_for(tmp_path: Path) -> None:
    section = world(n_sites=10, night_share=0.4, duration_s=2.0, sensors=("camera",))
    recorded(section, tmp_path / "night.h5")
    with RecordingReader(tmp_path / "night.h5") as reader:
        light = [float(station.read("camera").mean()) for station in reader.base_stations]
        night = [station.geometry["camera"]["night"] for station in reader.base_stations]
    assert abs(sum(night) - 4) <= 1  # spread evenly over any number of base stations, so not exact for one
    assert max(value for value, dark in zip(light, night, strict=True) if dark) < 60
    assert min(value for value, dark in zip(light, night, strict=True) if not dark) > 80


def test_options_of_the_radio_change_the_radio_only() -> None:
    plain = sensed(world(), 0, (300,))
    for options in (
        {"codebook": {"kind": "dft"}},
        {"codebook": {"phase_bits": 3}},
        {"codebook": {"gain_sigma_db": 1.0}},
        {"codebook": {"phase_sigma_deg": 5.0}},
        {"carrier_hz": 28e9},
    ):
        other = sensed(world(**options), 0, (300,))
        assert not np.array_equal(plain["rf"], other["rf"])
        assert_array_equal(plain["camera"], other["camera"])
        assert_array_equal(plain["lidar"], other["lidar"])


def test_doppler_shifts_are_two_more_fields_and_move_nothing_else() -> None:
    without, with_shifts = (sensed(world(user="car", doppler=asked), 0, (300,)) for asked in (False, True))
    shift_hz, spread_hz = with_shifts.pop("doppler_shift_hz"), with_shifts.pop("doppler_spread_hz")
    assert np.abs(shift_hz).max() > 500.0  # a car in the middle of the street at 10 m/s and more
    assert 0.0 < np.median(spread_hz) < np.abs(shift_hz).max()
    assert without.keys() == with_shifts.keys()
    for name, values in without.items():
        assert_array_equal(values, with_shifts[name])


def test_a_sweep_that_takes_time_changes_powers_alone() -> None:
    at_once, in_turn = (
        sensed(world(user="car", sweep={"duration_s": duration_s}), 0, (300,)) for duration_s in (0.0, 0.005)
    )
    assert at_once.keys() == in_turn.keys()
    for name in at_once.keys() - {"rf", "best_beam"}:
        assert_array_equal(at_once[name], in_turn[name], err_msg=name)
    assert not np.array_equal(at_once["rf"], in_turn["rf"])
    # links are no sweeps: what is known of them between the frames stays
    slow, fast = (sensed(world(link_rate_hz=20.0, sweep={"duration_s": one}), 0, (100,)) for one in (0.0, 0.02))
    assert_array_equal(slow["link_power_dbw"], fast["link_power_dbw"])


def test_a_world_without_doppler_has_the_text_that_it_always_had() -> None:
    assert "doppler" not in WorldFile(world(), 0).text()
    assert WorldFile(world(), 0).text().count("duration_s") == 1
    file = WorldFile(world(doppler=True, sweep={"duration_s": 0.005}), 0)
    assert parse_world(file.text(), "text") == file


def test_beams_that_were_not_measured_are_nan_and_never_best() -> None:
    frames = sensed(world(sweep={"nan_row_share": 0.3}), 0, (300,))
    has_gap = np.isnan(frames["rf"]).any(axis=1)
    assert 0.3 - 3 * 0.0265 < has_gap.mean() < 0.3 + 3 * 0.0265  # three standard errors of 300 draws
    assert_array_equal(frames["best_beam"], np.nanargmax(frames["rf"], axis=1))


class InterruptedByUserError(Exception):
    """What a user's Ctrl-C would be."""


def test_an_interrupted_recording_leaves_nothing(tmp_path: Path) -> None:
    def stop(n_done: int, n_all: int) -> None:
        if n_done > n_all // 2:
            raise InterruptedByUserError

    with pytest.raises(InterruptedByUserError):
        recorded(world(), tmp_path / "street.h5", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_progress_goes_up_to_the_whole(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    recorded(world(), tmp_path / "street.h5", progress=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    assert calls[-1] == (600, 600)


def test_a_cached_recording_is_made_once(tmp_path: Path) -> None:
    calls: list[int] = []
    first = cached_recording(world(), 3, tmp_path / "cache", lambda done, _: calls.append(done))
    n_calls, content = len(calls), first.read_bytes()
    assert cached_recording(world(), 3, tmp_path / "cache", lambda done, _: calls.append(done)) == first
    assert len(calls) == n_calls > 0
    recorded(world(), tmp_path / "plain.h5")
    assert (tmp_path / "plain.h5").read_bytes() == content


def test_a_recording_of_another_host_is_found_as_one_of_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = cached_recording(world(), 3, tmp_path / "theirs")
    monkeypatch.setenv("SHEAFEDGE_CACHE", str(tmp_path / "ours"))
    assert found_recording(world(), 3) is None
    keep_recording((theirs.name, theirs.read_bytes()))
    assert found_recording(world(), 3) == tmp_path / "ours" / theirs.name
    assert [path.name for path in (tmp_path / "ours").iterdir()] == [theirs.name]
    keep_recording((theirs.name, theirs.read_bytes()[:-1]))
    assert found_recording(world(), 3) is None, "its bytes are not those of its name"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def never_finish(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file.attrs["complete"]


def flip(path: Path) -> None:
    """One bit of a packed field, which only unpacking would find."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 8
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, empty, never_finish, flip])
def test_a_damaged_cached_recording_is_made_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    section = world(duration_s=3.0, n_sites=1)
    path = cached_recording(section, 3, tmp_path)
    content = path.read_bytes()
    damage(path)
    said: list[str] = []
    assert cached_recording(section, 3, tmp_path, note=said.append).read_bytes() == content
    assert said == [f"cached recording {path} is damaged, and made again"]
    assert cached_recording(section, 3, tmp_path, note=said.append) == path
    assert len(said) == 1


def test_a_second_process_waits_for_the_recording_that_the_first_makes(tmp_path: Path) -> None:
    section, said, found = world(duration_s=3.0, n_sites=1), list[str](), list[Path]()
    waits = threading.Event()

    def note(sentence: str) -> None:
        said.append(sentence)
        waits.set()

    def second() -> None:
        found.append(cached_recording(section, 3, tmp_path, lambda *_: said.append("recorded"), note=note))

    other = threading.Thread(target=second)

    def meanwhile(done: int, total: int) -> None:
        if not other.ident:
            other.start()
            assert waits.wait(60)

    found.append(cached_recording(section, 3, tmp_path, meanwhile))
    other.join()
    assert found[0] == found[1]
    assert [path.name for path in tmp_path.iterdir()] == [found[0].name]
    assert len(said) == 1
    assert said[0].startswith(f"process {os.getpid()} on ")


def test_the_cache_lies_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHEAFEDGE_CACHE", str(tmp_path / "here"))
    assert cached_recording(world(duration_s=3.0, n_sites=1), 3).parent == tmp_path / "here"


def test_the_cache_key_follows_everything_that_decides_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {recording_key(world(), 3), recording_key(world(), 4)}
    for changes in (
        {"rate_hz": 5.0},
        {"street": {"n_lanes": 4}},
        {"lidar": {"rolling": True}},
        {"camera": {"noise_sigma": 0.03}},
        {"gps": {"rtk": True}},
        {"sweep": {"floor_db": 25.0}},
        {"sensors": ["rf"]},
    ):
        keys.add(recording_key(world(**changes), 3))
    assert recording_key(world(), 3) in keys
    for name, value in (("__version__", "9.9.9"), ("VERSION", 99), ("code_hash", lambda: "other")):
        with monkeypatch.context() as patch:
            patch.setattr(recording_cache, name, value)
            keys.add(recording_key(world(), 3))
    assert len(keys) == 12


@pytest.mark.parametrize("kind", ["street", "sky"])
def test_a_world_reads_its_own_text(kind: str) -> None:
    file = load_world(kind, {"seed": 7, "world.camera.n_pixels": 32, "world.sensors": ["rf", "camera"]})
    assert parse_world(file.text(), "text") == file
    assert file.section.recorded == ("camera", "rf")


def test_a_camera_in_the_sky_sees_the_whole_sector() -> None:
    for index in range(3):
        site = RecordedSite.of(WorldFile(world(kind="sky", duration_s=300.0), 3), index)
        scene = site.scene(np.arange(0, 300, 0.5))
        column, row, depth_m = pixels_of(scene.user_m, scene, site.camera)
        assert (depth_m > 0).all()
        for place in (column, row):
            assert place.min() >= 0
            assert place.max() <= site.camera.n_pixels


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({"world.nsites": 3}, "did you mean world.n_sites"),
        ({"world.street.n_lans": 3}, "did you mean world.street.n_lanes"),
        ({"n_sites": 3}, "world.n_sites"),
        ({"world.n_sites": 0}, "world.n_sites"),
        ({"world.street.n_lanes": 9}, "world.street.n_lanes must lie in [2, 6], got 9"),
        ({"world.sensors": ["sonar"]}, "world.sensors"),
        ({"world.sensors": ["rf", "rf"]}, "twice"),
        ({"world.duration_s": 1.0, "world.rate_hz": 0.1}, "holds no frame"),
        ({"world.kind.x": 1}, "holds no fields"),
        ({"world.sweep.duration_s": 0.09, "world.rate_hz": 20.0}, "world.sweep.duration_s must be at most 0.05"),
        ({"world.codebook": {"kind": "eigen"}}, "world.codebook.kind"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 1.5}, "seed must be a valid integer, got 1.5"),
    ],
)
def test_a_world_that_cannot_be_is_refused_in_one_sentence(edits: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_world("street", edits)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit code of a command line."""
    monkeypatch.setattr(sys, "argv", ["sheafedge", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_record_and_inspect_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'name = "two streets"\nseed = 5\n[world]\nn_sites = 2\nduration_s = 30\n[clients]\nn_clients = 2\n'
    (tmp_path / "two.toml").write_text(text, encoding="utf-8")
    out = tmp_path / "two.h5"
    assert run(monkeypatch, "record", tmp_path / "two.toml", "-o", out, "--set", "world.street.van_share=0.5") == 0
    assert "600 frames" in capsys.readouterr().out
    assert run(monkeypatch, "inspect", out) == 0
    said = capsys.readouterr().out
    assert "Doppler" not in said
    for word in ("seed 5", "216 x 2", "64 x 64 x 3", "10.00 frames per second", "blocked", "differ"):
        assert word in said
    with RecordingReader(out) as reader:
        assert parse_world(reader.description.scenario, "file").section.street.van_share == 0.5


def test_inspect_says_how_doppler_shifts_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(world(user="car", n_sites=1, doppler=True, sensors=("rf",)), tmp_path / "cars.h5")
    assert run(monkeypatch, "inspect", tmp_path / "cars.h5") == 0
    said = " ".join(capsys.readouterr().out.split())
    (facts,) = inspect_recording(tmp_path / "cars.h5").stations
    assert facts.doppler_spread_hz is not None
    assert f"Doppler spread in the strongest beam: median {facts.doppler_spread_hz[0]:,.1f} Hz" in said
    assert "ms" in said


def test_import_and_check_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = deepsense_folder(tmp_path / "scenario23"), tmp_path / "s.h5"
    (folder / "unit1" / "pwr_3.txt").unlink()
    arguments = ("import", "deepsense", tmp_path, "--scenario", 23, "-o", out)
    assert run(monkeypatch, *arguments, "--strict") == 2
    assert "pwr_3.txt does not exist (1 of 40 are missing)" in capsys.readouterr().err
    assert run(monkeypatch, *arguments, "--modalities", "rf, gps") == 2
    assert "has no gps that can be read" in capsys.readouterr().err
    assert run(monkeypatch, *arguments, "--modalities", "rf") == 0
    said = capsys.readouterr().out
    assert "39 of 40 kept" in said
    assert "unit1_pwr_60ghz: no file: 1" in said
    assert run(monkeypatch, "check", out) == 0
    assert "right: bs00, DeepSense scenario 23: 39 frames" in capsys.readouterr().out
    with h5py.File(out, "a", libver="v110") as file:
        del file["bs00"].attrs["name"], file["bs00/rf"].attrs["unit"]
    assert run(monkeypatch, "check", out) == 2
    said = capsys.readouterr()
    assert said.out.count("wrong: ") == 2
    assert "cannot be used: 2 thing(s) are missing or wrong, see above" in said.err


@pytest.mark.slow
def test_inspect_draws_streets_skies_and_measured_data(
    street: Path, sky: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    scenario = deepsense_folder(tmp_path / "scenario23")
    imported = tmp_path / "imported.h5"
    assert run(monkeypatch, "import", "deepsense", scenario, "--scenario", 23, "-o", imported) == 0
    for index, recording in enumerate((street, sky, imported)):
        plots = tmp_path / f"plots{index}"
        assert run(monkeypatch, "inspect", recording, "--plot", plots, "--station", 0) == 0
        assert (plots / "bs00.png").read_bytes().startswith(b"\x89PNG")


def deepsense_folder(root: Path, n_rows: int = 40) -> Path:
    """The smallest folder in the official layout: powers and their best beams."""
    powers = np.random.default_rng(5).uniform(0.1, 0.8, size=(n_rows, 64))
    (root / "unit1").mkdir(parents=True)
    lines = ["index,seq_index,unit1_pwr_60ghz,unit1_beam_index"]
    for row, sweep in enumerate(powers):
        (root / "unit1" / f"pwr_{row}.txt").write_text("\n".join(map(str, sweep)), encoding="utf-8")
        lines.append(f"{row + 1},1,./unit1/pwr_{row}.txt,{sweep.argmax() + 1}")
    (root / "scenario23.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


@pytest.mark.parametrize(
    "arguments",
    [
        ("record", "nowhere", "-o", "{tmp}/x.h5"),
        ("record", "street", "-o", "{tmp}/no/folder/x.h5"),
        ("record", "street", "-o", "{tmp}"),
        ("record", "street", "-o", "{tmp}/x.h5", "--set", "world.n_sites=many"),
        ("inspect", "{tmp}/x.h5"),
        ("import", "deepsense", "{tmp}", "--scenario", "23", "-o", "{tmp}/x.h5"),
    ],
)
def test_what_a_user_can_put_right_is_one_sentence_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert run(monkeypatch, *(word.format(tmp=tmp_path) for word in arguments)) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_scenario_without_a_world_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "measured.toml").write_text('task = "beam_tracking"\n[data]\nsource = "deepsense"\n', encoding="utf-8")
    assert run(monkeypatch, "record", tmp_path / "measured.toml", "-o", tmp_path / "x.h5") == 2
    assert "measured.toml describes no world; add a table [world]" in capsys.readouterr().err
    assert not (tmp_path / "x.h5").exists()


@pytest.mark.parametrize("command", [("record", "street"), ("import", "deepsense", "{tmp}", "--scenario", "23")])
def test_a_recording_that_is_there_already_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    (tmp_path / "x.h5").write_bytes(b"dear to me")
    words = (word.format(tmp=tmp_path) for word in command)
    assert run(monkeypatch, *words, "-o", str(tmp_path / "x.h5")) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "x.h5").read_bytes() == b"dear to me"


def test_a_base_station_that_is_not_there_cannot_be_drawn(street: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ConfigError, match="base stations 0 to 1"):
        plot_recording(street, tmp_path, (7,))


def test_the_folder_of_the_cache_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="SHEAFEDGE_CACHE"):
        cached_recording(world(duration_s=3.0), 3, tmp_path / "file" / "cache")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, sheafedge.scenarios.terminal.cli\n"
        "print([name for name in ('torch', 'h5py', 'matplotlib', 'pydantic', 'rich.progress') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

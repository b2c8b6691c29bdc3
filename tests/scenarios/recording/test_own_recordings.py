"""Recordings that users write themselves: what is completed, what is refused, and that scenarios train on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge import check_recording, load_scenario, run_scenario, write_recording
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.emulator.contracts import ConfigError, DataError

N_FRAMES = 300
GPS = {"gps": ("east_m", "north_m")}


def passes(seed: int) -> dict[str, Any]:
    """Six drive-bys past a base station with 16 beams, in the types that come out of NumPy."""
    draws = np.random.default_rng(seed)
    east_m = np.tile(np.linspace(-20.0, 20.0, N_FRAMES // 6), 6) + draws.normal(0, 0.3, N_FRAMES)
    off = np.degrees(np.arctan2(east_m, 10.0))[:, None] - np.linspace(-60, 60, 16)
    return {
        "time_s": np.arange(N_FRAMES) * 0.1,
        "sequence": np.arange(N_FRAMES) // (N_FRAMES // 6),
        "rf": 1e-9 * 10 ** (-0.1 * np.abs(off)) * draws.uniform(0.9, 1.1, off.shape),
        "gps": np.stack([east_m, np.full(N_FRAMES, 10.0)], axis=1),
        "blocked_labeled": [0, 1, 0] * (N_FRAMES // 3),
    }


def test_what_is_left_out_is_completed(tmp_path: Path) -> None:
    fields = passes(0)
    del fields["sequence"]
    path = write_recording(tmp_path / "mine.h5", {"corner": fields}, columns=GPS, units={"rf": "1, proportional to W"})
    with RecordingReader(path) as reader:
        (station,) = reader.base_stations
        assert (station.name, station.n_frames, station.rate_hz) == ("corner", N_FRAMES, pytest.approx(10.0))
        assert_array_equal(station.read("sequence"), np.zeros(N_FRAMES))
        assert_array_equal(station.read("best_beam"), fields["rf"].argmax(axis=1))
        assert_array_equal(station.read("blocked_labeled"), [False, True, False] * (N_FRAMES // 3))
        assert_allclose(station.read("rf"), fields["rf"], rtol=1e-6)
        assert station.field("rf").unit == "1, proportional to W"
        assert reader.description.created_by.endswith("write_recording")


def test_lists_whole_numbers_and_several_stations_are_taken(tmp_path: Path) -> None:
    one = {"time_s": [0, 1, 2], "gps": [[1, 2], [3, 4], [5, 6]], "camera": np.arange(3 * 12).reshape(3, 2, 2, 3)}
    path = write_recording(
        tmp_path / "two.h5",
        {"a": one, "b": passes(1)},
        columns=GPS,
        rate_hz=5.0,
        geometry={"a": {"latitude_deg": 60.0}},
        source="my\nlogger",
    )
    with RecordingReader(path) as reader:
        first, second = reader.base_stations
        assert (first.rate_hz, second.rate_hz) == (5.0, 5.0)
        assert first.modalities == ("camera", "gps")
        assert first.geometry == {"latitude_deg": 60.0}
        assert first.read("camera").dtype == np.uint8
        assert "# my logger" in reader.description.scenario


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"sonar": [1.0, 2.0]}, "has a field 'sonar', which no recording has; known: time_s"),
    "no clock": ({"time_s": None}, "needs a field 'time_s'"),
    "fewer frames": ({"gps": [[1.0, 2.0]]}, "must have as many frames, at least one, got time_s 2, gps 1"),
    "powers in dBm": ({"rf": [[-40.0, -50.0]] * 2}, "must be above 0 and at most"),
    "a time that falls": ({"time_s": [0.0, 1.0, 0.5], "gps": [[1.0, 2.0]] * 3}, "time_s runs backwards in frame 2"),
    "a label of 2": ({"blocked_labeled": [0, 2]}, "stored as bool, got int64"),
    "levels above 255": ({"camera": np.full((2, 2, 2, 3), 300)}, "stored as uint8, got int64"),
    "text": ({"gps": [["a", "b"]] * 2}, "stored as float64, got <U1"),
    "a scalar": ({"time_s": 3.0}, "as many frames"),
    "a clock that stands": ({"time_s": [1.0, 1.0]}, "give rate_hz"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(case: str, tmp_path: Path) -> None:
    changes, words = REFUSED[case]
    fields = {"time_s": [0.0, 0.1], "gps": [[1.0, 2.0]] * 2, **changes}
    with pytest.raises(DataError, match=words):
        write_recording(
            tmp_path / "r.h5", {"x": {name: one for name, one in fields.items() if one is not None}}, columns=GPS
        )
    assert list(tmp_path.iterdir()) == []


def test_rays_without_an_echo_are_stored_at_the_reach_however_the_lidar_tells_them(tmp_path: Path) -> None:
    fields = passes(0)
    seen = np.random.default_rng(1).uniform(2.0, 9.0, (N_FRAMES, 5))
    angles = np.broadcast_to(np.linspace(-1, 1, 5), seen.shape)
    silent = np.zeros(seen.shape, dtype=bool)
    silent[::3, 1] = True
    stored = []
    for index, mark in enumerate((np.nan, np.inf, 0.0, 65.535)):
        sweeps = np.stack([np.where(silent, mark, seen), angles], axis=2)
        options = {} if not np.isfinite(mark) else {"no_echo_m": mark}
        path = tmp_path / f"{index}.h5"
        reach = {"x": {"lidar": {"max_range_m": 12.0}}}
        write_recording(path, {"x": {**fields, "lidar": sweeps}}, columns=GPS, geometry=reach, **options)
        assert not [one for one in check_recording(path) if "lidar has" in one.sentence]
        with RecordingReader(path) as reader:
            station = reader.base_stations[0]
            assert station.nothing_seen("lidar") == 12.0
            stored.append(station.read("lidar"))
        assert (sweeps[..., 0] != stored[-1][..., 0])[silent].all(), "what was given stays as it was"
    for sweeps in stored:
        assert_array_equal(sweeps, stored[0])
        assert_array_equal(sweeps[..., 0] == 12.0, silent)


def test_rays_without_an_echo_need_the_reach_and_zeros_are_pointed_out(tmp_path: Path) -> None:
    fields, angles = passes(0), np.broadcast_to(np.linspace(-1, 1, 5), (N_FRAMES, 5))
    sweeps = np.stack([np.where(np.arange(5) == 1, np.nan, 5.0) * np.ones_like(angles), angles], axis=2)
    with pytest.raises(DataError, match=f"'x' has {N_FRAMES} LiDAR rays without an echo.*state it: geometry="):
        write_recording(tmp_path / "r.h5", {"x": {**fields, "lidar": sweeps}}, columns=GPS)
    assert list(tmp_path.iterdir()) == []
    reach = {"x": {"lidar": {"max_range_m": 12.0}}}
    for name, mark, words in (("zeros", 0.0, "20% of its rays at 0 m"), ("far", 65.5, "20% of its rays beyond")):
        odd = np.where(np.isnan(sweeps), mark, sweeps)
        path = write_recording(tmp_path / name, {"x": {**fields, "lidar": odd}}, columns=GPS, geometry=reach)
        assert any(words in one.sentence for one in check_recording(path))


def test_nothing_is_replaced_and_nothing_is_written_without_a_station(tmp_path: Path) -> None:
    (tmp_path / "r.h5").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        write_recording(tmp_path / "r.h5", {"x": passes(0)}, columns=GPS)
    with pytest.raises(ConfigError, match="must name a base station"):
        write_recording(tmp_path / "s.h5", {})
    with pytest.raises(DataError, match="gps needs columns"):
        write_recording(tmp_path / "s.h5", {"x": passes(0)})


def test_a_recording_of_ones_own_is_checked_and_trained_on(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "mine.h5", {f"site {one}": passes(one) for one in range(2)}, columns=GPS)
    assert [one.kind for one in check_recording(path)][:1] == ["right"]
    assert not [one for one in check_recording(path) if one.kind == "wrong"]
    scenario = load_scenario("beam_tracking").edited(
        {
            "data.source": "recording",
            "data.recordings": [str(path)],
            "data.n_beams": 16,
            "clients.n_clients": 2,
            "topology.kind": "complete",
            "rounds": 1,
            "export.onnx": False,
            "export.report": False,
        }
    )
    result = run_scenario(scenario, tmp_path / "run")
    assert all(0.0 <= scores["top1"] <= 1.0 for scores in result.summary["groups"].values())

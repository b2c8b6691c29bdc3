"""Recordings that can be read and are not what was meant, and files in which several things are wrong at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from sheafedge.datasets.recordings.recording_layout import (
    RecordingDescription,
    StationDescription,
    standard_field,
)
from sheafedge.datasets.recordings.recording_plausibility import check_recording
from sheafedge.datasets.recordings.recording_writer import RecordingWriter

N_FRAMES, N_RAYS, N_BEAMS = 400, 36, 8
ANGLES = np.linspace(-1.5, 1.5, N_RAYS)
USER_M = [5.0, 10.0, 1.0]
AT_USER = int(np.abs(ANGLES - np.arctan2(USER_M[0], USER_M[1])).argmin())
Frames = dict[str, np.ndarray]


def crossed_street() -> Frames:
    """A user beyond a road; whoever crosses the line of sight is seen by the LiDAR and costs 15 dB."""
    draws = np.random.default_rng(4)
    row = np.arange(N_FRAMES)
    blocked = (row // 10) % 7 == 3
    ranges = np.full((N_FRAMES, N_RAYS), 14.0) + draws.normal(0, 0.05, (N_FRAMES, N_RAYS))
    ranges[blocked, AT_USER] = 6.0
    power = 1e-6 * 10 ** (-0.1 * (np.abs(np.arange(N_BEAMS) - 2 - row[:, None] // 100) * 3.0 + 15.0 * blocked[:, None]))
    return {
        "time_s": row / 10.0,
        "sequence": (row // 200).astype(np.int32),
        "frame_index": row.astype(np.int32),
        "lidar": np.stack([ranges, np.broadcast_to(ANGLES, ranges.shape)], axis=2).astype(np.float32),
        "camera": draws.integers(0, 255, (N_FRAMES, 4, 4, 3)).astype(np.uint8),
        "rf": (power * draws.uniform(0.9, 1.1, power.shape)).astype(np.float32),
        "gps": np.stack([5.0 + row / 100.0, np.full(N_FRAMES, 10.0)], axis=1),
        "radar": draws.integers(0, 30, (N_FRAMES, 3, 3)).astype(np.uint8),
        "blocked_labeled": blocked,
        "blocked_power": blocked.copy(),
        "best_beam": np.zeros(N_FRAMES, dtype=np.int32),
    }


def write(path: Path, frames: Frames, *, rate_hz: float = 10.0, geometry: dict[str, Any] | None = None) -> None:
    columns = {"gps": ("latitude_deg", "longitude_deg") if "degrees" in frames else ("east_m", "north_m")}
    frames = {name: values for name, values in frames.items() if name != "degrees"}
    fields = tuple(
        standard_field(name, values.shape[1:], **({"columns": columns[name]} if name in columns else {}))
        for name, values in frames.items()
    )
    place = {"base_station_m": [0.0, 0.0, 3.0], "user_m": USER_M} if geometry is None else geometry
    station = StationDescription("a corner", rate_hz, fields, {"lidar": {"max_range_m": 16.0}, **place})
    with RecordingWriter(path, RecordingDescription("", None, "a test", (station,))) as writer:
        writer.append(0, frames)


@pytest.fixture
def frames() -> Frames:
    found = crossed_street()
    found["best_beam"] = found["rf"].argmax(axis=1).astype(np.int32)
    return found


def said(path: Path, kind: str) -> list[str]:
    return [one.sentence for one in check_recording(path) if one.kind == kind]


def test_a_plausible_recording_is_called_right_and_nothing_else(tmp_path: Path, frames: Frames) -> None:
    write(tmp_path / "r.h5", frames)
    (right,) = said(tmp_path / "r.h5", "right")
    assert right.startswith("bs00, a corner: 400 frames in 2 sequences at 10 Hz; time_s, sequence, frame_index, lidar,")
    assert (said(tmp_path / "r.h5", "implausible"), said(tmp_path / "r.h5", "wrong")) == ([], [])


def _put(name: str, values: Callable[[Frames], Any]) -> Callable[[Frames], None]:
    def change(frames: Frames) -> None:
        frames[name] = np.asarray(values(frames)).astype(frames[name].dtype)

    return change


def _no_fix(frames: Frames) -> None:
    frames["gps"] = np.tile([60.0, 10.0], (N_FRAMES, 1)) + np.arange(N_FRAMES)[:, None] * 1e-6
    frames["gps"][7:9] = 0.0
    frames["degrees"] = frames["time_s"]


def _shifted(n: int) -> Callable[[Frames], None]:
    def change(frames: Frames) -> None:
        for name in ("blocked_labeled", "blocked_power"):
            frames[name] = np.roll(frames[name], n)

    return change


def _seen_elsewhere(frames: Frames) -> None:
    frames["lidar"][..., 0] = np.roll(frames["lidar"][..., 0], 15, axis=1)


IMPLAUSIBLE: dict[str, tuple[Callable[[Frames], None], str]] = {
    "milliseconds": (_put("time_s", lambda f: f["time_s"] * 1e3), "rate_hz is 10, but frames follow .* 0.01 Hz"),
    "a clock that stands": (_put("time_s", lambda f: np.floor(f["time_s"])), "stands still in 360 of 398 steps"),
    "a gap": (_put("time_s", lambda f: f["time_s"] + 9 * (f["time_s"] > 5)), "1 gaps of over 0.5 s .* of 9.1 s"),
    "sequences of one frame": (_put("sequence", lambda f: np.arange(N_FRAMES)), "no sequence has two frames"),
    "millimeters": (_put("lidar", lambda f: f["lidar"] * [60, 1]), r"a range of 8\d\d m; is it in millimeters"),
    "no angles": (_put("lidar", lambda f: f["lidar"] * [1, 0]), "the same angle in all rays"),
    "a LiDAR that sees nothing": (_put("lidar", lambda f: f["lidar"] * [0, 1] + [16, 0]), "never sees anything nearer"),
    "a LiDAR that hangs": (_put("lidar", lambda f: f["lidar"][np.zeros(N_FRAMES, int)]), "lidar repeats .* 100%"),
    "black images": (_put("camera", lambda f: f["camera"] * (np.arange(N_FRAMES) > 9)[:, None, None, None]),
                     "10 images of one single value among 400"),
    "levels up to one": (_put("camera", lambda f: f["camera"] > 99), "no value above 1; are the levels"),
    "decibels": (_put("rf", lambda f: 200 + 10 * np.log10(f["rf"])), r"best_beam and|rf differs .* not decibels"),
    "milliwatts as watts": (_put("rf", lambda f: f["rf"] * 1e12), r"median of .* W; is its unit W"),
    "beams from 1": (_put("best_beam", lambda f: f["best_beam"] + 1), "strongest beam of rf in 0% .* from 0"),
    "one beam": (_put("best_beam", lambda f: f["best_beam"] * 0), "best_beam is the same in all frames"),
    "a user that stands": (_put("gps", lambda f: f["gps"] * 0 + 3), "gps is the same in all frames"),
    "a user that flies": (_put("gps", lambda f: f["gps"] * 1e5), r"gps moves at 10,\d+ m/s"),
    "no fix": (_no_fix, "latitude 0, longitude 0 in 2 frames"),
    "a silent radar": (_put("radar", lambda f: f["radar"] * 0), "radar is 0 everywhere"),
    "never blocked": (_put("blocked_labeled", lambda f: f["blocked_labeled"] & False), "true in 0.00% of the frames"),
    "inverted": (_put("blocked_labeled", lambda f: ~f["blocked_labeled"]), "differ in 100% .* inverted or shifted"),
    "labels early": (_shifted(-3), "blocked_labeled fits the LiDAR 3 frame.s. later better"),
    "labels late": (_shifted(2), "blocked_labeled fits the LiDAR 2 frame.s. earlier better"),
    "another bearing": (_seen_elsewhere, "no LiDAR ray at the user's bearing shortens while blocked_labeled is true"),
}  # fmt: skip


@pytest.mark.parametrize("case", IMPLAUSIBLE)
def test_what_was_probably_not_meant_is_said(case: str, tmp_path: Path, frames: Frames) -> None:
    change, words = IMPLAUSIBLE[case]
    change(frames)
    write(tmp_path / "r.h5", frames)
    assert said(tmp_path / "r.h5", "wrong") == []
    found = said(tmp_path / "r.h5", "implausible")
    assert any(re.search(words, one) for one in found), found


def test_without_a_place_of_the_user_any_ray_may_shorten(tmp_path: Path, frames: Frames) -> None:
    _seen_elsewhere(frames)
    write(tmp_path / "r.h5", frames, geometry={})
    assert said(tmp_path / "r.h5", "implausible") == []
    frames["lidar"][..., 0] = 14.0 + 0.01 * np.random.default_rng(0).normal(size=(N_FRAMES, N_RAYS))
    write(tmp_path / "r.h5", frames, geometry={"user_m": "there", "base_station_m": [1]})
    (sentence,) = said(tmp_path / "r.h5", "implausible")
    assert sentence.startswith("bs00: no LiDAR ray of any direction shortens while blocked_labeled is true")


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path, frames: Frames) -> None:
    path = tmp_path / "r.h5"
    write(path, frames)
    with h5py.File(path, "a", libver="v110") as file:
        del file.attrs["complete"]
        del file["bs00"].attrs["name"]
        del file["bs00/rf"].attrs["unit"]
        file["bs00"].attrs["geometry"] = "{1"
        file["bs00"].create_dataset("sonar", data=[1.0])
        attributes = dict(file["bs00/gps"].attrs)
        del file["bs00/gps"], file["bs00/sequence"]
        file["bs00"].create_dataset("gps", data=np.ones((N_FRAMES - 1, 2))).attrs.update(attributes)
    found = said(path, "wrong")
    for words in (
        "no attribute complete",
        "no attribute name",
        "bs00/rf has no attribute unit",
        "attribute geometry cannot be read",
        "a field 'sonar', which is none of",
        "no field 'sequence', which every",
        "gps has 399 frames, the base station 400",
    ):
        assert any(words in one for one in found), (words, found)
    assert len(found) == 7
    assert said(path, "right") == []


def test_every_field_with_a_value_that_no_sensor_gives_is_named(tmp_path: Path, frames: Frames) -> None:
    path = tmp_path / "r.h5"
    write(path, frames)
    with h5py.File(path, "a", libver="v110") as file:
        file["bs00/rf"][3, 2] = -40.0
        file["bs00/gps"][5] = np.nan
    rf, gps = said(path, "wrong")
    assert "bs00/rf must be above 0" in rf
    assert "bs00/gps, east_m, must be" in gps


@pytest.mark.parametrize("content", [b"", b"what is this", b"\x89HDF\r\n\x1a\n" + bytes(600)])
def test_what_is_no_recording_is_one_finding(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.h5").write_bytes(content)
    assert len(said(tmp_path / "r.h5", "wrong")) == 1
    assert "no recording at" in said(tmp_path / "nowhere", "wrong")[0]

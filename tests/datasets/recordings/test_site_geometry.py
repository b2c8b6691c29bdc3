"""What a base station's geometry states: axes of its array, order of its beams, reach of its LiDAR."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.recordings.recording_layout import RecordingDescription, StationDescription, standard_field
from sheafedge.datasets.recordings.recording_plausibility import check_recording
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.datasets.recordings.recording_writer import RecordingWriter
from sheafedge.datasets.recordings.site_geometry import along_the_array, clockwise, stated_reach_m
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.track_windows import tracked_recording
from sheafedge.emulator.contracts import DataError

N_FRAMES, N_BEAMS = 240, 16
ROUNDING = 1e-9
FLOAT32_DB = 1e-4


@pytest.mark.parametrize(
    ("heading_deg", "ahead", "right"),
    [(90.0, (10.0, 0.0), (0.0, -10.0)), (180.0, (0.0, -10.0), (-10.0, 0.0)), (-90.0, (-10.0, 0.0), (0.0, 10.0))],
)
def test_an_array_that_faces_east_has_the_east_ahead(
    heading_deg: float, ahead: tuple[float, float], right: tuple[float, float]
) -> None:
    found = along_the_array(np.array([ahead, right]), heading_deg)
    assert_allclose(found, [[0.0, 10.0], [10.0, 0.0]], atol=ROUNDING)


def test_an_array_that_faces_north_leaves_positions_as_they_are() -> None:
    positions_m = np.random.default_rng(0).normal(0, 30, (20, 2))
    assert along_the_array(positions_m, 0.0) is positions_m
    turned = along_the_array(positions_m, 37.0)
    assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(positions_m, axis=1))
    assert_allclose(along_the_array(turned, -37.0), positions_m)


def test_beams_counted_the_other_way_round_are_reversed() -> None:
    sweeps = np.arange(8.0).reshape(2, 4)
    assert clockwise(sweeps, "clockwise") is sweeps
    assert_array_equal(clockwise(sweeps, "counterclockwise"), [[3, 2, 1, 0], [7, 6, 5, 4]])


@pytest.mark.parametrize(
    ("geometry", "reach_m"),
    [({"lidar": {"max_range_m": 30}}, 30.0), ({}, None), ({"lidar": {"max_range_m": -1}}, None), ({"lidar": 3}, None)],
)
def test_the_reach_of_a_lidar_is_read_where_it_is_stated(geometry: dict[str, Any], reach_m: float | None) -> None:
    assert stated_reach_m(geometry) == reach_m


def site(path: Path, heading_deg: float, order: str, geometry: dict[str, Any]) -> Path:
    """The same drive-bys seen by an array that is mounted so, and what its geometry says of that."""
    draws = np.random.default_rng(1)
    right_m, ahead_m = np.tile(np.linspace(-15.0, 15.0, N_FRAMES // 4), 4), 12.0
    off_deg = np.degrees(np.arctan2(right_m, ahead_m))[:, None] - np.linspace(-55.0, 55.0, N_BEAMS)
    powers = 1e-8 * 10 ** (-0.1 * np.abs(off_deg)) * draws.uniform(0.95, 1.05, off_deg.shape)
    turn_rad = np.radians(heading_deg)
    east_m = right_m * np.cos(turn_rad) + ahead_m * np.sin(turn_rad)
    north_m = ahead_m * np.cos(turn_rad) - right_m * np.sin(turn_rad)
    swept = powers[:, ::-1] if order == "counterclockwise" else powers
    frames: dict[str, Any] = {
        "time_s": np.arange(N_FRAMES) / 10.0,
        "sequence": np.repeat(np.arange(4), N_FRAMES // 4).astype(np.int32),
        "rf": swept.astype(np.float32),
        "gps": np.stack([east_m, north_m], axis=1),
        "best_beam": swept.argmax(axis=1).astype(np.int32),
    }
    columns = {"gps": ("east_m", "north_m")}
    fields = tuple(
        standard_field(name, rows.shape[1:], **({"columns": columns[name]} if name in columns else {}))
        for name, rows in frames.items()
    )
    station = StationDescription("bridge", 10.0, fields, geometry)
    with RecordingWriter(path, RecordingDescription("", None, "tests", (station,))) as writer:
        writer.append(0, frames)
    return path


def test_two_sites_that_differ_in_mounting_alone_give_the_same_rows(tmp_path: Path) -> None:
    """What a model learns at one of them is true at the other: positions, powers and labels mean the same."""
    turned = {"heading_deg": 85.0, "codebook_order": "counterclockwise"}
    found = []
    for name, (heading_deg, order, geometry) in {
        "north": (0.0, "clockwise", {"heading_deg": 0.0}),
        "east": (85.0, "counterclockwise", turned),
    }.items():
        with RecordingReader(site(tmp_path / f"{name}.h5", heading_deg, order, geometry)) as reader:
            sensed = SensedFrames.of(reader.base_stations[0], ("rf", "gps"), keep_powers=True)
        found.append((sensed.frames("rf"), tracked_recording(sensed, axes="array")))
        assert (tracked_recording(sensed).positions_m[0] != found[-1][1].positions_m[0]).any() == (name == "east")
    (sweeps_db, north), (other_sweeps_db, east) = found
    assert_allclose(east.positions_m, north.positions_m, atol=1e-5)
    assert_array_equal(east.powers, north.powers)
    assert_array_equal(east.beams, north.beams)
    assert_allclose(other_sweeps_db, sweeps_db, atol=FLOAT32_DB)


def test_positions_along_an_array_need_to_know_what_it_faces(tmp_path: Path) -> None:
    with RecordingReader(site(tmp_path / "r.h5", 0.0, "clockwise", {})) as reader:
        sensed = SensedFrames.of(reader.base_stations[0], ("rf", "gps"), keep_powers=True)
    with pytest.raises(DataError, match="'bridge': its geometry does not state heading_deg"):
        tracked_recording(sensed, axes="array")


@pytest.mark.parametrize(
    ("geometry", "words"),
    [
        ({"heading_deg": "east"}, "heading_deg of the geometry must be degrees"),
        ({"heading_deg": 400.0}, "-360 to 360, got '400.0'"),
        ({"codebook_order": "leftwards"}, "must be clockwise or counterclockwise, got 'leftwards'"),
    ],
)
def test_a_geometry_that_states_no_bearing_or_order_is_refused(
    geometry: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = site(tmp_path / "r.h5", 0.0, "clockwise", geometry)
    with pytest.raises(DataError, match=words):
        RecordingReader(path)
    assert [one.kind for one in check_recording(path)] == ["wrong"]


#: How the array is mounted, what its geometry states, and what is said of that.
MOUNTED: dict[str, tuple[float, str, dict[str, Any], tuple[str, ...]]] = {
    "as stated": (85.0, "counterclockwise", {"heading_deg": 85.0, "codebook_order": "counterclockwise"}, ()),
    "north, unstated": (0.0, "clockwise", {}, ()),
    "east, unstated": (
        90.0,
        "clockwise",
        {},
        ("about 90 degrees from north, while the geometry states no",),
    ),
    "west, stated as east": (-90.0, "clockwise", {"heading_deg": 90.0}, ("about 270 degrees from north",)),
    "reversed, unstated": (0.0, "counterclockwise", {}, ('"codebook_order": "counterclockwise"',)),
    "reversed twice": (0.0, "clockwise", {"codebook_order": "counterclockwise"}, ('"codebook_order": "clockwise"',)),
}


@pytest.mark.parametrize("case", MOUNTED)
def test_beams_and_positions_that_contradict_the_geometry_are_said(case: str, tmp_path: Path) -> None:
    heading_deg, order, geometry, words = MOUNTED[case]
    path = site(tmp_path / "r.h5", heading_deg, order, geometry)
    said = [one.sentence for one in check_recording(path) if one.kind == "implausible"]
    assert len(said) == len(words), said
    assert all(expected in sentence for expected, sentence in zip(words, said, strict=True))


def test_beams_numbered_at_random_tell_nothing_of_what_an_array_faces(tmp_path: Path) -> None:
    path = site(tmp_path / "r.h5", 90.0, "clockwise", {})
    with h5py.File(path, "r+") as file:
        order = np.random.default_rng(2).permutation(N_BEAMS)
        file["bs00/rf"][...] = file["bs00/rf"][...][:, order]
        file["bs00/best_beam"][...] = np.argsort(order)[file["bs00/best_beam"][...]].astype(np.int32)
    assert not [one for one in check_recording(path) if one.kind == "implausible"]

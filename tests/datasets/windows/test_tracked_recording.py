"""A recorded base station that follows vehicles becomes rows to train on, or one sentence why not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from doubles.deepsense_layout import official_layout
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.deepsense.deepsense_folder import import_deepsense
from sheafedge.datasets.deepsense.deepsense_rows import load_deepsense_rows
from sheafedge.datasets.recordings.recording_layout import RecordingDescription, StationDescription, standard_field
from sheafedge.datasets.recordings.recording_reader import RecordedStation, RecordingReader
from sheafedge.datasets.recordings.recording_writer import RecordingWriter
from sheafedge.datasets.windows.drive_bys import Recording
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.track_windows import tracked_recording, tracking_windows
from sheafedge.emulator.contracts import DataError
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.recording.recorded_site import RecordedSite
from sheafedge.scenarios.recording.world_file import WorldFile
from sheafedge.scenarios.schema.world_section import WorldSection

LATITUDE_DEG, LONGITUDE_DEG = 60.0, 10.0
PLACE = {"latitude_deg": LATITUDE_DEG, "longitude_deg": LONGITUDE_DEG}
M_PER_DEGREE = 111_320.0  # of latitude; of longitude at 60 degrees half of that
DEGREES, METERS = ("latitude_deg", "longitude_deg"), ("east_m", "north_m")
FLOAT32 = 1e-6  # powers are stored with 24 bits
MILLIMETER = 1e-3  # degrees are stored with 53 bits and written with nine digits, 0.1 mm
N_BEAMS = 8


def recorded(
    path: Path, frames: dict[str, Any], columns: tuple[str, ...] = METERS, geometry: dict[str, Any] | None = None
) -> RecordedStation:
    """Writes and reopens one base station."""
    fields = tuple(
        standard_field(name, rows.shape[1:], **({"columns": columns} if name == "gps" else {}))
        for name, rows in frames.items()
    )
    station = StationDescription("bridge", 10.0, fields, PLACE if geometry is None else geometry)
    with RecordingWriter(path, RecordingDescription("", 1, "tests", (station,))) as writer:
        writer.append(0, frames)
    return RecordingReader(path).base_stations[0]


def frames_of(lengths: Sequence[int], first: int = 4) -> dict[str, Any]:
    draws, n_rows = np.random.default_rng(3), sum(lengths)
    return {
        "time_s": np.arange(n_rows) / 10.0,
        "sequence": np.repeat(first + 3 * np.arange(len(lengths)), lengths).astype(np.int32),
        "rf": draws.uniform(0.1, 1, (n_rows, N_BEAMS)).astype(np.float32),
        "gps": draws.normal(0, 20, (n_rows, 2)),
    }


def tracked(station: RecordedStation, **options: Any) -> Recording:
    """Rows of everything that a base station has recorded."""
    return tracked_recording(SensedFrames.of(station, ("gps",), keep_powers=True), **options)


def refusal(station: RecordedStation, **options: Any) -> str:
    with pytest.raises(DataError) as refused:
        tracked(station, **options)
    message = str(refused.value)
    assert "\n" not in message
    assert "'bridge'" in message
    return message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bridge.h5"


# What comes out.


def test_meters_are_taken_as_they_are(path: Path) -> None:
    frames = frames_of([6, 3, 9])
    recording = tracked(recorded(path, frames))
    assert recording.name == "bridge"
    assert_array_equal(recording.positions_m, frames["gps"].astype(np.float32))
    assert_array_equal(recording.powers, frames["rf"].astype(np.float64))
    assert_array_equal(recording.sequence, frames["sequence"])
    assert (recording.powers.dtype, recording.sequence.dtype) == (np.float64, np.int64)


@pytest.mark.parametrize(
    "columns", [DEGREES, DEGREES[::-1], (*DEGREES, "distance_m", "height_m"), ("height_m", *DEGREES)]
)
def test_degrees_become_meters_from_the_base_station(path: Path, columns: tuple[str, ...]) -> None:
    """100 m east at 60 degrees north are twice as many degrees as 100 m north."""
    frames = frames_of([4])
    degrees = {
        "latitude_deg": LATITUDE_DEG + np.array([0, 100, 0, -20]) / M_PER_DEGREE,
        "longitude_deg": LONGITUDE_DEG + np.array([100, 0, -50, 0]) / (M_PER_DEGREE / 2),
    }
    frames["gps"] = np.stack([degrees.get(name, np.full(4, 7.0)) for name in columns], axis=1)
    positions_m = tracked(recorded(path, frames, columns)).positions_m
    assert_allclose(positions_m, [[100, 0], [0, 100], [-50, 0], [0, -20]], atol=MILLIMETER)


def test_cars_of_the_emulated_street_are_found_where_they_drove(tmp_path: Path) -> None:
    """A receiver without errors on a street that faces east: what is ahead of the array lies east of it."""
    gps = {"bias_m": 0.0, "white_m": 0.0, "latency_s": 0.0, "heading_deg": 90.0}
    section = WorldSection.model_validate(
        {"user": "car", "n_sites": 1, "vary_sites": False, "duration_s": 30.0, "sensors": ["rf", "gps"], "gps": gps}
    )
    record_world(section, 2, tmp_path / "cars.h5", threads=0)
    with RecordingReader(tmp_path / "cars.h5") as recorded_cars:
        station = recorded_cars.base_stations[0]
        recording = tracked(station)
        time_s = station.read("time_s")
    true_m = RecordedSite.of(WorldFile(section, 2), 0).world.user_before_m(time_s, 0.0)
    assert len(recording.sequence_starts) >= 2
    assert_allclose(recording.positions_m[:, 0], true_m[:, 1], atol=MILLIMETER)
    assert_allclose(recording.positions_m[:, 1], -true_m[:, 0], atol=MILLIMETER)


# Beams and drive-bys that are left.


def test_beams_that_were_not_measured_are_never_best(path: Path) -> None:
    frames = frames_of([5])
    best = frames["rf"].argmax(axis=1)
    frames["rf"][2, best[2]] = np.nan
    recording = tracked(recorded(path, frames))
    assert recording.powers[2, best[2]] == np.nanmin(frames["rf"][2])
    assert recording.beams[2] == np.argsort(frames["rf"][2])[-2]  # NaN sorts last
    measured = ~np.isnan(frames["rf"])
    assert_array_equal(recording.powers[measured], frames["rf"][measured])


def test_short_drive_bys_are_left_out(path: Path) -> None:
    frames = frames_of([6, 3, 9, 4, 5])
    station = recorded(path, frames)
    recording = tracked(station, min_rows=5)
    kept = np.isin(frames["sequence"], [4, 10, 16])
    assert_array_equal(recording.sequence, frames["sequence"][kept])
    assert_array_equal(recording.positions_m, frames["gps"][kept].astype(np.float32))
    assert_array_equal(recording.powers, frames["rf"][kept])
    assert len(tracking_windows(recording, 4)) == 2 + 5 + 1
    with pytest.raises(DataError, match="needs 5"):
        tracking_windows(tracked(station, min_rows=4), 4)


# What is refused.


@pytest.mark.parametrize("missing", ["rf", "gps"])
def test_a_missing_sensor_is_named(path: Path, missing: str) -> None:
    frames = frames_of([5])
    del frames[missing]
    with pytest.raises(DataError, match=f"bridge.h5, bs00 has no field '{missing}'; it has time_s, sequence"):
        tracked(recorded(path, frames))


@pytest.mark.parametrize(
    ("kept", "options", "missing"), [(("gps",), {}, "powers"), (("rf",), {"keep_powers": True}, "gps")]
)
def test_frames_that_were_not_kept_are_named(
    path: Path, kept: tuple[Any, ...], options: dict[str, bool], missing: str
) -> None:
    sensed = SensedFrames.of(recorded(path, frames_of([5])), kept, **options)
    with pytest.raises(DataError, match=f"'bridge' keeps no {missing}"):
        tracked_recording(sensed)


@pytest.mark.parametrize("geometry", [{}, {"latitude_deg": 60.0}, {"latitude_deg": "60", "longitude_deg": 10.0}])
def test_degrees_need_the_place_of_the_base_station(path: Path, geometry: dict[str, Any]) -> None:
    frames = frames_of([5])
    assert "gives no latitude_deg and longitude_deg" in refusal(recorded(path, frames, DEGREES, geometry))
    other = path.with_name("meters.h5")
    assert tracked(recorded(other, frames, METERS, geometry)).n_rows == 5


def test_other_columns_are_refused(path: Path) -> None:
    message = refusal(recorded(path, frames_of([5]), ("forward_m", "height_m")))
    assert "gps columns forward_m, height_m, expected east_m and north_m" in message


def test_a_sweep_without_any_beam_is_refused_with_its_frame(path: Path) -> None:
    frames = frames_of([5])
    frames["rf"][3] = np.nan
    assert "frame 3" in refusal(recorded(path, frames))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("rf", 0.0, "rf must be above 0 .*, got 0.0 in frame 2"),
        ("gps", np.nan, "gps, north_m, must be from .*, got nan in frame 2"),
    ],
)
def test_values_that_no_recorder_writes_are_refused(path: Path, field: str, value: float, words: str) -> None:
    """The writer lets none of these through; somebody else's program may."""
    recorded(path, frames_of([5]))
    with h5py.File(path, "r+") as file:
        file[f"bs00/{field}"][2, 1] = value
    with pytest.raises(DataError, match=f"bs00/{words}"):
        tracked(RecordingReader(path).base_stations[0])


def test_drive_bys_that_are_all_too_short_are_refused(path: Path) -> None:
    message = refusal(recorded(path, frames_of([3, 4])), min_rows=5)
    assert "has 2 drive-bys, the longest of 4 rows, but 5 are needed" in message


# Folders of DeepSense.


def test_an_imported_folder_gives_the_rows_of_the_gathered_files(deepsense_root: Path, tmp_path: Path) -> None:
    official_layout(tmp_path, deepsense_root, slice(0, 150))
    report = import_deepsense(tmp_path, 1, tmp_path / "out.h5")
    with RecordingReader(report.path) as imported:
        recording = tracked(imported.base_stations[0])
    gathered = load_deepsense_rows(deepsense_root, 1)
    assert recording.name == "DeepSense scenario 1"
    assert_allclose(recording.positions_m, gathered.positions_m[:150], atol=MILLIMETER)
    assert_allclose(recording.powers, gathered.powers[:150], rtol=FLOAT32)
    assert_array_equal(recording.sequence, gathered.sequence[:150])
    assert_array_equal(recording.beams, gathered.beams[:150])
    assert_array_equal(
        tracking_windows(recording, 4).label, tracking_windows(gathered, 4).label[: len(tracking_windows(recording, 4))]
    )

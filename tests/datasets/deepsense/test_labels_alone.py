"""Drone scenarios as they lie on disks: every sample has a beam label, and all, some or none have powers."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from doubles.drone_folder import N_BEAMS, drone_folder
from numpy.testing import assert_array_equal
from sheafedge import check_recording
from sheafedge.datasets.deepsense.deepsense_folder import import_deepsense
from sheafedge.datasets.recordings.recording_reader import RecordedStation, RecordingReader
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.sensor_windows import BeamWindows, beam_windows
from sheafedge.datasets.windows.track_windows import tracked_recording
from sheafedge.emulator.contracts import DataError

N_ROWS, SILENT = 24, np.array([2, 3, 9, 15, 23])
SWEPT = np.setdiff1d(np.arange(N_ROWS), SILENT)


def table_of(root: Path) -> Path:
    return root / "scenario23_dev" / "scenario23_dev.csv"


def with_labels(root: Path, change: Callable[[int, int], int | str]) -> None:
    """The same table with other labels; `change` gets the row and its label."""
    with table_of(root).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for index, row in enumerate(rows):
        row["unit1_beam_index"] = str(change(index, int(row["unit1_beam_index"])))
    with table_of(root).open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def opened(path: Path) -> RecordedStation:
    return RecordingReader(path).base_stations[0]


def windows_of(station: RecordedStation, n_beams: int | None = N_BEAMS) -> BeamWindows:
    sensed = SensedFrames.of(station, ("camera", "gps"), color=True, keep_powers=True)
    return beam_windows(sensed, ["camera", "gps"], n_beams)


def odd_findings(path: Path) -> list[str]:
    """What `check` finds, but for the haste of a drone that flies a whole figure in a second."""
    found = check_recording(path)
    return [one.sentence for one in found if one.kind != "right" and "gps moves at" not in one.sentence]


@pytest.fixture
def mixed(tmp_path: Path) -> tuple[Path, np.ndarray]:
    return tmp_path, drone_folder(tmp_path, N_ROWS, 2, set(SWEPT.tolist()))


def test_a_table_without_powers_becomes_samples_with_the_labels_as_they_are(tmp_path: Path) -> None:
    best = drone_folder(tmp_path, N_ROWS, 2, set())
    report = import_deepsense(tmp_path, 23, tmp_path / "drone.h5")
    assert (report.n_rows, report.n_labels_alone, report.n_beams, dict(report.dropped)) == (N_ROWS, N_ROWS, None, {})
    station = opened(report.path)
    assert "rf" not in station.field_names
    assert station.geometry["codebook"] == {"n_beams": N_BEAMS}
    assert_array_equal(station.read("best_beam"), best)
    windows = windows_of(station)
    assert_array_equal(windows.label, best[windows.end])
    assert_array_equal(windows.previous_beam, best[windows.end - 1])
    assert windows.powers.shape == (len(windows), N_BEAMS)
    assert np.isnan(windows.powers).all()
    assert not odd_findings(report.path)


def test_samples_with_and_without_powers_are_numbered_alike(mixed: tuple[Path, np.ndarray]) -> None:
    root, best = mixed
    report = import_deepsense(root, 23, root / "drone.h5")
    assert (report.n_rows, report.n_labels_alone, dict(report.dropped)) == (N_ROWS, len(SILENT), {})
    assert any("5 samples have no powers: their best beam is unit1_beam_index, 1-based" in one for one in report.notes)
    station = opened(report.path)
    assert_array_equal(np.flatnonzero(np.isnan(station.read("rf")).all(axis=1)), SILENT)
    assert_array_equal(station.read("best_beam"), best)
    windows = windows_of(station)
    assert_array_equal(windows.label, best[windows.end])
    assert_array_equal(windows.end[np.isnan(windows.powers).all(axis=1)], SILENT)
    assert not odd_findings(report.path)


@pytest.mark.parametrize(
    "numbered", [lambda beam: beam - 1, lambda beam: N_BEAMS - (beam - 1), lambda beam: N_BEAMS - 1 - (beam - 1)]
)
def test_labels_without_powers_count_as_those_beside_them(
    mixed: tuple[Path, np.ndarray], numbered: Callable[[int], int]
) -> None:
    root, best = mixed
    with_labels(root, lambda _, label: numbered(label))
    assert_array_equal(opened(import_deepsense(root, 23, root / "drone.h5").path).read("best_beam"), best)


def test_labels_that_are_no_beam_are_dropped_where_they_are_all_that_is_known(mixed: tuple[Path, np.ndarray]) -> None:
    root, best = mixed
    with_labels(root, {2: 65, 3: 0, 9: ""}.get)
    report = import_deepsense(root, 23, root / "drone.h5")
    assert dict(report.dropped) == {"unit1_beam_index: no number": 1, "unit1_beam_index: no beam": 2}
    assert report.n_labels_alone == 2
    assert_array_equal(opened(report.path).read("best_beam"), np.delete(best, [2, 3, 9]))


def test_a_missing_file_of_powers_leaves_the_label_unless_all_are_missing(tmp_path: Path) -> None:
    best = drone_folder(tmp_path, N_ROWS, 2, range(N_ROWS))
    files = sorted((tmp_path / "scenario23_dev" / "unit1" / "pwr_60ghz").iterdir())
    files[0].unlink()
    report = import_deepsense(tmp_path, 23, tmp_path / "drone.h5")
    assert (report.n_labels_alone, report.n_rows) == (1, N_ROWS)
    assert_array_equal(opened(report.path).read("best_beam"), best)
    with pytest.raises(DataError, match=r"unit1_pwr_60ghz file .* does not exist"):
        import_deepsense(tmp_path, 23, tmp_path / "strict.h5", strict=True)
    for file in files[1:]:
        file.unlink()
    with pytest.raises(DataError, match=r"names no file that exists .* leave the sensor out with --modalities"):
        import_deepsense(tmp_path, 23, tmp_path / "none.h5")
    report = import_deepsense(tmp_path, 23, tmp_path / "chosen.h5", modalities=("camera", "gps"))
    assert report.n_labels_alone == N_ROWS


def test_the_best_of_fewer_beams_needs_powers(mixed: tuple[Path, np.ndarray]) -> None:
    root, _ = mixed
    report = import_deepsense(root, 23, root / "few.h5", n_beams=32)
    assert dict(report.dropped) == {"unit1_beam_index: no powers, and a label of 64 beams": len(SILENT)}
    assert_array_equal(opened(report.path).read("frame_index"), SWEPT + 1)
    with pytest.raises(DataError, match=r"5 frames with a best beam and no powers.* set data\.n_beams = 64"):
        windows_of(opened(import_deepsense(root, 23, root / "all.h5").path), 32)


def test_labels_without_powers_are_turned_with_the_codebook(tmp_path: Path) -> None:
    best = drone_folder(tmp_path, N_ROWS, 2, set(SWEPT.tolist()))
    station = opened(import_deepsense(tmp_path, 23, tmp_path / "drone.h5", codebook_order="counterclockwise").path)
    windows = windows_of(station)
    assert_array_equal(windows.label, N_BEAMS - 1 - best[windows.end])


def test_tracking_leaves_frames_without_powers_out_and_needs_some_with(mixed: tuple[Path, np.ndarray]) -> None:
    root, best = mixed
    station = opened(import_deepsense(root, 23, root / "some.h5").path)
    sensed = SensedFrames.of(station, ("gps", "rf"), keep_powers=True)
    recording = tracked_recording(sensed)
    assert_array_equal(recording.frame_rows, SWEPT)
    assert_array_equal(recording.beams, best[SWEPT])
    bare = root / "bare"
    bare.mkdir()
    drone_folder(bare, N_ROWS, 2, set())
    sensed = SensedFrames.of(opened(import_deepsense(bare, 23, bare / "bare.h5").path), ("gps",), keep_powers=True)
    with pytest.raises(DataError, match=r"best beams without powers \(no rf\); task 'beam_prediction' takes them"):
        tracked_recording(sensed)


def test_a_codebook_that_is_not_stated_is_that_of_the_scenario_if_all_beams_fit() -> None:
    sensed = SensedFrames("corner", (), keep_powers=True, has_powers=False)
    sensed.append({"time_s": np.arange(3.0), "sequence": np.zeros(3, dtype=int), "best_beam": np.array([5, 9, 15])})
    assert_array_equal(sensed.labeled_beams(16), [5, 9, 15])
    with pytest.raises(DataError, match=r"of beam 9 in frame 1, which cannot become those of data\.n_beams = 8"):
        sensed.labeled_beams(8)

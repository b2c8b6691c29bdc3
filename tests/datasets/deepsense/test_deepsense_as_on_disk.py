"""DeepSense folders as people have them: parts missing, paths of other machines, many sensors, labels alone."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.deepsense.deepsense_folder import ImportReport, import_deepsense
from sheafedge.datasets.deepsense.deepsense_radar import read_radar_map
from sheafedge.datasets.point_cloud import N_RAYS, read_ply, sweep_of_cloud
from sheafedge.datasets.recordings.recording_reader import RecordedStation, RecordingReader
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.modalities import LIDAR_REACH_M

N_ROWS = 8
BASE, USER, CALIBRATED = (60.0, 10.0), (60.001, 10.0), (60.0, 10.001)
CENTIMETER = 0.01
POWER, PLACE, PLACE_CAL, RADAR, CLOUD, IMAGE = (
    "unit1_pwr_60ghz", "unit2_loc", "unit2_loc_cal", "unit1_radar", "unit1_lidar", "unit1_rgb",
)  # fmt: skip


class Archive:
    """One scenario as its archive unpacks; the columns are filled, and broken, by tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.columns: dict[str, list[str]] = {
            "index": [str(row + 1) for row in range(N_ROWS)],
            "seq_index": ["1"] * (N_ROWS // 2) + ["2"] * (N_ROWS - N_ROWS // 2),
            "time_stamp": [f"10-00-0{row // 10}-{100 * (row % 10)}" for row in range(N_ROWS)],
        }
        draws = np.random.default_rng(3)
        self.powers = draws.uniform(0.1, 0.8, (N_ROWS, 64))
        self.texts(POWER, ["\n".join(f"{one:.6f}" for one in sweep) for sweep in self.powers])
        self.texts("unit1_loc", ["{}\n{}".format(*BASE)] * N_ROWS)
        self.texts(PLACE, ["{}\n{}".format(*USER)] * N_ROWS)

    def texts(self, column: str, contents: list[str]) -> None:
        self.files(column, "txt", [content.encode() for content in contents])

    def files(self, column: str, end: str, contents: list[bytes]) -> None:
        folder = self.root / column[:5] / column
        folder.mkdir(parents=True, exist_ok=True)
        for row, content in enumerate(contents):
            (folder / f"{row}.{end}").write_bytes(content)
        self.columns[column] = [f"./{column[:5]}/{column}/{row}.{end}" for row in range(N_ROWS)]

    def path(self, column: str, row: int) -> Path:
        return self.root / self.columns[column][row]

    def save(self, name: str = "scenario9.csv") -> Path:
        with (self.root / name).open("w", newline="", encoding="utf-8") as stream:
            table = csv.writer(stream)
            table.writerow(self.columns)
            table.writerows(zip(*self.columns.values(), strict=True))
        return self.root / name

    def convert(self, root: Path | None = None, **choices: Any) -> ImportReport:
        self.save()
        return import_deepsense(root or self.root, 9, self.root / "out.h5", **choices)

    def station(self, **choices: Any) -> RecordedStation:
        self.convert(**choices)
        return RecordingReader(self.root / "out.h5").base_stations[0]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


# --- samples that cannot be used --------------------------------------------------------------------------------------


def _write(column: str, row: int, content: str) -> Callable[[Archive], Any]:
    return lambda archive: archive.path(column, row).write_text(content)


def _cell(column: str, row: int, cell: str) -> Callable[[Archive], Any]:
    return lambda archive: archive.columns[column].__setitem__(row, cell)


#: What is wrong with the fourth of eight samples, the reason under which it is counted, and a word of the refusal.
WRONG: dict[str, tuple[Callable[[Archive], Any], str, str]] = {
    "a missing power file": (lambda a: a.path(POWER, 3).unlink(), f"{POWER}: no file", "does not exist"),
    "an empty cell": (_cell(POWER, 3, ""), f"{POWER}: no file", "holds ''"),
    "a cell of pandas": (_cell(PLACE, 3, "nan"), f"{PLACE}: no file", "holds 'nan'"),
    "a power of zero": (
        _write(POWER, 3, "0.5\n" * 63 + "0"),
        f"{POWER}: a power of 0, below, or infinite",
        "power 0.0",
    ),
    "too few powers": (_write(POWER, 3, "0.5\n" * 60), f"{POWER}: not 64 numbers", "holds 60 numbers"),
    "no beam": (_write(POWER, 3, "nan\n" * 64), "no beam was measured (NaN)", "all 64 beams are NaN"),
    "a NaN position": (_write(PLACE, 3, "nan\nnan"), f"{PLACE}: no position (NaN)", "latitude and longitude"),
    "no fix": (_write(PLACE, 3, "0\n0"), f"{PLACE}: over 5 km from the base station", "km from the base station"),
    "half a position": (_write(PLACE, 3, "60"), f"{PLACE}: not 2 numbers", "holds 1 numbers"),
    "a base without a fix": (_write("unit1_loc", 3, "nan\n10"), "unit1_loc: no position (NaN)", "latitude"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_sample_that_cannot_be_used_is_dropped_and_counted_or_refused(case: str, archive: Archive) -> None:
    harm, reason, word = WRONG[case]
    harm(archive)
    report = archive.convert()
    assert report.dropped == {reason: 1}
    assert (report.n_rows_read, report.n_rows, report.n_sequences) == (N_ROWS, N_ROWS - 1, 2)
    assert report.rate_hz == pytest.approx(10.0)  # a step over a dropped sample is not one of the recorder
    with RecordingReader(report.path) as recording:
        station = recording.base_stations[0]
        assert_array_equal(station.read("frame_index"), [1, 2, 3, 5, 6, 7, 8])
        assert_allclose(station.read("rf"), np.delete(archive.powers, 3, axis=0), rtol=1e-5)
    report.path.unlink()
    with pytest.raises(DataError, match=r"row 4 \(line 5\) of scenario9\.csv") as refused:
        archive.convert(strict=True)
    assert word in str(refused.value)
    assert not report.path.exists()


def test_several_reasons_are_counted_apart_and_every_sample_once(archive: Archive) -> None:
    archive.path(POWER, 0).unlink()
    archive.path(PLACE, 0).unlink()
    archive.path(PLACE, 1).write_text("nan\nnan")
    report = archive.convert()
    assert report.dropped == {f"{POWER}: no file": 1, f"{PLACE}: no position (NaN)": 1}
    assert report.n_rows == N_ROWS - sum(report.dropped.values())


def test_a_sensor_of_which_every_file_is_missing_is_named_with_what_to_do(archive: Archive) -> None:
    archive.columns[RADAR] = [f"./unit1/radar/{row}.mat" for row in range(N_ROWS)]
    with pytest.raises(DataError, match=r"column unit1_radar names no file .*--modalities"):
        archive.convert()
    assert archive.convert(modalities=("rf", "gps")).modalities == ("rf", "gps")


def test_nothing_left_is_refused_with_the_counts(archive: Archive) -> None:
    archive.texts(PLACE, ["0\n0"] * N_ROWS)
    with pytest.raises(DataError, match=r"no sample is left of 8 \(unit2_loc: over 5 km .*: 8\); the first .* row 1"):
        archive.convert()


# --- choices ----------------------------------------------------------------------------------------------------------


def test_only_the_chosen_modalities_are_read(archive: Archive) -> None:
    for row in range(N_ROWS):
        archive.path(PLACE, row).unlink()
    report = archive.convert(modalities=("rf",))
    assert (report.modalities, report.positions, report.dropped) == (("rf",), "", {})
    with pytest.raises(ConfigError, match=r"modalities must be among lidar, camera, rf, gps, radar.* got 'lidr'"):
        archive.convert(modalities=("lidr",))
    with pytest.raises(DataError, match="has no camera that can be read, which was chosen"):
        archive.convert(modalities=("rf", "camera"))


def test_what_the_array_faces_is_stated_by_whoever_imports(archive: Archive) -> None:
    assert not {"heading_deg", "codebook_order"} & archive.station().geometry.keys()
    (archive.root / "out.h5").unlink()
    geometry = archive.station(heading_deg=85.0, codebook_order="counterclockwise").geometry
    assert (geometry["heading_deg"], geometry["codebook_order"]) == (85.0, "counterclockwise")
    with pytest.raises(ConfigError, match="heading_deg must be degrees clockwise from north, -360 to 360, got 720"):
        archive.convert(heading_deg=720.0)


def test_calibrated_or_raw_positions_are_chosen_and_the_recording_says_which(archive: Archive) -> None:
    with pytest.raises(DataError, match="has no calibrated positions"):
        archive.convert(positions="calibrated")
    assert archive.convert().positions == "raw"
    archive.texts(PLACE_CAL, ["{}\n{}".format(*CALIBRATED)] * N_ROWS)
    for choice, expected, east_m, north_m in (
        ("auto", "calibrated", 55.66, 0.0), ("calibrated", "calibrated", 55.66, 0.0), ("raw", "raw", 0.0, 111.32),
    ):  # fmt: skip
        report = archive.convert(positions=choice)
        assert report.positions == expected
        assert any("positions are the calibrated ones" in note for note in report.notes) == (choice == "auto")
        with RecordingReader(report.path) as recording:
            station = recording.base_stations[0]
            assert f'positions = "{expected}"' in recording.description.scenario
            assert f", {expected} (unit2_loc" in station.field("gps").description
            assert_allclose(station.read("gps"), np.tile([east_m, north_m], (N_ROWS, 1)), atol=CENTIMETER)
    with pytest.raises(ConfigError, match="positions must be auto, calibrated or raw"):
        archive.convert(positions="best")


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    ["/", "/home/somebody/Scenario9/", "C:\\data\\scenario9\\", "./development_dataset/", "..\\"],
)
def test_paths_of_another_machine_are_found_below_the_table(archive: Archive, before: str) -> None:
    for column in (POWER, PLACE, "unit1_loc"):
        archive.columns[column] = [before + cell.removeprefix("./") for cell in archive.columns[column]]
    assert archive.convert().n_rows == N_ROWS
    archive.columns[POWER][2] = before + "unit1/../../secret.txt"
    with pytest.raises(DataError, match="expected a path below"):
        archive.convert()


def test_a_folder_that_is_called_as_a_unit_above_the_table_does_not_hide_its_files(archive: Archive) -> None:
    archive.columns[POWER] = [cell.replace("./unit1/", "./unit2/") for cell in archive.columns[POWER]]
    (archive.root / "unit1" / POWER).rename(archive.root / "unit2" / POWER)
    assert archive.convert().n_rows == N_ROWS


@pytest.mark.parametrize(
    "inside", ["Scenario9/development_dataset", "scenario9", "development_dataset/Scenario9", "Scenario9/scenario9_dev"]
)
@pytest.mark.parametrize("name", ["scenario9.csv", "Scenario9_dev.csv"])
def test_a_table_is_found_from_above(tmp_path: Path, inside: str, name: str) -> None:
    (tmp_path / inside).mkdir(parents=True)
    (tmp_path / "Scenario19").mkdir()
    (tmp_path / "Scenario19" / "scenario19.csv").write_text("not this one")
    Archive(tmp_path / inside).save(name)
    assert import_deepsense(tmp_path, 9, tmp_path / "out.h5").n_rows == N_ROWS


def test_a_folder_that_is_a_link_to_elsewhere_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    Archive(tmp_path / "elsewhere").save()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "Scenario9").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"no scenario9\.csv"):
        import_deepsense(tmp_path / "data", 9, tmp_path / "out.h5")


# --- radar ------------------------------------------------------------------------------------------------------------


def signal(range_bin: int, sine: float, n_samples: int = 32, n_chirps: int = 16) -> np.ndarray:
    """[4, n_samples, n_chirps] of one moving target in noise, seen by antennas half a wavelength apart."""
    draws = np.random.default_rng(range_bin)
    antenna, sample, chirp = np.ogrid[:4, :n_samples, :n_chirps]
    phase = 2 * np.pi * (range_bin * sample / n_samples + 0.25 * chirp) + np.pi * sine * antenna
    noise = draws.normal(size=(4, n_samples, n_chirps)) + 1j * draws.normal(size=(4, n_samples, n_chirps))
    still = 300.0 * np.exp(2j * np.pi * 3 * sample / n_samples)  # a wall: the same in all chirps
    return np.asarray(20.0 * np.exp(1j * phase) + noise + still)


def radar_file(path: Path, cube: np.ndarray) -> bytes:
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(path, {"data": cube})
    return path.read_bytes()


@pytest.mark.parametrize(("range_bin", "sine"), [(5, 0.0), (20, 0.5), (11, -0.75)])
def test_a_moving_target_stands_where_it_is_and_a_wall_is_taken_away(
    tmp_path: Path, range_bin: int, sine: float
) -> None:
    radar_file(tmp_path / "r.mat", signal(range_bin, sine))
    found = read_radar_map(tmp_path / "r.mat")
    assert found.shape == (32, 64)
    assert found.dtype == np.uint8
    row, column = np.unravel_index(found.argmax(), found.shape)
    assert row == range_bin
    assert (column - 32) / 32 == pytest.approx(sine, abs=0.15)  # a beam of 4 antennas is 0.5 wide
    assert found[3].max() < 10  # decibels above the noise: the wall
    assert np.median(found) == 0
    assert found.max() > 20


def test_radar_signals_are_recorded_as_maps(archive: Archive, tmp_path: Path) -> None:
    contents = [radar_file(tmp_path / "one.mat", signal(row + 4, 0.0)) for row in range(N_ROWS)]
    contents[2] = radar_file(tmp_path / "one.mat", np.ones((4, 32, 16)) + 0j)  # nothing moves
    contents[5] = contents[5][:200]
    archive.files(RADAR, "mat", contents)
    report = archive.convert()
    assert report.modalities == ("rf", "gps", "radar")
    assert report.dropped == {"an image, a radar signal or a sweep that cannot be read": 2}
    with RecordingReader(report.path) as recording:
        station = recording.base_stations[0]
        maps = station.read("radar")
        assert maps.shape == (N_ROWS - 2, 32, 64)
        assert_array_equal(maps.reshape(len(maps), -1).argmax(axis=1) // 64, [4, 5, 7, 8, 10, 11])
        assert_array_equal(station.read("frame_index"), [1, 2, 4, 5, 7, 8])


@pytest.mark.parametrize(
    ("cube", "words"),
    [
        (np.ones((4, 32)), "0 arrays of three axes"),
        (np.ones((99, 32, 4)), r"shape \(99, 32, 4\)"),
        (np.full((4, 32, 4), np.nan), "not finite"),
        (np.zeros((4, 32, 4)), "the same in all chirps"),
    ],
)
def test_what_is_no_radar_signal_is_refused(tmp_path: Path, cube: np.ndarray, words: str) -> None:
    radar_file(tmp_path / "r.mat", cube)
    with pytest.raises(DataError, match=words):
        read_radar_map(tmp_path / "r.mat")


# --- 3-D LiDAR --------------------------------------------------------------------------------------------------------


def street(car_at_deg: float, range_m: float) -> np.ndarray:
    """[n, 3] of a LiDAR 3 m above a road with one car, and the crown of a tree above all of it."""
    draws = np.random.default_rng(1)
    road = np.column_stack([draws.uniform(-30, 30, (3000, 2)), draws.normal(-3.0, 0.05, 3000)])
    angle = np.radians(car_at_deg) + draws.uniform(-0.02, 0.02, 200)
    car = np.column_stack([range_m * np.cos(angle), range_m * np.sin(angle), draws.uniform(-2.2, -1.6, 200)])
    crown = np.column_stack([draws.uniform(-5, 5, (300, 2)), draws.uniform(2.0, 4.0, 300)])
    return np.concatenate([road, car, crown])


def ply(points: np.ndarray, form: str = "binary_little_endian") -> bytes:
    header = (
        f"ply\nformat {form} 1.0\ncomment made up\nelement vertex {len(points)}\n"
        "property float x\nproperty float y\nproperty float z\nproperty uchar intensity\nend_header\n"
    )
    if form == "ascii":
        return (header + "".join(f"{x:.6f} {y:.6f} {z:.6f} 7\n" for x, y, z in points)).encode()
    order = "<" if "little" in form else ">"
    rows = np.zeros(len(points), dtype=[("x", f"{order}f4"), ("y", f"{order}f4"), ("z", f"{order}f4"), ("i", "u1")])
    for index, axis in enumerate("xyz"):
        rows[axis] = points[:, index]
    return header.encode() + rows.tobytes()


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_point_clouds_are_read_in_every_form(tmp_path: Path, form: str) -> None:
    points = street(40.0, 12.0)
    points[7] = np.nan
    (tmp_path / "c.ply").write_bytes(ply(points, form))
    assert_allclose(read_ply(tmp_path / "c.ply"), np.delete(points, 7, axis=0), atol=1e-5)


def test_a_cloud_comes_down_to_what_stands_on_the_road() -> None:
    sweep = sweep_of_cloud(street(40.0, 12.0))
    assert sweep.shape == (N_RAYS, 2)
    hit = sweep[:, 0] > 0.0
    assert_allclose(np.degrees(sweep[hit, 1]), 40.0, atol=2.0)
    assert_allclose(sweep[hit, 0], 12.0, atol=1e-6)
    assert 2 <= hit.sum() <= 4  # 2.3 degrees of car; neither road nor crown
    assert (np.diff(sweep[:, 1]) > 0).all()
    assert (sweep_of_cloud(np.zeros((0, 3)))[:, 0] == 0.0).all()


def test_clouds_are_recorded_as_sweeps(archive: Archive) -> None:
    contents = [ply(street(10.0 * row, 30.0 if row == 6 else 12.0)) for row in range(N_ROWS)]
    contents[1] = b"ply\nformat binary_little_endian 1.0\nelement vertex 9\nproperty float x\nend_header\n"
    archive.files(CLOUD, "ply", contents)
    report = archive.convert()
    assert report.dropped == {f"{CLOUD}: no sweep": 1}
    assert any("come down to the nearest obstacle of every degree" in note for note in report.notes)
    with RecordingReader(report.path) as recording:
        station = recording.base_stations[0]
        sweeps = station.read("lidar")
        assert sweeps.shape == (N_ROWS - 1, N_RAYS, 2)
        assert station.nothing_seen("lidar") == pytest.approx(30.0, abs=0.01)
        assert LIDAR_REACH_M < 30.0
        nearest = sweeps[..., 1][np.arange(N_ROWS - 1), sweeps[..., 0].argmin(axis=1)]
        assert_allclose(np.degrees(nearest[[0, 1, 2]]), [0.0, 20.0, 30.0], atol=2.0)


BROKEN_CLOUDS = {
    "no header": (b"x y z\n1 2 3\n", "no PLY header"),
    "no z": (b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1\n", "not x, y and z"),
    "cut short": (ply(street(0.0, 9.0))[:900], "cannot be read as a PLY point cloud"),
    "too many": (ply(np.zeros((1, 3))).replace(b"vertex 1\n", b"vertex 99999999\n"), "99999999 vertices"),
    "another element first": (b"ply\nformat ascii 1.0\nelement face 3\nend_header\n", "first element is 'face'"),
    "an unknown type": (ply(np.zeros((1, 3))).replace(b"float", b"quad "), "'quad'"),
    "words": (ply(np.zeros((1, 3)), "ascii").replace(b"0.000000", b"zero"), "could not convert string"),
}


@pytest.mark.parametrize("case", BROKEN_CLOUDS)
def test_what_is_no_cloud_is_refused(case: str, tmp_path: Path) -> None:
    content, words = BROKEN_CLOUDS[case]
    (tmp_path / "c.ply").write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_ply(tmp_path / "c.ply")


# --- labels without powers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("labels", "first"), [([1, 64, 3, 4, 5, 6, 7, 8], 1), ([0, 63, 3, 4, 5, 6, 7, 8], 0)])
def test_beam_labels_without_powers_are_taken_as_they_are(archive: Archive, labels: list[int], first: int) -> None:
    del archive.columns[POWER]
    archive.columns["unit1_beam"] = [str(label) for label in labels]
    report = archive.convert()
    assert (report.modalities, report.n_beams, report.beam_numbering) == (("gps",), None, None)
    assert any(f"no powers: best_beam is unit1_beam, counted from {first}" in note for note in report.notes)
    with RecordingReader(report.path) as recording:
        assert_array_equal(recording.base_stations[0].read("best_beam"), np.array(labels) - first)
    with pytest.raises(DataError, match="the best of 32 beams is known from powers alone"):
        archive.convert(n_beams=32)
    archive.columns["unit1_beam"][5] = "65"
    with pytest.raises(DataError, match=r"row 6 .* must be a beam from"):
        archive.convert()


def test_blockage_labels_without_powers_are_not_compared(archive: Archive) -> None:
    del archive.columns[POWER]
    archive.columns |= {"unit1_beam": ["5"] * N_ROWS, "unit1_blockage": list("00110000")}
    report = archive.convert()
    assert (report.blocked_share, report.blockage_disagreement) == (0.25, None)
    assert any("unit1_blockage is taken as it is" in note for note in report.notes)

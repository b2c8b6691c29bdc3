"""Folders in the layout that DeepSense is published in, whole and broken: what becomes of them, and what is said."""

from __future__ import annotations

import csv
import importlib.util
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.deepsense import deepsense_table
from sheafedge.datasets.deepsense.deepsense_folder import ImportReport, import_deepsense
from sheafedge.datasets.matlab_file import read_mat
from sheafedge.datasets.power_blockage import PowerBlockage
from sheafedge.datasets.recordings.recording_reader import RecordedStation, RecordingReader
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.modalities import LIDAR_REACH_M

HAS_PILLOW = importlib.util.find_spec("PIL") is not None
FLOAT32 = 1e-6  # powers and ranges are stored with 24 bits
CENTIMETER = 0.01  # a degree written with eight digits is a millimeter


@dataclass
class Folder:
    """One scenario on disk; tests break it and import it."""

    root: Path
    scenario: int
    rows: list[dict[str, str]]
    columns: list[str]

    @property
    def table(self) -> Path:
        return self.root / f"scenario{self.scenario}.csv"

    def save(self) -> None:
        with self.table.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, self.columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.rows)

    def put(self, column: str, row: int, text: str) -> None:
        """Writes a text file and points a cell to it."""
        path = self.root / f"unit{column[4]}" / column / f"{column}_{row}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
        self.point(column, row, f"./{path.relative_to(self.root).as_posix()}")

    def point(self, column: str, row: int, cell: str) -> None:
        if column not in self.columns:
            self.columns.append(column)
        self.rows[row][column] = cell

    def column(self, column: str, cells: list[Any]) -> None:
        for row, cell in enumerate(cells):
            self.point(column, row, str(cell))

    def path(self, column: str, row: int) -> Path:
        return self.root / self.rows[row][column]

    def convert(self, **options: Any) -> ImportReport:
        self.save()
        return import_deepsense(self.root, self.scenario, self.root / "out.h5", **options)

    def station(self, **options: Any) -> RecordedStation:
        self.convert(**options)
        return RecordingReader(self.root / "out.h5").base_stations[0]

    def refusal(self, **options: Any) -> str:
        with pytest.raises(DataError) as refused:
            self.convert(**{"strict": True, **options})
        assert "\n" not in str(refused.value)
        assert not (self.root / "out.h5").exists()
        assert list(self.root.glob(".*")) == []
        return str(refused.value)


def folder_of(root: Path, powers: np.ndarray, sequence: np.ndarray, scenario: int = 23) -> Folder:
    """Powers, labels, sequence and a clock at 10 Hz; NaN is written as numpy would."""
    folder = Folder(root, scenario, [{} for _ in powers], ["index"])
    folder.column("index", list(range(1, len(powers) + 1)))
    folder.column("seq_index", sequence.tolist())
    for row, sweep in enumerate(powers):
        folder.put("unit1_pwr_60ghz", row, "\n".join(f"{value:.18e}" for value in sweep) + "\n")
    folder.column("unit1_beam_index", (np.nanargmax(powers, axis=1) + 1).tolist())
    folder.column("time_stamp[UTC]", [stamp(36_000 + row / 10) for row in range(len(powers))])
    return folder


def stamp(second: float, unit: str = "ms") -> str:
    whole = int(second)
    fraction = round((second - whole) * (1e3 if unit == "ms" else 1e6))
    return f"['{whole // 3600 % 24:02d}-{whole // 60 % 60:02d}-{whole % 60:02d}-{fraction}']"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Twelve generated rows in two flights."""
    powers = np.random.default_rng(5).uniform(0.1, 0.8, size=(12, 64))
    return folder_of(tmp_path, powers, np.repeat([3, 7], 6))


def powers_of(folder: Folder) -> np.ndarray:
    return np.stack([np.loadtxt(folder.path("unit1_pwr_60ghz", row)) for row in range(len(folder.rows))])


def put_positions(folder: Folder, column: str, degrees: np.ndarray) -> None:
    for row, (latitude, longitude) in enumerate(degrees):
        folder.put(column, row, f"{latitude:.9f}\n{longitude:.9f}\n")


# Whole folders.


def test_real_rows_survive_the_official_layout(deepsense_root: Path, tmp_path: Path) -> None:
    rows = slice(0, 150)
    name = f"{deepsense_root}/scenario1_{{}}_1-2422.npy"
    powers, sequence = np.load(name.format("unit1_pwr_60ghz"))[rows], np.load(name.format("seq_index"))[rows]
    base_deg, user_deg = np.load(name.format("unit1_loc"))[rows], np.load(name.format("unit2_loc"))[rows]
    folder = folder_of(tmp_path, powers, sequence, scenario=1)
    put_positions(folder, "unit1_loc", base_deg)
    put_positions(folder, "unit2_loc", user_deg)
    report = folder.convert()
    with RecordingReader(report.path) as recording:
        station = recording.base_stations[0]
        assert station.modalities == ("rf", "gps")
        assert_allclose(station.read("rf"), powers, rtol=FLOAT32)
        assert_array_equal(station.read("best_beam"), powers.argmax(axis=1))
        assert_array_equal(station.read("sequence"), sequence)
        north_m = (user_deg - base_deg)[:, 0] * 111_320
        assert_allclose(station.read("gps")[:, 1], north_m, atol=CENTIMETER)
        assert station.field("gps").columns == ("east_m", "north_m")
        assert station.geometry["latitude_deg"] == pytest.approx(base_deg[0, 0])
    assert report.beam_numbering is not None
    assert (report.beam_numbering.name, report.beam_numbering.agreement) == ("1-based", 1)
    assert (report.n_rows_read, report.n_rows, report.n_sequences) == (150, 150, len(np.unique(sequence)))
    assert report.rate_hz == pytest.approx(10)


def test_the_recording_says_where_it_came_from(folder: Folder) -> None:
    folder.convert(created_by="sheafedge 9.9")
    with RecordingReader(folder.root / "out.h5") as recording:
        assert recording.description.created_by == "sheafedge 9.9"
        assert "scenario = 23" in recording.description.scenario
        assert recording.description.seed is None
        assert recording.base_stations[0].field("rf").unit == "1, proportional to W"


@pytest.mark.parametrize("where", ["scenario23.csv", "scenario23_dev.csv", "scenario23/scenario23.csv"])
def test_the_table_is_found_where_the_archives_put_it(folder: Folder, where: str) -> None:
    folder.save()
    target = folder.root / where
    target.parent.mkdir(exist_ok=True)
    folder.table.rename(target)
    if target.parent != folder.root:
        (folder.root / "unit1").rename(target.parent / "unit1")
    assert import_deepsense(folder.root, 23, folder.root / "out.h5").n_rows == 12


def test_untidy_tables_are_read(folder: Folder) -> None:
    """Backslashes, spaces around names and cells, a byte-order mark, empty lines at the end."""
    folder.save()
    text = folder.table.read_text(encoding="utf-8")
    text = text.replace("./unit1/", ".\\unit1\\").replace("seq_index", " seq_index ").replace(",", ", ")
    folder.table.write_text("\ufeff" + text + "\n,,,,\n\n", encoding="utf-8")
    assert import_deepsense(folder.root, 23, folder.root / "out.h5").n_rows == 12


@pytest.mark.parametrize(
    ("name", "label_of"),
    [
        ("1-based", lambda beam: beam + 1),
        ("0-based", lambda beam: beam),
        ("mirrored, 0-based", lambda beam: 63 - beam),
        ("mirrored, 1-based", lambda beam: 64 - beam),
    ],
)
def test_the_numbering_of_beams_is_found_and_changes_nothing(
    folder: Folder, name: str, label_of: Callable[[np.ndarray], np.ndarray]
) -> None:
    beam = powers_of(folder).argmax(axis=1)
    folder.column("unit1_beam_index", label_of(beam).tolist())
    report = folder.convert()
    assert report.beam_numbering is not None
    assert (report.beam_numbering.name, report.beam_numbering.agreement) == (name, 1)
    with RecordingReader(report.path) as recording:
        assert_array_equal(recording.base_stations[0].read("best_beam"), beam)


def test_labels_of_a_smaller_codebook_are_recognized(folder: Folder) -> None:
    folder.column("unit1_beam_index", (powers_of(folder)[:, ::2].argmax(axis=1) + 1).tolist())
    report = folder.convert()
    assert report.beam_numbering is not None
    assert report.beam_numbering.name == "1-based, 32 beams"


def test_a_smaller_codebook_has_its_own_best_beams(folder: Folder) -> None:
    powers = powers_of(folder)[:, ::2]
    station = folder.station(n_beams=32)
    assert_allclose(station.read("rf"), powers, rtol=FLOAT32)
    assert_array_equal(station.read("best_beam"), powers.argmax(axis=1))
    with pytest.raises(ConfigError, match=r"data\.n_beams must be one of"):
        folder.convert(n_beams=20)


def test_drones_tell_latitude_longitude_distance_and_height(folder: Folder) -> None:
    drone = np.array([33.42, -111.93]) + np.arange(24).reshape(12, 2) * 1e-7
    put_positions(folder, "unit1_loc", np.tile([33.42, -111.93], (12, 1)))
    put_positions(folder, "unit2_loc", drone)
    for row in range(12):
        folder.put("unit2_distance", row, f"{20 + row}\n")
        folder.put("unit2_height", row, f"{5 + row}\n")
    station = folder.station()
    assert station.field("gps").columns == ("latitude_deg", "longitude_deg", "distance_m", "height_m")
    assert_allclose(station.read("gps")[:, :2], drone, atol=1e-9)  # float32 would be off by a meter
    assert_array_equal(station.read("gps")[:, 2:], np.stack([20 + np.arange(12), 5 + np.arange(12)], axis=1))


def test_calibrated_positions_go_first(folder: Folder) -> None:
    put_positions(folder, "unit1_loc", np.tile([60.0, 10.0], (12, 1)))
    put_positions(folder, "unit2_loc", np.tile([60.001, 10.0], (12, 1)))
    put_positions(folder, "unit2_loc_cal", np.tile([60.0, 10.001], (12, 1)))
    assert_allclose(folder.station().read("gps"), np.tile([55.66, 0], (12, 1)), atol=CENTIMETER)


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_the_clock_runs_on_over_midnight(folder: Folder, unit: str) -> None:
    seconds = 86_399.55 + 0.1 * np.arange(12)
    folder.column("time_stamp[UTC]", [stamp(second, unit) for second in seconds])
    report = folder.convert()
    with RecordingReader(report.path) as recording:
        assert_allclose(recording.base_stations[0].read("time_s"), 0.1 * np.arange(12), atol=0.0011)
    assert report.rate_hz == pytest.approx(10, rel=0.01)
    assert any("midnight 1 time" in note for note in report.notes)


@pytest.mark.parametrize(
    ("cell", "second"),
    [("11:46:31-5", 0.005), ("['11-46-31-250']", 0.25), ("2021-04-07 11:46:31.25", 0.25), ("11-46-31", 0.0)],
)
def test_stamps_are_read_in_the_forms_that_occur(folder: Folder, cell: str, second: float) -> None:
    folder.column("time_stamp[UTC]", ["11-46-30-0", *[cell] * 11])
    assert folder.station().read("time_s")[5] == pytest.approx(1 + second)


def test_without_sequences_silence_separates_them(folder: Folder) -> None:
    folder.columns.remove("seq_index")
    for row in folder.rows:
        del row["seq_index"]
    folder.column("time_stamp[UTC]", [stamp(36_000 + row / 10 + (6 if row >= 4 else 0)) for row in range(12)])
    report = folder.convert()
    assert report.n_sequences == 2
    assert any("no seq_index: 2 sequences" in note for note in report.notes)
    folder.columns.remove("time_stamp[UTC]")
    for row in folder.rows:
        del row["time_stamp[UTC]"]
    folder.column("index", [1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 14, 15])
    report = folder.convert()
    assert report.n_sequences == 2
    assert any("no time stamps: rows taken as 10.0 per second" in note for note in report.notes)


def test_what_is_not_read_is_listed(folder: Folder) -> None:
    folder.column("unit1_radar", ["./unit1/radar/1.npy"] * 12)
    folder.column("unit1_lidar", ["./unit1/lidar/1.pcd"] * 12)
    folder.column("unit2_speed", [3] * 12)
    notes = folder.convert().notes
    assert any("columns not imported: unit1_radar, unit1_lidar, unit2_speed" in note for note in notes)
    assert any("unit1_lidar is left out: 2-D sweeps in .mat files and clouds in .ply" in note for note in notes)
    assert any("unit1_radar is left out: raw radar signals in .mat files" in note for note in notes)


# Beams that were not measured.


def with_nan(folder: Folder, row: int, beams: Any) -> None:
    sweep = np.loadtxt(folder.path("unit1_pwr_60ghz", row))
    sweep[beams] = np.nan
    folder.put("unit1_pwr_60ghz", row, "\n".join(map(str, sweep)))


def test_nan_beams_are_counted_and_passed_over(folder: Folder) -> None:
    before = powers_of(folder)
    with_nan(folder, 4, before[4].argmax())
    report = folder.convert()
    assert report.n_nan_sweeps == 1
    assert any("1 sweeps have NaN beams" in note for note in report.notes)
    with RecordingReader(report.path) as recording:
        station = recording.base_stations[0]
        assert np.isnan(station.read("rf")).sum() == 1
        assert station.read("best_beam")[4] == np.argsort(before[4])[-2]


def test_dropped_rows_leave_a_hole_that_can_be_seen(folder: Folder) -> None:
    with_nan(folder, 4, 9)
    with_nan(folder, 8, slice(None))
    report = folder.convert(nan_beams="drop")
    assert (report.n_rows_read, report.n_rows, report.n_nan_sweeps) == (12, 10, 2)
    with RecordingReader(report.path) as recording:
        assert_array_equal(recording.base_stations[0].read("frame_index"), [1, 2, 3, 4, 6, 7, 8, 10, 11, 12])


def test_a_sweep_without_any_beam_is_refused_unless_dropped(folder: Folder) -> None:
    with_nan(folder, 8, slice(None))
    message = folder.refusal()
    assert "row 9 (line 10) of scenario23.csv: all 64 beams are NaN" in message
    assert 'nan_beams "drop"' in message


def test_dropping_everything_is_refused(folder: Folder) -> None:
    for row in range(12):
        with_nan(folder, row, 3)
    assert "no sample is left of 12 (a beam that was not measured (NaN): 12)" in folder.refusal(nan_beams="drop")


# Folders that are wrong.


def _overwrite(column: str, row: int, content: bytes) -> Callable[[Folder], None]:
    return lambda folder: (folder.path(column, row).write_bytes(content), None)[1]


def _positions(row: int, base: tuple[float, float], user: tuple[float, float]) -> Callable[[Folder], None]:
    def change(folder: Folder) -> None:
        bases, users = np.tile([60.0, 10.0], (12, 1)), np.tile([60.0001, 10.0], (12, 1))
        bases[row], users[row] = base, user
        put_positions(folder, "unit1_loc", bases)
        put_positions(folder, "unit2_loc", users)

    return change


SWEEP = b"0.5\n" * 64
BROKEN: dict[str, tuple[Callable[[Folder], Any], list[str]]] = {
    "a missing power file": (
        lambda folder: folder.path("unit1_pwr_60ghz", 7).unlink(),
        ["row 8 (line 9)", "unit1_pwr_60ghz_7.txt does not exist (1 of 12 are missing)"],
    ),
    "63 beams": (_overwrite("unit1_pwr_60ghz", 2, SWEEP[4:]), ["row 3 (line 4)", "holds 63 numbers, expected 64"]),
    "an empty power file": (_overwrite("unit1_pwr_60ghz", 2, b""), ["row 3", "holds 0 numbers"]),
    "words for numbers": (_overwrite("unit1_pwr_60ghz", 2, b"high\n" * 64), ["row 3", "cannot be read as numbers"]),
    "bytes for text": (_overwrite("unit1_pwr_60ghz", 2, b"\xff\x00" * 64), ["row 3", "cannot be read as numbers"]),
    "a power of zero": (_overwrite("unit1_pwr_60ghz", 9, SWEEP[4:] + b"0\n"), ["row 10", "power 0.0", "1 rows"]),
    "power in dB": (_overwrite("unit1_pwr_60ghz", 9, b"-40.5\n" * 64), ["row 10", "power -40.5", "linear"]),
    "an infinite power": (_overwrite("unit1_pwr_60ghz", 9, SWEEP[4:] + b"inf\n"), ["row 10", "power inf"]),
    "no powers and no labels": (
        lambda folder: [folder.columns.remove(name) for name in ("unit1_pwr_60ghz", "unit1_beam_index")],
        ["no column unit1_pwr_60ghz", "none of beam labels"],
    ),
    "an absolute path": (lambda folder: folder.point("unit1_pwr_60ghz", 1, "/etc/passwd"), ["row 2", "/etc/passwd"]),
    "a path out": (lambda folder: folder.point("unit1_pwr_60ghz", 1, "./unit1/../../x.txt"), ["row 2", "below"]),
    "a drive": (lambda folder: folder.point("unit1_pwr_60ghz", 1, "C:\\data\\x.txt"), ["row 2", "C:/data"]),
    "an empty cell": (lambda folder: folder.point("unit1_pwr_60ghz", 1, ""), ["row 2", "holds ''"]),
    "beam labels of other sweeps": (
        lambda folder: folder.column("unit1_beam_index", [1, 40, 9, 22, 8, 60, 33, 5, 17, 50, 12, 3]),
        ["unit1_beam_index is", "the best reading", "fits"],
    ),
    "a beam label that is none": (lambda folder: folder.point("unit1_beam_index", 4, "left"), ["row 5", "'left'"]),
    "half a beam": (lambda folder: folder.point("unit1_beam_index", 4, "3.5"), ["row 5", "whole number, got 3.5"]),
    "a NaN label": (lambda folder: folder.point("unit1_beam_index", 4, "nan"), ["row 5", "is nan"]),
    "a sequence that starts again": (
        lambda folder: folder.column("seq_index", [1, 1, 1, 2, 2, 2, 1, 1, 1, 3, 3, 3]),
        ["row 7 (line 8)", "seq_index 1 starts again"],
    ),
    "rows out of order": (
        lambda folder: folder.column("index", [1, 2, 4, 3, 5, 6, 7, 8, 9, 10, 11, 12]),
        ["row 4", "index 3 does not follow 4"],
    ),
    "a clock that runs backwards": (
        lambda folder: folder.column("time_stamp[UTC]", [stamp(36_000 + t) for t in (0, 1, 2, 1.5, *range(3, 11))]),
        ["row 4", "backwards by 0.500 s"],
    ),
    "a stamp that is none": (lambda folder: folder.point("time_stamp[UTC]", 3, "noon"), ["row 4", "got 'noon'"]),
    "an hour that is none": (lambda folder: folder.point("time_stamp[UTC]", 3, "31-04-21"), ["row 4", "31-04-21"]),
    "nothing that separates sequences": (
        lambda folder: setattr(folder, "columns", ["unit1_pwr_60ghz"]) or _only(folder, "unit1_pwr_60ghz"),
        ["neither seq_index nor time_stamp nor index"],
    ),
    "a blockage label of 2": (
        lambda folder: folder.column("blockage_label", [0, 1, 2, *[0] * 9]),
        ["row 3", "blockage_label must be 0 or 1, got 2"],
    ),
    "a base station that moves": (
        _positions(5, (60.001, 10), (60.001, 10)),
        ["row 6", "moved the base station by 111"],
    ),
    "a receiver without a fix": (_positions(5, (60, 10), (0, 0)), ["row 6", "6702 km from the base station"]),
    "latitude and longitude swapped": (_positions(5, (-111.9, 33.4), (33, 1)), ["row 6", "latitude and longitude"]),
    "a position of one number": (
        lambda folder: (_positions(0, (60, 10), (60, 10))(folder), folder.put("unit2_loc", 3, "60.0"))[1],
        ["row 4", "holds 1 numbers, expected 2"],
    ),
    "a NaN position": (_positions(5, (60, 10), (float("nan"), 10)), ["row 6", "latitude and longitude"]),
}


def _only(folder: Folder, column: str) -> None:
    folder.rows = [{column: row[column]} for row in folder.rows]


@pytest.mark.parametrize(("change", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_folder_is_refused_with_its_row(
    folder: Folder, change: Callable[[Folder], Any], words: list[str]
) -> None:
    change(folder)
    message = folder.refusal()
    for word in words:
        assert word in message


@pytest.mark.parametrize("lag", [-2, -1, 1, 2])
def test_beam_labels_of_a_neighboring_row_are_recognized_as_shifted(folder: Folder, lag: int) -> None:
    beam = powers_of(folder).argmax(axis=1)
    labels = np.roll(beam, -lag) + 1  # the label of a row is that of the sweep `lag` rows later
    folder.column("unit1_beam_index", labels.tolist())
    message = folder.refusal()
    assert f"fit the sweep {abs(lag)} row(s) {'later' if lag > 0 else 'earlier'}" in message
    assert "row 1 (line 2)" in message


TABLES = {
    "not a table": (b"\xff\xfe\x00", "cannot be read as CSV"),
    "an open quote": (b'index,seq_index\n1,"2\n', "cannot be read as CSV"),
    "nothing": (b"", "no rows below its header"),
    "a header alone": (b"index,seq_index\n", "no rows below its header"),
    "a short line": (b"index,seq_index\n1,1\n2\n", "line 3, has 1 cells, its header 2"),
    "a column twice": (b"index, index\n1,1\n", "two columns 'index'"),
}


@pytest.mark.parametrize(("content", "words"), TABLES.values(), ids=TABLES.keys())
def test_a_table_that_is_none_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "scenario23.csv").write_bytes(content)
    with pytest.raises(DataError, match=words):
        import_deepsense(tmp_path, 23, tmp_path / "out.h5")


def test_a_missing_or_ambiguous_table_is_named(folder: Folder) -> None:
    folder.save()
    with pytest.raises(DataError, match=r"no scenario2\.csv .*CSV files there: scenario23\.csv"):
        import_deepsense(folder.root, 2, folder.root / "out.h5")
    with pytest.raises(DataError, match="is not a folder"):
        import_deepsense(folder.root / "nowhere", 23, folder.root / "out.h5")
    (folder.root / "scenario23_dev.csv").write_bytes(folder.table.read_bytes())
    with pytest.raises(DataError, match="keep one of them"):
        import_deepsense(folder.root, 23, folder.root / "out.h5")


def test_unknown_options_are_refused(folder: Folder) -> None:
    with pytest.raises(ConfigError, match="keep or drop"):
        folder.convert(nan_beams="guess")


# Blockage.


@dataclass
class Link:
    """A static link that vehicles cross: powers, true state, and passes of 40 rows."""

    powers: np.ndarray
    blocked: np.ndarray
    sequence: np.ndarray


def crossed_link(n_sequences: int = 8, seed: int = 2) -> Link:
    draws = np.random.default_rng(seed)
    blocked = np.zeros((n_sequences, 40), dtype=bool)
    for row in blocked:
        start = draws.integers(8, 28)
        row[start : start + draws.integers(3, 9)] = True
    gain_db = -15.0 * blocked.ravel() + draws.normal(0, 0.7, blocked.size)
    beam_db = -0.05 * (np.arange(64) - 30.0) ** 2
    powers = 10 ** ((gain_db[:, None] + beam_db.clip(-25) + draws.normal(0, 0.3, (blocked.size, 64))) / 10)
    return Link(powers, blocked.ravel(), np.repeat(np.arange(1, n_sequences + 1), 40))


def crossed_folder(root: Path, link: Link, label: np.ndarray, inline: bool = True) -> Folder:
    folder = folder_of(root, link.powers, link.sequence, scenario=26)
    if inline:
        folder.column("blockage_label", label.astype(int).tolist())
    else:
        for row, value in enumerate(label):
            folder.put("unit1_blockage", row, f"{int(value)}\n")
    return folder


@pytest.mark.parametrize("inline", [True, False])
def test_blockage_labels_are_read_inline_and_from_files(tmp_path: Path, inline: bool) -> None:
    link = crossed_link()
    report = crossed_folder(tmp_path, link, link.blocked, inline).convert()
    assert report.blocked_share == pytest.approx(link.blocked.mean())
    assert report.blockage_disagreement == 0  # 15 dB and 0.7 dB of noise: no doubt about any row
    with RecordingReader(report.path) as recording:
        station = recording.base_stations[0]
        assert_array_equal(station.read("blocked_labeled"), link.blocked)
        assert_array_equal(station.read("blocked_power"), link.blocked)


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("lag", [-3, -1, 1, 3])
def test_shifted_blockage_labels_are_refused(tmp_path: Path, lag: int, inline: bool) -> None:
    link = crossed_link()
    folder = crossed_folder(tmp_path, link, np.roll(link.blocked, -lag), inline)
    message = folder.refusal()
    assert f"fit the power {abs(lag)} row(s) {'later' if lag > 0 else 'earlier'} better" in message
    assert "(line " in message
    named = int(message.split("row ")[1].split(" ")[0]) - 1
    assert link.blocked[named] != np.roll(link.blocked, -lag)[named]


def test_swapped_random_and_misnumbered_blockage_labels_are_refused(tmp_path: Path) -> None:
    link = crossed_link()
    draws = np.random.default_rng(1)
    assert "0 and 1 seem to be swapped" in crossed_folder(tmp_path, link, ~link.blocked).refusal()
    assert "do not follow the power" in crossed_folder(tmp_path, link, draws.permutation(link.blocked)).refusal()
    misnumbered = link.blocked.copy()
    misnumbered[200:] = np.roll(link.blocked[200:].reshape(3, 40), 15, axis=1).ravel()
    message = crossed_folder(tmp_path, link, misnumbered).refusal()
    assert "seem to be numbered otherwise" in message
    assert int(message.split("row ")[1].split(" ")[0]) > 200


def test_contradicting_blockage_labels_can_be_kept_with_a_note(tmp_path: Path) -> None:
    link = crossed_link()
    folder = crossed_folder(tmp_path, link, np.roll(link.blocked, 2))
    assert 'blockage_check "report"' in folder.refusal()
    report = folder.convert(blockage_check="report")
    assert any("2 row(s) earlier better" in note for note in report.notes)
    assert report.blockage_disagreement is not None
    assert report.blockage_disagreement > 0.05


@pytest.mark.parametrize("seed", range(6))
def test_labels_with_honest_errors_are_not_refused(tmp_path: Path, seed: int) -> None:
    """One row in fifty labeled wrongly by hand is no shift."""
    link = crossed_link(seed=seed)
    label = link.blocked ^ (np.random.default_rng(seed).random(len(link.blocked)) < 0.02)
    assert crossed_folder(tmp_path, link, label).convert().notes == ()


def test_a_link_that_is_never_blocked_has_nothing_to_contradict(tmp_path: Path) -> None:
    link = crossed_link(2)
    assert crossed_folder(tmp_path, link, np.zeros(80, dtype=bool)).convert().blocked_share == 0


def test_power_falls_by_8_db_below_the_clear_median_when_blocked() -> None:
    power_db = np.full(300, -40.0)
    power_db[[0, 1, 50, 51, 52]] = -48.0
    power_db[120] = -47.9
    power_db[200:] += np.linspace(0, -12, 100)  # a slow fade moves the median along
    blocked = PowerBlockage().label(power_db)
    assert_array_equal(np.flatnonzero(blocked[:200]), [0, 1, 50, 51, 52])
    assert not blocked[200:280].any()


# LiDAR and camera.


def mat_bytes(matrix: np.ndarray, name: str = "data", order: str = "<", compressed: bool = False) -> bytes:
    """A level 5 file as MATLAB writes it, from the format's description."""

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack(f"{order}II", kind, len(data)) + data + b"\0" * (-len(data) % 8)

    flags, dims = struct.pack(f"{order}II", 6, 0), struct.pack(f"{order}{matrix.ndim}i", *matrix.shape)
    values = matrix.astype(f"{order}f8").tobytes(order="F")
    content = element(14, element(6, flags) + element(5, dims) + element(1, name.encode()) + element(9, values))
    if compressed:
        packed = zlib.compress(content)
        content = struct.pack(f"{order}II", 15, len(packed)) + packed
    mark = b"IM" if order == "<" else b"MI"
    return b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(f"{order}H", 0x0100) + mark + content


def sweep_of(row: int, n_rays: int = 216) -> np.ndarray:
    angle = np.linspace(-2.0941, 1.5621, n_rays)
    return np.stack([np.where(angle > 1, 0, 4 + np.sin(angle + row)), angle], axis=1)


def put_sweep(folder: Folder, row: int, content: bytes, column: str = "unit1_lidar_SCR") -> None:
    path = folder.root / "unit1" / column / f"{row}.mat"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    folder.point(column, row, f"./unit1/{column}/{row}.mat")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_matrices_are_read_in_both_byte_orders(tmp_path: Path, order: str, compressed: bool) -> None:
    path = tmp_path / "sweep.mat"
    path.write_bytes(mat_bytes(sweep_of(3), order=order, compressed=compressed))
    assert_array_equal(read_mat(path), sweep_of(3))
    path.write_bytes(mat_bytes(sweep_of(3), "scan", order, compressed))
    assert_array_equal(read_mat(path), sweep_of(3))


@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "i4", "u2"])
@pytest.mark.parametrize("compressed", [False, True])
def test_matrices_are_read_as_scipy_wrote_them(tmp_path: Path, dtype: str, compressed: bool) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    matrix = np.random.default_rng(1).uniform(0, 200, (7, 2)).astype(dtype)
    scipy_io.savemat(tmp_path / "x.mat", {"other": "text", "data": matrix, "n": matrix[:1]}, do_compression=compressed)
    assert_array_equal(read_mat(tmp_path / "x.mat"), matrix)
    scipy_io.savemat(tmp_path / "x.mat", {"data": matrix + 1j})
    with pytest.raises(DataError, match="no matrix 'data', but nothing numeric"):
        read_mat(tmp_path / "x.mat")


def test_every_truncation_of_a_matrix_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    for compressed in (False, True):
        whole = mat_bytes(np.ones((5, 2)), compressed=compressed)
        for n_bytes in range(len(whole)):
            path.write_bytes(whole[:n_bytes])
            with pytest.raises(DataError, match=r"x\.mat"):
                read_mat(path)


def test_hostile_matrices_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    huge = mat_bytes(np.ones((1, 2))).replace(struct.pack("<ii", 1, 2), struct.pack("<ii", 2**30, 2))
    bomb = mat_bytes(np.zeros((3_000_000, 2)), compressed=True)
    for content, words in [
        (huge, "2 values for a matrix of shape"),
        (bomb, "unpack to more than 16 MiB"),
        (b"MATLAB 7.3 MAT-file".ljust(128), "option -v7"),
        (b"\x89HDF" * 50, "no MATLAB header"),
    ]:
        path.write_bytes(content)
        with pytest.raises(DataError, match=words):
            read_mat(path)


def compressed(content: bytes) -> bytes:
    """A compressed element."""
    packed = zlib.compress(content)
    return struct.pack("<II", 15, len(packed)) + packed


def test_matrices_that_unpack_again_and_again_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    whole = mat_bytes(np.ones((5, 2)))
    header, matrix = whole[:128], whole[128:]
    nested = matrix
    for _ in range(2_000):
        nested = compressed(nested)
    many = b"".join(compressed(mat_bytes(np.zeros((90_000, 2)))[128:]) for _ in range(20))
    large = mat_bytes(np.zeros((600_000, 2)))[128:]
    for body, words in [
        (compressed(matrix), ""),  # negative control: as MATLAB writes it
        (nested, "nothing numeric"),
        (many, "unpack to more than 16 MiB"),
        (large, "1200000 values, too large for one sweep"),
    ]:
        path.write_bytes(header + body)
        if words:
            with pytest.raises(DataError, match=words):
                read_mat(path)
        else:
            assert read_mat(path).shape == (5, 2)


@pytest.mark.parametrize("case", ["a file out", "a folder out", "the table"])
def test_a_link_that_leads_out_of_the_folder_is_refused_before_it_is_read(
    folder: Folder, tmp_path: Path, case: str
) -> None:
    folder.save()
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    outside.mkdir()
    (outside / "secret.txt").write_text("root:x:0:0:root\n")
    power_file = folder.path("unit1_pwr_60ghz", 3)
    at = {"a file out": power_file, "a folder out": power_file.parent, "the table": folder.table}[case]
    at.rename(outside / "moved")
    at.symlink_to(outside / ("moved" if case == "a folder out" else "secret.txt"))
    message = _refusal_of(folder.root)
    assert "leads out of" in message
    assert "root:x" not in message


def _refusal_of(root: Path) -> str:
    with pytest.raises(DataError) as refused:
        import_deepsense(root, 23, root / "out.h5")
    return str(refused.value)


def test_a_link_inside_the_folder_is_followed(folder: Folder) -> None:
    folder.save()
    one = folder.path("unit1_pwr_60ghz", 3)
    one.rename(one.with_name("kept.txt"))
    one.symlink_to("kept.txt")
    assert folder.station().n_frames == 12


@pytest.mark.parametrize("column", ["unit1_pwr_60ghz", "unit1_beam_index", "time_stamp[UTC]"])
@pytest.mark.parametrize("cell", ["x/" * 3_000, "y" * 300, "a\0b", "z" * 100_000])
def test_a_cell_that_is_no_name_is_refused_and_hardly_repeated(folder: Folder, column: str, cell: str) -> None:
    folder.point(column, 4, cell)
    message = folder.refusal()
    assert "\n" not in message
    assert len(message) < 900
    assert repr(cell)[1:4] in message


def test_the_content_of_a_file_is_hardly_repeated(folder: Folder) -> None:
    folder.put("unit1_pwr_60ghz", 3, "secret-" * 1_000)
    message = folder.refusal()
    assert message.count("secret-") <= 6


WIDE = {
    "columns": ("a," * 5_000 + "b\n" + "1," * 5_000 + "1\n", "has 5001 columns, a table of DeepSense at most 4096"),
    "a row without an end": ("a,b\n" + '1,"x\n",' * 300_000, "has a row of more than 1048576 characters"),
    "cells": ("a\n" + "1\n" * 2_000, "has more than 1000 cells"),
}


@pytest.mark.parametrize("case", WIDE)
def test_a_table_that_would_fill_the_memory_is_refused(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, words = WIDE[case]
    if case == "cells":
        monkeypatch.setattr(deepsense_table, "MAX_CELLS", 1_000)
    (tmp_path / "scenario23.csv").write_text(content)
    assert words in _refusal_of(tmp_path)


def test_sweeps_of_the_scanner_are_recorded(folder: Folder) -> None:
    for row in range(12):
        put_sweep(folder, row, mat_bytes(sweep_of(row), compressed=row % 2 == 0))
        put_sweep(folder, row, mat_bytes(sweep_of(row, 460)), column="unit1_lidar")
    station = folder.station()
    assert station.modalities == ("lidar", "rf")
    on_disk = np.stack([sweep_of(row) for row in range(12)])
    no_echo = on_disk[..., 0] == 0.0  # as DeepSense writes it; recordings have the reach there
    assert 0.1 < no_echo.mean() < 0.5
    assert station.nothing_seen("lidar") == LIDAR_REACH_M
    assert station.geometry["lidar"] == {"max_range_m": LIDAR_REACH_M}
    assert_allclose(station.read("lidar")[..., 0], np.where(no_echo, LIDAR_REACH_M, on_disk[..., 0]), rtol=FLOAT32)
    assert_allclose(station.read("lidar")[..., 1], on_disk[..., 1], rtol=FLOAT32)
    assert station.field("lidar").columns == ("range_m", "angle_rad")


def test_a_scanner_that_saw_farther_than_usual_reaches_so_far(folder: Folder) -> None:
    for row in range(12):
        put_sweep(folder, row, mat_bytes(sweep_of(row) * [10.0 if row == 7 else 1.0, 1.0]))
    station = folder.station()
    farthest = float(np.float32(10.0 * sweep_of(7)[:, 0].max()))
    assert station.nothing_seen("lidar") == pytest.approx(farthest)
    assert (station.read("lidar")[..., 0] > 0.0).all()
    assert station.read("lidar")[..., 0].max() == pytest.approx(farthest)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (mat_bytes(sweep_of(5, 215)), r"shape \(215, 2\), expected \(216, 2\)"),
        (mat_bytes(sweep_of(5)[:, ::-1]), "ranges from 0 to 100 m in its first column"),
        (mat_bytes(sweep_of(5) * [1, np.nan]), "angles in rad"),
        (mat_bytes(sweep_of(5).T), r"shape \(2, 216\)"),
        (b"", "cannot be read as a .mat file"),
    ],
)
def test_a_sweep_that_is_none_is_refused_with_its_row(folder: Folder, content: bytes, words: str) -> None:
    for row in range(12):
        put_sweep(folder, row, mat_bytes(sweep_of(row)))
    put_sweep(folder, 5, content)
    folder.save()
    with pytest.raises(DataError, match=r"row 6 \(line 7\) of scenario23\.csv.*" + words):
        folder.convert(strict=True)
    assert not (folder.root / "out.h5").exists()


def put_images(folder: Folder) -> None:
    from PIL import Image

    (folder.root / "unit1" / "camera_data").mkdir(parents=True)
    for row in range(12):
        pixels = np.full((540, 960, 3), [200, 100, 10 * row], dtype=np.uint8)
        pixels[:, :480] //= 2
        name = f"unit1/camera_data/image_BS1_{row}.jpg"
        Image.fromarray(pixels).save(folder.root / name, quality=95)
        folder.point("unit1_rgb", row, f"./{name}")


@pytest.mark.skipif(not HAS_PILLOW, reason="needs Pillow")
def test_images_are_averaged_down_to_64_by_64(folder: Folder) -> None:
    put_images(folder)
    images = folder.station().read("camera")
    assert images.shape == (12, 64, 64, 3)
    jpeg_error = 4  # steps of 255 that JPEG of quality 95 may be off in a flat area
    assert np.abs(images[7, :, 40:].astype(int) - [200, 100, 70]).max() <= jpeg_error
    assert np.abs(images[7, :, :24].astype(int) - [100, 50, 35]).max() <= jpeg_error


@pytest.mark.skipif(not HAS_PILLOW, reason="needs Pillow")
@pytest.mark.parametrize("n_bytes", [0, 300, 2000])
def test_a_truncated_image_is_refused_with_its_row(folder: Folder, n_bytes: int) -> None:
    put_images(folder)
    path = folder.path("unit1_rgb", 3)
    path.write_bytes(path.read_bytes()[:n_bytes])
    assert "row 4 (line 5) of scenario23.csv" in folder.refusal()


def test_without_pillow_the_camera_is_left_out_and_said_so(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sheafedge.datasets.deepsense.deepsense_sources.CAN_READ_IMAGES", False)
    folder.column("unit1_rgb", [f"./unit1/camera_data/{row}.jpg" for row in range(12)])
    report = folder.convert()
    assert report.modalities == ("rf",)
    assert any("unit1_rgb is left out: install Pillow" in note for note in report.notes)

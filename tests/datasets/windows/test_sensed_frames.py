"""What a base station has sensed so far: the same in pieces of any size, and never changed by what comes later."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sheafedge.datasets.recordings.recording_layout import RecordingDescription, StationDescription, standard_field
from sheafedge.datasets.recordings.recording_reader import RecordedStation, RecordingReader
from sheafedge.datasets.recordings.recording_writer import RecordingWriter
from sheafedge.datasets.windows.sensed_frames import FRAMES_AT_ONCE, SensedFrames
from sheafedge.emulator.contracts import SENSED_MODALITIES, ConfigError, DataError

N_RAYS, HEIGHT, WIDTH, N_BEAMS = 3, 2, 5, 4
GPS_COLUMNS = ("latitude_deg", "longitude_deg", "distance_m", "height_m")
PLACE = {"latitude_deg": 33.42, "longitude_deg": -111.93}
FLOAT32_DB = 1e-5  # powers of 0.1 to 1 are at most 10 dB below 1; float32 keeps 7 digits
CENTIMETER_DEG = 1e-7
LUMA = 1.0  # of 255: weights in 1/256 cost up to 0.45, rounding 0.5
Fields = dict[str, NDArray[Any]]


def fields_of(n: int, seed: int = 0) -> Fields:
    draws = np.random.default_rng(seed)
    rf = draws.uniform(0.1, 1, (n, N_BEAMS)).astype(np.float32)
    rf[1::3, 2] = np.nan
    return {
        "time_s": np.arange(n) / 10.0,
        "sequence": np.arange(n, dtype=np.int32) // 7,
        "frame_index": np.arange(n, dtype=np.int32) * 2,
        "lidar": draws.uniform(0, 6, (n, N_RAYS, 2)).astype(np.float32),
        "camera": draws.integers(0, 256, (n, HEIGHT, WIDTH, 3)).astype(np.uint8),
        "rf": rf,
        "gps": draws.normal([33.42, -111.93, 60, 20], [1e-4, 1e-4, 9, 3], (n, 4)),
        "blocked_geometric": draws.random(n) < 0.2,
        "radar": draws.integers(0, 60, (n, 5, 3)).astype(np.uint8),
        "signal": draws.normal(-90.0, 5.0, (n, 5)).astype(np.float32),
        "best_beam": np.zeros(n, dtype=np.int32),
    }


def empty(**changes: Any) -> SensedFrames:
    settings_: dict[str, Any] = {"keep_powers": True, "gps_columns": GPS_COLUMNS, "geometry": PLACE, **changes}
    return SensedFrames("corner", settings_.pop("modalities", SENSED_MODALITIES), **settings_)


def rows_of(fields: Fields, first: int, stop: int | None = None) -> Fields:
    return {name: rows[first:stop] for name, rows in fields.items()}


def content(sensed: SensedFrames) -> Fields:
    kept = {str(modality): sensed.frames(modality) for modality in sensed.modalities}
    columns = {name: sensed.column(name) for name in sensed.columns}
    return {**kept, **columns, "powers": sensed.powers, "origin": sensed.gps_origin}


def assert_same(one: Fields, other: Fields) -> None:
    assert one.keys() == other.keys()
    for name, rows in one.items():
        assert rows.dtype == other[name].dtype
        assert_array_equal(rows, other[name], err_msg=name)


def darker_by_row(images: NDArray[np.uint8], rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """A change that tells which row an image was taken for, and cuts a column off."""
    return np.asarray(images[:, :, 1:] // (1 + rows % 5)[:, None, None, None], dtype=np.uint8)


def recorded(path: Path, fields: Fields, geometry: dict[str, Any]) -> RecordedStation:
    layout = tuple(
        standard_field(name, rows.shape[1:], **({"columns": GPS_COLUMNS} if name == "gps" else {}))
        for name, rows in fields.items()
    )
    station = StationDescription("corner", 10.0, layout, geometry)
    with RecordingWriter(path, RecordingDescription("", 1, "tests", (station,))) as writer:
        writer.append(0, fields)
    return RecordingReader(path).base_stations[0]


def test_frames_are_kept_as_training_takes_them() -> None:
    fields = fields_of(9)
    sensed = empty()
    sensed.append(fields)
    assert sensed.n_frames == 9
    assert_array_equal(sensed.frames("lidar")[:, 0], fields["lidar"][:, :, 0])
    assert_array_equal(sensed.frames("lidar")[:, 1], fields["lidar"][:, :, 1])
    assert_allclose(sensed.frames("camera"), fields["camera"] @ [0.299, 0.587, 0.114], atol=LUMA)
    assert_array_equal(sensed.powers, fields["rf"])
    measured = np.where(np.isnan(fields["rf"]), np.nanmin(fields["rf"], axis=1, keepdims=True), fields["rf"])
    assert_allclose(sensed.frames("rf"), 10 * np.log10(measured), atol=FLOAT32_DB)
    assert_array_equal(sensed.gps_origin, [33.42, -111.93, 0, 0])
    assert_allclose(
        sensed.frames("gps").astype(np.float64) + sensed.gps_origin, fields["gps"], rtol=1e-6, atol=CENTIMETER_DEG
    )
    assert_array_equal(sensed.frames("radar"), fields["radar"])
    assert sensed.columns == ("time_s", "sequence", "frame_index", "blocked_geometric")
    for name in sensed.columns:
        assert_array_equal(sensed.column(name), fields[name])
    assert {name: rows.dtype.name for name, rows in content(sensed).items()} == {
        "lidar": "float32",
        "camera": "uint8",
        "rf": "float32",
        "gps": "float32",
        "radar": "uint8",
        "signal": "float32",
        "powers": "float32",
        "time_s": "float64",
        "sequence": "int64",
        "frame_index": "int64",
        "blocked_geometric": "bool",
        "origin": "float64",
    }


@settings(deadline=None)
@given(
    n=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    color=st.booleans(),
    changed=st.booleans(),
    capacity=st.integers(0, 50),
)
def test_pieces_of_any_size_give_the_same(n: int, cuts: list[int], color: bool, changed: bool, capacity: int) -> None:
    fields = fields_of(n)
    how: dict[str, Any] = {"color": color, "image_change": darker_by_row if changed else None, "geometry": None}
    at_once, pieces = empty(**how), empty(**how, capacity=capacity)
    at_once.append(fields)
    for first, stop in pairwise([0, *sorted(min(cut, n) for cut in cuts), n]):
        pieces.append(rows_of(fields, first, stop))
        assert pieces.n_frames == stop
    assert_same(content(pieces), content(at_once))


@pytest.mark.parametrize("color", [False, True])
def test_a_recording_and_what_was_handed_over_live_cannot_be_told_apart(tmp_path: Path, color: bool) -> None:
    n = 2 * FRAMES_AT_ONCE + 30
    fields = fields_of(n)
    station = recorded(tmp_path / "corner.h5", fields, PLACE)
    replay = SensedFrames.of(station, SENSED_MODALITIES, color=color, keep_powers=True, image_change=darker_by_row)
    live = empty(color=color, image_change=darker_by_row)
    for first in range(0, n, 7):
        live.append(rows_of(fields, first, first + 7))
    assert replay.name == live.name
    assert_same(content(live), content(replay))


def test_what_was_handed_out_stays_as_it_was() -> None:
    fields = fields_of(60)
    sensed = empty(capacity=2)
    shown: list[tuple[int, Fields]] = []
    for first in range(0, 60, 3):
        sensed.append(rows_of(fields, first, first + 3))
        shown.append((first + 3, content(sensed)))
    whole = content(sensed)
    for n, then in shown:
        assert_same(
            {name: rows for name, rows in then.items() if name != "origin"},
            {name: rows[:n] for name, rows in whole.items() if name != "origin"},
        )


def test_nobody_can_write_into_what_was_sensed() -> None:
    sensed = empty()
    sensed.append(fields_of(5))
    for rows in content(sensed).values():
        with pytest.raises(ValueError, match="read-only"):
            rows[0] = 0


def test_a_piece_of_a_sensor_can_be_used_again_by_whoever_made_it() -> None:
    fields = fields_of(5)
    sensed = empty(color=True)
    sensed.append(fields)
    before = {name: rows.copy() for name, rows in content(sensed).items()}
    for rows in fields.values():
        rows[:] = 0
    assert_same(content(sensed), before)


def test_color_is_kept_where_it_is_asked_for_and_grey_serves_for_both() -> None:
    fields = fields_of(4)
    color, grey, grey_as_color = empty(color=True), empty(), empty(color=True)
    color.append(fields)
    assert_array_equal(color.frames("camera"), np.moveaxis(fields["camera"], 3, 1))
    fields["camera"] = fields["camera"][..., :1]
    grey.append(fields)
    grey_as_color.append(fields)
    assert_array_equal(grey.frames("camera"), fields["camera"][..., 0])
    assert_array_equal(grey_as_color.frames("camera"), np.moveaxis(np.repeat(fields["camera"], 3, axis=3), 3, 1))


def test_images_are_changed_by_their_row_in_the_recording() -> None:
    fields = fields_of(12)
    sensed = empty(color=True, image_change=darker_by_row)
    for first in (0, 5):
        sensed.append(rows_of(fields, first, 5 if first == 0 else None))
    assert_array_equal(sensed.frames("camera"), np.moveaxis(darker_by_row(fields["camera"], np.arange(12)), 3, 1))


def test_degrees_count_from_the_first_frame_of_all_where_the_place_is_unknown() -> None:
    fields = fields_of(6)
    sensed = empty(geometry=None)
    assert sensed.gps_origin.size == 0
    sensed.append(rows_of(fields, 0, 2))
    sensed.append(rows_of(fields, 2))
    assert_array_equal(sensed.gps_origin, [*fields["gps"][0, :2], 0, 0])


def test_only_fields_that_are_needed_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    station = recorded(tmp_path / "corner.h5", fields_of(5), PLACE)
    read: list[str] = []
    whole = RecordedStation.read

    def noted(self: RecordedStation, name: str, frames: slice = slice(None)) -> NDArray[Any]:
        read.append(name)
        return whole(self, name, frames)

    monkeypatch.setattr(RecordedStation, "read", noted)
    columns = {"time_s", "sequence", "frame_index", "blocked_geometric"}
    SensedFrames.of(station, ["lidar"])
    assert set(read) == {"lidar", *columns}
    read.clear()
    powers = SensedFrames.of(station, ["gps"], keep_powers=True).powers
    assert set(read) == {"gps", "rf", *columns}
    assert powers.shape == (5, N_BEAMS)


def test_nothing_is_no_piece() -> None:
    sensed = empty()
    sensed.append({})
    sensed.append(fields_of(0))
    assert (sensed.n_frames, sensed.columns) == (0, ())
    assert {len(rows) for rows in content(sensed).values()} == {0}
    fields = fields_of(3)
    sensed.append(fields)
    sensed.append({})
    assert sensed.n_frames == 3


def test_labels_that_the_base_station_lacks_are_not_made_up() -> None:
    sensed = empty()
    sensed.append(fields_of(3))
    with pytest.raises(DataError, match="'corner' has no field 'blocked_power'; it has time_s, sequence"):
        sensed.column("blocked_power")
    with pytest.raises(DataError, match="no field 'best_beam'"):
        sensed.column("best_beam")


def without(fields: Fields, name: str) -> Fields:
    return {key: rows for key, rows in fields.items() if key != name}


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        (without(fields_of(3), "lidar"), "no field 'lidar' in frame 5"),
        (without(fields_of(3), "sequence"), "no field 'sequence' in frame 5"),
        (without(fields_of(3), "blocked_geometric"), "no field 'blocked_geometric' in frame 5"),
        ({**fields_of(3), "blocked_power": np.zeros(3, dtype=bool)}, "'blocked_power' only from frame 5 on"),
        ({**fields_of(3), "gps": fields_of(4)["gps"]}, "'gps' has 4 rows beside 3"),
        ({**fields_of(3), "lidar": fields_of(3)["lidar"][:, :1]}, r"lidar changed its shape from \(2, 3\) to \(2, 1\)"),
        ({**fields_of(3), "camera": fields_of(3)["camera"][:, :1]}, "camera changed its shape"),
        ({**fields_of(3), "gps": fields_of(3)["gps"][:, :2]}, r"gps has frames of shape \(2,\) for the columns lat"),
        ({**fields_of(3), "rf": np.full((3, N_BEAMS), np.nan)}, "no beam was measured in frame 5"),
    ],
)
def test_a_piece_that_does_not_fit_is_refused_and_leaves_no_trace(piece: Fields, words: str) -> None:
    sensed = empty()
    sensed.append(fields_of(5))
    before = content(sensed)
    with pytest.raises(DataError, match=words):
        sensed.append(piece)
    assert_same(content(sensed), before)
    sensed.append(fields_of(3))
    assert sensed.n_frames == 8


def test_what_is_not_kept_is_named(tmp_path: Path) -> None:
    sensed = SensedFrames("corner", ["lidar"])
    with pytest.raises(DataError, match="'corner' keeps no camera; it keeps lidar"):
        sensed.frames("camera")
    with pytest.raises(DataError, match="keeps no powers of its beams"):
        _ = sensed.powers
    with pytest.raises(ConfigError, match="keeps gps, whose columns need names"):
        SensedFrames("corner", ["gps"])
    station = recorded(tmp_path / "corner.h5", without(fields_of(4), "lidar"), PLACE)
    with pytest.raises(DataError, match="no field 'lidar'"):
        SensedFrames.of(station, ["lidar"])

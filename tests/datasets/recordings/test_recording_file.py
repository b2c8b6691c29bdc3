"""A recording file gives back what was written, or one sentence why it will not."""

from __future__ import annotations

import os
import re
import tracemalloc
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.datasets.recordings import recording_checks, recording_reader
from sheafedge.datasets.recordings.recording_layout import (
    FIELDS,
    RecordingDescription,
    StationDescription,
    frames_per_chunk,
    standard_field,
)
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.datasets.recordings.recording_writer import RecordingWriter
from sheafedge.emulator.contracts import DataError

Frames = dict[str, np.ndarray]
SHAPES: dict[str, tuple[int, ...]] = {"lidar": (216, 2), "camera": (64, 64, 3), "rf": (64,), "gps": (4,)}
GPS_COLUMNS = ("latitude_deg", "longitude_deg", "distance_m", "height_m")
LABELS = ("blocked_geometric", "blocked_power", "blocked_labeled", "los_loss_db", "best_beam", "frame_index")


def site(names: tuple[str, ...], rate_hz: float = 10.0, **shapes: tuple[int, ...]) -> StationDescription:
    fields = (
        standard_field(name, (SHAPES | shapes).get(name, ()), **({"columns": GPS_COLUMNS} if name == "gps" else {}))
        for name in names
    )
    return StationDescription("Rural Road, östlich", rate_hz, tuple(fields), {"width_m": 24.0, "lanes": [1, 2]})


def described(*stations: StationDescription, seed: int | None = 7) -> RecordingDescription:
    return RecordingDescription('name = "blockage"\n# 60 GHz — Straße\n', seed, "sheafedge 0.1.0", stations)


def frames_of(station: StationDescription, n: int, seed: int = 0, start: int = 0) -> Frames:
    """Random frames in the stored types; rows count on from `start`, two sequences of unequal length."""
    draws = np.random.default_rng([seed, start])
    frames: Frames = {}
    for field in station.fields:
        shape = (n, *field.shape)
        if field.dtype == "bool":
            frames[field.name] = draws.random(shape) < 0.2
        elif field.dtype in {"uint8", "int32"}:
            highest = station.n_beams or 200 if field.name == "best_beam" else 200
            frames[field.name] = draws.integers(0, highest, shape).astype(field.dtype)
        else:
            frames[field.name] = draws.uniform(0.1, 6, shape).astype(field.dtype)
    row = np.arange(start, start + n)
    if "frame_index" in frames:
        frames["frame_index"] = (7 + 2 * row).astype(np.int32)
    return frames | {"time_s": row / 10.0, "sequence": (row >= 5).astype(np.int32)}


def write(path: Path, *stations: StationDescription, n: int = 12) -> list[Frames]:
    frames = [frames_of(station, n, seed) for seed, station in enumerate(stations)]
    with RecordingWriter(path, described(*stations)) as writer:
        for index, rows in enumerate(frames):
            writer.append(index, rows)
    return frames


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as refused:
        RecordingReader(path)
    message = str(refused.value)
    assert "\n" not in message
    assert path.name in message
    return message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "street.h5"


@st.composite
def stations_and_cuts(draw: st.DrawFn) -> list[tuple[StationDescription, list[int]]]:
    """One to three base stations, each with any subset of fields and its own way of cutting frames into appends."""
    stations = []
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from([*SHAPES, *LABELS]), unique=True, max_size=6))
        shapes: dict[str, tuple[int, ...]] = {
            "lidar": (draw(st.integers(1, 5)), 2),
            "camera": (draw(st.integers(1, 4)), 3, draw(st.sampled_from([1, 3]))),
            "rf": (draw(st.integers(1, 6)),),
        }
        cuts = draw(st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(sum))
        stations.append((site(tuple(names), draw(st.floats(0.1, 1e3)), **shapes), cuts))
    return stations


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=stations_and_cuts(), data=st.data())
def test_what_is_read_is_what_was_written(
    tmp_path: Path, case: list[tuple[StationDescription, list[int]]], data: st.DataObject
) -> None:
    path = tmp_path / "any.h5"
    whole = [frames_of(station, sum(cuts), seed) for seed, (station, cuts) in enumerate(case)]
    with RecordingWriter(path, described(*(station for station, _ in case))) as writer:
        for index, (_, cuts) in enumerate(case):
            ends = np.cumsum(cuts)
            for start, end in zip(ends - cuts, ends, strict=True):
                writer.append(index, {name: rows[start:end] for name, rows in whole[index].items()})
    with RecordingReader(path) as recording:
        assert recording.description == described(*(station for station, _ in case))
        for station, expected in zip(recording.base_stations, whole, strict=True):
            assert set(station.field_names) == set(expected)
            assert station.n_frames == len(expected["time_s"])
            window = data.draw(st.slices(station.n_frames).filter(lambda cut: (cut.step or 1) > 0))
            for name, rows in expected.items():
                assert_array_equal(station.read(name), rows, strict=True)
                assert_array_equal(station.read(name, window), rows[window], strict=True)


def test_a_file_says_what_its_numbers_are(path: Path) -> None:
    write(path, site(("lidar", "gps", "blocked_power")))
    with h5py.File(path) as plain:  # as somebody without our code would
        assert plain.attrs["format"] == b"sheafedge-recording"
        assert "Straße" in plain.attrs["scenario"].decode()
        assert plain["bs00/lidar"].attrs["unit"] == b"m, rad"
        assert plain["bs00/lidar"].attrs["rate_hz"] == 10
        assert plain["bs00/gps"].attrs["columns"] == str(list(GPS_COLUMNS)).replace("'", '"').encode()
        assert plain["bs00/time_s"].compression == "gzip"
    with RecordingReader(path) as recording:
        station = recording.base_stations[0]
        assert station.modalities == ("lidar", "gps")
        assert station.geometry["width_m"] == 24
        assert station.field("lidar").columns == ("range_m", "angle_rad")
        assert station.field("blocked_power").frame_of_reference == "none"
        assert recording.description.seed == 7


def with_lidar(path: Path, geometry: Mapping[str, Any], farthest_m: float = 9.0) -> tuple[RecordingReader, np.ndarray]:
    """A recording whose rays give 0 m now and then, and what is in its file."""
    station = replace(site(("lidar",), lidar=(5, 2)), geometry=geometry)
    frames = frames_of(station, 12)
    frames["lidar"][::3, 2, 0] = 0.0
    frames["lidar"][4, 1, 0] = farthest_m
    with RecordingWriter(path, described(station)) as writer:
        writer.append(0, frames)
    return RecordingReader(path), frames["lidar"]


@pytest.mark.parametrize(
    "geometry", [{}, {"lidar": 3}, {"lidar": {"max_range_m": "far"}}, {"lidar": {"max_range_m": 10**400}}], ids=str
)
@pytest.mark.parametrize(("farthest_m", "reach_m"), [(9.0, 16.0), (40.0, 40.0)])
def test_an_import_of_before_is_read_with_its_reach_where_there_was_no_echo(
    path: Path, geometry: Mapping[str, Any], farthest_m: float, reach_m: float
) -> None:
    reader, stored = with_lidar(path, geometry, farthest_m)
    with reader:
        station = reader.base_stations[0]
        assert station.nothing_seen("lidar") == reach_m
        found = station.read("lidar")
        assert_array_equal(found[..., 0], np.where(stored[..., 0] == 0.0, reach_m, stored[..., 0]))
        assert_array_equal(found[..., 1], stored[..., 1])
        assert_array_equal(
            station.read("lidar", slice(3, 9, 2)), found[3:9:2]
        )  # of the whole file, not of what is read


def test_where_the_reach_is_stated_0_m_is_an_obstacle_at_the_sensor(path: Path) -> None:
    reader, stored = with_lidar(path, {"lidar": {"max_range_m": 12.5}})
    with reader:
        assert reader.base_stations[0].nothing_seen("lidar") == 12.5
        assert_array_equal(reader.base_stations[0].read("lidar"), stored)


def test_what_stands_for_nothing_seen_is_told_by_the_modality(path: Path) -> None:
    write(path, site(("camera", "rf", "gps")))
    with RecordingReader(path) as reader:
        station = reader.base_stations[0]
        assert station.nothing_seen("camera") == 0.0
        assert station.nothing_seen("rf") is station.nothing_seen("gps") is None
        with pytest.raises(DataError, match="has no field 'lidar'"):
            station.nothing_seen("lidar")


def test_no_seed_is_not_seed_0(path: Path) -> None:
    with RecordingWriter(path, described(site(()), seed=None)) as writer:
        writer.append(0, frames_of(site(()), 3))
    with RecordingReader(path) as recording:
        assert recording.description.seed is None


def test_beams_that_were_not_measured_stay_nan(path: Path) -> None:
    frames = frames_of(site(("rf",)), 6)
    frames["rf"][2, 5] = np.nan
    with RecordingWriter(path, described(site(("rf",)))) as writer:
        writer.append(0, frames)
    with RecordingReader(path) as recording:
        assert_array_equal(recording.base_stations[0].read("rf"), frames["rf"])


def test_memory_stays_flat_in_the_length_of_the_recording(path: Path) -> None:
    station = site(("camera", "lidar", "rf"))

    def peak(n_appends: int) -> int:
        tracemalloc.start()
        with RecordingWriter(path, described(station)) as writer:
            for index in range(n_appends):
                rows = frames_of(station, 32, start=32 * index) | {"sequence": np.zeros(32, dtype=np.int32)}
                writer.append(0, rows)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    few = peak(4)
    assert peak(24) < 1.1 * few  # six times the frames; a list of all would need six times the memory
    assert few > 32 * 64 * 64 * 3  # the measurement does see the arrays


# What goes wrong while writing.


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_recording_leaves_nothing(path: Path, failure: type[BaseException]) -> None:
    station = site(("camera",))

    def interrupted() -> None:
        with RecordingWriter(path, described(station)) as writer:
            writer.append(0, frames_of(station, 40))
            raise failure

    with pytest.raises(failure):
        interrupted()
    assert list(path.parent.iterdir()) == []


def test_an_interrupted_recording_spares_the_one_that_it_would_replace(path: Path) -> None:
    frames = write(path, site(("rf",)))
    with pytest.raises(DataError), RecordingWriter(path, described(site(("rf",)))) as writer:
        writer.append(1, frames[0])
    with RecordingReader(path) as recording:
        assert_array_equal(recording.base_stations[0].read("rf"), frames[0]["rf"])
    assert list(path.parent.iterdir()) == [path]


def test_a_recording_that_was_killed_is_not_mistaken_for_a_whole_one(path: Path) -> None:
    """What a kill leaves behind: the hidden file, perhaps closed, never marked as complete."""
    station = site(("rf",))
    writer = RecordingWriter(path, described(station)).__enter__()
    writer.append(0, frames_of(station, 2000) | {"sequence": np.zeros(2000, dtype=np.int32)})
    (partial,) = path.parent.iterdir()
    assert not path.exists()
    writer._file.close()
    assert "never completed" in refusal(partial)


def test_a_base_station_without_frames_is_refused(path: Path) -> None:
    with pytest.raises(DataError, match="recorded no frame"), RecordingWriter(path, described(site(("rf",)))):
        pass
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot write recording .*nowhere"):
        RecordingWriter(tmp_path / "nowhere" / "street.h5", described(site(()))).__enter__()


WRONG_FRAMES: dict[str, tuple[Callable[[Frames], Mapping[str, Any]], str]] = {
    "a field short": (lambda rows: {name: rows[name] for name in rows if name != "rf"}, "records"),
    "a field too many": (lambda rows: rows | {"camera": rows["rf"]}, "hand over every field"),
    "of different length": (lambda rows: rows | {"rf": rows["rf"][1:]}, "differ in frames"),
    "of another shape": (lambda rows: rows | {"rf": rows["rf"][:, 1:]}, r"rf must be \[n, 64\], got shape \(12, 63\)"),
    "of another type": (lambda rows: rows | {"rf": rows["rf"].astype(int)}, "rf is stored as float32, got int64"),
    "labels as numbers": (lambda rows: rows | {"blocked_power": np.ones(12)}, "blocked_power is stored as bool"),
    "too large for the type": (
        lambda rows: rows | {"best_beam": rows["best_beam"] + np.int64(2**40)},
        "must fit int32",
    ),
    "without power": (lambda rows: rows | {"rf": rows["rf"] * (np.arange(12) != 3)[:, None]}, "above 0.* in frame 3"),
    "a range that is NaN": (
        lambda rows: rows | {"lidar": rows["lidar"] * np.nan},
        "lidar, range_m, must be from 0 to 10000, got nan in frame 0",
    ),
    "a time that is infinite": (
        lambda rows: rows | {"time_s": rows["time_s"] + np.inf},
        "time_s must be from .*, got inf in frame 0",
    ),
    "a beam outside the codebook": (
        lambda rows: rows | {"best_beam": rows["best_beam"] * 0 + 64},
        "from 0 to 63, got 64",
    ),
    "backwards in time": (lambda rows: rows | {"time_s": rows["time_s"][::-1]}, "backwards in frame 1, inside seq"),
    "a sequence that starts again": (
        lambda rows: rows | {"sequence": np.arange(12) % 4 // 2},
        "sequence 0 starts again",
    ),
}


@pytest.mark.parametrize(("change", "words"), WRONG_FRAMES.values(), ids=WRONG_FRAMES.keys())
def test_frames_that_nobody_can_have_recorded_are_refused(
    path: Path, change: Callable[[Frames], Mapping[str, Any]], words: str
) -> None:
    station = site(("rf", "lidar", "blocked_power", "best_beam"))
    with pytest.raises(DataError, match=words), RecordingWriter(path, described(station)) as writer:
        writer.append(0, change(frames_of(station, 12)))


def test_order_is_checked_across_appends(path: Path) -> None:
    station = site(())

    def append_all(*appends: Frames) -> None:
        with RecordingWriter(path, described(station)) as writer:
            for rows in appends:
                writer.append(0, rows)

    def rows(times: list[float], sequence: int) -> Frames:
        return {"time_s": np.array(times, dtype=float), "sequence": np.full(len(times), sequence)}

    with pytest.raises(DataError, match="backwards in frame 2, inside sequence 4"):
        append_all(rows([1, 2], 4), rows([1.5, 3], 4))
    with pytest.raises(DataError, match="sequence 4 starts again"):
        append_all(rows([1, 2], 4), rows([3], 5), rows([4], 4))
    append_all(rows([1, 2], 4), rows([], 0), rows([2, 3], 4), rows([0, 1], 5))  # clocks may restart with a sequence


@pytest.mark.parametrize(
    ("name", "shape", "changes", "words"),
    [
        ("sonar", (), {}, "no field 'sonar'; known: time_s"),
        ("lidar", (216, 3), {}, r"expected \(any, 2\)"),
        ("camera", (64, 64), {}, "1 or 3 channels"),
        ("camera", (64, 64, 2), {}, "1 or 3 channels"),
        ("camera", (4096, 4096, 3), {}, "shape"),
        ("rf", (0,), {}, "shape"),
        ("gps", (4,), {}, "gps needs columns"),
        ("gps", (4,), {"columns": ("a",)}, "1 column names"),
    ],
)
def test_a_field_that_the_layout_does_not_know_is_refused(
    name: str, shape: tuple[int, ...], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        standard_field(name, shape, **changes)


# What goes wrong with files.


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "street.h5"
    write(path, site(("lidar", "rf", "blocked_power")), site(("camera", "rf")), n=40)
    return path.read_bytes()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_always_refused(tmp_path: Path, whole_file: bytes, share: float) -> None:
    path = tmp_path / "cut.h5"
    path.write_bytes(whole_file[: int(share * len(whole_file))])
    assert "truncated" in refusal(path)


def test_a_file_that_lacks_its_last_byte_is_refused_and_the_whole_one_is_not(path: Path, whole_file: bytes) -> None:
    path.write_bytes(whole_file[:-1])
    refusal(path)
    path.write_bytes(whole_file)
    RecordingReader(path).close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_damaged_byte_is_refused_or_without_effect(tmp_path: Path, whole_file: bytes, seed: int) -> None:
    draws = np.random.default_rng(seed)
    content = bytearray(whole_file)
    content[draws.integers(len(content))] ^= int(draws.integers(1, 256))
    path, original = tmp_path / "damaged.h5", tmp_path / "whole.h5"
    path.write_bytes(content)
    original.write_bytes(whole_file)
    try:
        with RecordingReader(path) as damaged, RecordingReader(original) as whole:
            for found, expected in zip(damaged.base_stations, whole.base_stations, strict=True):
                for name in expected.field_names:
                    assert_array_equal(found.read(name), expected.read(name))
    except DataError:
        pass


@pytest.mark.parametrize("content", [b"", b"time,beam\n1,2\n", b"\x89HDF\r\n\x1a\n" + b"\0" * 600])
def test_a_file_that_is_no_hdf5_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert "no HDF5 file" in refusal(path)


def test_a_missing_file_and_a_folder_are_refused(path: Path) -> None:
    assert "no recording at" in refusal(path)
    assert "cannot be read" in refusal(path.parent)


def _replaced(file: Any, name: str, **arguments: Any) -> None:
    attributes = dict(file[name].attrs)
    del file[name]
    file.create_dataset(name, **arguments).attrs.update(attributes)


def _external_storage(file: Any) -> None:
    _replaced(file, "bs00/rf", shape=(12, 64), dtype="f4", external=[("/etc/passwd", 0, 12 * 64 * 4)])


def _virtual_storage(file: Any) -> None:
    layout = h5py.VirtualLayout((12, 64), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", (12, 64))
    attributes = dict(file["bs00/rf"].attrs)
    del file["bs00/rf"]
    file.create_virtual_dataset("bs00/rf", layout)
    file["bs00/rf"].attrs.update(attributes)


def _linked(link: Any, name: str = "bs00/rf") -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[name]
        file[name] = link

    return change


def _huge(file: Any) -> None:
    _replaced(file, "bs00/rf", shape=(10**12, 64), dtype="f4", chunks=(1024, 64), compression="gzip")
    file["bs00"].attrs["n_frames"] = 10**12


def _all_huge(file: Any) -> None:
    for name in file["bs00"]:
        shape, dtype, chunks = file["bs00"][name].shape, file["bs00"][name].dtype, file["bs00"][name].chunks
        _replaced(file, f"bs00/{name}", shape=(10**12, *shape[1:]), dtype=dtype, chunks=chunks, compression="gzip")
    file["bs00"].attrs["n_frames"] = 10**12


def _attribute(where: str, name: str, value: Any) -> Callable[[Any], None]:
    return lambda file: file[where].attrs.__setitem__(name, value)


def _resized(name: str, n: int) -> Callable[[Any], None]:
    return lambda file: file[f"bs00/{name}"].resize(n, axis=0)


HOSTILE: dict[str, tuple[Callable[[Any], None], str]] = {
    "somebody else's HDF5": (lambda file: file.attrs.__delitem__("format"), "no sheafedge-recording file"),
    "another format": (_attribute("/", "format", np.bytes_(b"video")), "no sheafedge-recording file"),
    "a format of another type": (_attribute("/", "format", 3), "attribute format has the wrong type"),
    "a version to come": (_attribute("/", "version", 2), "version 2, this release reads 1"),
    "an incomplete file": (lambda file: file.attrs.__delitem__("complete"), "never completed"),
    "a file marked as incomplete": (_attribute("/", "complete", 0), "never completed"),
    "a shorter field": (_resized("rf", 11), "rf has 11 frames, the base station 12"),
    "a longer field": (_resized("blocked_power", 13), "blocked_power has 13 frames"),
    "another number of frames": (_attribute("bs00", "n_frames", 11), "has 12 frames, the base station 11"),
    "no frames": (_attribute("bs00", "n_frames", 0), "n_frames is 0"),
    "a missing clock": (lambda file: file["bs00"].__delitem__("time_s"), "no field 'time_s'"),
    "a missing sensor": (lambda file: file["bs00"].__delitem__("rf"), "modalities says"),
    "a missing base station": (lambda file: file.__delitem__("bs01"), "bs01 is missing"),
    "too many base stations": (lambda file: file.create_group("bs02"), "at most 2"),
    "another name": (lambda file: file.move("bs01", "bs07"), "bs01 is missing"),
    "an unknown field": (lambda file: file["bs01"].create_dataset("sonar", data=[1.0]), "unknown field 'sonar'"),
    "a billion stations": (_attribute("/", "n_base_stations", 10**9), "expected 1 to"),
    "an external link": (_linked(h5py.ExternalLink("/etc/passwd", "/x")), "link to elsewhere"),
    "an external station": (_linked(h5py.ExternalLink("other.h5", "/bs01"), "bs01"), "link to elsewhere"),
    "a soft link": (_linked(h5py.SoftLink("/bs01/rf")), "link to elsewhere"),
    "a dangling soft link": (_linked(h5py.SoftLink("/nowhere")), "link to elsewhere"),
    "a group for a field": (lambda file: _linked(file.create_group("bs01/x"))(file), "not what"),
    "a station that is its own field": (lambda file: _linked(file["bs00"])(file), "not what"),
    "a field for a station": (_linked(np.ones(3), "bs01"), "not what"),
    "a named type for a field": (_linked(np.dtype("f4")), "not what"),
    "object references": (
        lambda file: _replaced(file, "bs00/rf", shape=(12, 64), dtype=h5py.ref_dtype, chunks=(12, 64)),
        "stored as object, expected float32",
    ),
    "strings of any length": (
        lambda file: _replaced(file, "bs00/rf", shape=(12, 64), dtype=h5py.string_dtype(), chunks=(12, 64)),
        "stored as object",
    ),
    "doubles": (lambda file: _replaced(file, "bs00/rf", data=np.ones((12, 64)), chunks=(12, 64)), "as float64"),
    "another rank": (lambda file: _replaced(file, "bs00/rf", data=np.ones(12, "f4"), chunks=(12,)), "1 axes"),
    "another shape": (
        lambda file: _replaced(file, "bs00/lidar", data=np.ones((12, 9, 3), "f4"), chunks=(12, 9, 3)),
        r"expected \(any, 2\)",
    ),
    "a file as storage": (_external_storage, "not stored in this file"),
    "a view of another file": (_virtual_storage, "not stored in this file"),
    "a block that was never written": (
        lambda file: _replaced(file, "bs00/rf", shape=(12, 64), dtype="f4"),
        "not stored in this file",
    ),
    "chunks of parts of frames": (
        lambda file: _replaced(file, "bs00/rf", data=np.ones((12, 64), "f4"), chunks=(12, 32)),
        r"create it with chunks=\(64",
    ),
    "chunks that fill the memory": (
        lambda file: _replaced(file, "bs00/rf", shape=(12, 64), dtype="f4", chunks=(10**6, 64), maxshape=(None, 64)),
        "too much memory",
    ),
    "a foreign filter": (
        lambda file: _replaced(file, "bs00/rf", data=np.ones((12, 64), "f4"), chunks=(12, 64), compression="lzf"),
        "HDF5 filters",
    ),
    "a size without content": (_huge, "frames, the base station"),
    "sizes without content": (_all_huge, "at most 16777216 are read"),
    "a name as a reference": (
        lambda file: file["bs00"].attrs.create("name", file.ref, dtype=h5py.ref_dtype),
        "wrong type",
    ),
    "an endless name on the heap": (_attribute("bs00", "name", "a" * 600), "up to 500 printable characters"),
    "a rate of nothing": (_attribute("bs00", "rate_hz", 0.0), "rate_hz must be from 0.0001"),
    "geometry that is no object": (_attribute("bs00", "geometry", np.bytes_(b"[1]")), "must be a JSON dict"),
    "geometry that is no JSON": (_attribute("bs00", "geometry", np.bytes_(b"{1")), "cannot be read as a recording"),
    "geometry without a bottom": (_attribute("bs00", "geometry", np.bytes_(b"[" * 50_000)), "cannot be read"),
    "text that is no text": (_attribute("bs00", "name", np.bytes_(b"\xff\xfe")), "cannot be read"),
    "columns that are no names": (_attribute("bs00/rf", "columns", np.bytes_(b"[1]")), "list of names"),
    "a unit less": (lambda file: file["bs00/rf"].attrs.__delitem__("unit"), "no attribute unit"),
}


@pytest.mark.parametrize(("change", "words"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_that_was_tampered_with_is_refused(path: Path, change: Callable[[Any], None], words: str) -> None:
    write(path, site(("lidar", "rf", "blocked_power")), site(("rf",)))
    with h5py.File(path, "a", libver="v110") as file:
        change(file)
    message = refusal(path)
    assert re.search(words, message), message


def test_texts_may_have_variable_length_and_fields_one_block(path: Path) -> None:
    """As h5py writes both unless it is told otherwise."""
    write(path, site(("lidar", "rf", "blocked_power")), site(("rf",)))
    with RecordingReader(path) as reader:
        before = reader.description
    with h5py.File(path, "a", libver="v110") as file:
        _replaced(file, "bs00/rf", data=file["bs00/rf"][()])
        for owner in (file, *(file[group] for group in ("bs00", "bs01", "bs00/rf"))):
            for name, value in owner.attrs.items():
                if isinstance(value, bytes):
                    owner.attrs[name] = value.decode()
        assert isinstance(file["bs00"].attrs["name"], str)
        assert file["bs00/rf"].chunks is None
    with RecordingReader(path) as reader:
        assert reader.description == before
        assert reader.base_stations[0].read("rf").shape == (12, 64)


@pytest.mark.parametrize(
    ("at", "length"), [(24, 0), (24, 1 << 40), (8, 0), (8, 1 << 60), (8, 17)], ids=["still", "far", "no", "huge", "odd"]
)
def test_a_damaged_heap_of_texts_is_refused_before_it_is_read(path: Path, at: int, length: int) -> None:
    """The first object of a heap, or the heap itself, is given another length; HDF5 would follow it, some for ever."""
    write(path, site(("rf",)))
    with h5py.File(path, "a", libver="v110") as file:
        file["bs00"].attrs["name"] = "a corner"
    content = bytearray(path.read_bytes())
    heap = content.index(b"GCOL")
    assert RecordingReader(path).base_stations[0].name == "a corner"  # negative control
    if at == 24:
        content[heap + 16 : heap + 18] = bytes(2)  # index 0: free space
    content[heap + at : heap + at + 8] = length.to_bytes(8, "little")
    path.write_bytes(content)
    assert "a damaged heap of strings" in refusal(path)


def test_no_refusal_claims_that_somebody_changed_the_file() -> None:
    sources = Path(recording_reader.__file__).parent.glob("*.py")
    assert [source.name for source in sources if "was changed" in source.read_text(encoding="utf-8")] == []


def _put(name: str, frame: int, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file["bs00"][name][frame] = value

    return change


def _raw(name: str, value: int) -> Callable[[Any], None]:
    """A byte where a truth value is due."""

    def change(file: Any) -> None:
        chunk = np.full(file["bs00"][name].chunks, value, np.uint8)
        file["bs00"][name].id.write_direct_chunk((0,), zlib.compress(chunk.tobytes()))

    return change


#: What is changed in frame 3 of the file, and what reading it says.
IMPOSSIBLE: dict[str, tuple[str, Callable[[Any], None], str]] = {
    "a time that is NaN": ("time_s", _put("time_s", 3, np.nan), r"time_s must be from .*, got nan in frame 3"),
    "a time that is infinite": ("time_s", _put("time_s", 3, -np.inf), r"time_s must be from .*, got -inf in frame 3"),
    "time that runs backwards": (
        "time_s",
        _put("time_s", 3, 0.0),
        r"time_s runs backwards in frame 3, .* from 0\.2 to 0",
    ),
    "a sequence in two parts": ("sequence", _put("sequence", 9, 0), "sequence 0 starts again"),
    "a number of a frame twice": ("frame_index", _put("frame_index", 3, 11), "frame_index runs backwards in frame 3"),
    "a beam above the codebook": ("best_beam", _put("best_beam", 3, 64), "must be from 0 to 63, got 64 in frame 3"),
    "a beam below the codebook": ("best_beam", _put("best_beam", 3, -1), "must be from 0 to 63, got -1 in frame 3"),
    "a loss that is NaN": ("los_loss_db", _put("los_loss_db", 3, np.nan), "got nan in frame 3"),
    "a loss below nothing": ("los_loss_db", _put("los_loss_db", 3, -9.0), "got -9.0 in frame 3"),
    "a label that is neither": ("blocked_power", _raw("blocked_power", 7), "must be from 0 to 1, got 7 in frame 0"),
    "no power": ("rf", _put("rf", 3, 0.0), r"must be above 0 and at most 1e\+09, or NaN, got 0.0 in frame 3"),
    "infinite power": ("rf", _put("rf", 3, np.inf), "got inf in frame 3"),
    "power of a star": ("rf", _put("rf", 3, 1e26), r"got 1\.0.*e\+26 in frame 3"),
    "a range below nothing": ("lidar", _put("lidar", 3, -1.0), "range_m, must be from 0 to 10000, got -1.0 in frame 3"),
    "an angle in degrees": ("lidar", _put("lidar", 3, 90.0), "angle_rad, must be from -7 to 7, got 90.0 in frame 3"),
    "a place beyond the pole": ("gps", _put("gps", 3, 91.0), "latitude_deg, must be from -90 to 90, got 91.0"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_value_that_no_sensor_gives_is_refused_by_whoever_reads_it(path: Path, case: str) -> None:
    name, change, words = IMPOSSIBLE[case]
    write(path, site(("rf", "lidar", "gps", *LABELS)))
    with RecordingReader(path) as reader:
        reader.base_stations[0].read(name)  # negative control
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(DataError, match=words) as refused, RecordingReader(path) as reader:
        reader.base_stations[0].read(name, slice(1 if name != "blocked_power" else 0, None))
    assert "street.h5, bs00" in str(refused.value)


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_checks, "UNPACKED_BYTES", 1 << 20)
    monkeypatch.setattr(recording_checks, "MOST_UNPACKED", 20)
    station = site(("camera",))
    nothing = np.zeros((400, 64, 64, 3), np.uint8)
    with RecordingWriter(path, described(station)) as writer:
        row = np.arange(400)
        writer.append(0, {"camera": nothing, "time_s": row / 10.0, "sequence": np.zeros(400, np.int32)})
    assert re.search("unpacks to .*, over 20 times as many", refusal(path))


@pytest.mark.parametrize("name", ["two\nlines", "a\x1b[2Jscreen", "x" * 501])
def test_a_name_that_would_change_the_screen_is_refused(path: Path, name: str) -> None:
    with RecordingWriter(path, described(replace(site(()), name=name))) as writer:
        writer.append(0, {"time_s": np.zeros(1), "sequence": np.zeros(1, np.int32)})
    assert "printable characters" in refusal(path)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("x" * 6_000)):
        with pytest.raises(DataError, match="cannot be read") as caught:
            RecordingReader(path)
        assert len(str(caught.value)) < 500


def test_a_chunk_that_was_overwritten_is_refused_when_it_is_read(path: Path) -> None:
    write(path, site(("rf",)))
    with h5py.File(path, "a", libver="v110") as file:
        file["bs00/rf"].id.write_direct_chunk((0, 0), b"not deflated")
    with RecordingReader(path) as recording, pytest.raises(DataError, match="bs00/rf cannot be read in frames 0 to 12"):
        recording.base_stations[0].read("rf")


def test_a_closed_recording_and_an_absent_field_are_named(path: Path) -> None:
    write(path, site(("rf",)))
    recording = RecordingReader(path)
    station = recording.base_stations[0]
    with pytest.raises(DataError, match="no field 'camera'; it has time_s, sequence, rf"):
        station.read("camera")
    with pytest.raises(DataError, match="forwards"):
        station.read("rf", slice(None, None, -1))
    recording.close()
    recording.close()
    with pytest.raises(DataError, match="damaged or closed"):
        station.read("rf")


def test_chunks_hold_between_16_and_1024_frames() -> None:
    assert frames_per_chunk("camera", (64, 64, 3)) == 16
    assert frames_per_chunk("lidar", (216, 2)) == 128
    assert frames_per_chunk("rf", (64,)) == 1024
    assert frames_per_chunk("camera", (1024, 1024, 3)) == 16
    assert {frames_per_chunk(name, ()) for name, field in FIELDS.items() if not field.shape} == {1024}

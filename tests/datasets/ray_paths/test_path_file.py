"""A file of paths is read as it was written, or refused in one sentence before any of its numbers is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sheafedge.datasets.ray_paths.path_layout import FRAME_SERIES, MOST_PATHS, PATH_SERIES
from sheafedge.datasets.ray_paths.path_reader import PathReader
from sheafedge.emulator.contracts import DataError
from sheafedge.scenarios.recording.own_paths import write_paths

CARRIER_HZ = 60e9


def station(n_frames: int = 5, seed: int = 0) -> dict[str, Any]:
    """Every series of a base station, with frames of no path, one and several."""
    draws = np.random.default_rng(seed)
    counts = np.arange(n_frames) % 3
    n_paths = int(counts.sum())
    return {
        "time_s": np.arange(n_frames) / 10.0,
        "user_m": draws.uniform(-20, 20, (n_frames, 3)),
        "offset": np.concatenate([[0], np.cumsum(counts)]),
        "gain": (draws.normal(size=n_paths) + 1j * draws.normal(size=n_paths)).astype(np.complex64) * 1e-5,
        "delay_s": draws.uniform(4e-8, 4e-7, n_paths),
        "arrival_zenith_rad": draws.uniform(0, 3, n_paths).astype(np.float32),
        "arrival_azimuth_rad": draws.uniform(-3, 6, n_paths).astype(np.float32),
        "departure_zenith_rad": draws.uniform(0, 3, n_paths).astype(np.float32),
        "departure_azimuth_rad": draws.uniform(-3, 3, n_paths).astype(np.float32),
        "doppler_hz": draws.normal(size=n_paths).astype(np.float32),
        "interactions": draws.integers(0, 3, n_paths).astype(np.uint8),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_paths(tmp_path / "paths.h5", CARRIER_HZ, [station(5, 0), station(2000, 1)])


def read_all(path: Path) -> None:
    with PathReader(path) as reader:
        for one in reader.base_stations:
            one.paths(0, len(one))


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as refused:
        read_all(path)
    message = str(refused.value)
    assert "\n" not in message
    assert path.name in message
    return message


def test_what_is_read_is_what_was_written(path: Path) -> None:
    with PathReader(path) as reader:
        assert reader.carrier_hz == CARRIER_HZ
        for seed, (one, n_frames) in enumerate(zip(reader.base_stations, (5, 2000), strict=True)):
            expected = station(n_frames, seed)
            assert len(one) == n_frames
            for name in FRAME_SERIES:
                assert_array_equal(getattr(one, name), expected[name])
            whole = one.paths(0, n_frames)
            assert set(whole) == set(PATH_SERIES)
            for name, values in whole.items():
                assert_array_equal(values, expected[name])
            for name, values in one.paths(1, 4).items():
                assert_array_equal(values, expected[name][expected["offset"][1] : expected["offset"][4]])


def test_series_that_only_some_ray_tracers_know_may_lack(tmp_path: Path) -> None:
    needed = {name for name, series in (FRAME_SERIES | PATH_SERIES).items() if series.is_needed}
    only = {name: values for name, values in station().items() if name in needed}
    with PathReader(write_paths(tmp_path / "few.h5", CARRIER_HZ, [only])) as reader:
        assert reader.base_stations[0].series == needed


def _set(name: str, at: Any, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        rows = file["bs00"][name][()]
        rows[at] = value
        file["bs00"][name][...] = rows

    return change


def _replace(name: str, values: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file["bs00"][name]
        file["bs00"][name] = values

    return change


def _remove(name: str) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[name]

    return change


def _attribute(name: str, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file.attrs[name] = value

    return change


def _link(file: Any) -> None:
    del file["bs00"]["gain"]
    file["bs00"]["gain"] = h5py.ExternalLink("/etc/passwd", "/gain")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_attribute("format", "other"), "no sheafedge-paths file"),
        (_attribute("version", 2), "has version 2, this release reads 1"),
        (_attribute("n_base_stations", 3), "declares 3 base stations, but group 'bs02' is missing"),
        (_attribute("carrier_hz", "sixty"), "attribute carrier_hz has the wrong type"),
        (_remove("bs00/gain"), "no series 'gain'"),
        (_replace("delay_s", np.zeros(3)), "delay_s has shape (3,), expected (4,)"),
        (_replace("gain", np.zeros(4)), "gain is stored as float64, expected complex64"),
        (_replace("user_m", np.zeros((5, 2))), "user_m has shape (5, 2), expected (5, 3)"),
        (_replace("offset", np.zeros(5, int)), "offset has shape (5,), expected (6,)"),
        (_set("gain", 2, np.nan), "gain is '(nan+0j)' in row 2, expected finite numbers from 0 to 1"),
        (_set("gain", 1, -90.0), "gain is '(-90+0j)' in row 1"),
        (_set("delay_s", 3, np.inf), "delay_s is 'inf' in row 3"),
        (_set("arrival_zenith_rad", 0, 90.0), "arrival_zenith_rad is '90.0' in row 0, expected"),
        (_set("user_m", (4, 1), np.nan), "user_m is"),
        (_set("time_s", 2, 0.1), "time_s must rise, got 0.1 s in frame 2 after 0.1 s"),
        (_set("offset", 5, 3), "offset must rise from 0 to the number of paths, 4"),
        (_set("offset", 2, 4), "offset must rise from 0"),
        (_link, "'gain' in bs00 is a link to elsewhere"),
        (lambda file: file["bs00"].move("doppler_hz", "extra"), "an unknown series 'extra'"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_paths_is_refused(path: Path, change: Callable[[Any], None], sentence: str) -> None:
    with h5py.File(path, "r+") as file:
        change(file)
    assert sentence in refusal(path)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere.h5").startswith("no file of paths at")
    (tmp_path / "text.h5").write_text("gain\n")
    assert "cannot be read as a file of paths" in refusal(tmp_path / "text.h5")


def test_more_paths_than_a_sweep_sums_are_refused(tmp_path: Path) -> None:
    many = {name: values[:1] for name, values in station(2).items()}
    n_paths = MOST_PATHS + 1
    many |= {name: np.resize(values, n_paths) for name, values in station(4).items() if name in PATH_SERIES}
    with pytest.raises(DataError, match=f"frame 0 has {n_paths} paths, at most {MOST_PATHS} are read; keep the strong"):
        write_paths(tmp_path / "many.h5", CARRIER_HZ, [many | {"offset": [0, n_paths]}])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"gain": [1j]}, "shape"),
        ({"power_db": [1.0]}, "series 'power_db'; known:"),
        ({"delay_s": np.array(["soon"] * 4)}, "must be numbers that fit float64"),
        ({"interactions": [0, 1, 2, 300]}, "must fit uint8, got 0 to 300"),
        ({"delay_s": [1e-8, np.nan, 1e-8, 1e-8]}, "delay_s is 'nan' in row 1"),
    ],
)
def test_a_converter_that_errs_leaves_no_file(tmp_path: Path, changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as refused:
        write_paths(tmp_path / "mine.h5", CARRIER_HZ, [station() | changed])
    assert ".partial" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_file_that_exists_is_kept(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"paths\.h5 exists already"):
        write_paths(path, CARRIER_HZ, [station()])
    assert path.read_bytes() == before

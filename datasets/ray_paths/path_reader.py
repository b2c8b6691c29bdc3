"""Reader of a file of paths, which may come from any program: what it holds is checked before any number is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import quoted, reason, shown
from ..recordings.checked_file import CheckedFile
from ..recordings.recording_checks import UNREADABLE, Attributes, check_storage, check_unpacked, member_names
from ..recordings.recording_writer import station_group
from .path_layout import FORMAT, FRAME_SERIES, MOST_PATHS, PAGE, PATH_SERIES, VERSION, PathSeries

MOST_STATIONS, MOST_FRAMES = 1000, 1 << 24
_WHAT, _REMEDY = "file of paths", f"{PAGE} says how to make one"


class PathReader(CheckedFile):
    """File of paths, opened and checked; paths are read on demand.

    Args:
        path: path of the file.

    Attributes:
        path: path of the file.
        carrier_hz: carrier frequency that the paths were traced at.
        base_stations: base stations in the order of their numbers.

    Raises:
        DataError: the file is missing, damaged, of another format or version, or not as `path_layout` says.
    """

    carrier_hz: float
    base_stations: tuple[TracedStation, ...]

    def __init__(self, path: Path) -> None:
        super().__init__(path, _WHAT, _REMEDY)

    def _read_and_check(self) -> None:
        self.carrier_hz, n_stations = self._root()
        self.base_stations = tuple(TracedStation(self.path, self._file, index) for index in range(n_stations))
        check_unpacked(self.path, sum(station.n_bytes for station in self.base_stations))
        for station in self.base_stations:
            station.load()

    def _root(self) -> tuple[float, int]:
        """Carrier, and number of base stations."""
        where = shown(self.path)
        attributes = Attributes(where, self._file, PAGE)
        found = attributes.text("format") if "format" in attributes else None
        if found != FORMAT:
            raise DataError(f"{where} is HDF5 but no {FORMAT} file; {_REMEDY}")
        version = attributes.integer("version")
        if version != VERSION:
            raise DataError(f"{where} has version {version}, this release reads {VERSION}; {_REMEDY}")
        carrier_hz, n_stations = attributes.real("carrier_hz"), attributes.integer("n_base_stations")
        if not 1 <= n_stations <= MOST_STATIONS:
            raise DataError(f"{where} declares {n_stations} base stations, expected 1 to {MOST_STATIONS}")
        expected = {station_group(index) for index in range(n_stations)}
        groups = member_names(where, self._file, h5py.h5o.TYPE_GROUP, "/", n_stations)
        if odd := sorted(groups ^ expected):
            raise DataError(
                f"{where} declares {n_stations} base stations, but group {quoted(odd[0])} is missing or too many"
            )
        return carrier_hz, n_stations


class TracedStation:
    """Paths of one base station. Made by `PathReader`.

    Attributes:
        where: how messages name it.
        time_s: [n] instants, rising.
        user_m: [n, 3] antenna of the user.
        offset: [n + 1] int64, see `path_layout`.
    """

    time_s: NDArray[np.float64]
    user_m: NDArray[np.float64]
    offset: NDArray[np.int64]

    def __init__(self, path: Path, file: Any, index: int) -> None:
        name = station_group(index)
        self.where = f"{shown(path)}, {name}"
        group, known = file[name], {**FRAME_SERIES, **PATH_SERIES}
        names = member_names(shown(path), group, h5py.h5o.TYPE_DATASET, name, len(known))
        unknown = sorted(names - set(known))
        missing = sorted(one for one, series in known.items() if series.is_needed and one not in names)
        if unknown or missing:
            complaint = f"an unknown series {quoted(unknown[0])}" if unknown else f"no series {missing[0]!r}"
            raise DataError(f"{self.where}: the base station has {complaint}; {PAGE} has the layout")
        self._datasets = {one: group[one] for one in known if one in names}
        n_frames, n_paths = self._length("time_s"), self._length("gain")
        if not 1 <= n_frames <= MOST_FRAMES:
            raise DataError(f"{self.where}: there are {n_frames} frames, expected 1 to {MOST_FRAMES}")
        lengths = dict.fromkeys(FRAME_SERIES, n_frames) | {"offset": n_frames + 1}
        for one, dataset in self._datasets.items():
            self._check(one, known[one], dataset, lengths.get(one, n_paths))

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def n_bytes(self) -> int:
        """Bytes of all series, not compressed."""
        return sum(dataset.size * dataset.dtype.itemsize for dataset in self._datasets.values())

    @property
    def series(self) -> frozenset[str]:
        """Names of the series that the file has."""
        return frozenset(self._datasets)

    def load(self) -> None:
        """Read the series with a row per frame, and refuse frames that are not in order.

        Raises:
            DataError: names the frame.
        """
        self.time_s = self._read("time_s", 0, self._length("time_s")).astype(np.float64)
        self.user_m = self._read("user_m", 0, len(self.time_s)).astype(np.float64)
        self.offset = self._read("offset", 0, len(self.time_s) + 1).astype(np.int64)
        if (still := np.diff(self.time_s) <= 0.0).any():
            frame = int(still.argmax()) + 1
            raise DataError(
                f"{self.where}/time_s must rise, got {self.time_s[frame]:g} s in frame {frame} after"
                f" {self.time_s[frame - 1]:g} s; sort the frames by time"
            )
        n_paths = self._length("gain")
        counts = np.diff(self.offset)
        if self.offset[0] != 0 or self.offset[-1] != n_paths or (counts < 0).any():
            raise DataError(
                f"{self.where}/offset must rise from 0 to the number of paths, {n_paths}; the paths of frame i are"
                " offset[i] up to offset[i + 1]"
            )
        if counts.max() > MOST_PATHS:
            raise DataError(
                f"{self.where}: frame {int(counts.argmax())} has {int(counts.max())} paths, at most {MOST_PATHS} are"
                " read; keep the strongest"
            )

    def paths(self, first: int, stop: int) -> Mapping[str, NDArray[Any]]:
        """Flat series of the paths of frames `first` up to `stop`, those that the file has.

        Raises:
            DataError: they cannot be read, or hold a value that no path has.
        """
        rows = int(self.offset[first]), int(self.offset[stop])
        return {name: self._read(name, *rows) for name in PATH_SERIES if name in self._datasets}

    def _length(self, name: str) -> int:
        dataset = self._datasets[name]
        return int(dataset.shape[0]) if dataset.shape else 0

    def _check(self, name: str, series: PathSeries, dataset: Any, length: int) -> None:
        where = f"{self.where}/{name}"
        if dataset.dtype.kind not in series.kinds or dataset.dtype.itemsize > 16:
            raise DataError(f"{where} is stored as {dataset.dtype}, expected {series.dtype}; {PAGE} has the layout")
        shape = (length, series.n_columns) if series.n_columns else (length,)
        if dataset.shape != shape:
            raise DataError(f"{where} has shape {dataset.shape}, expected {shape}; {PAGE} has the layout")
        check_storage(where, dataset, dataset.dtype.itemsize * max(series.n_columns, 1), PAGE)

    def _read(self, name: str, first: int, stop: int) -> NDArray[Any]:
        series = FRAME_SERIES.get(name) or PATH_SERIES[name]
        try:
            rows: NDArray[Any] = self._datasets[name][first:stop]
        except UNREADABLE as error:
            raise DataError(
                f"{self.where}/{name} cannot be read in rows {first} to {stop} ({reason(error)}); the file is damaged"
            ) from error
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(rows) if series.kinds == "c" else rows
            wrong = ~((size >= series.lowest) & (size <= series.highest))  # NaN is wrong as well
        if wrong.any():
            row = int(wrong.reshape(len(rows), -1).any(axis=1).argmax())
            raise DataError(
                f"{self.where}/{name} is {quoted(rows[row])} in row {first + row}, expected finite numbers from"
                f" {series.lowest:g} to {series.highest:g}: {series.description}"
            )
        return rows

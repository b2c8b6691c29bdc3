"""Reader of a recording file, which is checked to be complete and ours before any value is read.

Before any value is read the layout is compared with what `recording_layout` declares; see `recording_checks`. Every
value is compared with what its sensor can give when it is read; see `recorded_values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, SENSED_MODALITIES, DataError, Modality
from ...emulator.modalities import LIDAR_REACH_M
from ...emulator.regular_file import quoted, reason, shown
from .checked_file import CheckedFile
from .recorded_values import FrameOrder, check_values, column_range
from .recording_checks import REMEDY, UNREADABLE, Attributes, check_dataset, check_unpacked, member_names
from .recording_layout import (
    FIELDS,
    FORMAT,
    MAX_NAME,
    REQUIRED_FIELDS,
    VERSION,
    Field,
    RecordingDescription,
    StationDescription,
    frame_bytes,
)
from .recording_writer import station_group
from .site_geometry import stated_heading_deg, stated_order, stated_reach_m

MAX_STATIONS = 100_000
#: Rows of the clock that are checked at once.
ROWS_AT_ONCE = 1 << 16
#: Places in a geometry that frames are related to.
_PLACE = ("latitude_deg", "longitude_deg")
#: Sweeps that are read at once to find the reach of a LiDAR.
SWEEPS_AT_ONCE = 1024


class RecordingReader(CheckedFile):
    """Recording file, opened and checked; arrays are read on demand.

    Args:
        path: path of a file made by `RecordingWriter`.

    Attributes:
        path: path of the file.
        description: scenario, seed, program and base stations that made it.
        base_stations: base stations in the order of their numbers.

    Raises:
        DataError: the file is missing, truncated, incomplete, of another format or version, or not as declared; or the
            frames of a base station are not in the order of time.
    """

    base_stations: tuple[RecordedStation, ...]
    description: RecordingDescription

    def __init__(self, path: Path) -> None:
        super().__init__(path, "recording", REMEDY)

    def _read_and_check(self) -> None:
        self._check_root()
        self.base_stations = tuple(
            RecordedStation(self.path, self._file, index) for index in range(self._n_base_stations())
        )
        check_unpacked(self.path, sum(station.n_bytes for station in self.base_stations))
        for station in self.base_stations:
            station.check_order()
        self.description = self._described()

    def _check_root(self) -> None:
        attributes = Attributes(shown(self.path), self._file)
        found = attributes.text("format") if "format" in attributes else None
        if found != FORMAT:
            raise DataError(
                f"{shown(self.path)} is HDF5 but no {FORMAT} file; make one with the record or import command"
            )
        version = attributes.integer("version")
        if version != VERSION:
            raise DataError(
                f"{shown(self.path)} has recording version {version}, this release reads {VERSION}; record it again"
            )
        if "complete" not in attributes or attributes.integer("complete") != 1:
            raise DataError(f"{shown(self.path)} was never completed; its recording was interrupted, make it again")

    def _n_base_stations(self) -> int:
        n_stations = Attributes(shown(self.path), self._file).integer("n_base_stations")
        if not 1 <= n_stations <= MAX_STATIONS:
            raise DataError(f"{shown(self.path)} declares {n_stations} base stations, expected 1 to {MAX_STATIONS}")
        expected = {station_group(index) for index in range(n_stations)}
        found = member_names(shown(self.path), self._file, h5py.h5o.TYPE_GROUP, "/", n_stations)
        if found != expected:
            odd = sorted(found ^ expected)
            raise DataError(
                f"{shown(self.path)} declares {n_stations} base stations, but {odd[0][:40]} is missing or too many"
            )
        return n_stations

    def _described(self) -> RecordingDescription:
        attributes = Attributes(shown(self.path), self._file)
        return RecordingDescription(
            scenario=attributes.text("scenario"),
            seed=attributes.integer("seed") if "seed" in attributes else None,
            created_by=attributes.name("created_by"),
            base_stations=tuple(station.description for station in self.base_stations),
        )


class RecordedStation:
    """Recorded fields of one base station. Made by `RecordingReader`.

    Attributes:
        index: number of the base station, from 0.
        description: name, rate, fields, geometry.
        n_frames: number of rows of every field.
    """

    def __init__(self, path: Path, file: Any, index: int) -> None:
        self.index = index
        self._where = f"{shown(path)}, {station_group(index)}"
        group = file[station_group(index)]
        names = member_names(shown(path), group, h5py.h5o.TYPE_DATASET, station_group(index), len(FIELDS))
        unknown, missing = sorted(names - set(FIELDS)), sorted(set(REQUIRED_FIELDS) - names)
        if unknown or missing:
            complaint = f"an unknown field {quoted(unknown[0])}" if unknown else f"no field {missing[0]!r}"
            raise DataError(f"{self._where}: the base station has {complaint}; docs/own_recordings.md has the layout")
        attributes = Attributes(self._where, group)
        self.n_frames = attributes.integer("n_frames")
        if self.n_frames < 1:
            raise DataError(f"{self._where}: n_frames is {self.n_frames}, expected at least 1")
        self._datasets = {name: group[name] for name in FIELDS if name in names}
        for name, dataset in self._datasets.items():
            check_dataset(f"{self._where}/{name}", dataset, FIELDS[name], self.n_frames)
        self.description = self._described(attributes)
        declared = tuple(attributes.json("modalities", list))
        if declared != self.modalities:
            raise DataError(
                f"{self._where}: modalities says {quoted(declared)}, the fields say {self.modalities}; "
                "docs/own_recordings.md has the layout"
            )

    def _described(self, attributes: Attributes) -> StationDescription:
        fields = tuple(
            _described_field(f"{self._where}/{name}", name, dataset) for name, dataset in self._datasets.items()
        )
        name, rate_hz, geometry = attributes.name("name"), attributes.real("rate_hz"), self._geometry(attributes)
        try:
            return StationDescription(name, rate_hz, fields, geometry)
        except DataError as error:
            raise DataError(f"{self._where}: {error}; docs/own_recordings.md has the layout") from None

    @property
    def n_bytes(self) -> int:
        """Bytes of all its frames, not compressed."""
        return sum(self.n_frames * frame_bytes(name, dataset.shape[1:]) for name, dataset in self._datasets.items())

    def check_order(self) -> None:
        """Refuse frames that are not in the order of time; memory holds one piece of the clock.

        Raises:
            DataError: names the frame.
        """
        order = FrameOrder(self._where)
        for first in range(0, self.n_frames, ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            numbers = self.read("frame_index", rows) if "frame_index" in self._datasets else None
            order.check(self.read("time_s", rows), self.read("sequence", rows), numbers)

    @property
    def name(self) -> str:
        """Name of the base station, for people."""
        return self.description.name

    @property
    def rate_hz(self) -> float:
        """Nominal frame rate of the base station, in frames per second."""
        return self.description.rate_hz

    @property
    def geometry(self) -> Mapping[str, Any]:
        """Geometry of the site, enough to draw it."""
        return self.description.geometry

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Sensors that it has, in the one order of modalities."""
        return tuple(modality for modality in SENSED_MODALITIES if modality in self._datasets)

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of all fields, labels and clocks included."""
        return tuple(self._datasets)

    def field(self, name: str) -> Field:
        """Shape, unit and frame of reference of a field.

        Raises:
            DataError: the base station has no such field.
        """
        self._dataset(name)
        return next(found for found in self.description.fields if found.name == name)

    def nothing_seen(self, modality: Modality) -> float | None:
        """Reading of this base station's sensor where it saw nothing, see `ModalitySpec.nothing`.

        Raises:
            DataError: the base station has no such sensor.
        """
        self._dataset(modality)
        nothing = MODALITY_SPECS[modality].nothing
        return self._reach_m if nothing == "reach" else nothing

    def read(self, name: str, frames: slice = slice(None)) -> NDArray[Any]:
        """Rows of a field; only these are read from disk.

        LiDAR rays without an echo have the sensor's reach. Imports used not to state it, and to hold 0 there, as their
        source does; that is replaced here.

        Args:
            name: a modality or another field.
            frames: slice of rows, with a step above 0.

        Raises:
            DataError: the base station has no such field, its content is damaged, or no sensor gives a value of it.
        """
        rows = self._stored(name, frames)
        if name == "lidar" and self._stated_reach_m is None:
            rows[..., 0] = np.where(rows[..., 0] == 0.0, self._reach_m, rows[..., 0])
        return rows

    def _stored(self, name: str, frames: slice) -> NDArray[Any]:
        """Rows of a field as they are in the file."""
        dataset = self._dataset(name)
        start, stop, step = frames.indices(self.n_frames)
        if step < 1:
            raise DataError(f"{self._where}/{name} is read forwards, got step {step}")
        try:
            rows: NDArray[Any] = dataset[start : max(start, stop) : step]
        except UNREADABLE as error:
            raise DataError(
                f"{self._where}/{name} cannot be read in frames {start} to {stop} ({reason(error)}); "
                "the file is damaged or closed, make it again"
            ) from error
        field = next(known for known in self.description.fields if known.name == name)
        check_values(
            f"{self._where}/{name}", field, self.description.n_beams, rows, range(start, max(start, stop), step)
        )
        return rows

    def _geometry(self, attributes: Attributes) -> dict[str, Any]:
        geometry = attributes.json("geometry", dict)
        for name in _PLACE:
            place = geometry.get(name, 0.0)
            if isinstance(place, int | float) and not column_range(name).holds(np.float64(place)):
                raise DataError(
                    f"{self._where}: geometry must have {name} {column_range(name)}, got {quoted(place)}; the page of "
                    "recordings has the layout"
                )
        stated_heading_deg(self._where, geometry)
        stated_order(self._where, geometry)
        return geometry

    @property
    def _stated_reach_m(self) -> float | None:
        """Reach of the LiDAR as the geometry of the site tells it."""
        return stated_reach_m(self.geometry)

    @cached_property
    def _reach_m(self) -> float:
        """Reach of the LiDAR: as stated, or the usual one, or the largest range that was recorded beyond it."""
        if self._stated_reach_m is not None:
            return self._stated_reach_m
        pieces = (slice(first, first + SWEEPS_AT_ONCE) for first in range(0, self.n_frames, SWEEPS_AT_ONCE))
        return max(LIDAR_REACH_M, *(float(self._stored("lidar", piece)[..., 0].max()) for piece in pieces))

    def _dataset(self, name: str) -> Any:
        if name not in self._datasets:
            raise DataError(f"{self._where} has no field {name!r}; it has {', '.join(self._datasets)}")
        return self._datasets[name]


def _described_field(where: str, name: str, dataset: Any) -> Field:
    attributes = Attributes(where, dataset)
    columns = attributes.json("columns", list)
    if not all(isinstance(one, str) and one.isprintable() and len(one) <= MAX_NAME for one in columns):
        raise DataError(
            f"{where}: columns must be a list of names, got {quoted(columns)}; docs/own_recordings.md has the layout"
        )
    return Field(
        name=name,
        shape=dataset.shape[1:],
        dtype=FIELDS[name].dtype,
        unit=attributes.name("unit"),
        frame_of_reference=attributes.name("frame_of_reference"),
        description=attributes.name("description"),
        columns=tuple(columns),
        shuffle=FIELDS[name].shuffle,
    )

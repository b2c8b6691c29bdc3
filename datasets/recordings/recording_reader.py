"""Reader of a recording file, which is checked to be complete and ours before any value is read.

Before any value is read the layout is compared with what `recording_layout` declares; see `recording_checks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
from numpy.typing import NDArray

from ...emulator.contracts import MODALITIES, DataError, Modality
from .recording_checks import UNREADABLE, Attributes, check_dataset, member_names, one_line, refusing
from .recording_layout import (
    FIELDS,
    FORMAT,
    REQUIRED_FIELDS,
    VERSION,
    Field,
    RecordingDescription,
    StationDescription,
)
from .recording_writer import station_group

MAX_STATIONS = 100_000


class RecordingReader:
    """Recording file, opened and checked; arrays are read on demand.

    Args:
        path: path of a file made by `RecordingWriter`.

    Attributes:
        path: path of the file.
        description: scenario, seed, program and base stations that made it.
        base_stations: base stations in the order of their numbers.

    Raises:
        DataError: the file is missing, truncated, incomplete, of another format or version, or not as declared.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = None
        try:
            with refusing(path):
                # best effort: file systems without locks can be read too
                self._file = h5py.File(path, "r", locking="best-effort")
                self._check_root()
                self.base_stations = tuple(
                    RecordedStation(path, self._file, index) for index in range(self._n_base_stations())
                )
                self.description = self._described()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free the file; stations of a closed recording cannot be read."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_root(self) -> None:
        attributes = Attributes(str(self.path), self._file)
        found = attributes.text("format") if "format" in attributes else None
        if found != FORMAT:
            raise DataError(f"{self.path} is HDF5 but no {FORMAT} file; make one with the record or import command")
        version = attributes.integer("version")
        if version != VERSION:
            raise DataError(
                f"{self.path} has recording version {version}, this release reads {VERSION}; record it again"
            )
        if "complete" not in attributes or attributes.integer("complete") != 1:
            raise DataError(f"{self.path} was never completed; its recording was interrupted, make it again")

    def _n_base_stations(self) -> int:
        n_stations = Attributes(str(self.path), self._file).integer("n_base_stations")
        if not 1 <= n_stations <= MAX_STATIONS:
            raise DataError(f"{self.path} declares {n_stations} base stations, expected 1 to {MAX_STATIONS}")
        expected = {station_group(index) for index in range(n_stations)}
        found = member_names(self.path, self._file, h5py.h5o.TYPE_GROUP, "/", n_stations)
        if found != expected:
            odd = sorted(found ^ expected)
            raise DataError(f"{self.path} declares {n_stations} base stations, but {odd[0]} is missing or too many")
        return n_stations

    def _described(self) -> RecordingDescription:
        attributes = Attributes(str(self.path), self._file)
        return RecordingDescription(
            scenario=attributes.text("scenario"),
            seed=attributes.integer("seed") if "seed" in attributes else None,
            created_by=attributes.text("created_by"),
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
        self._where = f"{path}, {station_group(index)}"
        group = file[station_group(index)]
        names = member_names(path, group, h5py.h5o.TYPE_DATASET, station_group(index), len(FIELDS))
        unknown, missing = sorted(names - set(FIELDS)), sorted(set(REQUIRED_FIELDS) - names)
        if unknown or missing:
            complaint = f"an unknown field {unknown[0]!r}" if unknown else f"no field {missing[0]!r}"
            raise DataError(f"{self._where}: the base station has {complaint}; the file was changed after recording")
        attributes = Attributes(self._where, group)
        self.n_frames = attributes.integer("n_frames")
        if self.n_frames < 1:
            raise DataError(f"{self._where}: n_frames is {self.n_frames}, expected at least 1")
        self._datasets = {name: group[name] for name in FIELDS if name in names}
        for name, dataset in self._datasets.items():
            check_dataset(f"{self._where}/{name}", dataset, FIELDS[name], self.n_frames)
        rate_hz = attributes.real("rate_hz")
        if not 0 < rate_hz < float("inf"):
            raise DataError(f"{self._where}: rate_hz must be above 0 and finite, got {rate_hz}; the file was changed")
        self.description = StationDescription(
            name=attributes.text("name"),
            rate_hz=rate_hz,
            fields=tuple(
                _described_field(f"{self._where}/{name}", name, dataset) for name, dataset in self._datasets.items()
            ),
            geometry=attributes.json("geometry", dict),
        )
        declared = tuple(attributes.json("modalities", list))
        if declared != self.modalities:
            raise DataError(
                f"{self._where}: modalities says {declared}, the fields say {self.modalities}; "
                "the file was changed after recording"
            )

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
        return tuple(modality for modality in MODALITIES if modality in self._datasets)

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

    def read(self, name: str, frames: slice = slice(None)) -> NDArray[Any]:
        """Rows of a field; only these are read from disk.

        Args:
            name: a modality or another field.
            frames: slice of rows, with a step above 0.

        Raises:
            DataError: the base station has no such field, or its content is damaged.
        """
        dataset = self._dataset(name)
        start, stop, step = frames.indices(self.n_frames)
        if step < 1:
            raise DataError(f"{self._where}/{name} is read forwards, got step {step}")
        try:
            rows: NDArray[Any] = dataset[start : max(start, stop) : step]
        except UNREADABLE as error:
            raise DataError(
                f"{self._where}/{name} cannot be read in frames {start} to {stop} ({one_line(error)}); "
                "the file is damaged or closed, make it again"
            ) from error
        return rows

    def _dataset(self, name: str) -> Any:
        if name not in self._datasets:
            raise DataError(f"{self._where} has no field {name!r}; it has {', '.join(self._datasets)}")
        return self._datasets[name]


def _described_field(where: str, name: str, dataset: Any) -> Field:
    attributes = Attributes(where, dataset)
    columns = attributes.json("columns", list)
    if not all(isinstance(column, str) for column in columns):
        raise DataError(f"{where}: columns must be a list of names, got {columns!r}; the file was changed")
    return Field(
        name=name,
        shape=dataset.shape[1:],
        dtype=FIELDS[name].dtype,
        unit=attributes.text("unit"),
        frame_of_reference=attributes.text("frame_of_reference"),
        description=attributes.text("description"),
        columns=tuple(columns),
        shuffle=FIELDS[name].shuffle,
    )

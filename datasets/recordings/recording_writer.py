"""Writer of a recording file, in constant memory; the file is complete or does not exist."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import h5py
import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from .recorded_values import FrameOrder, check_values
from .recording_layout import (
    FORMAT,
    VERSION,
    Field,
    RecordingDescription,
    StationDescription,
    frames_per_chunk,
)

#: What h5py raises when the disk is full, the folder is gone or the file cannot be made.
_WRITE_FAILURES = (OSError, RuntimeError)


class RecordingWriter:
    """Context manager that appends frames and leaves either a whole file at `path` or nothing new.

    Frames go to a hidden file beside the target, which takes the target's name once it is complete, replacing an older
    recording. Any exception inside the `with` block removes it.

    Args:
        path: path of the file; its folder must exist.
        description: scenario and base stations.

    Raises:
        DataError: the file cannot be written, or frames do not fit the description.
    """

    def __init__(self, path: Path, description: RecordingDescription) -> None:
        if not description.base_stations:
            raise DataError(f"recording {path} would hold no base station; describe at least one")
        self._path = path
        self._partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
        self._description = description
        self._file: Any = None
        self._stations: list[_StationWriter] = []

    def __enter__(self) -> Self:
        try:
            # No chunk cache: only whole chunks are written, and a cache per field would grow with the stations.
            # Format 1.10, because its metadata carries checksums: a flipped bit is an error, not a guess.
            self._file = h5py.File(self._partial, "w-", rdcc_nbytes=0, libver=("v110", "v110"))
            self._describe()
        except _WRITE_FAILURES as error:
            self._discard()
            raise self._cannot_write(error) from error
        except BaseException:
            self._discard()
            raise
        return self

    def append(self, station_index: int, frames: Mapping[str, NDArray[Any]]) -> None:
        """Append the next frames of one base station, any number of them.

        Args:
            station_index: place in the description, from 0.
            frames: every field of that base station, [n, ...] each.

        Raises:
            DataError: a field is missing, unknown or of another length, shape or type; a value cannot have been
                recorded; time runs backwards inside a sequence; or a sequence starts again.
        """
        if self._file is None:
            raise DataError(f"recording {self._path} is not open for writing; use the writer in a with statement")
        if not 0 <= station_index < len(self._stations):
            raise DataError(f"recording {self._path} has no base station {station_index}, only {len(self._stations)}")
        try:
            self._stations[station_index].append(frames)
        except _WRITE_FAILURES as error:
            self._discard()  # some fields may have got the frames and others not
            raise self._cannot_write(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            self._complete()
        except _WRITE_FAILURES as failure:
            self._discard()
            raise self._cannot_write(failure) from failure
        except BaseException:
            self._discard()
            raise

    def _describe(self) -> None:
        attributes = self._file.attrs
        _set_text(self._file, "format", FORMAT)
        attributes["version"] = VERSION
        _set_text(self._file, "scenario", self._description.scenario)
        if self._description.seed is not None:
            attributes["seed"] = self._description.seed
        _set_text(self._file, "created_by", self._description.created_by)
        attributes["n_base_stations"] = len(self._description.base_stations)
        for index, station in enumerate(self._description.base_stations):
            group = self._file.create_group(station_group(index))
            self._stations.append(_StationWriter(group, station))

    def _complete(self) -> None:
        if self._file is None:
            raise DataError(f"recording {self._path} was given up after an earlier error; nothing was written")
        for station in self._stations:
            station.finish()
        # everything but the mark first: a file with the mark is complete
        self._file.flush()
        self._file.attrs["complete"] = 1
        self._file.close()
        self._file = None
        with self._partial.open("rb+") as stream:
            os.fsync(stream.fileno())  # the name must not outlive a power cut that the content did not
        self._partial.replace(self._path)

    def _discard(self) -> None:
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except _WRITE_FAILURES:
            pass  # a full disk also fails the closing; what was written goes away in any case
        finally:
            self._partial.unlink(missing_ok=True)

    def _cannot_write(self, error: Exception) -> DataError:
        reason = (str(error).splitlines() or [""])[0]
        return DataError(f"cannot write recording {self._path} ({reason}); check the folder and the free space")


def station_group(index: int) -> str:
    """Name of a base station's group: bs00, bs01, ..."""
    return f"bs{index:02d}"


def _set_text(owner: Any, name: str, text: str) -> None:
    """Sets an attribute to UTF-8 of fixed length; HDF5 can hang in a damaged heap of variable-length strings."""
    content = text.encode("utf-8")
    owner.attrs.create(name, content, dtype=h5py.string_dtype("utf-8", max(len(content), 1)))


class _StationWriter:
    """Writer of the fields of one base station, with the checks across appends."""

    def __init__(self, group: Any, description: StationDescription) -> None:
        self._group = group
        self._description = description
        n_beams = description.n_beams
        self._series = {
            known.name: _FieldSeries(group, known, description.rate_hz, n_beams) for known in description.fields
        }
        self._n_frames = 0
        self._order = FrameOrder(f"base station {description.name!r}")
        _set_text(group, "name", description.name)
        _set_text(group, "geometry", json.dumps(dict(description.geometry)))
        _set_text(group, "modalities", json.dumps(description.modalities))
        group.attrs["rate_hz"] = float(description.rate_hz)

    def append(self, frames: Mapping[str, NDArray[Any]]) -> None:
        if set(frames) != set(self._series):
            raise DataError(
                f"base station {self._description.name!r} records {', '.join(sorted(self._series))}, "
                f"got {', '.join(sorted(frames))}; hand over every field of the frames"
            )
        # all are checked before the first is written: a refused append leaves no field longer than the others
        rows = {name: self._series[name].checked(values, self._n_frames) for name, values in frames.items()}
        lengths = {name: len(values) for name, values in rows.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"base station {self._description.name!r}: fields differ in frames: {lengths}")
        self._order.check(rows["time_s"], rows["sequence"], rows.get("frame_index"))
        for name, values in rows.items():
            self._series[name].append(values)
        self._n_frames += len(rows["time_s"])

    def finish(self) -> None:
        if self._n_frames == 0:
            raise DataError(f"base station {self._description.name!r} recorded no frame; leave it out or record longer")
        for series in self._series.values():
            series.flush()
        self._group.attrs["n_frames"] = self._n_frames


class _FieldSeries:
    """Dataset of one field, written in whole chunks."""

    def __init__(self, group: Any, field: Field, rate_hz: float, n_beams: int | None) -> None:
        self._field, self._n_beams = field, n_beams
        self._dtype = np.dtype(field.dtype)
        self._buffer = np.empty((frames_per_chunk(field.name, field.shape), *field.shape), self._dtype)
        self._n_buffered = 0
        self._dataset = group.create_dataset(
            field.name,
            shape=(0, *field.shape),
            maxshape=(None, *field.shape),
            chunks=self._buffer.shape,
            dtype=self._dtype,
            compression="gzip",
            compression_opts=1,
            # regrouping bytes helps deflate only where a value has several
            shuffle=field.shuffle and self._dtype.itemsize > 1,
        )
        _set_text(self._dataset, "unit", field.unit)
        _set_text(self._dataset, "frame_of_reference", field.frame_of_reference)
        _set_text(self._dataset, "description", field.description)
        _set_text(self._dataset, "columns", json.dumps(field.columns))
        self._dataset.attrs["rate_hz"] = float(rate_hz)

    def checked(self, values: NDArray[Any], first_frame: int) -> NDArray[Any]:
        """Values in the stored type; those that no sensor can have given are refused."""
        values = np.asarray(values)
        name = self._field.name
        if values.shape[1:] != self._field.shape or values.ndim == 0:
            raise DataError(
                f"recording field {name} must be [n, {', '.join(map(str, self._field.shape))}], "
                f"got shape {values.shape}".replace("[n, ]", "[n]")
            )
        if not self._takes(values.dtype):
            raise DataError(f"recording field {name} is stored as {self._dtype}, got {values.dtype}; convert it first")
        if values.dtype.kind in "iu" and values.size and self._dtype.kind == "i":
            limits = np.iinfo(self._dtype)
            if values.min() < limits.min or values.max() > limits.max:
                raise DataError(f"recording field {name} must fit {self._dtype}, got {values.min()} to {values.max()}")
        with np.errstate(over="ignore"):
            stored = values.astype(self._dtype, copy=False)
        frames = range(first_frame, first_frame + len(stored))
        check_values(f"recording field {self._field.name}", self._field, self._n_beams, stored, frames)
        return stored

    def append(self, rows: NDArray[Any]) -> None:
        while len(rows):
            n_taken = min(len(rows), len(self._buffer) - self._n_buffered)
            self._buffer[self._n_buffered : self._n_buffered + n_taken] = rows[:n_taken]
            self._n_buffered += n_taken
            rows = rows[n_taken:]
            if self._n_buffered == len(self._buffer):
                self.flush()

    def flush(self) -> None:
        """Writes what is buffered; only the last chunk of a file may be partly filled."""
        if self._n_buffered == 0:
            return
        n_written = len(self._dataset)
        self._dataset.resize(n_written + self._n_buffered, axis=0)
        self._dataset[n_written:] = self._buffer[: self._n_buffered]
        self._n_buffered = 0

    def _takes(self, dtype: np.dtype[Any]) -> bool:
        if self._dtype.kind == "f":
            return dtype.kind == "f"
        if self._dtype.kind == "i":
            return dtype.kind in "iu"
        return dtype == self._dtype

"""All that is wrong or missing in a recording file, where a reader stops at the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, quoted, shown
from .recording_checks import UNREADABLE, Attributes, check_dataset, member_names, refusing
from .recording_layout import FIELDS, FORMAT, REQUIRED_FIELDS, VERSION
from .recording_reader import MAX_STATIONS, RecordedStation, RecordingReader
from .recording_writer import station_group

#: Rows of a field that are read at once.
ROWS_AT_ONCE = 1024
#: Texts and numbers that every object has: name -> how it is read.
_ROOT: dict[str, Callable[[Attributes, str], object]] = {
    "scenario": Attributes.text,
    "created_by": Attributes.name,
}
_STATION: dict[str, Callable[[Attributes, str], object]] = {
    "name": Attributes.name,
    "rate_hz": Attributes.real,
    "n_frames": Attributes.integer,
    "geometry": lambda attributes, name: attributes.json(name, dict),
    "modalities": lambda attributes, name: attributes.json(name, list),
}
_FIELD: dict[str, Callable[[Attributes, str], object]] = {
    "unit": Attributes.name,
    "frame_of_reference": Attributes.name,
    "description": Attributes.name,
    "columns": lambda attributes, name: attributes.json(name, list),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about a recording.

    Attributes:
        kind: "right"; "wrong": it cannot be read; "implausible": it can, and is probably not what was meant.
        sentence: what was found.
    """

    kind: Literal["right", "wrong", "implausible"]
    sentence: str


def structure_findings(path: Path) -> list[Finding]:
    """All that is wrong or missing in the structure of a file, and in its values once the structure is right."""
    found: list[Finding] = []
    with _noting(found), refusing(path):
        open_regular(path).close()  # a pipe or a device would be read for ever
        with h5py.File(path, "r", locking="best-effort") as file:
            _survey_root(path, file, found)
    if not found:
        with _noting(found), RecordingReader(path) as reader:
            for station in reader.base_stations:
                _survey_values(station, found)
    return found


@contextmanager
def _noting(found: list[Finding]) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        found.append(Finding("wrong", str(error)))


def _survey_root(path: Path, file: Any, found: list[Finding]) -> None:
    attributes = Attributes(shown(path), file)
    with _noting(found):
        if (name := attributes.text("format")) != FORMAT:
            raise DataError(f"{shown(path)}: attribute format must be {FORMAT!r}, got {quoted(name)}")
    with _noting(found):
        if (version := attributes.integer("version")) != VERSION:
            raise DataError(f"{shown(path)}: attribute version must be {VERSION}, got {version}")
    with _noting(found):
        if attributes.integer("complete") != 1:
            raise DataError(f"{shown(path)}: attribute complete must be 1, which is written last; make the file again")
    _survey_attributes(shown(path), file, _ROOT, found)
    with _noting(found):
        n_stations = attributes.integer("n_base_stations")
        if not 1 <= n_stations <= MAX_STATIONS:
            raise DataError(f"{shown(path)} declares {n_stations} base stations, expected 1 to {MAX_STATIONS}")
        names = member_names(shown(path), file, h5py.h5o.TYPE_GROUP, "/", n_stations)
        for group in (station_group(index) for index in range(n_stations)):
            if group not in names:
                raise DataError(f"{shown(path)} declares {n_stations} base stations, but {group} is missing")
            with _noting(found), refusing(path):
                _survey_station(path, file[group], group, found)


def _survey_station(path: Path, group: Any, name: str, found: list[Finding]) -> None:
    where = f"{shown(path)}, {name}"
    _survey_attributes(where, group, _STATION, found)
    names = member_names(shown(path), group, h5py.h5o.TYPE_DATASET, name, len(FIELDS))
    missing = [field for field in REQUIRED_FIELDS if field not in names]
    found += [Finding("wrong", f"{where} has no field {field!r}, which every base station has") for field in missing]
    unknown = sorted(names - set(FIELDS))
    found += [
        Finding("wrong", f"{where} has a field {quoted(field)}, which is none of {', '.join(FIELDS)}")
        for field in unknown
    ]
    n_frames = next((len(group[field]) for field in REQUIRED_FIELDS if field in names and group[field].ndim), 0)
    for field in (field for field in FIELDS if field in names):
        with _noting(found):
            check_dataset(f"{where}/{field}", group[field], FIELDS[field], n_frames)
        _survey_attributes(f"{where}/{field}", group[field], _FIELD, found)


def _survey_attributes(
    where: str, owner: Any, wanted: dict[str, Callable[[Attributes, str], object]], found: list[Finding]
) -> None:
    attributes = Attributes(where, owner)
    for name, read in wanted.items():
        with _noting(found):
            try:
                read(attributes, name)
            except DataError:
                raise
            except UNREADABLE as error:
                raise DataError(f"{where}: attribute {name} cannot be read ({str(error)[:80]})") from None


def _survey_values(station: RecordedStation, found: list[Finding]) -> None:
    for name in station.field_names:
        with _noting(found):
            for first in range(0, station.n_frames, ROWS_AT_ONCE):
                station.read(name, slice(first, first + ROWS_AT_ONCE))


def right_finding(station: RecordedStation) -> Finding:
    """What a base station holds, in one sentence."""
    n_sequences = len(np.unique(station.read("sequence")))
    return Finding(
        "right",
        f"{station_group(station.index)}, {station.name}: {station.n_frames:,} frames in {n_sequences:,} sequences at"
        f" {station.rate_hz:g} Hz; {', '.join(station.field_names)}",
    )

"""`write_paths`: files of paths, for converters from ray tracers; a file is complete or does not exist."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...datasets.ray_paths.path_layout import FORMAT, FRAME_SERIES, PATH_SERIES, VERSION
from ...datasets.ray_paths.path_reader import PathReader
from ...datasets.recordings.recording_writer import station_group
from ...emulator.contracts import DataError
from ...emulator.regular_file import reason

ROWS_PER_CHUNK = 1024
_Series = Mapping[str, ArrayLike]


def write_paths(out: str | os.PathLike[str], carrier_hz: float, stations: Sequence[_Series]) -> Path:
    """Write the paths that a ray tracer found as a file for `sheafedge import paths`.

    Args:
        out: file (HDF5), which must not exist.
        carrier_hz: carrier frequency that they were traced at.
        stations: per base station the series of docs/bring_your_world.md: `time_s` [n], `user_m` [n, 3], `offset`
            [n + 1], and flat ones [P] such as `gain` and `delay_s`.

    Returns:
        Path of the file.

    Raises:
        DataError: the file cannot be written, a series is missing or unknown, or what was written cannot be read back.

    Examples:
        >>> from sheafedge import write_paths
        >>> frame = {"time_s": [0.0], "user_m": [[4.9, 12.6, 1.1]], "offset": [0, 1]}
        >>> direct = {"gain": [2.8e-5 + 0j], "delay_s": [45e-9]}
        >>> angles = {"arrival_zenith_rad": [1.57], "arrival_azimuth_rad": [1.2]}
        >>> write_paths("mine.paths.h5", 60e9, [frame | direct | angles]).name
        'mine.paths.h5'
    """
    target = Path(out)
    if target.exists():
        raise DataError(f"{target} exists already; name another file, or move that one away")
    partial = target.with_name(f".{target.name}.{uuid4().hex}.partial")
    try:
        _write(partial, carrier_hz, [_stored(index, series) for index, series in enumerate(stations)])
        with PathReader(partial) as written:
            for station in written.base_stations:
                station.paths(0, len(station))
        partial.replace(target)
    except DataError as error:
        raise DataError(str(error).replace(str(partial), str(target))) from None
    except (OSError, RuntimeError) as error:
        raise DataError(f"cannot write {target} ({reason(error)}); check the folder and the free space") from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def _stored(index: int, given: _Series) -> dict[str, NDArray[Any]]:
    """Series in the types of the layout."""
    known = {**FRAME_SERIES, **PATH_SERIES}
    if unknown := sorted(set(given) - set(known)):
        raise DataError(f"base station {index} has a series {unknown[0]!r}; known: {', '.join(known)}")
    return {
        name: _converted(f"base station {index}: {name}", values, known[name].dtype) for name, values in given.items()
    }


def _converted(where: str, values: ArrayLike, dtype: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in {"c": "cfiu", "f": "fiu"}.get(np.dtype(dtype).kind, "iu"):
        raise DataError(f"{where} must be numbers that fit {dtype}, got {array.dtype}")
    with np.errstate(over="ignore"):
        stored = array.astype(dtype)
    if stored.dtype.kind in "iu" and (stored != array).any():
        raise DataError(f"{where} must fit {dtype}, got {array.min()} to {array.max()}")
    return stored


def _write(path: Path, carrier_hz: float, stations: Sequence[Mapping[str, NDArray[Any]]]) -> None:
    with h5py.File(path, "w-", libver=("v110", "v110")) as file:
        file.attrs["format"] = np.bytes_(FORMAT)
        file.attrs["version"] = VERSION
        file.attrs["carrier_hz"] = float(carrier_hz)
        file.attrs["n_base_stations"] = len(stations)
        for index, series in enumerate(stations):
            group = file.create_group(station_group(index))
            for name, values in series.items():
                is_long = values.ndim > 0 and len(values) > ROWS_PER_CHUNK
                packing = {"chunks": (ROWS_PER_CHUNK, *values.shape[1:]), "compression": "gzip"} if is_long else {}
                group.create_dataset(name, data=values, **packing)

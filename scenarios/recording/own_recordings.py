"""`write_recording` and `check`: recordings of one's own, from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...datasets.recordings.recording_layout import (
    FIELDS,
    Field,
    RecordingDescription,
    StationDescription,
    standard_field,
)
from ...datasets.recordings.recording_plausibility import check_recording as findings_of
from ...datasets.recordings.recording_survey import Finding
from ...datasets.recordings.recording_writer import RecordingWriter
from ...datasets.recordings.site_geometry import stated_reach_m
from ...emulator.contracts import ConfigError, DataError
from ...version import __version__
from .recording_target import refuse_target

#: Frames that are handed to the file at once.
FRAMES_AT_ONCE = 4096


def write_recording(
    out: str | os.PathLike[str],
    stations: Mapping[str, Mapping[str, ArrayLike]],
    *,
    rate_hz: float | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    units: Mapping[str, str] | None = None,
    geometry: Mapping[str, Mapping[str, Any]] | None = None,
    no_echo_m: float | None = None,
    source: str = "",
) -> Path:
    """Write what sensors of one's own saw as a recording, which scenarios read with data.source = "recording".

    Args:
        out: recording file (HDF5), which must not exist.
        stations: name of a base station -> field -> [n_frames, ...]. Fields are those of docs/own_recordings.md;
            `time_s` in seconds is needed. Left out, `sequence` is 0 in all frames, and `best_beam` the strongest of
            `rf`. Whole numbers 0 and 1 may stand for truth values.
        rate_hz: frames per second, nominal; left out: measured, the median inside of sequences.
        columns: field -> names along its last axis, such as {"gps": ("east_m", "north_m")}, which `gps` needs.
        units: field -> unit, where it is another than the layout's, such as {"rf": "1, proportional to W"}.
        geometry: name of a base station -> facts of its site, anything that JSON can hold; latitude_deg, longitude_deg,
            heading_deg, codebook_order and lidar.max_range_m are read.
        no_echo_m: range that the LiDAR gives for a ray without an echo, such as 0. These rays, and those that are NaN
            or infinite, are stored at the reach, lidar.max_range_m of the geometry, which must be stated then.
        source: where it came from, for people.

    Returns:
        Path of the file.

    Raises:
        ConfigError: the file cannot be made there.
        DataError: a field is unknown, lacks frames, or holds a value that no sensor gives; rays have no echo, and the
            reach of the LiDAR is not stated; or frames are not in the order of time.

    Examples:
        >>> import numpy as np
        >>> from sheafedge import write_recording
        >>> powers = np.random.default_rng(0).uniform(0.1, 1.0, (50, 8))
        >>> path = write_recording("mine.h5", {"corner": {"time_s": np.arange(50) / 10, "rf": powers}})
        >>> path.name
        'mine.h5'
    """
    target = Path(out)
    refuse_target(target)
    if not stations:
        raise ConfigError("stations must name a base station, got none; give its fields under its name")
    columns, units, geometry = columns or {}, units or {}, geometry or {}
    made = {
        name: _with_reach(name, _completed(name, fields), geometry.get(name, {}), no_echo_m)
        for name, fields in stations.items()
    }
    described = tuple(
        StationDescription(
            name,
            rate_hz or _measured_rate_hz(name, fields),
            tuple(_field(field, values, columns, units) for field, values in fields.items()),
            geometry.get(name, {}),
        )
        for name, fields in made.items()
    )
    text = f"# written by write_recording of sheafedge {__version__}\n# {' '.join(source.split())}\n"
    description = RecordingDescription(text, None, f"sheafedge {__version__} write_recording", described)
    with RecordingWriter(target, description) as writer:
        for index, fields in enumerate(made.values()):
            for first in range(0, max(len(values) for values in fields.values()), FRAMES_AT_ONCE):
                part = slice(first, first + FRAMES_AT_ONCE)
                writer.append(index, {name: values[part] for name, values in fields.items()})
    return target


def check_recording(recording: str | os.PathLike[str]) -> list[Finding]:
    """What of a recording is right, wrong or missing, and implausible, as `sheafedge check` prints it.

    Args:
        recording: path of the file.

    Returns:
        One finding per sentence, with its `kind`: "right", "wrong" or "implausible"; one "wrong" and it cannot be read.

    Examples:
        >>> from sheafedge import check_recording
        >>> [(one.kind, one.sentence[:23]) for one in check_recording("nowhere.h5")]
        [('wrong', 'no recording at nowhere')]
    """
    return findings_of(Path(recording))


def _completed(station: str, given: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    """Fields as arrays of the stored kinds, with those that follow from others."""
    if unknown := [name for name in given if name not in FIELDS]:
        raise DataError(
            f"base station {station!r} has a field {unknown[0]!r}, which no recording has; known: {', '.join(FIELDS)}"
        )
    fields = {name: _stored(name, np.asarray(values)) for name, values in given.items()}
    if "time_s" not in fields:
        raise DataError(f"base station {station!r} needs a field 'time_s', the instant of every frame in seconds")
    n_frames = {name: len(values) if values.ndim else 0 for name, values in fields.items()}
    if len(set(n_frames.values())) > 1 or not n_frames["time_s"]:
        raise DataError(
            f"base station {station!r}: all fields must have as many frames, at least one, got"
            f" {', '.join(f'{name} {count}' for name, count in n_frames.items())}"
        )
    if "sequence" not in fields:
        fields["sequence"] = np.zeros(len(fields["time_s"]), dtype=np.int32)
    if "rf" in fields and "best_beam" not in fields and fields["rf"].ndim == 2:
        heard = np.where(np.isnan(fields["rf"]), -np.inf, fields["rf"])
        fields["best_beam"] = heard.argmax(axis=1).astype(np.int32)
    return fields


def _with_reach(
    station: str, fields: dict[str, NDArray[Any]], geometry: Mapping[str, Any], no_echo_m: float | None
) -> dict[str, NDArray[Any]]:
    """The same fields with rays without an echo at the reach of the LiDAR, as all recordings have them."""
    sweeps = fields.get("lidar")
    if sweeps is None or sweeps.ndim != 3 or sweeps.dtype.kind != "f":
        return fields  # refused by the writer
    range_m = sweeps[..., 0]
    silent = np.isnan(range_m) | np.isposinf(range_m)
    if no_echo_m is not None:
        silent |= range_m == no_echo_m
    if not silent.any():
        return fields
    reach_m = stated_reach_m(geometry)
    if reach_m is None:
        raise DataError(
            f"base station {station!r} has {int(silent.sum()):,} LiDAR rays without an echo, which recordings store at"
            f" the reach of the LiDAR; state it: geometry={{{station!r}: {{'lidar': {{'max_range_m': 16.0}}}}}}"
        )
    filled = sweeps.copy()
    filled[..., 0] = np.where(silent, reach_m, range_m)
    return {**fields, "lidar": filled}


def _stored(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Values in a kind that the writer takes; what would change them is left for it to refuse."""
    wanted = np.dtype(FIELDS[name].dtype)
    is_whole = values.dtype.kind in "iu"
    if wanted.kind == "b" and is_whole and np.isin(values, (0, 1)).all():
        return values.astype(np.bool_)
    if wanted.kind == "f" and is_whole:
        return values.astype(np.float64)
    if wanted == np.uint8 and is_whole and values.size and values.min() >= 0 and values.max() <= 255:
        return values.astype(np.uint8)
    return values


def _field(name: str, values: NDArray[Any], columns: Mapping[str, Sequence[str]], units: Mapping[str, str]) -> Field:
    changes: dict[str, Any] = {}
    if name in columns:
        changes["columns"] = tuple(columns[name])
    if name in units:
        changes["unit"] = units[name]
    return standard_field(name, values.shape[1:], **changes)


def _measured_rate_hz(station: str, fields: Mapping[str, NDArray[Any]]) -> float:
    steps_s = np.diff(fields["time_s"])[np.diff(fields["sequence"]) == 0]
    steps_s = steps_s[steps_s > 0.0]  # what falls is refused when it is written
    middle_s = float(np.median(steps_s)) if len(steps_s) else 0.0
    if not middle_s > 0.0:
        raise DataError(f"base station {station!r}: time_s does not tell how many frames a second has; give rate_hz")
    return 1.0 / middle_s

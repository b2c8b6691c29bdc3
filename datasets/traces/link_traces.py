"""Readers of what others measured on real links: capacity of cells, rates of streams, delays of messages,
and receptions of packets.

The first three are text files of numbers, a row per line; receptions are an npz file with a row per link.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, reason, shown
from ..array_files import UNREADABLE_ARRAY, read_array
from .trace_columns import MAX_BYTES, TraceColumn, read_columns

_CICV5G_HEADER = "pub_time(ms) sub_time(ms) delay(ms)"
_EPOCH_MS = 1e14  # in the year 5138
#: Which values each column may have.
_MAHIMAHI = (TraceColumn("milliseconds", 0, 0.0, _EPOCH_MS, "ascending", whole=True),)
_PENSIEVE = (
    TraceColumn("seconds", 0, 0.0, _EPOCH_MS / 1e3, "rising"),
    TraceColumn("Mbit/s", 1, 0.0, 1e7),
)
_CICV5G = (
    TraceColumn("pub_time", 0, 0.0, _EPOCH_MS, "rising"),
    TraceColumn("delay", 2, 0.0, 1e7),
    TraceColumn("utmX", 3, -1e7, 1e7),
    TraceColumn("utmY", 4, -2e7, 2e7),
    TraceColumn("velocity", 6, -500.0, 500.0),
    TraceColumn("sinr", 8, -200.0, 200.0),
    TraceColumn("rsrp", 9, -300.0, 100.0),
)
#: Real sets have half a million packets; more is a mistake, or a small file that unpacks to fill the memory.
MAX_ARRAY_BYTES = 1 << 26
#: Array -> kinds of values that it may hold, its number of axes, its smallest and its largest value.
_ARRAYS = {
    "received": ("b", 2, 0, 1),
    "rssi": ("iu", 2, -1, 255),
    "noise_dbm": ("iuf", 1, -300, 100),
    "tx": ("U", 1, None, None),
    "rx": ("U", 1, None, None),
}


class RateTrace(NamedTuple):
    """Capacity over time.

    Attributes:
        time_s: [n] strictly ascending.
        rate_bps: [n] measured over the time that ends at each instant.
    """

    time_s: NDArray[np.float64]
    rate_bps: NDArray[np.float64]


class DelayTrace(NamedTuple):
    """Round trips of messages of a vehicle.

    Attributes:
        time_s: [n] when each was sent, from 0, strictly ascending.
        round_trip_s: [n] until its answer was there.
        position_m: [n, 2] east and north, UTM.
        speed_m_s: [n].
        sinr_db, rsrp_dbm: [n] what the modem said.
    """

    time_s: NDArray[np.float64]
    round_trip_s: NDArray[np.float64]
    position_m: NDArray[np.float64]
    speed_m_s: NDArray[np.float64]
    sinr_db: NDArray[np.float64]
    rsrp_dbm: NDArray[np.float64]


def read_mahimahi(path: Path) -> NDArray[np.float64]:
    """[n] seconds at each of which one packet of 1500 bytes may leave, ascending, many of them equal.

    A line is such an instant in whole milliseconds. The trace begins anew at its last one.

    Raises:
        DataError: a row that is no instant, is before the one above it, or no instant after 0.

    Source: mahimahi, `mm-link`(1).
    """
    time_ms = read_columns(path, _MAHIMAHI, width=1)["milliseconds"]
    if time_ms[-1] == 0.0:
        raise DataError(f"{shown(path)} must end after 0 ms, for a trace that lasts no time has no rate")
    time_ms /= 1e3
    return time_ms


def read_pensieve(path: Path) -> RateTrace:
    """A trace of "seconds Mbit/s".

    Raises:
        DataError: a row of other width, a time that does not ascend, a negative rate, or nothing but zeros.

    Source: Mao, Netravali, Alizadeh: Neural Adaptive Video Streaming with Pensieve, 2017; its `cooked_traces`.
    """
    columns = read_columns(path, _PENSIEVE, width=2)
    time_s, rate = columns["seconds"], columns["Mbit/s"]
    if not (rate[1:] > 0.0).any():
        raise DataError(f"{shown(path)} row 2 or a later one must have a rate above 0 Mbit/s; nothing would ever pass")
    return RateTrace(time_s, rate * 1e6)


def read_cicv5g(path: Path) -> DelayTrace:
    """A run of the CICV5G set: round trips over a commercial 5G network with position and signal.

    Raises:
        DataError: another header, a row of other width, a time that does not ascend, or a negative delay.

    Source: CICV5G, the header line of its files.
    """
    columns = read_columns(path, _CICV5G, width=10, header=_CICV5G_HEADER)
    if len(columns["delay"]) < 2:
        raise DataError(f"{shown(path)} row 2 is the only one; a trace of delays has two or more")
    return DelayTrace(
        (columns["pub_time"] - columns["pub_time"][0]) / 1e3,
        columns["delay"] / 1e3,
        np.stack([columns["utmX"], columns["utmY"]], axis=1),
        columns["velocity"],
        columns["sinr"],
        columns["rsrp"],
    )


class ReceptionTraces(NamedTuple):
    """Packets of many links, one after the other.

    Attributes:
        received: [n_links, n_packets] True where it arrived.
        rssi: [n_links, n_packets] of the received ones, as the card counts it; -1 where lost.
        noise_dbm: [n_links] that was injected.
        transmitter, receiver: [n_links] names.
    """

    received: NDArray[np.bool_]
    rssi: NDArray[np.int64]
    noise_dbm: NDArray[np.float64]
    transmitter: NDArray[np.str_]
    receiver: NDArray[np.str_]


def read_receptions(path: Path) -> ReceptionTraces:
    """A file in the form of the Rutgers noise set.

    Raises:
        DataError: not an npz file, an array that is missing or of other type or shape, or one that is too large. A
            row of an array is named with the array, counted from 1.

    Source: CRAWDAD rutgers/noise, gathered into `received`, `rssi`, `noise_dbm`, `tx`, `rx`.
    """
    try:
        with open_regular(path, MAX_BYTES) as stream, zipfile.ZipFile(stream) as archive:
            arrays = {name: _array(path, archive, name) for name in _ARRAYS}
    except DataError:
        raise
    except (*UNREADABLE_ARRAY, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"{shown(path)} is not a readable npz file ({reason(error)}); name the file of a reception trace"
        ) from None
    shape = arrays["received"].shape
    for name, values in arrays.items():
        due = shape[: values.ndim]
        if values.shape != due:
            raise DataError(f"{shown(path)}: {name} has shape {values.shape} where received {shape} asks for {due}")
    if 0 in shape:
        raise DataError(
            f"{shown(path)}: received has shape {shape} and so no packet; name the file of a reception trace"
        )
    _check_values(path, arrays)
    return ReceptionTraces(
        arrays["received"],
        arrays["rssi"].astype(np.int64),
        arrays["noise_dbm"].astype(np.float64),
        arrays["tx"],
        arrays["rx"],
    )


def _array(path: Path, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    kinds, n_axes, *_ = _ARRAYS[name]
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise DataError(f"{shown(path)} holds no array {name!r}; a reception trace has {', '.join(_ARRAYS)}") from None
    with archive.open(info) as member:
        try:
            return read_array(member, kinds, n_axes, MAX_ARRAY_BYTES)
        except ValueError as error:
            raise DataError(f"{shown(path)}: {name} has {reason(error)}") from None


def _check_values(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Every number lies in its range, and a lost packet has no signal strength."""
    for name, (_, _, lowest, highest) in _ARRAYS.items():
        if lowest is None:
            continue
        values = arrays[name].reshape(len(arrays[name]), -1)
        if wrong := np.flatnonzero(~((values >= lowest) & (values <= highest)).all(axis=1)).tolist():
            row = values[wrong[0]]
            found = row[~((row >= lowest) & (row <= highest))][0]
            raise DataError(
                f"{shown(path)}: {name} row {wrong[0] + 1} must lie from {lowest} to {highest}, got {found:g}"
            )
    if wrong := np.flatnonzero((~arrays["received"] & (arrays["rssi"] != -1)).any(axis=1)).tolist():
        raise DataError(f"{shown(path)}: rssi row {wrong[0] + 1} has a value for a lost packet where -1 is due")

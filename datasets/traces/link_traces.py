"""Readers of what others measured on real links: capacity of cells, rates of streams, delays of messages,
and receptions of packets.

The first three are text files of numbers, a row per line; receptions are an npz file with a row per link. What no link
model uses is not read, so that a file may lack it.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, reason, shown
from ..array_files import UNREADABLE_ARRAY, read_array
from .trace_columns import MAX_BYTES, TraceColumn, read_columns, read_named_columns

_EPOCH_MS = 1e14  # in the year 5138
#: Which values each column may have.
_MAHIMAHI = (TraceColumn("milliseconds", 0.0, _EPOCH_MS, ascends=True, is_whole=True),)
_PENSIEVE = (TraceColumn("seconds", 0.0, _EPOCH_MS / 1e3, ascends=True), TraceColumn("Mbit/s", 0.0, 1e7))
_CICV5G = (TraceColumn("pub_time", 0.0, _EPOCH_MS, "ms", ascends=True), TraceColumn("delay", 0.0, 1e7, "ms"))
_GNETTRACK_TIME = TraceColumn("Timestamp", 0.0, _EPOCH_MS / 1e3, ascends=True, is_instant=True)
_GNETTRACK_RATES = {
    "downlink": TraceColumn("DL_bitrate", 0.0, 1e10, "kbps"),
    "uplink": TraceColumn("UL_bitrate", 0.0, 1e10, "kbps"),
}
#: Rows of one instant; clocks of whole seconds have a few, and those that a spreadsheet rounded thousands.
MOST_TIED = 100
#: Real sets have half a million packets; more is a mistake, or a small file that unpacks to fill the memory.
MAX_ARRAY_BYTES = 1 << 27
#: Truth values, or whole numbers 0 and 1.
_RECEIVED_KINDS = "biu"


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
    """

    time_s: NDArray[np.float64]
    round_trip_s: NDArray[np.float64]


def read_mahimahi(path: Path) -> NDArray[np.float64]:
    """[n] seconds at each of which one packet of 1500 bytes may leave, ascending, many of them equal.

    A line is such an instant in whole milliseconds. The trace begins anew at its last one.

    Raises:
        DataError: a row that is no instant, is before the one above it, or no instant after 0.

    Source: mahimahi, `mm-link`(1).
    """
    time_ms = read_columns(path, _MAHIMAHI)["milliseconds"]
    if time_ms[-1] == 0.0:
        raise DataError(f"{shown(path)} must end after 0 ms, for a trace that lasts no time has no rate")
    time_ms /= 1e3
    return time_ms


def read_pensieve(path: Path) -> RateTrace:
    """A trace of "seconds Mbit/s"; rows of one instant become one row with their mean.

    Raises:
        DataError: a row of other width, a time that falls, a single instant, a negative rate, or nothing but zeros.

    Source: Mao, Netravali, Alizadeh: Neural Adaptive Video Streaming with Pensieve, 2017; its `cooked_traces`.
    """
    columns = read_columns(path, _PENSIEVE)
    return _rates(path, columns["seconds"], columns["Mbit/s"] * 1e6, n_header_rows=0)


def read_gnettrack(path: Path, direction: Literal["downlink", "uplink"] = "downlink") -> RateTrace:
    """A CSV log of the measuring application G-NetTrack, as the Irish 4G and 5G sets hold them.

    Its clock has whole seconds, and some of them have two or three rows: these become one row with their mean, since
    the application logs a row per second and further ones at events such as handovers, of which none lasts longer than
    another as far as the clock tells.

    Args:
        path: path of the file.
        direction: whether `DL_bitrate` or `UL_bitrate` is taken, in kbit/s.

    Raises:
        DataError: `Timestamp` or the rate is missing in the first line; a row of other width, a time that falls or is
            none, a single instant, a rate that is no number, or nothing but zeros.

    Source: Raca et al.: Beyond Throughput, the Next Generation: a 5G Dataset with Channel and Context Metrics, 2020.
    """
    rate = _GNETTRACK_RATES[direction]
    columns = read_named_columns(path, (_GNETTRACK_TIME, rate))
    return _rates(path, columns["Timestamp"], columns[rate.name] * 1e3, n_header_rows=1)


def read_cicv5g(path: Path) -> DelayTrace:
    """A run of the CICV5G set: round trips over a commercial 5G network.

    Only `pub_time` and `delay` are read. The first line of a file names 10 or 13 columns, separated by spaces, or by
    commas once a sheet was saved as CSV; rows have 10, 12 or 13. Of messages sent in one millisecond the last counts.

    Raises:
        DataError: the first line lacks a column; a row of other width, a time that falls, a single instant, or a
            negative delay.

    Source: CICV5G, the first lines of its files.
    """
    columns = read_named_columns(path, _CICV5G)
    time_ms, delay_ms = columns["pub_time"], columns["delay"]
    first = _firsts(path, time_ms, n_header_rows=1)
    last = np.append(first[1:], len(time_ms)) - 1
    return DelayTrace((time_ms[first] - time_ms[0]) / 1e3, delay_ms[last] / 1e3)


def _rates(path: Path, time_s: NDArray[np.float64], rate_bps: NDArray[np.float64], *, n_header_rows: int) -> RateTrace:
    first = _firsts(path, time_s, n_header_rows=n_header_rows)
    if len(first) < len(time_s):
        n_tied = np.diff(np.append(first, len(time_s)))
        time_s, rate_bps = time_s[first], np.add.reduceat(rate_bps, first) / n_tied
    if not (rate_bps[1:] > 0.0).any():
        raise DataError(
            f"{shown(path)} row {2 + n_header_rows} or a later one must have a rate above 0; nothing would ever pass"
        )
    return RateTrace(time_s, rate_bps)


def _firsts(path: Path, times: NDArray[np.float64], *, n_header_rows: int) -> NDArray[np.int64]:
    """[n] row that each instant begins with, from 0."""
    first = np.flatnonzero(np.diff(times, prepend=-np.inf))
    n_tied = np.diff(np.append(first, len(times)))
    if len(first) < 2:
        raise DataError(f"{shown(path)} has one instant in all rows, {times[0]:.15g}; a trace has two or more")
    if n_tied.max() > MOST_TIED:
        row = int(first[n_tied.argmax()])
        raise DataError(
            f"{shown(path)} row {row + 1 + n_header_rows} begins {n_tied.max()} rows of one instant,"
            f" {times[row]:.15g}, at most {MOST_TIED} are read; its clock was rounded, so fetch the file again"
        )
    return first


class ReceptionTraces(NamedTuple):
    """Packets of many links, one after the other.

    Attributes:
        received: [n_links, n_packets] True where it arrived.
    """

    received: NDArray[np.bool_]


def read_receptions(path: Path) -> ReceptionTraces:
    """An npz file with an array `received` [n_links, n_packets], or [n_packets] of one link; others are not read.

    Raises:
        DataError: not an npz file; the array is missing, of other type or shape, too large, or holds other numbers than
            0 and 1.

    Source: the form of CRAWDAD rutgers/noise, gathered; its `rssi`, `noise_dbm`, `tx` and `rx` are not needed.
    """
    try:
        with open_regular(path, MAX_BYTES) as stream, zipfile.ZipFile(stream) as archive:
            received = _array(path, archive, "received")
    except DataError:
        raise
    except (*UNREADABLE_ARRAY, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"{shown(path)} is not a readable npz file ({reason(error)}); name the file of a reception trace"
        ) from None
    if received.ndim not in {1, 2} or 0 in received.shape:
        raise DataError(
            f"{shown(path)}: received has shape {received.shape}, due is (links, packets) with one of each or more;"
            " name the file of a reception trace"
        )
    links = received.reshape(-1, received.shape[-1])
    if wrong := np.flatnonzero(((links < 0) | (links > 1)).any(axis=1)).tolist():
        values = links[wrong[0]]
        raise DataError(
            f"{shown(path)}: received row {wrong[0] + 1} must be 0 or 1, got {values[(values < 0) | (values > 1)][0]}"
        )
    return ReceptionTraces(links.astype(np.bool_))


def _array(path: Path, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise DataError(
            f"{shown(path)} holds no array {name!r} among its {len(archive.namelist())}; name a file of receptions"
        ) from None
    with archive.open(info) as member:
        try:
            return read_array(member, _RECEIVED_KINDS, None, MAX_ARRAY_BYTES)
        except ValueError as error:
            raise DataError(f"{shown(path)}: {name} has {reason(error)}") from None

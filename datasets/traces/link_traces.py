"""Readers of what others measured on real links: capacity of cells, rates of streams, delays of messages,
and receptions of packets.

The first three are text files of numbers, a row per line; receptions are an npz file with a row per link.
"""

from __future__ import annotations

import math
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ...emulator.contracts import DataError

_CICV5G_HEADER = "pub_time(ms) sub_time(ms) delay(ms)"
_CICV5G_COLUMNS = {"pub_time": 0, "delay": 2, "utmX": 3, "utmY": 4, "velocity": 6, "sinr": 8, "rsrp": 9}
#: Real traces have a few megabytes; a larger file is a mistake that would fill the memory.
MAX_BYTES = 1 << 28
#: No number that a trace holds is written longer.
MAX_WORD = 40
#: Column -> [n] float64.
Columns = dict[str, NDArray[np.float64]]
#: A larger array is a mistake, or a small file that unpacks to fill the memory.
MAX_ARRAY_BYTES = 1 << 28
#: Array -> kinds of values that it may hold, and its number of axes.
_ARRAYS = {"received": ("b", 2), "rssi": ("iu", 2), "noise_dbm": ("iuf", 1), "tx": ("U", 1), "rx": ("U", 1)}


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
    rows = trace_rows(path)
    time_ms = columns_of(path, rows, {"milliseconds": 0}, width=1, first_row=1)["milliseconds"]
    if wrong := np.flatnonzero(time_ms != np.floor(time_ms)).tolist():
        raise DataError(f"{path} row {wrong[0] + 1} must be a whole number of milliseconds, got {time_ms[wrong[0]]:g}")
    check_order(path, "milliseconds", time_ms, strictly=False, first_row=1, lowest=0.0)
    if time_ms[-1] == 0.0:
        raise DataError(f"{path} row {len(rows)} must be after 0 ms, for a trace that lasts no time has no rate")
    return time_ms / 1e3


def read_pensieve(path: Path) -> RateTrace:
    """A trace of "seconds Mbit/s".

    Raises:
        DataError: a row of other width, a time that does not ascend, a negative rate, or nothing but zeros.

    Source: Mao, Netravali, Alizadeh: Neural Adaptive Video Streaming with Pensieve, 2017; its `cooked_traces`.
    """
    columns = columns_of(path, trace_rows(path), {"seconds": 0, "Mbit/s": 1}, width=2, first_row=1)
    time_s, rate = columns["seconds"], columns["Mbit/s"]
    check_order(path, "seconds", time_s, strictly=True, first_row=1)
    if wrong := np.flatnonzero(rate < 0.0).tolist():
        raise DataError(f"{path} row {wrong[0] + 1}: Mbit/s must be 0 or more, got {rate[wrong[0]]:g}")
    if not (rate[1:] > 0.0).any():
        raise DataError(f"{path} row 2 or a later one must have a rate above 0 Mbit/s; nothing would ever pass")
    return RateTrace(time_s, rate * 1e6)


def read_cicv5g(path: Path) -> DelayTrace:
    """A run of the CICV5G set: round trips over a commercial 5G network with position and signal.

    Raises:
        DataError: another header, a row of other width, a time that does not ascend, or a negative delay.

    Source: CICV5G, the header line of its files.
    """
    rows = trace_rows(path, header=_CICV5G_HEADER)
    columns = columns_of(path, rows, _CICV5G_COLUMNS, width=10, first_row=2)
    check_order(path, "pub_time", columns["pub_time"], strictly=True, first_row=2)
    delay_ms = columns["delay"]
    if wrong := np.flatnonzero(delay_ms < 0.0).tolist():
        raise DataError(f"{path} row {wrong[0] + 2}: delay must be 0 ms or more, got {delay_ms[wrong[0]]:g}")
    if len(rows) < 2:
        raise DataError(f"{path} row 2 is the only one; a trace of delays has two or more")
    return DelayTrace(
        (columns["pub_time"] - columns["pub_time"][0]) / 1e3,
        delay_ms / 1e3,
        np.stack([columns["utmX"], columns["utmY"]], axis=1),
        columns["velocity"],
        columns["sinr"],
        columns["rsrp"],
    )


def trace_rows(path: Path, *, header: str = "") -> list[list[bytes]]:
    """Words of every line; blank lines at the end are dropped.

    Args:
        path: path of the file.
        header: beginning of its first line; empty: it has none.

    Raises:
        DataError: the file cannot be read, is empty, too large, or begins otherwise.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path} has {path.stat().st_size} bytes; a link trace has at most {MAX_BYTES}, shorten it")
        lines = path.read_bytes().rstrip().split(b"\n")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DataError(f"{path} cannot be read ({error}); name the file of a link trace") from None
    if header:
        if not lines[0].startswith(header.encode()):
            raise DataError(f"{path} row 1 must begin with {header!r}; is it a trace of another format?")
        lines = lines[1:]
    if not lines or not lines[0].strip():
        raise DataError(f"{path} holds no rows; name the file of a link trace")
    return [line.split() for line in lines]


def columns_of(path: Path, rows: list[list[bytes]], names: dict[str, int], *, width: int, first_row: int) -> Columns:
    """Some columns as numbers.

    Args:
        path: path of the file, for errors.
        rows: words of every row.
        names: column -> index of its word in a row.
        width: number of words in every row.
        first_row: number of the first of the rows in its file, from 1.

    Raises:
        DataError: a row of another width, or a word that is no finite number.
    """
    for number, row in enumerate(rows, start=first_row):
        if len(row) != width:
            raise DataError(f"{path} row {number} has {len(row)} values where {width} are due; repair or remove it")
    columns = {}
    for name, at in names.items():
        words = [row[at] for row in rows]
        values = _numbers(words)
        if not np.isfinite(values).all():
            wrong = int(np.flatnonzero(~np.isfinite(values))[0])
            shown = words[wrong][:MAX_WORD].decode("ascii", "backslashreplace")
            raise DataError(f"{path} row {wrong + first_row}: {name} must be a finite number, got {shown!r}")
        columns[name] = values
    return columns


def check_order(
    path: Path, name: str, values: NDArray[np.float64], *, strictly: bool, first_row: int, lowest: float = -np.inf
) -> None:
    """Check that the values of a column ascend.

    Raises:
        DataError: a value falls, repeats where it must not, or the first is too low.
    """
    if values[0] < lowest:
        raise DataError(f"{path} row {first_row}: {name} must be {lowest:g} or more, got {values[0]:g}")
    steps = np.diff(values)
    if wrong := np.flatnonzero(steps <= 0.0 if strictly else steps < 0.0).tolist():
        row = wrong[0] + 1
        asked = "above" if strictly else "no less than"
        raise DataError(
            f"{path} row {row + first_row}: {name} must be {asked} that of the row before ({values[row - 1]:.15g}), got"
            f" {values[row]:.15g}"
        )


def _numbers(words: list[bytes]) -> NDArray[np.float64]:
    """[n] NaN where a word is no number."""
    if max(map(len, words)) <= MAX_WORD:  # an array of words is as wide as the longest
        with suppress(ValueError):
            return np.array(words).astype(np.float64)
    return np.array([_number(word) for word in words])


def _number(word: bytes) -> float:
    try:
        return float(word) if len(word) <= MAX_WORD else np.nan
    except ValueError:
        return np.nan


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
        with zipfile.ZipFile(path) as archive:
            arrays = {name: _array(path, archive, name) for name in _ARRAYS}
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a readable npz file ({error}); name the file of a reception trace") from None
    shape = arrays["received"].shape
    for name, values in arrays.items():
        due = shape[: values.ndim]
        if values.shape != due:
            raise DataError(f"{path}: {name} has shape {values.shape} where received {shape} asks for {due}")
    if 0 in shape:
        raise DataError(f"{path}: received has shape {shape} and so no packet; name the file of a reception trace")
    _check_rows(path, arrays)
    return ReceptionTraces(
        arrays["received"],
        arrays["rssi"].astype(np.int64),
        arrays["noise_dbm"].astype(np.float64),
        arrays["tx"],
        arrays["rx"],
    )


def _array(path: Path, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array, after its header and before its size has cost anything."""
    kinds, n_axes = _ARRAYS[name]
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise DataError(f"{path} holds no array {name!r}; a reception trace has {', '.join(_ARRAYS)}") from None
    with archive.open(info) as member:
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        version = npy.read_magic(member)
        if version not in read_header:
            raise DataError(f"{path}: {name} is in npy format {version}; save it again with numpy.savez")
        shape, _, dtype = read_header[version](member)
    if dtype.kind not in kinds or len(shape) != n_axes:
        raise DataError(
            f"{path}: {name} has type {dtype} and {len(shape)} axes; due are {n_axes} and one of the kinds"
            f" {', '.join(kinds)}"
        )
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes > MAX_ARRAY_BYTES or info.file_size > MAX_ARRAY_BYTES + 65536:
        raise DataError(f"{path}: {name} has {n_bytes} bytes; an array may have at most {MAX_ARRAY_BYTES}, shorten it")
    with archive.open(info) as member:
        return np.asarray(npy.read_array(member, allow_pickle=False))


def _check_rows(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """A lost packet has no signal strength, and the noise is a number."""
    if wrong := np.flatnonzero((~arrays["received"] & (arrays["rssi"] != -1)).any(axis=1)).tolist():
        raise DataError(f"{path}: rssi row {wrong[0] + 1} has a value for a lost packet where -1 is due")
    if wrong := np.flatnonzero(~np.isfinite(arrays["noise_dbm"].astype(np.float64))).tolist():
        raise DataError(f"{path}: noise_dbm row {wrong[0] + 1} must be a finite number")

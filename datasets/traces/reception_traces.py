"""Reads which packets real links received: an npz file with a row per link."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ...emulator.contracts import DataError

#: A larger array is a mistake, or a small file that unpacks to fill the memory.
MAX_ARRAY_BYTES = 1 << 28
#: Array -> kinds of values that it may hold, and its number of axes.
_ARRAYS = {"received": ("b", 2), "rssi": ("iu", 2), "noise_dbm": ("iuf", 1), "tx": ("U", 1), "rx": ("U", 1)}


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

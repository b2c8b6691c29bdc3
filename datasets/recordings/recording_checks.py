"""Checks that a recording file holds its own numbers and nothing else, before any of them is read.

A recording may come from a stranger, and so may a file of paths, which shares these checks. Links out of the file,
objects in the place of numbers, filters that would load a plug-in, and sizes without content are refused by name.
Values are checked when they are read, see `recorded_values`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np

from ...emulator.contracts import DataError
from ...emulator.regular_file import quoted, reason, shown
from .recording_layout import MAX_FRAMES, MAX_NAME, MAX_TEXT_BYTES, Field, complaint_about_shape, frame_bytes
from .recording_strings import check_heaps

MAX_CHUNK_BYTES = 1 << 26
#: A file that unpacks to more than the first may be at most so many times smaller: those of worlds, which are made of
#: noise, are 1.1 to 8 times smaller, and zeros 1,000 times.
UNPACKED_BYTES, MOST_UNPACKED = 1 << 26, 200
#: HDF5 would look for a plug-in, and run it, for any other filter.
_FILTERS = frozenset({h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32})
#: What h5py raises for files that are not what they seem; `RecursionError` of nested JSON is a `RuntimeError`.
UNREADABLE = (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError, OverflowError)
_Json = TypeVar("_Json", list[Any], dict[str, Any])
#: Where the layout is described, and what to do without a file.
PAGE, REMEDY = "docs/own_recordings.md", "make one with the record or import command"


@contextmanager
def refusing(path: Path, what: str = "recording", remedy: str = REMEDY) -> Iterator[None]:
    """Context that turns errors of HDF5 into one sentence."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"no {what} at {shown(path)}; {remedy}") from None
    except UNREADABLE as error:
        raise DataError(
            f"{shown(path)} cannot be read as a {what} ({reason(error)}); it is truncated, damaged or no HDF5 file"
        ) from error


def member_names(path: str, group: Any, wanted_type: int, where: str, n_most: int) -> set[str]:
    """Names below a group, each of them part of this file and of the wanted kind; no link is followed to find out."""
    # before names are listed: a crafted file may declare billions of objects
    if group.id.get_num_objs() > n_most:
        raise DataError(f"{path}: {where} holds {group.id.get_num_objs()} objects, at most {n_most} were declared")
    names = set()
    for raw in group.id:
        name = raw.decode("utf-8", "replace")
        if group.id.links.get_info(raw).type != h5py.h5l.TYPE_HARD:
            raise DataError(f"{path}: {quoted(name)} in {where} is a link to elsewhere; files hold their own data")
        if h5py.h5o.get_info(group.id, raw).type != wanted_type:
            raise DataError(
                f"{path}: {quoted(name)} in {where} is not what a recording has there; it is no recording of ours"
            )
        names.add(name)
    return names


def check_dataset(where: str, dataset: Any, expected: Field, n_frames: int) -> None:
    """Refuses a dataset whose values would not be those declared, or would come from anywhere but its own chunks."""
    if dataset.dtype != np.dtype(expected.dtype):
        raise DataError(
            f"{where} is stored as {dataset.dtype}, expected {expected.dtype}; docs/own_recordings.md has the layout"
        )
    if dataset.ndim != 1 + len(expected.shape):
        raise DataError(
            f"{where} has {dataset.ndim} axes, expected {1 + len(expected.shape)}; docs/own_recordings.md has the"
            " layout"
        )
    if complaint := complaint_about_shape(expected.name, dataset.shape[1:]):
        raise DataError(f"{where}: {complaint}")
    if dataset.shape[0] != n_frames:
        raise DataError(
            f"{where} has {dataset.shape[0]} frames, the base station {n_frames}; docs/own_recordings.md has the layout"
        )
    if n_frames > MAX_FRAMES:
        raise DataError(f"{where} has {n_frames} frames, at most {MAX_FRAMES} are read; record in parts")
    check_storage(where, dataset, frame_bytes(expected.name, dataset.shape[1:]))


def check_storage(where: str, dataset: Any, row_bytes: int, page: str = PAGE) -> None:
    """Refuses a dataset whose values are not all in this file, or need a plug-in or much memory to be read."""
    n_rows = dataset.shape[0]
    properties = dataset.id.get_create_plist()
    if _is_whole_block(dataset, properties):
        return
    if properties.get_layout() != h5py.h5d.CHUNKED or dataset.chunks[1:] != dataset.shape[1:]:
        raise DataError(
            f"{where} is not stored in this file in one block or in chunks of whole frames; create it with chunks=(64,"
            " ...) of the shape of a frame"
        )
    if dataset.chunks[0] * row_bytes > MAX_CHUNK_BYTES:
        raise DataError(f"{where} has chunks of {dataset.chunks[0]} frames, which need too much memory")
    filters = {properties.get_filter(index)[0] for index in range(properties.get_nfilters())}
    if not filters <= _FILTERS:
        raise DataError(f"{where} uses HDF5 filters {sorted(filters - _FILTERS)}, only deflate and shuffle are read")
    n_chunks = math.ceil(n_rows / dataset.chunks[0])
    # HDF5 would fill missing chunks with zeros, which look like measured values
    if dataset.id.get_num_chunks() != n_chunks:
        raise DataError(
            f"{where} holds {dataset.id.get_num_chunks()} of the {n_chunks} chunks that {n_rows} frames need; "
            f"{page} has the layout"
        )


def _is_whole_block(dataset: Any, properties: Any) -> bool:
    """Whether all values lie in one block of this file, as h5py stores them unless it is told otherwise."""
    return bool(
        properties.get_layout() == h5py.h5d.CONTIGUOUS
        and properties.get_external_count() == 0
        and dataset.id.get_storage_size() == dataset.size * dataset.dtype.itemsize
    )


def check_unpacked(path: Path, n_bytes: int) -> None:
    """Refuses a file whose content is far larger than the file: reading it would fill the memory with nothing."""
    stored = path.stat().st_size
    if n_bytes > max(UNPACKED_BYTES, MOST_UNPACKED * stored):
        raise DataError(
            f"{shown(path)} has {stored} bytes and unpacks to {n_bytes}, over {MOST_UNPACKED} times as many, which no "
            "sensor's frames do; make it again"
        )


class Attributes:
    """Attributes of an HDF5 object, their types checked before their content is read.

    Args:
        where: how messages name the object.
        owner: file, group or dataset.
        page: where the layout is described.
    """

    def __init__(self, where: str, owner: Any, page: str = PAGE) -> None:
        self._where, self._page = where, page
        self._attributes = owner.attrs
        self._path = Path(owner.file.filename)

    def __contains__(self, name: str) -> bool:
        return name in self._attributes

    def text(self, name: str) -> str:
        """A string of fixed length, or of variable length in a sound heap."""
        content: bytes | str = self._scalar(name, h5py.h5t.TypeStringID)
        text = content if isinstance(content, str) else content.decode("utf-8")
        if len(text) > MAX_TEXT_BYTES:
            raise DataError(f"{self._where}: attribute {name} has {len(text)} characters, at most {MAX_TEXT_BYTES}")
        return text

    def name(self, name: str) -> str:
        """A text that is shown to people: short, and without what would change their screen."""
        text = self.text(name)
        if len(text) > MAX_NAME or not text.isprintable():
            raise DataError(
                f"{self._where}: attribute {name} must be up to {MAX_NAME} printable characters, got {quoted(text)}; "
                f"{self._page} has the layout"
            )
        return text

    def integer(self, name: str) -> int:
        """Value of an attribute that is a whole number."""
        return int(self._scalar(name, h5py.h5t.TypeIntegerID))

    def real(self, name: str) -> float:
        """Value of an attribute that is a floating-point number."""
        return float(self._scalar(name, h5py.h5t.TypeFloatID))

    def json(self, name: str, kind: type[_Json]) -> _Json:
        """A list or an object, kept as JSON text."""
        value = json.loads(self.text(name), parse_constant=self._no_number, parse_float=self._finite)
        if not isinstance(value, kind):
            raise DataError(
                f"{self._where}: attribute {name} must be a JSON {kind.__name__}; {self._page} has the layout"
            )
        return value

    def _no_number(self, word: str) -> Any:
        raise DataError(
            f"{self._where}: a JSON attribute holds {word}, which is no number; {self._page} has the layout"
        )

    def _finite(self, word: str) -> float:
        return value if math.isfinite(value := float(word)) else self._no_number(quoted(word))

    def _scalar(self, name: str, wanted: type[Any]) -> Any:
        if name not in self._attributes:
            raise DataError(f"{self._where} has no attribute {name}; {self._page} has the layout")
        handle = self._attributes.get_id(name)
        kind = handle.get_type()
        # before it is read: an attribute may declare gigabytes
        if handle.shape != () or not isinstance(kind, wanted) or kind.get_size() > MAX_TEXT_BYTES:
            raise DataError(f"{self._where}: attribute {name} has the wrong type; {self._page} has the layout")
        if isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str():
            check_heaps(self._path)
        return self._attributes[name]

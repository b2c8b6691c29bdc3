"""Strings of variable length in a recording: read only where the heaps that hold them are sound.

HDF5 keeps such strings in global heaps, which have no checksum. One whose next object would begin where it begins
itself makes HDF5 loop forever, so that heaps are walked here before any string is read.

Source: HDF5 file format specification 3.0, section III.E, Global Heap.
"""

from __future__ import annotations

import mmap
import struct
from functools import lru_cache
from pathlib import Path

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, shown

#: Sizes of heaps: HDF5 makes them of 4 KiB, or of the size of the one string that needs more.
LEAST_HEAP_BYTES, MOST_HEAP_BYTES = 1 << 12, 1 << 22
#: Most heaps of a file; one holds the texts of a base station and more.
MOST_HEAPS = 100_000
_SIGNATURE, _VERSION = b"GCOL", 1
_HEADER_BYTES = _OBJECT_BYTES = 16


def check_heaps(path: Path) -> None:
    """Refuse a file with a global heap in which objects do not follow one another to its end.

    Raises:
        DataError: there is one.
    """
    facts = path.stat()
    if complaint := _complaint(path, facts.st_size, facts.st_mtime_ns):
        raise DataError(f"{shown(path)} has {complaint}; write its texts as strings of fixed length")


@lru_cache(maxsize=4)
def _complaint(path: Path, n_bytes: int, changed_ns: int) -> str:
    """What is wrong with the heaps of a file of this size and age; empty if nothing is."""
    del changed_ns  # it is part of what is remembered
    if n_bytes == 0:
        return ""
    with open_regular(path) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at, n_heaps = content.find(_SIGNATURE), 0
        while at >= 0:
            # without this version it is no heap but a coincidence in numbers, and HDF5 refuses to read it
            if content[at + 4 : at + 5] == bytes([_VERSION]):
                n_heaps += 1
                if n_heaps > MOST_HEAPS:
                    return f"more than {MOST_HEAPS} heaps of strings"
                if not _is_sound(content, at):
                    return f"a damaged heap of strings at byte {at}"
            at = content.find(_SIGNATURE, at + 1)
    return ""


def _is_sound(content: mmap.mmap, at: int) -> bool:
    if at + _HEADER_BYTES > len(content):
        return False
    (size,) = struct.unpack_from("<Q", content, at + 8)
    end = at + size
    if not LEAST_HEAP_BYTES <= size <= MOST_HEAP_BYTES or end > len(content):
        return False
    at += _HEADER_BYTES
    while at + _OBJECT_BYTES <= end:
        (index,), (length,) = struct.unpack_from("<H", content, at), struct.unpack_from("<Q", content, at + 8)
        # free space counts its own head, and is the last
        step = length if index == 0 else _OBJECT_BYTES + -(-length // 8) * 8
        if step < _OBJECT_BYTES or at + step > end:
            return False
        at += step
    return True

"""Reader of one `.npy` array, whose header is checked before its size has cost anything."""

from __future__ import annotations

import math
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

#: What NumPy raises for headers and bodies that are not those of an array; several come from parsing the header.
UNREADABLE_ARRAY = (ValueError, OSError, EOFError, MemoryError, OverflowError, TypeError, SyntaxError, TokenError)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_array(stream: IO[bytes], kinds: str, n_axes: int | None, most_bytes: int) -> NDArray[Any]:
    """The array at the beginning of a stream that can be read again.

    Args:
        stream: as opened; it is at its beginning.
        kinds: one letter per kind of numbers that is taken, such as "iuf"; never objects, which would run code.
        n_axes: number of axes; None: any.
        most_bytes: largest size of its values.

    Raises:
        ValueError: it is of another kind, number of axes or version, or larger, or shorter than it says.
        others of `UNREADABLE_ARRAY`: it is no array.
    """
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"npy format {version}; save it again with numpy.savez")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.kind not in kinds or n_axes not in {None, len(shape)}:
        due, known = "any" if n_axes is None else n_axes, ", ".join(kinds)
        raise ValueError(f"type {dtype} and {len(shape)} axes; due are {due} and one of the kinds {known}")
    n_bytes = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or n_bytes > most_bytes:
        raise ValueError(f"shape {shape} and so {n_bytes} bytes; at most {most_bytes} are read, shorten it")
    stream.seek(0)
    return np.asarray(npy.read_array(stream, allow_pickle=False))

"""Readers of the files that DeepSense keeps its sensors in: MATLAB matrices for LiDAR sweeps, JPEG and PNG for cameras.

Matrices: level 5 of the format (versions 5 to 7). Images are read where Pillow is installed; no other file knows of it.

Source: "MAT-File Format", The MathWorks, level 5.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, read_regular, reason, shown
from ..data_folder import listed

#: Far above any sweep, far below what a compressed bomb unpacks to.
MAX_BYTES = 1 << 24
#: A sweep has hundreds of rays of two values.
MAX_VALUES = 1 << 20
_HEADER_BYTES = 128
_MATRIX, _COMPRESSED = 14, 15
#: Data types of elements, by number.
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_NUMERIC_CLASSES = range(6, 16)
_COMPLEX = 0x0800
#: Of a matrix: flags, shape, name, values, and imaginary values.
_MOST_PARTS = 5

try:
    from PIL import Image

    CAN_READ_IMAGES = True
except ImportError:  # an extra that most users do not need
    CAN_READ_IMAGES = False

#: Larger images are refused: no camera here has them, and they would fill the memory.
MAX_PIXELS, MAX_IMAGE_BYTES = 1 << 25, 1 << 26


#: What Pillow raises for damaged images; `struct.error` and its own are no kinds of the others.
_UNREADABLE_IMAGE: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    SyntaxError,
    TypeError,
    LookupError,
    OverflowError,
    MemoryError,
    EOFError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError if CAN_READ_IMAGES else OSError,
)


def read_mat(path: Path, name: str = "data") -> NDArray[np.float64]:
    """The matrix of this name, or the only numeric one that the file holds.

    Returns:
        [rows, columns] float64.

    Raises:
        DataError: the file is missing, too large, damaged, of another format, or holds no such matrix.
    """
    try:
        content = read_regular(path, MAX_BYTES)
        order = _byte_order(path, content)
        matrices = dict(_matrices(content[_HEADER_BYTES:], order))
    except DataError:
        raise
    except (OSError, ValueError, struct.error, zlib.error, KeyError, OverflowError) as error:
        raise DataError(
            f"{shown(path)} cannot be read as a .mat file ({reason(error)}); fetch the file again"
        ) from None
    if name not in matrices and len(matrices) != 1:
        raise DataError(f"{shown(path)} holds no matrix {name!r}, but {listed(sorted(matrices)) or 'nothing numeric'}")
    return matrices.get(name, next(iter(matrices.values())))


def _byte_order(path: Path, content: bytes) -> str:
    if content[:10] == b"MATLAB 7.3":
        raise DataError(f"{shown(path)} is a MATLAB 7.3 file; save it again with the option -v7")
    mark = content[126:128]
    if mark not in {b"IM", b"MI"}:
        raise ValueError("no MATLAB header")
    return "<" if mark == b"IM" else ">"


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Type and data of each element, in order."""
    at = 0
    while at + 8 <= len(content):
        kind, n_bytes = struct.unpack_from(f"{order}II", content, at)
        if kind >> 16:  # up to four bytes share the tag
            kind, n_bytes, begin, step = kind & 0xFFFF, kind >> 16, at + 4, 8
        else:
            begin, step = at + 8, 8 + (n_bytes if kind == _COMPRESSED else -(-n_bytes // 8) * 8)
        data = content[begin : begin + n_bytes]
        if len(data) < n_bytes:
            raise ValueError("an element is cut short")
        yield kind, data
        at += step


def _matrices(content: bytes, order: str) -> Iterator[tuple[str, NDArray[np.float64]]]:
    n_left = MAX_BYTES  # of all compressed elements together
    for kind, data in _elements(content, order):
        if kind != _COMPRESSED:
            found = [(kind, data)]
        else:
            inflate = zlib.decompressobj()
            unpacked = inflate.decompress(data, n_left + 1)
            n_left -= len(unpacked)
            if n_left < 0:
                raise ValueError(f"its elements unpack to more than {MAX_BYTES >> 20} MiB")
            # a compressed element holds one matrix, never another compressed one
            found = list(_elements(unpacked, order))
        for one, values in found:
            if one == _MATRIX and (matrix := _matrix(_elements(values, order), order)):
                yield matrix


def _matrix(parts: Iterator[tuple[int, bytes]], order: str) -> tuple[str, NDArray[np.float64]] | None:
    """Name and values of a numeric, real, two-dimensional matrix; None for anything else."""
    elements = list(islice(parts, _MOST_PARTS))
    if len(elements) < 4 or len(elements[0][1]) < 4:
        return None
    (flags,) = struct.unpack_from(f"{order}I", elements[0][1])
    shape = tuple(int(size) for size in _numbers(elements[1], order))
    if flags & 0xFF not in _NUMERIC_CLASSES or flags & _COMPLEX or len(shape) != 2:
        return None
    values = _numbers(elements[3], order)
    if values.size > MAX_VALUES:
        raise ValueError(f"a matrix of {values.size} values, too large for one sweep")
    if min(shape) < 0 or values.size != shape[0] * shape[1]:
        raise ValueError(f"{values.size} values for a matrix of shape {shape}")
    return elements[2][1].decode("ascii"), values.reshape(shape, order="F").astype(np.float64)


def _numbers(element: tuple[int, bytes], order: str) -> NDArray[Any]:
    return np.frombuffer(element[1], dtype=order + _TYPES[element[0]])


def read_image(path: Path, size: int) -> NDArray[np.uint8]:
    """The image as RGB, averaged down to a square; the aspect is not kept.

    Args:
        path: JPEG or PNG.
        size: height and width of the result.

    Returns:
        [size, size, 3] uint8.

    Raises:
        DataError: Pillow is missing, or the file is no whole image.
    """
    if not CAN_READ_IMAGES:
        raise DataError(f"{shown(path)} needs Pillow to be read; install it, or leave the camera out")
    try:
        with (
            open_regular(path, MAX_IMAGE_BYTES) as stream,
            Image.open(stream, formats=("JPEG", "PNG")) as image,
        ):
            if image.width * image.height > MAX_PIXELS:
                raise DataError(f"{shown(path)} has {image.width} x {image.height} pixels, more than any camera here")
            image.draft("RGB", (size, size))  # a JPEG is decoded at the smallest scale that suffices
            small = image.convert("RGB").resize((size, size), Image.Resampling.BOX)
            return np.asarray(small, dtype=np.uint8)
    except DataError:
        raise
    except _UNREADABLE_IMAGE as error:
        raise DataError(f"{shown(path)} cannot be read as an image ({reason(error)}); fetch the file again") from None

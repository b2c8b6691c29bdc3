"""Reader of MATLAB files, level 5 of the format (versions 5 to 7): matrices, and cell arrays of them.

Source: "MAT-File Format", The MathWorks, level 5.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..emulator.contracts import DataError
from ..emulator.regular_file import read_regular, reason, shown
from .data_folder import listed

#: Far above any sweep, far below what a compressed bomb unpacks to.
MAX_BYTES = 1 << 24
#: A sweep has hundreds of rays of two values.
MAX_VALUES = 1 << 20
_HEADER_BYTES = 128
_MATRIX, _COMPRESSED = 14, 15
#: Data types of elements, by number.
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CELL_CLASS = 1
_NUMERIC_CLASSES = range(6, 16)
_COMPLEX = 0x0800
#: Of a matrix: flags, shape, name, values, and imaginary values.
_MOST_PARTS = 5
_UNREADABLE = (OSError, ValueError, struct.error, zlib.error, KeyError, OverflowError)


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
    except _UNREADABLE as error:
        raise DataError(
            f"{shown(path)} cannot be read as a .mat file ({reason(error)}); fetch the file again"
        ) from None
    if name not in matrices and len(matrices) != 1:
        raise DataError(f"{shown(path)} holds no matrix {name!r}, but {listed(sorted(matrices)) or 'nothing numeric'}")
    return matrices.get(name, next(iter(matrices.values())))


def read_mat_cube(path: Path) -> NDArray[Any]:
    """The only array of three axes that the file holds, real or complex.

    Returns:
        [a, b, c] float64 or complex128.

    Raises:
        DataError: the file is missing, too large, damaged, of another format, or holds no such array, or several.
    """
    try:
        content = read_regular(path, MAX_BYTES)
        order = _byte_order(path, content)
        arrays = (
            _array(_elements(values, order), order) for values in _matrix_elements(content[_HEADER_BYTES:], order)
        )
        cubes = [found[1] for found in arrays if found is not None and found[1].ndim == 3]
    except DataError:
        raise
    except _UNREADABLE as error:
        raise DataError(
            f"{shown(path)} cannot be read as a .mat file ({reason(error)}); fetch the file again"
        ) from None
    if len(cubes) != 1:
        raise DataError(f"{shown(path)} holds {len(cubes)} arrays of three axes, expected one; fetch the file again")
    return cubes[0]


def read_mat_cells(path: Path, name: str) -> list[NDArray[np.float64]]:
    """The matrices of a cell array, in the order of the file.

    Returns:
        [rows, columns] float64 each, at least one.

    Raises:
        DataError: the file is missing, too large, damaged, of another format, or holds no such array of matrices.
    """
    try:
        content = read_regular(path, MAX_BYTES)
        order = _byte_order(path, content)
        found = next((parts for parts in _cell_arrays(content[_HEADER_BYTES:], order) if parts[0] == name), None)
    except DataError:
        raise
    except _UNREADABLE as error:
        raise DataError(
            f"{shown(path)} cannot be read as a .mat file ({reason(error)}); fetch the file again"
        ) from None
    if found is None or not found[1]:
        raise DataError(f"{shown(path)} holds no cell array {name!r} of matrices; fetch the file again")
    return found[1]


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
    for values in _matrix_elements(content, order):
        if matrix := _matrix(_elements(values, order), order):
            yield matrix


def _cell_arrays(content: bytes, order: str) -> Iterator[tuple[str, list[NDArray[np.float64]]]]:
    """Name and matrices of every cell array that holds nothing else."""
    for values in _matrix_elements(content, order):
        flags, shape, name, *cells = [*_elements(values, order)] or [(0, b"")] * 3
        if len(flags[1]) < 4 or struct.unpack_from(f"{order}I", flags[1])[0] & 0xFF != _CELL_CLASS:
            continue
        matrices = [_matrix(_elements(cell, order), order) for kind, cell in cells if kind == _MATRIX]
        if len(matrices) == int(np.prod(_numbers(shape, order))) and None not in matrices:
            yield name[1].decode("ascii"), [matrix[1] for matrix in matrices if matrix is not None]


def _matrix_elements(content: bytes, order: str) -> Iterator[bytes]:
    """Data of every matrix element, unpacked."""
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
            if one == _MATRIX:
                yield values


def _matrix(parts: Iterator[tuple[int, bytes]], order: str) -> tuple[str, NDArray[np.float64]] | None:
    """Name and values of a numeric, real, two-dimensional matrix; None for anything else."""
    found = _array(parts, order)
    return None if found is None or found[1].ndim != 2 or np.iscomplexobj(found[1]) else found


def _array(parts: Iterator[tuple[int, bytes]], order: str) -> tuple[str, NDArray[Any]] | None:
    """Name and values of a numeric array, as float64 or complex128; None for anything else."""
    elements = list(islice(parts, _MOST_PARTS))
    if len(elements) < 4 or len(elements[0][1]) < 4:
        return None
    (flags,) = struct.unpack_from(f"{order}I", elements[0][1])
    shape = tuple(int(size) for size in _numbers(elements[1], order))
    is_complex = bool(flags & _COMPLEX)
    if flags & 0xFF not in _NUMERIC_CLASSES or (is_complex and len(elements) < _MOST_PARTS):
        return None
    parts_of_values = [_numbers(element, order) for element in elements[3 : 5 if is_complex else 4]]
    for values in parts_of_values:
        if values.size > MAX_VALUES:
            raise ValueError(f"a matrix of {values.size} values, too large for one sweep")
        if min(shape, default=0) < 0 or values.size != math.prod(shape):
            raise ValueError(f"{values.size} values for a matrix of shape {shape}")
    arrays = [values.reshape(shape, order="F").astype(np.float64) for values in parts_of_values]
    return elements[2][1].decode("ascii"), arrays[0] + 1j * arrays[1] if is_complex else arrays[0]


def _numbers(element: tuple[int, bytes], order: str) -> NDArray[Any]:
    return np.frombuffer(element[1], dtype=order + _TYPES[element[0]])

"""Trees of state and rows of observations inside packets; arrays are frames beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...contracts import State
from ...state_tree import packed_tree, unpacked_tree
from .errors import WireError
from .packets import Frame

#: What arrays may hold.
ARRAY_DTYPES = frozenset(
    {"|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"},
)
MOST_AXES = 8
_DEEPEST_ROW = 8


def pack_tree(tree: State, frames: list[Frame]) -> dict[str, Any]:
    """The fields that carry a tree: its text, and [dtype, shape] of every array, whose numbers are added to `frames`.

    Raises:
        WireError: something in it is not plain.
    """
    try:
        text, arrays = packed_tree(tree)
    except TypeError as error:
        raise WireError(str(error)) from None
    described = []
    for array in arrays:
        # Little-endian, whatever the machine: the other end may be another one.
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        if little.dtype.str not in ARRAY_DTYPES or array.ndim > MOST_AXES:
            raise WireError(f"an array of {array.dtype.str} with {array.ndim} axes cannot cross")
        frames.append(little.reshape(-1).view(np.uint8).data.toreadonly())
        described.append([little.dtype.str, list(array.shape)])
    return {"tree": text.decode(), "arrays": described}


def unpack_tree(fields: Mapping[str, Any], frames: Sequence[Frame]) -> State:
    """The tree in such fields; its arrays are read-only views of the frames.

    Raises:
        WireError: they hold no plain tree, or do not fit the frames.
    """
    if len(fields["arrays"]) != len(frames):
        raise WireError(f"{len(fields['arrays'])} arrays came in {len(frames)} frames")
    arrays = [_array(described, frame) for described, frame in zip(fields["arrays"], frames, strict=True)]
    try:
        return unpacked_tree(fields["tree"].encode(), arrays)
    except ValueError as error:  # that of text which is no UTF-8 among them
        raise WireError(str(error)) from None


def check_row(row: object, depth: int = _DEEPEST_ROW) -> None:
    """Refuse what is not made of names, numbers and text.

    Raises:
        WireError: it holds anything else.
    """
    if row is None or isinstance(row, bool | int | float | str):
        return
    if depth and isinstance(row, list):
        for part in row:
            check_row(part, depth - 1)
    elif depth and isinstance(row, dict) and all(isinstance(name, str) for name in row):
        for part in row.values():
            check_row(part, depth - 1)
    else:
        raise WireError(f"a row holds named numbers and text, and few levels of them, got a {type(row).__name__}")


def aligned(raw: Frame, dtype: np.dtype[Any]) -> NDArray[Any]:
    """[n] read-only view of a frame, or a copy where ZeroMQ has put it at an address that torch does not take."""
    values = np.frombuffer(raw, dtype=dtype)
    if not values.flags.aligned:
        values = values.copy()
    values.flags.writeable = False
    return values


def _array(described: object, frame: Frame) -> NDArray[Any]:
    if not isinstance(described, list) or list(map(type, described)) != [str, list]:
        raise WireError("an array is described by its dtype and shape")
    dtype, shape = described
    if dtype not in ARRAY_DTYPES:
        raise WireError(f"an array holds numbers or booleans, got {dtype[:20]!r}")
    # Checked before `math.prod`, which would compute with whatever lengths a peer sends.
    if len(shape) > MOST_AXES or any(type(n) is not int or n < 0 for n in shape):
        raise WireError("the shape of an array is a short list of lengths")
    n_bytes = memoryview(frame).nbytes
    if n_bytes != math.prod(shape) * np.dtype(dtype).itemsize:
        raise WireError(f"an array of {dtype} and shape {shape} came in {n_bytes} bytes")
    return aligned(frame, np.dtype(dtype)).reshape(shape)

"""Files of arrays written piece by piece, against the library that reads them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load
from sheafedge.scenarios.running.tensor_file import tensor_pieces

KINDS = ["bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", "float32"]
ARRAYS = {
    **{kind: (np.arange(6).reshape(2, 3) % 2).astype(kind) for kind in [*KINDS, "float64", "complex64"]},
    "scalar": np.array(3.5),
    "nothing": np.zeros((0, 4), dtype=np.int64),
    "columns first": np.arange(6.0).reshape(2, 3).T,
    "big endian": np.arange(3, dtype=">i4"),
    "ünïcode": np.ones(1, dtype=np.uint8),
}


def test_the_library_reads_what_the_pieces_say() -> None:
    found = load(b"".join(piece.tobytes() for piece in tensor_pieces(ARRAYS)))
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert_array_equal(found[name], array)


def test_arrays_are_not_copied() -> None:
    large = np.ones((100, 10), dtype=np.float32)
    assert np.shares_memory(np.asarray(tensor_pieces({"large": large})[1]), large)


def test_texts_are_no_arrays_of_the_format() -> None:
    with pytest.raises(KeyError):
        tensor_pieces({"text": np.array(["a"])})

"""Arrays as the content of a safetensors file, piece by piece.

The library makes one string of all arrays, and a copy of each beside it: three times the state of a run with large
models, where the pieces here lie in the arrays themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Types of the format, by the name that numpy gives them.
_TYPES = {
    "bool": "BOOL",
    **{f"{kind}{bits}": f"{kind[0].upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    "complex64": "C64",
}
_ALIGNED = 8


def tensor_pieces(named: Mapping[str, NDArray[Any]]) -> list[memoryview]:
    """Bytes of a file that `safetensors` reads, in order; those of arrays are views where these lie in C order.

    Args:
        named: name -> array of numbers or truth values.

    Source: the format of safetensors: length of the header in 8 bytes, the header as JSON, the arrays without gaps.
    """
    header: dict[str, object] = {}
    pieces: list[memoryview] = []
    end = 0
    # the largest types first, so that every array lies on a multiple of its own
    for name in sorted(named, key=lambda name: (-named[name].dtype.itemsize, name)):
        array = named[name]
        plain = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        start, end = end, end + plain.nbytes
        header[name] = {"dtype": _TYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": [start, end]}
        pieces.append(plain.reshape(-1).view(np.uint8).data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return [memoryview(len(text).to_bytes(8, "little") + text), *pieces]

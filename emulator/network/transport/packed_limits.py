"""Limits of what msgpack builds from bytes that any process may have sent; checked before anything is built.

msgpack reserves room for as many items as a list announces, at every level of nesting: 64 KiB of nested lists made it
reserve half a gigabyte, and 15 MiB of empty ones took it 14 s.
"""

from __future__ import annotations

from typing import Any

import msgpack

from .errors import OverLimitError, WireError

#: Most levels of lists and maps inside each other; a row of observations has eight below the header's own map.
DEEPEST = 9
#: Of the longest header, per item that is allowed; messages of a packet take 3 to 4 bytes an item, and few packets are
#: full of them.
_BYTES_PER_ITEM = 16


def unpack_limited(raw: memoryview, most_bytes: int) -> Any:
    """What msgpack reads from a header.

    Args:
        raw: the header.
        most_bytes: longest header that is read.

    Raises:
        OverLimitError: it is longer, nested more deeply than `DEEPEST`, or has more items than `most_bytes` / 16.
        WireError: it is not msgpack.
    """
    if raw.nbytes > most_bytes:
        raise OverLimitError(f"header of {raw.nbytes} bytes is longer than {most_bytes}")
    _check_structure(bytes(raw), most_bytes // _BYTES_PER_ITEM)
    try:
        return msgpack.unpackb(raw)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise WireError(f"header of {raw.nbytes} bytes is not msgpack: {error}") from None


def _check_structure(raw: bytes, most_items: int) -> None:
    """Count items and levels; what is not msgpack at all is left to msgpack to name."""
    at, end = 0, len(raw)
    left, outer = 1, list[int]()  # items that are missing in the innermost container, and in those around it
    while at < end:
        while not left:
            if not outer:
                return
            left = outer.pop()
        left -= 1
        code = raw[at]
        if width := _WIDTHS[code]:
            at += width
            continue
        n_length = _LENGTHS.get(code, 0)
        length = int.from_bytes(raw[at + 1 : at + 1 + n_length], "big")
        at += 1 + n_length
        if code not in _CONTAINERS:
            at += length + (code in _EXTENSIONS)
            continue
        shortest, items_per_entry = _CONTAINERS[code]
        outer.append(left)
        left = (length if n_length else code - shortest) * items_per_entry
        most_items -= left
        if len(outer) > DEEPEST:
            raise OverLimitError(f"header of {end} bytes has more than {DEEPEST} levels of lists and maps")
        # Every item takes a byte at least; msgpack would reserve room for all of them, and then miss their bytes.
        if left > end - at:
            raise WireError(f"header of {end} bytes is not msgpack: it announces more items than it has bytes")
        if most_items < 0:
            raise OverLimitError(f"header of {end} bytes has too many items")


# Codes of msgpack's specification, "Formats".
#: First byte of a list or map -> that of an empty one of its kind, items per entry.
_CONTAINERS = {
    **dict.fromkeys((*range(0x80, 0x90), 0xDE, 0xDF), (0x80, 2)),
    **dict.fromkeys((*range(0x90, 0xA0), 0xDC, 0xDD), (0x90, 1)),
}
_EXTENSIONS = frozenset({0xC7, 0xC8, 0xC9})  # one byte for the type stands behind the length
#: First byte -> bytes of the length that stands behind it: of bin, ext, str, array and map.
_LENGTHS = {
    0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4,
    0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4,
}  # fmt: skip
_FIXED = {
    0xCA: 5, 0xCB: 9,  # floats
    **{code: 1 + (code & 0x1F) for code in range(0xA0, 0xC0)},  # short texts
    **{0xCC + place: 1 + (1 << place) for place in range(4)},  # unsigned integers
    **{0xD0 + place: 1 + (1 << place) for place in range(4)},  # signed integers
    **{0xD4 + place: 2 + (1 << place) for place in range(5)},  # short extensions
}  # fmt: skip
#: By first byte: bytes of an item of fixed width, 0 for all others.
_WIDTHS = [0 if code in _CONTAINERS or code in _LENGTHS else _FIXED.get(code, 1) for code in range(256)]

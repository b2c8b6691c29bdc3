"""Reader of the images that DeepSense keeps: JPEG and PNG, where Pillow is installed; no other file knows of it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, reason, shown

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

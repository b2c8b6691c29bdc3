"""Reads camera images where Pillow is installed; the one place that knows of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError

try:
    from PIL import Image

    CAN_READ_IMAGES = True
except ImportError:  # an extra that most users do not need
    CAN_READ_IMAGES = False

#: Larger images are refused: no camera here has them, and they would fill the memory.
MAX_PIXELS = 1 << 26


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
        raise DataError(f"{path} needs Pillow to be read; install it, or leave the camera out")
    try:
        with Image.open(path, formats=("JPEG", "PNG")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise DataError(f"{path} has {image.width} x {image.height} pixels, more than any camera here")
            image.draft("RGB", (size, size))  # a JPEG is decoded at the smallest scale that suffices
            small = image.convert("RGB").resize((size, size), Image.Resampling.BOX)
            return np.asarray(small, dtype=np.uint8)
    except DataError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as an image ({error}); fetch the file again") from error

"""Noise of a camera that is the same in all colors of a pixel.

Noise that differs from color to color costs three times as many draws and twice the disk: nothing compresses it.
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]

#: The noise takes one of so many values, evenly likely: quantiles of a normal distribution.
N_LEVELS = 4096


def with_brightness_noise(images: Image, sigma: float, draws: np.random.Generator) -> Image:
    """Images whose pixels are brighter or darker by chance, in whole steps of the scale and without changing color.

    Args:
        images: [F, rows, columns, colors].
        sigma: standard deviation; 1 is the brightest value. 0 draws nothing.
        draws: one number per pixel.

    Returns:
        As `images`, cut at both ends of the scale.
    """
    if sigma == 0.0:
        return images
    noise = _levels(sigma)[draws.integers(0, N_LEVELS, images.shape[:-1], dtype=np.uint16)]
    noisy = images.astype(np.int16)
    noisy += noise[..., None]
    np.clip(noisy, 0, 255, out=noisy)
    return noisy.astype(np.uint8)


@lru_cache(maxsize=16)
def _levels(sigma: float) -> NDArray[np.int16]:
    """[N_LEVELS] evenly likely values, rounded; read only."""
    normal = NormalDist()
    values = np.array([normal.inv_cdf((level + 0.5) / N_LEVELS) for level in range(N_LEVELS)])
    levels: NDArray[np.int16] = np.rint(sigma * 255.0 * values / values.std()).astype(np.int16)
    levels.setflags(write=False)
    return levels

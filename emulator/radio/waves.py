"""Constants of the electromagnetic field, and decibels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SPEED_OF_LIGHT_M_PER_S = 299_792_458.0
VACUUM_PERMITTIVITY_F_PER_M = 8.854_187_812_8e-12


def wavelength_m(carrier_hz: float) -> float:
    """Length of one wave in vacuum."""
    return SPEED_OF_LIGHT_M_PER_S / carrier_hz


def decibels(power: Any) -> Array:
    """[...] powers above 0, linear -> [...] dB."""
    return np.asarray(10.0 * np.log10(power), dtype=np.float64)

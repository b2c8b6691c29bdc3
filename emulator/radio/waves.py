"""Constants of electromagnetic waves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SPEED_OF_LIGHT_M_PER_S = 299_792_458.0
VACUUM_PERMITTIVITY_F_PER_M = 8.854_187_812_8e-12


def wavelength_m(carrier_hz: float) -> float:
    """Wavelength in vacuum, m."""
    return SPEED_OF_LIGHT_M_PER_S / carrier_hz

"""Linear antenna array of a base station, and its beam codebooks.

Element spacing is half a wavelength. A direction is given by its `direction_sine`: the sine of the angle between it and
the plane across the array. That is sin(azimuth) cos(elevation); a linear array cannot separate the two angles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError

Complex = NDArray[np.complex128]

N_ANTENNAS = 16
N_BEAMS = 64
SECTOR_HALF_WIDTH_DEG = 45.0
#: Gain and phase errors of array elements; our choice, in the range of calibrated commercial arrays.
GAIN_SIGMA_DB, PHASE_SIGMA_DEG = 0.5, 5.0


def steering_vector(direction_sine: Any, n_antennas: int = N_ANTENNAS) -> Complex:
    """Response e^(j pi n s) of the elements n to a wave from direction sine s: [...] -> [..., n_antennas]."""
    phase_per_element = np.pi * np.asarray(direction_sine, dtype=np.float64)[..., None]
    return np.asarray(np.exp(1j * phase_per_element * np.arange(n_antennas)))


def angle_codebook(
    n_beams: int = N_BEAMS, n_antennas: int = N_ANTENNAS, half_width_deg: float = SECTOR_HALF_WIDTH_DEG
) -> Complex:
    """Beams evenly spaced in angle over the sector, its ends included.

    Returns:
        [n_beams, n_antennas] rows of norm 1; beam 0 points to -half_width_deg.

    Raises:
        ConfigError: fewer than 2 beams or antennas, or a sector that is not within (0, 90] degrees to either side.
    """
    _check_sizes(n_beams, n_antennas)
    if not 0.0 < half_width_deg <= 90.0:
        raise ConfigError(f"codebook.half_width_deg must lie in (0, 90], got {half_width_deg}")
    azimuth_rad = np.radians(np.linspace(-half_width_deg, half_width_deg, n_beams))
    return np.asarray(steering_vector(np.sin(azimuth_rad), n_antennas) / np.sqrt(n_antennas))


def dft_codebook(n_beams: int = N_BEAMS, n_antennas: int = N_ANTENNAS) -> Complex:
    """Beams evenly spaced in the sine of the angle over the whole half space; orthogonal when n_beams = n_antennas.

    Returns:
        [n_beams, n_antennas] rows of norm 1, direction sines -1 + (2 q + 1) / n_beams, ascending.

    Raises:
        ConfigError: fewer than 2 beams or antennas.
    """
    _check_sizes(n_beams, n_antennas)
    # Offset by half a step, so that the grid is symmetric about broadside.
    direction_sine = (2.0 * np.arange(n_beams) + 1.0) / n_beams - 1.0
    return np.asarray(steering_vector(direction_sine, n_antennas) / np.sqrt(n_antennas))


def with_quantized_phases(codebook: Complex, phase_bits: int) -> Complex:
    """Codebook with phases rounded to 2^phase_bits phase-shifter settings, and unchanged amplitudes.

    Raises:
        ConfigError: phase_bits below 1.
    """
    if phase_bits < 1:
        raise ConfigError(f"codebook.phase_bits must be at least 1, got {phase_bits}; 5 is common")
    step_rad = 2.0 * np.pi / 2**phase_bits
    return np.asarray(np.abs(codebook) * np.exp(1j * step_rad * np.round(np.angle(codebook) / step_rad)))


def with_element_errors(
    codebook: Complex,
    draws: np.random.Generator,
    gain_sigma_db: float = GAIN_SIGMA_DB,
    phase_sigma_deg: float = PHASE_SIGMA_DEG,
) -> Complex:
    """Codebook of an array with one gain and phase error per element, the same in every beam.

    Raises:
        ConfigError: a negative spread.
    """
    for name, value in (("gain_sigma_db", gain_sigma_db), ("phase_sigma_deg", phase_sigma_deg)):
        if not value >= 0.0:
            raise ConfigError(f"codebook.{name} must be at least 0, got {value}")
    gain_db, phase_deg = draws.standard_normal((2, codebook.shape[1])) * [[gain_sigma_db], [phase_sigma_deg]]
    return np.asarray(codebook * 10 ** (gain_db / 20.0) * np.exp(1j * np.radians(phase_deg)))


def _check_sizes(n_beams: int, n_antennas: int) -> None:
    for name, value in (("n_beams", n_beams), ("n_antennas", n_antennas)):
        if value < 2:
            raise ConfigError(f"codebook.{name} must be at least 2, got {value}; {N_BEAMS} beams of {N_ANTENNAS}")

"""Range-angle maps out of the raw signals of DeepSense's FMCW radar."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import shown
from ..matlab_file import read_mat_cube

#: Columns of a map: sines of the azimuth, of an array whose elements are half a wavelength apart.
N_ANGLES = 64
_LARGEST_DB = 255.0
#: Converters of radars have 16 bits; the power of larger samples could not be added.
LARGEST_SAMPLE = 1e12


def read_radar_map(path: Path) -> NDArray[np.uint8]:
    """Map of one frame: power above the noise over range and angle, as `MODALITY_SPECS["radar"]` has it.

    A transform over the samples of a chirp gives the range, one over the antennas the angle; the mean over the chirps
    is taken off before, which takes away what stands still, and the powers of all chirps are added. Noise is the median
    of the map.

    Returns:
        [n_ranges, 64] uint8 decibels; half of the samples are ranges where the signal is real.

    Raises:
        DataError: the file holds no array [antennas, samples, chirps], or no signal.

    Source: Demirhan, Alkhateeb: Radar Aided 6G Beam Prediction: Deep Learning Algorithms and Real-World Demonstration,
        2022; layout of the files: DeepSense scenarios 9 and 17 to 35.
    """
    cube = read_mat_cube(path)
    n_antennas, n_samples, n_chirps = cube.shape
    if n_antennas > N_ANGLES or n_samples < 4 or n_chirps < 2:
        raise DataError(
            f"{shown(path)} has a radar signal of shape {cube.shape}, expected (antennas, samples, chirps) with up to"
            f" {N_ANGLES}, 4 or more, and 2 or more"
        )
    if not (np.abs(cube) < LARGEST_SAMPLE).all():  # NaN is not below, either
        raise DataError(f"{shown(path)} has a radar signal that is not finite, or none; fetch the file again")
    by_range = np.fft.fft(cube, axis=1)
    if not np.iscomplexobj(cube):
        by_range = by_range[:, : n_samples // 2]  # the other half mirrors it
    by_range -= by_range.mean(axis=2, keepdims=True)
    by_angle = np.fft.fftshift(np.fft.fft(by_range, n=N_ANGLES, axis=0), axes=0)
    power = (np.abs(by_angle) ** 2).sum(axis=2).T
    noise = float(np.median(power))
    if not noise > 0.0:
        raise DataError(f"{shown(path)} has a radar signal that is the same in all chirps; fetch the file again")
    decibels = 10.0 * np.log10(np.maximum(power / noise, 1.0))
    shown_db: NDArray[np.uint8] = np.rint(decibels.clip(0.0, _LARGEST_DB)).astype(np.uint8)
    return shown_db

"""Doppler shifts of paths: from the velocities of the user and of the vehicles that reflect.

The image method unfolds a path, so that its length is the distance to the last image of the user. A surface across an
axis at p turns the coordinate x of an image into 2 p - x, hence its speed u on this axis into 2 q - u, q the speed of
the surface: a vehicle that reflects counts twice, by the component along its normal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..world.scene import Scene
from .images import Images
from .waves import Array, wavelength_m

#: In a Gaussian Doppler spectrum of spread 1 Hz, the fields of so many seconds apart have a correlation of one half.
HALF_CORRELATION_S_HZ = float(np.sqrt(2.0 * np.log(2.0)) / (2.0 * np.pi))


def doppler_hz(scene: Scene, images: Iterable[Images], valid: NDArray[np.bool_], carrier_hz: float) -> Array:
    """Doppler shift of every path, above 0 where it becomes shorter: -(d length / dt) / wavelength.

    Args:
        scene: F instants.
        images: groups of paths, P of them in all, in the order of the columns.
        valid: [F, P] bool, which of them exist.
        carrier_hz: carrier frequency.

    Returns:
        [F, P] Hz, 0 where not valid.
    """
    shift_hz, user_velocity = np.zeros(valid.shape), scene.user_velocity_m_per_s
    first_column = 0
    for group in images:
        columns = slice(first_column, first_column + group.valid.shape[1])
        first_column = columns.stop
        frame, column = np.nonzero(valid[:, columns])
        if not len(frame):
            continue
        across_m = group.image_m[frame, column] - scene.base_station_m
        velocity = user_velocity[frame]
        for bounce in reversed(range(len(group.axes))):  # the user is mirrored first in what its path meets last
            axis = group.axes[bounce]
            velocity[:, axis] *= -1.0
            if bounce == group.moving_bounce:
                velocity[:, axis] += 2.0 * scene.velocity_m_per_s[frame, group.mirror_box[column], axis]
        shift_hz[frame, column + columns.start] = _shift_hz(across_m, velocity, carrier_hz)
    return shift_hz


def direct_doppler_hz(scene: Scene, carrier_hz: float) -> Array:
    """[F] Doppler shift of the line of sight, whether or not something blocks it."""
    return _shift_hz(scene.user_m - scene.base_station_m, scene.user_velocity_m_per_s, carrier_hz)


def _shift_hz(across_m: Array, velocity_m_per_s: Array, carrier_hz: float) -> Array:
    """[n] shifts from images [n, 3] as seen from the base station, and their velocities."""
    m_per_s = (across_m * velocity_m_per_s).sum(axis=-1) / np.sqrt((across_m**2).sum(axis=-1))
    return np.asarray(-m_per_s / wavelength_m(carrier_hz))


@dataclass(frozen=True, slots=True, eq=False)
class DopplerSpectrum:
    """First two moments of the Doppler shifts that a beam receives, each path weighted by its power.

    Attributes:
        shift_hz: [F] mean.
        spread_hz: [F] standard deviation.
    """

    shift_hz: Array
    spread_hz: Array


def spectrum_moments(power: Array, shift_hz: Array) -> DopplerSpectrum:
    """Moments over the last axis; both are 0 where nothing is received.

    Args:
        power: [F, P] linear power of every path.
        shift_hz: [F, P].
    """
    total = power.sum(axis=-1, keepdims=True)
    share = power / np.where(total > 0.0, total, 1.0)
    mean_hz = (share * shift_hz).sum(axis=-1)
    return DopplerSpectrum(mean_hz, np.sqrt((share * (shift_hz - mean_hz[:, None]) ** 2).sum(axis=-1)))


def coherence_time_s(spread_hz: float) -> float:
    """Time in which the correlation of the field falls to one half; infinite without spread.

    The correlation of a Gaussian spectrum is exp(-(2 pi spread t)^2 / 2). With few paths it is a sum of few waves, and
    this is its order of magnitude.
    """
    return HALF_CORRELATION_S_HZ / spread_hz if spread_hz else float("inf")

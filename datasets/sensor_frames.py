"""The frames of a recorded base station as training takes them: every frame once, as small as it is kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..emulator.contracts import DataError
from .recording_reader import RecordedStation

FRAMES_AT_ONCE = 256
#: Luma of ITU-R BT.601 in 1/256; the sum is 256.
_LUMA = np.array([77, 150, 29], dtype=np.uint16)


def lidar_frames(station: RecordedStation) -> NDArray[np.float32]:
    """[n_frames, 2, n_rays] range in m, angle in rad."""
    n_rays, _ = station.field("lidar").shape
    frames = np.empty((station.n_frames, 2, n_rays), dtype=np.float32)
    for rows in _groups(station.n_frames):
        frames[rows] = station.read("lidar", rows).swapaxes(1, 2)
    return frames


def grey_frames(station: RecordedStation) -> NDArray[np.uint8]:
    """[n_frames, h, w] luma, or the one channel of a grey camera."""
    height, width, n_channels = station.field("camera").shape
    frames = np.empty((station.n_frames, height, width), dtype=np.uint8)
    for rows in _groups(station.n_frames):
        images = station.read("camera", rows)
        # 255 * 256 + 128 fits 16 bits
        frames[rows] = images[..., 0] if n_channels == 1 else (images @ _LUMA + np.uint16(128)) >> 8
    return frames


def rgb_frames(station: RecordedStation) -> NDArray[np.uint8]:
    """[n_frames, h, w, 3]; a grey camera three times."""
    height, width, _ = station.field("camera").shape
    frames = np.empty((station.n_frames, height, width, 3), dtype=np.uint8)
    for rows in _groups(station.n_frames):
        frames[rows] = station.read("camera", rows)
    return frames


def rf_frames(station: RecordedStation) -> NDArray[np.float32]:
    """[n_frames, n_beams] received power in dB."""
    return (10 * np.log10(measured_powers(station.read("rf").astype(np.float64)))).astype(np.float32)


def gps_frames(station: RecordedStation) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """[n_frames, k] columns of the recording, those in degrees from the base station, or else from the first frame."""
    values = station.read("gps")
    origin = np.zeros(values.shape[1])
    for column, name in enumerate(station.field("gps").columns):
        if name.endswith("_deg"):
            of_station = station.geometry.get(name)
            origin[column] = of_station if isinstance(of_station, float) else values[0, column]
    return (values - origin).astype(np.float32), origin


def measured_powers(powers: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, n_beams] with the weakest measured power of a sweep in the place of its beams that were not measured (NaN).

    Raises:
        DataError: a sweep without any measured beam.
    """
    missing = np.isnan(powers)
    if missing.all(axis=1).any():
        raise DataError(f"no beam was measured in frame {int(missing.all(axis=1).argmax())}; leave this frame out")
    weakest = np.min(powers, axis=1, keepdims=True, where=~missing, initial=np.inf)
    return np.where(missing, weakest, powers)


def _groups(n_frames: int) -> list[slice]:
    return [slice(first, min(first + FRAMES_AT_ONCE, n_frames)) for first in range(0, n_frames, FRAMES_AT_ONCE)]

"""Distribution shifts of held-out samples: noisier sensors, night, and occlusion.

These change inputs as a model gets them, in physical units, so that one file with its recorded samples is enough to ask
how a change of the model, such as fewer bits, behaves where training has not been. `perturb.py` is about images that a
client trains on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, SENSED_MODALITIES, Modality
from .drive_bys import M_PER_DEGREE
from .perturb import Occlusion

Inputs = Mapping[Modality, NDArray[np.float32]]


class Sensor(Protocol):
    """Facts of one sensor that a shift must respect."""

    @property
    def unit(self) -> str:
        """Unit of its values, with one word per column where columns differ: "deg, deg, m, m"."""
        ...

    @property
    def nothing(self) -> float | None:
        """Reading where it saw nothing; None: no reading stands for that."""
        ...


Sensors = Mapping[Modality, Sensor]

#: Share of the light that is left at night, and of a LiDAR's rays that something close by swallows.
NIGHT_LIGHT = 0.25
HIDDEN_RAYS = 0.3


def noisy(inputs: Inputs, sensors: Sensors, draws: np.random.Generator) -> Inputs:
    """Inputs with more noise from all sensors; LiDAR rays and radar cells without an echo stay without."""
    noised = {}
    for modality, values in inputs.items():
        spec = MODALITY_SPECS[modality]
        # drawn for every sensor in turn, also where a kind of noise uses only a part of it
        noise = draws.standard_normal(values.shape, dtype=np.float32)
        noised[modality] = NOISES[spec.noise](values, noise, spec.noise_sigma, sensors[modality])
    return noised


def at_night(inputs: Inputs, _sensors: Sensors, draws: np.random.Generator) -> Inputs:
    """Inputs with images at night: less light, and the noise of daylight; other sensors do not change."""
    changed = dict(inputs)
    if "camera" in inputs:
        image = inputs["camera"]
        noise = draws.normal(0.0, MODALITY_SPECS["camera"].noise_sigma / 4.0, image.shape)
        noise += NIGHT_LIGHT * image  # in place: batches of images take a hundred megabytes
        changed["camera"] = np.clip(noise, 0.0, 255.0, out=noise).astype(np.float32)
    return changed


def occluded(inputs: Inputs, sensors: Sensors, draws: np.random.Generator) -> Inputs:
    """Inputs with an object before the sensors: one side of every image and a sector of rays see nothing.

    Nothing is black for a camera, and the reach for a ray: the object is too close to send back an echo. It stays where
    it is during a sample. Beams and positions are as they were.
    """
    changed = dict(inputs)
    if "camera" in inputs:
        image = inputs["camera"]  # [n, frames or colors, h, w]
        hiding = Occlusion(int(draws.integers(1 << 62)))
        hidden = hiding.rectangles(np.arange(len(image)), image.shape[-2], image.shape[-1])
        row, column = np.arange(image.shape[-2]), np.arange(image.shape[-1])
        in_rows = (row >= hidden[:, :1]) & (row < hidden[:, 1:2])
        in_columns = (column >= hidden[:, 2:3]) & (column < hidden[:, 3:])
        shown = ~(in_rows[:, None, :, None] & in_columns[:, None, None, :])
        changed["camera"] = np.where(shown, image, np.float32(_nothing(sensors["camera"])))
    if "lidar" in inputs:
        changed["lidar"] = _without_a_sector(inputs["lidar"], _nothing(sensors["lidar"]), draws)
    return changed


Shift = Callable[[Inputs, Sensors, np.random.Generator], Inputs]

#: Name -> the shift, and the modalities that it changes.
SHIFTS: Mapping[str, tuple[Shift, frozenset[Modality]]] = {
    "noise": (noisy, frozenset(SENSED_MODALITIES)),
    "night": (at_night, frozenset({"camera"})),
    "occlusion": (occluded, frozenset({"camera", "lidar"})),
}


Batch = NDArray[np.float32]
#: Values of a batch, standard normal draws of its shape, standard deviation and sensor -> the batch with noise. The
#: draws may become the result: batches of images are large.
Noise = Callable[[Batch, Batch, float, Sensor], Batch]


def _noisy_levels(values: Batch, noise: Batch, sigma: float, _sensor: Sensor) -> Batch:
    noise *= np.float32(sigma)
    noise += values
    return np.clip(noise, 0.0, 255.0, out=noise)


def _noisy_decibels(values: Batch, noise: Batch, sigma: float, _sensor: Sensor) -> Batch:
    return np.asarray(values + np.float32(sigma) * noise)


def _noisy_positions(values: Batch, noise: Batch, sigma: float, sensor: Sensor) -> Batch:
    return np.asarray(values + _position_noise(sigma, sensor.unit, values.shape[-1]) * noise)


def _noisy_ranges(values: Batch, noise: Batch, sigma: float, sensor: Sensor) -> Batch:
    """Of [n, 2, frames, rays]: range and angle. Rays without an echo stay without; none goes beyond the reach."""
    reach_m = np.float32(_nothing(sensor))
    changed = values.copy()
    moved = np.clip(values[:, 0] + np.float32(sigma) * noise[:, 0], 0.0, reach_m)
    changed[:, 0] = np.where(values[:, 0] < reach_m, moved, values[:, 0])
    return changed


def _noisy_echoes(values: Batch, noise: Batch, sigma: float, sensor: Sensor) -> Batch:
    """Maps of whole decibels above the noise floor. Cells without an echo stay without, as no recording has less."""
    moved = np.clip(np.round(values + np.float32(sigma) * noise), 0.0, 255.0)
    return np.where(values > _nothing(sensor), moved, values).astype(np.float32)


#: Kind of noise, as `ModalitySpec.noise` names it -> what adds it.
NOISES: Mapping[str, Noise] = {
    "levels": _noisy_levels,
    "decibels": _noisy_decibels,
    "positions": _noisy_positions,
    "ranges": _noisy_ranges,
    "echoes": _noisy_echoes,
}


def _position_noise(sigma_m: float, unit: str, n_columns: int) -> NDArray[np.float32]:
    """[n_columns] standard deviation of every column, in its own unit."""
    words = unit.split(", ")
    each = words if len(words) == n_columns else [unit] * n_columns
    return np.array([sigma_m / M_PER_DEGREE if word == "deg" else sigma_m for word in each], np.float32)


def _nothing(sensor: Sensor) -> float:
    assert sensor.nothing is not None, "recordings of LiDARs, cameras and radars say what stands for nothing seen"
    return sensor.nothing


def _without_a_sector(scans: Batch, reach_m: float, draws: np.random.Generator) -> Batch:
    """[n, 2, frames, rays] without the echoes of neighboring rays, other ones in every sample."""
    n, n_rays = len(scans), scans.shape[-1]
    first = draws.integers(0, n_rays, n)
    hidden = (np.arange(n_rays) - first[:, None]) % n_rays < round(HIDDEN_RAYS * n_rays)
    changed = scans.copy()
    changed[:, 0] = np.where(hidden[:, None, :], np.float32(reach_m), scans[:, 0])
    return changed

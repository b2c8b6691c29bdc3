"""A radar on the base station: received power over range and angle of what moves, by the radar equation.

The figures follow the FMCW radar of DeepSense 6G (Alkhateeb et al. 2023): 77 GHz, 15 MHz/us, 256 samples at 5 MHz, 128
chirps 65 us apart, 4 receive antennas, as published code for such frames states them; they were not checked against the
data sheet of the device. The range-angle map has the steps of Demirhan and Alkhateeb 2022, "Radar aided 6G beam
prediction": a transform over the samples, the mean over the chirps removed, which takes away what stands still, a
transform over the antennas that is padded to 64, and the sum over the chirps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..ranges import check_ranges
from ..world.scene import Array, Kind, Scene

SPEED_OF_LIGHT_M_PER_S = 299_792_458.0
#: Power of thermal noise in 1 Hz at 290 K.
NOISE_W_PER_HZ = 1.380_649e-23 * 290.0
#: Radar cross-section over the area of the side that is seen: 10 m2 for a car, 40 for a bus, half for a pedestrian. Our
#: choice, of the order that measurements at 77 GHz report.
REFLECTIVITY: dict[Kind, float] = {
    Kind.CAR: 1.5,
    Kind.VAN: 1.3,
    Kind.BUS: 1.1,
    Kind.PEDESTRIAN: 1.0,
    Kind.TARGET: 1.5,
}
#: Places along a box, in half lengths, that reflect equal shares of its power.
REFLECTORS = (-0.8, 0.0, 0.8)
#: Frames in work at once: what they need fits into a processor's cache.
CHUNK = 32


@dataclass(frozen=True, slots=True)
class RadarSettings:
    """An FMCW radar at the antenna of the base station, which looks along +y.

    Attributes:
        n_ranges: range cells that are kept, of `n_samples`; 128 reach 25 m, across any street.
        n_angles: directions of the map, evenly spaced in the sine of the azimuth.
        carrier_hz, bandwidth_hz: band of a chirp; the range resolution is c / (2 bandwidth), 0.195 m.
        n_samples: samples of a chirp.
        chirp_s, chirp_interval_s: sampled duration of a chirp, and time from one chirp to the next.
        n_chirps: number of chirps that a frame averages.
        n_antennas: receive antennas, half a wavelength apart.
        transmit_power_w: power of the transmitter.
        gain_db: gain of the transmit and of every receive antenna, ahead; it falls with the cosine of the azimuth.
        noise_figure_db: noise figure of the receiver.

    Raises:
        ConfigError: a value outside its range.

    Source: DeepSense 6G, see above; power, gain and noise figure are those of single-chip radars at 77 GHz.
    """

    n_ranges: int = 128
    n_angles: int = 64
    carrier_hz: float = 77e9
    # 15 MHz/us over the 51.2 us that 256 samples at 5 MHz take.
    bandwidth_hz: float = 768e6
    n_samples: int = 256
    chirp_s: float = 51.2e-6
    chirp_interval_s: float = 65e-6
    n_chirps: int = 128
    n_antennas: int = 4
    transmit_power_w: float = 0.016
    gain_db: float = 9.0
    noise_figure_db: float = 14.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("radar", self, {**_RANGES, "n_ranges": (4, self.n_samples)})

    @property
    def range_cell_m(self) -> float:
        """Range resolution, which is also the width of a range cell."""
        return SPEED_OF_LIGHT_M_PER_S / (2.0 * self.bandwidth_hz)

    @property
    def sines(self) -> Array:
        """[n_angles] sine of the azimuth at the middle of every angle cell: 0 along +y, positive towards +x."""
        return np.asarray(2.0 * (np.arange(self.n_angles) + 0.5) / self.n_angles - 1.0)

    @property
    def snr_at_1_m(self) -> float:
        """Signal over noise of one chirp and antenna, of 1 m2 ahead at 1 m; it falls with the fourth power of range."""
        wavelength_m = SPEED_OF_LIGHT_M_PER_S / self.carrier_hz
        # 0.2 instead of 0.1 per dB: the gain counts for the transmit and for the receive antenna.
        received_w = self.transmit_power_w * 10.0 ** (0.2 * self.gain_db) * wavelength_m**2 / (4.0 * np.pi) ** 3
        noise_w = NOISE_W_PER_HZ * 10.0 ** (0.1 * self.noise_figure_db) / self.chirp_s
        return float(received_w / noise_w)


#: Lowest and highest value of each number.
_RANGES: dict[str, tuple[float, float]] = {
    "n_angles": (4, 256),
    "carrier_hz": (1e9, 100e9),
    "bandwidth_hz": (1e6, 10e9),
    "n_samples": (16, 1024),
    "chirp_s": (1e-6, 1e-3),
    "chirp_interval_s": (1e-6, 1e-2),
    "n_chirps": (16, 4096),
    "n_antennas": (2, 32),
    "transmit_power_w": (1e-6, 10),
    "gain_db": (0, 40),
    "noise_figure_db": (0, 40),
}


class Radar:
    """Draws noise for one radar; the same scenes in the same order give the same maps, in chunks of any size."""

    def __init__(self, settings: RadarSettings, draws: np.random.Generator) -> None:
        self.settings = settings
        self._draws = draws

    def sense(self, scene: Scene) -> NDArray[np.uint8]:
        """[F, n_ranges, n_angles] power in whole dB above the mean noise; 0 where there is no more than noise."""
        maps = np.empty((len(scene), self.settings.n_ranges, self.settings.n_angles), dtype=np.uint8)
        for begin in range(0, len(scene), CHUNK):
            some = slice(begin, begin + CHUNK)
            power = power_map(scene.frames(some), self.settings, self._draws)
            maps[some] = np.clip(np.rint(10.0 * np.log10(np.maximum(power, 1.0))), 0.0, 255.0)
        return maps


def power_map(scene: Scene, settings: RadarSettings, draws: np.random.Generator | None = None) -> Array:
    """Power over range and angle, over the mean of the noise.

    A map is made of the correlations between antennas at every range, as the transform over the antennas is: reflectors
    differ in Doppler and add in power, and noise is the same in directions that the aperture cannot resolve.

    Args:
        scene: F instants.
        settings: settings of the radar.
        draws: random stream of the noise; None: without noise.

    Returns:
        [F, n_ranges, n_angles] linear, 1 where there is only noise, above 0.
    """
    snr, range_m, sine = echoes(scene, settings)
    shape = _range_response(range_m, settings) * snr[..., None]  # [F, P, n_ranges]
    lags = np.arange(settings.n_antennas)
    pairs = settings.n_antennas - lags  # of antennas that are so many places apart
    turn = np.exp(1j * np.pi * sine[..., None] * lags) * pairs
    correlation = np.swapaxes(shape, 1, 2) @ turn  # [F, n_ranges, lags]
    if draws is not None:
        correlation += _noise_correlation(correlation.shape, pairs, settings.n_chirps, draws)
    steering = np.exp(-1j * np.pi * np.outer(lags, settings.sines))
    steering[1:] *= 2.0  # the same pairs the other way round
    power = (correlation @ steering).real / settings.n_antennas
    mean_noise = 1.0 if draws is None else 0.0  # so that a map without draws is the mean of those with
    # Few chirps and normal noise can fall below 0, where a power cannot be.
    return np.asarray(np.maximum(power + mean_noise, np.finfo(np.float64).tiny))


def echoes(scene: Scene, settings: RadarSettings) -> tuple[Array, Array, Array]:
    """Reflections before the resolution of the radar.

    Returns:
        [F, P] signal over noise of one chirp and antenna, 0 where the reflector is hidden, behind, or standing still;
        [F, P] range in m; [F, P] sine of the azimuth.

    Source: radar equation, received power = transmitted * gain^2 * wavelength^2 * cross-section / ((4 pi)^3 range^4).
    """
    points_m = _reflectors_m(scene)  # [F, B, K, 3]
    way_m = points_m - scene.base_station_m
    # Nearer than a cell the equation for far fields does not hold, and would divide by 0.
    range_m = np.maximum(np.linalg.norm(way_m, axis=-1), settings.range_cell_m)
    reflectivity = np.zeros(len(Kind))
    for kind, value in REFLECTIVITY.items():
        reflectivity[kind] = value
    section_m2 = reflectivity[scene.kind] * scene.size_m[..., 0] * scene.size_m[..., 2] / len(REFLECTORS)
    ahead = np.maximum(way_m[..., 1] / np.maximum(np.hypot(way_m[..., 0], way_m[..., 1]), 1e-9), 0.0)
    radial_m_per_s = (way_m * scene.velocity_m_per_s[:, :, None]).sum(axis=-1) / range_m
    seen = scene.present[..., None] & ~_is_hidden(scene, points_m)
    # The cosine is squared, because both antennas have it.
    snr = settings.snr_at_1_m * section_m2[..., None] * ahead**2 / range_m**4
    snr = np.where(seen, snr * _moving_share(radial_m_per_s, settings), 0.0)
    frames = len(scene)
    return snr.reshape(frames, -1), range_m.reshape(frames, -1), (way_m[..., 0] / range_m).reshape(frames, -1)


def _reflectors_m(scene: Scene) -> Array:
    """[F, B, K, 3] places on the side of every box that faces the radar across the street."""
    center_m, half_m = scene.center_m, scene.size_m / 2.0
    facing = np.sign(center_m[..., 1] - scene.base_station_m[1])
    points_m = np.repeat(center_m[:, :, None], len(REFLECTORS), axis=2)
    points_m[..., 0] += half_m[..., :1] * np.array(REFLECTORS)
    points_m[..., 1] -= (facing * half_m[..., 1])[..., None]
    return np.asarray(points_m)


def _is_hidden(scene: Scene, points_m: Array) -> NDArray[np.bool_]:
    """[F, B, K] whether another box stands between the radar and a place, by the slab test."""
    way_m = (points_m - scene.base_station_m)[:, :, :, None]
    way_m = np.where(way_m == 0.0, 1e-12, way_m)
    lower_m, upper_m = (corner[:, None, None] - scene.base_station_m for corner in (scene.lower_m, scene.upper_m))
    one, other = lower_m / way_m, upper_m / way_m
    enters, leaves = np.minimum(one, other).max(axis=-1), np.maximum(one, other).min(axis=-1)
    hides = scene.present[:, None, None] & (np.maximum(enters, 0.0) < np.minimum(leaves, 1.0))
    itself = np.eye(scene.present.shape[1], dtype=np.bool_)[None, :, None]
    return np.asarray((hides & ~itself).any(axis=-1))


def _moving_share(radial_m_per_s: Array, settings: RadarSettings) -> Array:
    """[...] share of a reflector's power that is left when the mean over the chirps of a frame is removed."""
    # Twice the Doppler phase of one way: the wave goes there and back.
    turn_rad = 4.0 * np.pi * radial_m_per_s * settings.chirp_interval_s * settings.carrier_hz / SPEED_OF_LIGHT_M_PER_S
    return 1.0 - _periodic_sinc(turn_rad / (2.0 * np.pi), settings.n_chirps)


def _range_response(range_m: Array, settings: RadarSettings) -> Array:
    """[..., n_ranges] power of a reflector in every range cell, 1 in the middle of its own."""
    cells = np.arange(settings.n_ranges) - (range_m / settings.range_cell_m)[..., None]
    return _periodic_sinc(cells / settings.n_samples, settings.n_samples)


def _periodic_sinc(cycles: Array, n: int) -> Array:
    """[...] squared size of the mean of n unit phasors, each this many cycles ahead of the one before."""
    half_rad = np.pi * cycles
    sine = np.sin(half_rad)
    whole = np.abs(sine) < 1e-9  # in step: the mean is 1
    return np.where(whole, 1.0, (np.sin(n * half_rad) / (n * np.where(whole, 1.0, sine))) ** 2)


def _noise_correlation(
    shape: tuple[int, ...], pairs: NDArray[np.int64], n_chirps: int, draws: np.random.Generator
) -> NDArray[np.complex128]:
    """[F, n_ranges, lags] of white noise averaged over chirps: mean 1 per antenna, and normal around it for many."""
    normal = draws.standard_normal((*shape, 2))
    sigma = np.sqrt(pairs / (2.0 * n_chirps))
    noise: NDArray[np.complex128] = (normal[..., 0] + 1j * normal[..., 1]) * sigma
    # Lag 0 is a sum of powers, real: all of its variance lies in the real part.
    noise[..., 0] = pairs[0] + noise[..., 0].real * np.sqrt(2.0)
    return noise

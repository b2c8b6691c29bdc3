"""Beam sweep of a base station: one measured power per beam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from .antenna import steering_vector
from .doppler import DopplerSpectrum, spectrum_moments
from .waves import Array, wavelength_m

Complex = NDArray[np.complex128]

N_SUBCARRIERS = 64
BANDWIDTH_HZ = 100e6


class ArrivingPaths(Protocol):
    """What a sweep needs to know of F channels of P possible paths: `Paths`, or those that a ray tracer found."""

    @property
    def valid(self) -> NDArray[np.bool_]:
        """[F, P] bool, the path exists and arrives in front of the array."""

    @property
    def gain(self) -> Complex:
        """[F, P] complex amplitude between isotropic antennas, 0 where not valid."""

    @property
    def delay_s(self) -> Array:
        """[F, P] time of flight."""

    @property
    def direction_sine(self) -> Array:
        """[F, P] sine of the angle off the array's broadside."""

    @property
    def doppler_hz(self) -> Array:
        """[F, P] Doppler shift, 0 where not valid."""


@dataclass(frozen=True, slots=True)
class SweepNoise:
    """Measurement noise of a beam sweep.

    Attributes:
        reference_power: linear power of the best beam with a clear view, on the scale of `beam_powers`.
        floor_db: noise lies this far below it.
        n_snapshots: independent snapshots that a reading averages; more snapshots, less noise.
        nan_row_share: share of sweeps in which one beam, drawn at random, is missing (NaN).

    Raises:
        ConfigError: a value outside its range.

    Source: floor and share as seen in DeepSense 6G recordings: 15 to 25 dB, and 1 % of the rows.
    """

    reference_power: float
    floor_db: float = 20.0
    n_snapshots: int = 8
    nan_row_share: float = 0.0

    def __post_init__(self) -> None:
        if not self.reference_power > 0.0:
            raise ConfigError(f"sweep.reference_power must be above 0, got {self.reference_power}")
        if not self.floor_db >= 0.0:
            raise ConfigError(f"sweep.floor_db must be at least 0, got {self.floor_db}; 15 to 25 is common")
        if self.n_snapshots < 1:
            raise ConfigError(f"sweep.n_snapshots must be at least 1, got {self.n_snapshots}")
        if not 0.0 <= self.nan_row_share <= 1.0:
            raise ConfigError(f"sweep.nan_row_share must lie in [0, 1], got {self.nan_row_share}; 0.01 is common")

    @property
    def mean_power(self) -> float:
        """Mean linear power of a beam reading without signal."""
        return float(self.reference_power * 10.0 ** (-self.floor_db / 10.0))


def clear_power(distance_m: float, carrier_hz: float, n_antennas: int) -> float:
    """Linear power of a perfectly aligned beam over free-space line of sight, per unit of transmit power."""
    return float(n_antennas * (wavelength_m(carrier_hz) / (4.0 * np.pi * distance_m)) ** 2)


def beam_powers(
    paths: ArrivingPaths,
    codebook: Complex,
    n_subcarriers: int = N_SUBCARRIERS,
    bandwidth_hz: float = BANDWIDTH_HZ,
    noise: SweepNoise | None = None,
    draws: np.random.Generator | None = None,
    duration_s: float = 0.0,
) -> Array:
    """Received power of every beam, averaged over the band.

    With h[k] = sum_p g_p a(s_p) e^(-j 2 pi (k - (K - 1) / 2) B / K tau_p) the power is mean_k |f_q^H h[k]|^2. The mean
    over k of two paths' phases is a Dirichlet kernel of the difference of their delays, so the sum runs over pairs of
    paths and never over subcarriers.

    A sweep that takes time T measures beam q from q T / n_beams to (q + 1) T / n_beams after the instant of the frame.
    Meanwhile the gain of a path turns by e^(j 2 pi f_p t), f_p its Doppler shift; the power is the mean over that time,
    which multiplies a pair of paths by sinc((f_p - f_p') T / n_beams). Places and losses stay those of the frame.

    Args:
        paths: paths of F frames.
        codebook: [n_beams, n_antennas].
        n_subcarriers, bandwidth_hz: K and B; the carrier is the middle of the band.
        noise: None for the true powers.
        draws: needed with `noise`.
        duration_s: T; 0: all beams at one instant.

    Returns:
        [F, n_beams] linear, per unit of sent power.

    Raises:
        ConfigError: `noise` without `draws`, no subcarrier, or no bandwidth.
    """
    if n_subcarriers < 1 or not bandwidth_hz > 0.0:
        raise ConfigError(
            f"sweep.n_subcarriers must be at least 1 and sweep.bandwidth_hz above 0, "
            f"got {n_subcarriers} and {bandwidth_hz}"
        )
    # Few of the possible paths exist in a frame, and the kernel grows with the square of their number.
    columns = _valid_first(paths.valid)
    gain = np.take_along_axis(paths.gain, columns, axis=1)
    direction_sine = np.take_along_axis(paths.direction_sine, columns, axis=1)
    delay_s = np.take_along_axis(paths.delay_s, columns, axis=1)
    n_frames, n_paths = gain.shape
    arriving = gain[..., None] * steering_vector(direction_sine, codebook.shape[1])
    amplitude = arriving.reshape(n_frames * n_paths, -1) @ codebook.conj().T
    shift_hz = np.take_along_axis(paths.doppler_hz, columns, axis=1) if duration_s else None
    if shift_hz is not None:
        amplitude *= _turned(shift_hz.reshape(-1, 1), len(codebook), duration_s)
    # The kernel is real, so real and imaginary parts go through one product of real matrices.
    parts = amplitude.view(np.float64).reshape(n_frames, n_paths, -1)  # [F, P, 2 n_beams], real and imaginary
    kernel = _band_kernel(delay_s[:, :, None] - delay_s[:, None, :], n_subcarriers, bandwidth_hz / n_subcarriers)
    if shift_hz is not None:
        kernel = kernel * np.sinc((shift_hz[:, :, None] - shift_hz[:, None, :]) * (duration_s / len(codebook)))
    power_parts = (parts * (kernel @ parts)).sum(axis=1)
    powers = np.maximum(power_parts[:, 0::2] + power_parts[:, 1::2], 0.0)  # rounding can make a null slightly negative
    return powers if noise is None else measured_powers(powers, noise, draws)


def _turned(shift_hz: Array, n_beams: int, duration_s: float) -> Complex:
    """[n, n_beams] what gains have turned by in the middle of each reading, for Doppler shifts [n, 1]."""
    return np.asarray(np.exp(2j * np.pi * shift_hz * ((np.arange(n_beams) + 0.5) * (duration_s / n_beams))))


def strongest_beam_spectrum(paths: ArrivingPaths, codebook: Complex) -> DopplerSpectrum:
    """Doppler shifts in the beam that receives most in each frame, its paths added up in power: [F]."""
    columns = _valid_first(paths.valid)
    gain = np.take_along_axis(paths.gain, columns, axis=1)
    direction_sine = np.take_along_axis(paths.direction_sine, columns, axis=1)
    shift_hz = np.take_along_axis(paths.doppler_hz, columns, axis=1)
    amplitude = gain[..., None] * (steering_vector(direction_sine, codebook.shape[1]) @ codebook.conj().T)
    powers = np.abs(amplitude) ** 2  # [F, P, n_beams]
    best = powers.sum(axis=1).argmax(axis=1)
    return spectrum_moments(powers[np.arange(len(powers)), :, best], shift_hz)


def measured_powers(powers: Array, noise: SweepNoise, draws: np.random.Generator | None) -> Array:
    """Mean of |signal + complex Gaussian noise|^2 over the snapshots, and gaps: [F, n_beams] true -> measured.

    Gaps are drawn from the same stream after the noise, so that switching them on does not change the noise.

    Raises:
        ConfigError: no `draws`.
    """
    if draws is None:
        raise ConfigError("beam_powers needs draws, a numpy Generator, to add noise")
    per_half_snapshot = noise.mean_power / (2 * noise.n_snapshots)
    # Each snapshot adds the squares of two real Gaussians, so one draw stands for all snapshots.
    measured = per_half_snapshot * draws.noncentral_chisquare(2 * noise.n_snapshots, powers / per_half_snapshot)
    if noise.nan_row_share > 0.0:
        rows = np.flatnonzero(draws.random(len(powers)) < noise.nan_row_share)
        measured[rows, draws.integers(powers.shape[1], size=len(rows))] = np.nan
    return np.asarray(measured)


def _valid_first(valid: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[F, n] column indices, valid paths first; n is the largest number of valid paths of a frame, at least 1."""
    n_columns = max(1, int(valid.sum(axis=1).max(initial=1)))
    return np.argsort(~valid, axis=1, kind="stable")[:, :n_columns]


def _band_kernel(delay_s: Array, n_subcarriers: int, spacing_hz: float) -> Array:
    """mean_k e^(-j 2 pi (k - (K - 1) / 2) spacing delay): [...] -> [...], real because the band is centered."""
    half_turn = np.pi * spacing_hz * delay_s
    bottom = np.sin(half_turn)
    is_peak = np.abs(bottom) < 1e-9  # numerator and denominator are both 0: use the ratio of their derivatives
    top = np.where(is_peak, np.cos(n_subcarriers * half_turn), np.sin(n_subcarriers * half_turn) / n_subcarriers)
    return np.asarray(top / np.where(is_peak, np.cos(half_turn), bottom))

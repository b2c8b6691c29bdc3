"""A small analytic road: cars pass a base station whose array sweeps a codebook of beams.

The world a run uses when no recording is given, all of it in this one file. It is flat: a car on a straight street, one
direct path, one mirrored by the facade across the street, a uniform linear array and noise. East is x, north is y, the
base station at the origin looks north over a street that runs east to west.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from ..ranges import check_ranges

SPEED_OF_LIGHT_M_PER_S = 299_792_458.0
N_ANTENNAS = 16
N_BEAMS = 64
#: The codebook covers this much to either side of the array's axis.
SECTOR_HALF_WIDTH_DEG = 45.0
LANE_WIDTH_M = 3.5
#: Cars keep to their lane this well (standard deviation).
LANE_KEEPING_M = 0.3
#: Speeds are normal around this share of the limit, with this standard deviation relative to the mean.
MEAN_SPEED_SHARE, SPEED_SPREAD = 0.9, 0.1
#: How many beams a car moves per row, averaged over the sector: repeating the last beam is then right in 0.37 to 0.39
#: of the rows; in DeepSense scenarios 1, 5 and 8 it is in 0.27 to 0.44.
BEAMS_PER_ROW = 0.55
#: Mean silence between two cars that are measured.
MEAN_GAP_S = 60.0


@dataclass(frozen=True, slots=True)
class RoadSettings:
    """One site and how it is measured; checked when made.

    Attributes:
        n_passes: cars that are recorded.
        min_rows, max_rows: a car is caught for this many sweeps, uniform, on a stretch inside the sector.
        sample_interval_s: between two sweeps.
        distance_m: from the base station to the nearer of two lanes.
        facade_distance_m: from the base station to the wall that mirrors the signal, behind the lanes.
        reflection_loss_db: of that wall.
        orientation_deg: of the array's axis, clockwise from north.
        speed_limit_m_per_s: cars drive about 0.9 of it.
        carrier_hz: sets the wavelength.
        peak_power: linear received power of a perfectly aimed beam from the nearer lane, straight ahead. Only a scale;
            measured ones are 0.05 to 0.7.
        noise_floor_db: noise below that power, dB.
        n_snapshots: independent looks that a power reading averages; more of them, less noise in the reading.
        gps_bias_m: standard deviation per axis of the error that drifts, gps_bias_time_s: how long it lasts.
        gps_white_m: standard deviation per axis of the error that is new in every row.

    Raises:
        ConfigError: a value outside its range.

    Source: GPS error model and time constant as in common flight simulators, but with a smaller bias: it is set so
    that nearest neighbors on position alone find the best beam in 0.28 to 0.41 of the rows
    (DeepSense 1, 5, 8: 0.33 to 0.42).
    """

    n_passes: int = 60
    min_rows: int = 30
    max_rows: int = 50
    sample_interval_s: float = 0.055
    distance_m: float = 12.0
    facade_distance_m: float = 22.0
    reflection_loss_db: float = 10.0
    orientation_deg: float = 0.0
    speed_limit_m_per_s: float = 5.0
    carrier_hz: float = 60e9
    peak_power: float = 0.4
    noise_floor_db: float = 20.0
    n_snapshots: int = 8
    gps_bias_m: float = 0.25
    gps_bias_time_s: float = 60.0
    gps_white_m: float = 0.1

    def __post_init__(self) -> None:
        check_ranges("road", self, _RANGES)
        if self.min_rows > self.max_rows:
            raise ConfigError(f"road.min_rows must not exceed road.max_rows = {self.max_rows}, got {self.min_rows}")
        if self.facade_distance_m < self.distance_m + 2 * LANE_WIDTH_M:
            raise ConfigError(
                f"road.facade_distance_m must be at least road.distance_m + {2 * LANE_WIDTH_M:g} = "
                f"{self.distance_m + 2 * LANE_WIDTH_M:g} to leave room for two lanes, got {self.facade_distance_m:g}"
            )


#: Lowest and highest value of each setting.
_RANGES: dict[str, tuple[float, float]] = {
    "n_passes": (1, 100_000),
    "min_rows": (2, 10_000),
    "max_rows": (2, 10_000),
    "sample_interval_s": (0.001, 10),
    "distance_m": (2, 200),
    "facade_distance_m": (9, 500),
    "reflection_loss_db": (0, 200),
    "orientation_deg": (-40, 40),
    "speed_limit_m_per_s": (0.1, 70),
    "carrier_hz": (1e9, 300e9),
    "peak_power": (1e-9, 1e9),
    "noise_floor_db": (0, 100),
    "n_snapshots": (1, 100_000),
    "gps_bias_m": (0, 100),
    "gps_bias_time_s": (0.01, 1e6),
    "gps_white_m": (0, 100),
}


@dataclass(frozen=True, slots=True, eq=False)
class RoadPasses:
    """What the base station recorded, pass after pass.

    Attributes:
        positions_m: [n_rows, 2] float64, east and north of the car as its GPS reports them, relative to the station.
        powers: [n_rows, 64] float64, linear received power of each beam, above 0.
        sequence: [n_rows] int64, number of the pass, ascending from 0.
        time_s: [n_rows] float64, ascending.
    """

    positions_m: NDArray[np.float64]
    powers: NDArray[np.float64]
    sequence: NDArray[np.int64]
    time_s: NDArray[np.float64]


def site_settings(site_index: int, draws: np.random.Generator, base: RoadSettings | None = None) -> RoadSettings:
    """A site unlike its neighbors in number: another distance, orientation, speed limit and noise floor.

    Multiples of irrational numbers spread any number of sites evenly over the ranges; the draws move each a little.
    The sampling interval follows, so that a car moves as many beams per row at every site.

    Args:
        site_index: from 0.
        draws: of this site.
        base: everything else.
    """
    base = base or RoadSettings()
    even = (site_index + 0.5) * np.sqrt([2.0, 3.0, 5.0, 7.0]) % 1
    shares = np.clip(even + draws.uniform(-0.1, 0.1, size=4), 0, 1)
    distance_m, orientation_deg, speed_limit, noise_floor_db = np.array([8, -10, 3, 15]) + shares * (12, 20, 4, 10)
    degrees_per_row = BEAMS_PER_ROW * 2 * SECTOR_HALF_WIDTH_DEG / (N_BEAMS - 1)
    meters_per_degree = 2 * (distance_m + LANE_WIDTH_M / 2) / (2 * SECTOR_HALF_WIDTH_DEG)  # the street under the sector
    return replace(
        base,
        distance_m=float(distance_m),
        facade_distance_m=float(distance_m + draws.uniform(8, 12)),
        orientation_deg=float(orientation_deg),
        speed_limit_m_per_s=float(speed_limit),
        noise_floor_db=float(noise_floor_db),
        sample_interval_s=float(degrees_per_row * meters_per_degree / (MEAN_SPEED_SHARE * speed_limit)),
    )


def drive_bys(settings: RoadSettings, draws: np.random.Generator) -> RoadPasses:
    """Records `settings.n_passes` cars; the same draws give the same bytes."""
    n_rows_of = draws.integers(settings.min_rows, settings.max_rows, size=settings.n_passes, endpoint=True)
    sequence = np.repeat(np.arange(settings.n_passes), n_rows_of)
    row_of_pass = np.arange(len(sequence)) - np.repeat(np.cumsum(n_rows_of) - n_rows_of, n_rows_of)

    true_positions_m = _positions(settings, n_rows_of, sequence, row_of_pass, draws)
    gaps_s = np.cumsum(draws.exponential(MEAN_GAP_S, size=settings.n_passes))
    time_s: NDArray[np.float64] = np.arange(len(sequence)) * settings.sample_interval_s + gaps_s[sequence]
    return RoadPasses(
        positions_m=true_positions_m + _gps_errors(settings, sequence, row_of_pass, draws),
        powers=_measured(settings, mean_powers(settings, true_positions_m), draws),
        sequence=sequence.astype(np.int64),
        time_s=time_s,
    )


def _positions(
    settings: RoadSettings,
    n_rows_of: NDArray[np.int64],
    sequence: NDArray[np.int64],
    row_of_pass: NDArray[np.int64],
    draws: np.random.Generator,
) -> NDArray[np.float64]:
    """[n_rows, 2] where the cars are: constant speed, eastward on the nearer lane, westward on the other."""
    lane = draws.integers(2, size=settings.n_passes)
    north_m = settings.distance_m + LANE_WIDTH_M * lane + LANE_KEEPING_M * draws.standard_normal(settings.n_passes)
    spread = 1 + SPEED_SPREAD * np.clip(draws.standard_normal(settings.n_passes), -3, 3)
    step_m = MEAN_SPEED_SHARE * settings.speed_limit_m_per_s * spread * settings.sample_interval_s

    edges_rad = np.radians(settings.orientation_deg + SECTOR_HALF_WIDTH_DEG * np.array([-1, 1]))
    west_m, east_m = np.tan(edges_rad)[:, None] * north_m
    room_m = east_m - west_m - step_m * (n_rows_of - 1)  # below 0: longer than the sector, so it starts outside
    start_m = draws.random(settings.n_passes) * room_m
    along_m = start_m[sequence] + row_of_pass * step_m[sequence]
    x_m = np.where(lane[sequence] == 0, west_m[sequence] + along_m, east_m[sequence] - along_m)
    return np.stack([x_m, north_m[sequence]], axis=1)


def _gps_errors(
    settings: RoadSettings, sequence: NDArray[np.int64], row_of_pass: NDArray[np.int64], draws: np.random.Generator
) -> NDArray[np.float64]:
    """[n_rows, 2] first-order Gauss-Markov drift, new for each pass, plus white noise."""
    lag_s = np.arange(settings.max_rows) * settings.sample_interval_s
    covariance = np.exp(-np.abs(lag_s[:, None] - lag_s) / settings.gps_bias_time_s)
    drift = np.linalg.cholesky(covariance) @ draws.standard_normal((settings.n_passes, settings.max_rows, 2))
    white = draws.standard_normal((len(sequence), 2))
    return settings.gps_bias_m * drift[sequence, row_of_pass] + settings.gps_white_m * white


def steering_vector(azimuth_rad: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Response of the half-wavelength array, e^(j pi n sin azimuth): [...] -> [..., 16]."""
    return np.asarray(np.exp(1j * np.pi * np.arange(N_ANTENNAS) * np.sin(azimuth_rad)[..., None]))


def beam_azimuths_rad() -> NDArray[np.float64]:
    """[64] where the beams point, uniform in angle over the sector, ends included."""
    return np.radians(np.linspace(-SECTOR_HALF_WIDTH_DEG, SECTOR_HALF_WIDTH_DEG, N_BEAMS))


def codebook() -> NDArray[np.complex128]:
    """[64, 16] unit-norm beams."""
    return np.asarray(steering_vector(beam_azimuths_rad()) / np.sqrt(N_ANTENNAS))


def mean_powers(settings: RoadSettings, positions_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Signal power of each beam without noise, linear: [n, 2] true positions -> [n, 64].

    Free space along the direct path, and along the one mirrored by the facade: that one comes from as far behind the
    wall as the car is before it.
    """
    mirrored_m = np.stack([positions_m[:, 0], 2 * settings.facade_distance_m - positions_m[:, 1]], axis=1)
    reflection = 10 ** (-settings.reflection_loss_db / 20)
    channel = _path(settings, positions_m) + reflection * _path(settings, mirrored_m)  # [n, 16]
    return np.asarray(settings.peak_power / N_ANTENNAS * np.abs(channel @ codebook().conj().T) ** 2)


def _path(settings: RoadSettings, source_m: NDArray[np.float64]) -> NDArray[np.complex128]:
    """[n, 16] one path's channel; amplitude 1 per antenna at the distance of the nearer lane."""
    length_m = np.linalg.norm(source_m, axis=1)
    azimuth_rad = np.arctan2(source_m[:, 0], source_m[:, 1]) - np.radians(settings.orientation_deg)
    phase_rad = -2 * np.pi * settings.carrier_hz / SPEED_OF_LIGHT_M_PER_S * length_m
    return np.asarray((settings.distance_m / length_m * np.exp(1j * phase_rad))[:, None] * steering_vector(azimuth_rad))


def _measured(settings: RoadSettings, signal: NDArray[np.float64], draws: np.random.Generator) -> NDArray[np.float64]:
    """Mean of |signal + complex Gaussian noise|^2 over the snapshots: [n, 64] -> [n, 64]."""
    per_half_snapshot = settings.peak_power * 10 ** (-settings.noise_floor_db / 10) / (2 * settings.n_snapshots)
    return per_half_snapshot * draws.noncentral_chisquare(2 * settings.n_snapshots, signal / per_half_snapshot)

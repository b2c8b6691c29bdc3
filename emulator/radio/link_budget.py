"""Link budget between base stations: synthetic layout, path loss, shadow fading, beam pattern and receiver noise.

Every base station of a world observes its own street, and recordings contain no positions of other streets. The layout
is therefore synthetic: a triangular lattice, filled from its middle in the order of the station numbers, with small
random offsets. Blockage of a link is taken from the recorded streets of both ends, its length from this layout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contracts import ConfigError
from ..world.gauss_markov import gauss_markov
from ..world.weather import CLEAR, Weather
from .pathloss import los_probability, oxygen_db, umi_pathloss_db
from .tables import table
from .waves import Array
from .weather_loss import weather_db

Mask = NDArray[np.bool_]

#: Noise power of a resistor at 290 K, rounded as usual in link budgets.
THERMAL_NOISE_DBM_PER_HZ = -174.0
#: Largest random offset of a station relative to the lattice spacing; it avoids stations in line.
JITTER_SHARE = 0.15
#: Height of all stations, the only one for which the path loss model is valid.
STATION_HEIGHT_M = 10.0


def lattice_places_m(n_stations: int, inter_site_distance_m: float, draws: np.random.Generator) -> Array:
    """[n_stations, 2] x and y of stations on a triangular lattice, from the middle outwards, with small random offsets.

    Args:
        n_stations: number of stations, at least 1.
        inter_site_distance_m: lattice spacing.
        draws: advances by 2 * n_stations numbers.
    """
    reach = int(np.ceil(np.sqrt(n_stations))) + 1
    column, row = (grid.ravel() for grid in np.meshgrid(*[np.arange(-reach, reach + 1)] * 2))
    # Rows of equilateral triangles lie sqrt(3) / 2 apart, every second one displaced by half a step.
    x, y = column + 0.5 * row, np.sqrt(0.75) * row
    # Rounded, so that places equally far from the middle compare equal and their angle decides the order.
    ring = np.round(x**2 + y**2, 6)
    order = np.lexsort((np.arctan2(y, x), ring))[:n_stations]
    angle = draws.uniform(0.0, 2.0 * np.pi, n_stations)
    # The root makes offsets even over the area of a disc.
    moved = JITTER_SHARE * np.sqrt(draws.random(n_stations))
    lattice = np.stack([x[order] + moved * np.cos(angle), y[order] + moved * np.sin(angle)], axis=1)
    return np.asarray(inter_site_distance_m * lattice)


def distances_m(places_m: Array) -> Array:
    """[n, n] along the ground between places [n, 2]."""
    across = places_m[:, None] - places_m[None]
    return np.asarray(np.hypot(across[..., 0], across[..., 1]))


def station_loss_db(
    distance_m: Array,
    carrier_hz: float,
    in_sight: Mask,
    draws: np.random.Generator,
    *,
    shadowing: bool = True,
    weather: Weather = CLEAR,
) -> Array:
    """[n, n] long-term loss between any two stations, the same both ways; infinite to oneself and beyond 5 km.

    Args:
        distance_m: [n, n] along the ground, at least 10 m between two stations.
        carrier_hz: 0.5 to 100 GHz.
        in_sight: [n, n] symmetric, pairs with certain line of sight; other pairs have it with the probability of the
            standard.
        draws: advances by n * (n - 1) numbers.
        shadowing: add the shadow fading of the standard, one draw per pair.
        weather: rain and fog between all stations.

    Source: 3GPP TR 38.901, Tables 7.4.1-1, 7.4.2-1 and 7.6.1-1, UMi - Street Canyon; both ends 10 m high.
    """
    n = len(distance_m)
    first, second = np.triu_indices(n, k=1)
    farthest_m = table("umi_validity").row("distance_2d_m")["highest"]
    apart_m = distance_m[first, second]
    # Pairs beyond the model's range are computed at its end and become infinite below.
    near_m = np.minimum(apart_m, farthest_m)
    # Drawn for all pairs, as the fading below: no option moves the draws of another one.
    is_los = in_sight[first, second] | (draws.random(len(first)) < los_probability(near_m))
    pair_db = umi_pathloss_db(near_m, carrier_hz, is_los=is_los, user_height_m=STATION_HEIGHT_M)
    pair_db = pair_db + oxygen_db(near_m, carrier_hz) + weather_db(near_m, carrier_hz, weather)
    normal = draws.standard_normal(len(first))
    if shadowing:
        laws = [umi_large_scale("shadow_fading_db", carrier_hz, is_los=sight) for sight in (False, True)]
        pair_db = pair_db + normal * np.where(is_los, laws[1].sigma, laws[0].sigma)
    loss_db = np.full((n, n), np.inf)
    loss_db[first, second] = np.where(apart_m <= farthest_m, pair_db, np.inf)
    return np.asarray(np.minimum(loss_db, loss_db.T))


def noise_floor_dbm(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Noise floor of a receiver: -174 + 10 log10(bandwidth) + noise figure; -87 dBm at 100 MHz and 7 dB."""
    return THERMAL_NOISE_DBM_PER_HZ + 10.0 * float(np.log10(bandwidth_hz)) + noise_figure_db


def off_beam_loss_db(angle_rad: Any, beamwidth_deg: float, front_to_back_db: float) -> Array:
    """Loss of a beam off its axis: [...] rad, any sign and any number of turns -> [...] dB.

    Source: 3GPP TR 38.901, Table 7.3-1, horizontal cut, min(12 (angle / beamwidth)^2, front-to-back ratio).
    """
    # By way of the unit circle, so that a difference of two bearings lies in [0, 180] degrees.
    off_deg = np.degrees(np.abs(np.angle(np.exp(1j * np.asarray(angle_rad, dtype=np.float64)))))
    return np.asarray(np.minimum(12.0 * (off_deg / beamwidth_deg) ** 2, front_to_back_db))


@dataclass(frozen=True, slots=True)
class LargeScale:
    """Normal distribution of one parameter, in the unit that its name ends in.

    Attributes:
        mean, sigma: mean and standard deviation.
        correlation_m: correlation distance; NaN where the standard has none.
    """

    mean: float
    sigma: float
    correlation_m: float


def umi_large_scale(parameter: str, carrier_hz: float, *, is_los: bool) -> LargeScale:
    """One row of the UMi table at this carrier.

    Args:
        parameter: a row of `tables/umi_large_scale.csv`, such as "log10_delay_spread_s" or "shadow_fading_db".
        carrier_hz: below 2 GHz the spreads are those at 2 GHz (a note of the table).
        is_los: selects a half of the table.

    Raises:
        ConfigError: an unknown parameter, or one that is not specified without line of sight.

    Source: 3GPP TR 38.901 V16.1.0, Table 7.5-6 Part-1. Later releases refitted delay and azimuth spreads.
    """
    known = table("umi_large_scale")
    if parameter not in known.labels:
        raise ConfigError(f"unknown large-scale parameter {parameter!r}; known: {', '.join(known.labels)}")
    row, half = known.row(parameter), "los" if is_los else "nlos"
    if math.isnan(row[f"{half}_mean"]):
        raise ConfigError(f"{parameter} is specified for line of sight only; ask for it with is_los=True")
    slope = math.log10(1.0 + max(carrier_hz, 2e9) / 1e9)
    return LargeScale(
        mean=row[f"{half}_mean"] + row[f"{half}_mean_slope"] * slope,
        sigma=row[f"{half}_sigma"] + row[f"{half}_sigma_slope"] * slope,
        correlation_m=row[f"{half}_correlation_m"],
    )


def correlated_normal(step_m: Array, correlation_m: float, n_tracks: int, draws: np.random.Generator) -> Array:
    """Standard normal at every point of a track; two points d apart along it correlate as e^(-d / correlation_m).

    Exact for steps of any length, because exponentials multiply.

    Args:
        step_m: [n_points] distance from the previous point, at least 0; the first is ignored.
        correlation_m: above 0.
        n_tracks: independent repetitions.
        draws: advances by n_tracks * n_points normals.

    Returns:
        [n_tracks, n_points].

    Source: 3GPP TR 38.901 clause 7.4.4, R(d) = e^(-d / d_cor).
    """
    # A stationary start, so that the first point has the same variance as all others.
    start = draws.standard_normal(n_tracks)
    return np.vstack([start, gauss_markov(step_m[1:], correlation_m, start, draws)]).T


def shadow_fading_db(
    step_m: Array, carrier_hz: float, draws: np.random.Generator, *, is_los: bool, n_tracks: int = 1
) -> Array:
    """Shadow fading along tracks, in dB to add to the path loss.

    Args:
        step_m: [n_points] distance from the previous point; [0.0] for a link with fixed ends.
        carrier_hz: carrier frequency, for the table.
        draws: random stream of this link.
        is_los: selects sigma and correlation distance: 4 dB and 10 m, or 7.82 dB and 13 m.
        n_tracks: independent repetitions.

    Returns:
        [n_tracks, n_points].

    Source: 3GPP TR 38.901 V16.1.0, Tables 7.4.1-1 and 7.5-6, clause 7.4.4.
    """
    law = umi_large_scale("shadow_fading_db", carrier_hz, is_los=is_los)
    return np.asarray(law.mean + law.sigma * correlated_normal(step_m, law.correlation_m, n_tracks, draws))

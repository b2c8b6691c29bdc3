"""Large-scale parameters of a street canyon: spreads, shadow fading, and their spatial correlation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..contracts import ConfigError
from ..world.gauss_markov import gauss_markov
from .tables import table
from .waves import Array


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
        is_los: which half of the table.

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
        carrier_hz: for the table.
        draws: random stream of this link.
        is_los: selects sigma and correlation distance: 4 dB and 10 m, or 7.82 dB and 13 m.
        n_tracks: independent repetitions.

    Returns:
        [n_tracks, n_points].

    Source: 3GPP TR 38.901 V16.1.0, Tables 7.4.1-1 and 7.5-6, clause 7.4.4.
    """
    law = umi_large_scale("shadow_fading_db", carrier_hz, is_los=is_los)
    return np.asarray(law.mean + law.sigma * correlated_normal(step_m, law.correlation_m, n_tracks, draws))

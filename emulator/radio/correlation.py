"""Gaussian numbers along tracks, whose likeness fades with the distance travelled."""

from __future__ import annotations

import numpy as np

from ..world.gauss_markov import gauss_markov
from .waves import Array


def correlated_normal(step_m: Array, correlation_m: float, n_tracks: int, draws: np.random.Generator) -> Array:
    """Standard normal at every point of a track; two points d apart along it correlate as e^(-d / correlation_m).

    Exact for steps of any length: one exponential after another is the exponential of the sum.

    Args:
        step_m: [n_points] way from the point before, at least 0; the first counts for nothing.
        correlation_m: above 0.
        n_tracks: independent repetitions.
        draws: advances by n_tracks * n_points normals.

    Returns:
        [n_tracks, n_points].

    Source: 3GPP TR 38.901 clause 7.4.4, R(d) = e^(-d / d_cor).
    """
    start = draws.standard_normal(n_tracks)
    return np.vstack([start, gauss_markov(step_m[1:], correlation_m, start, draws)]).T

"""First-order Gauss-Markov processes, for drifting errors, wind and velocities."""

from __future__ import annotations

from typing import Any

import numpy as np

from .scene import Array


def gauss_markov(steps: Array, constant: float, start: Any, draws: np.random.Generator) -> Array:
    """Unit-variance process b <- b e^(-dt / tau) + sqrt(1 - e^(-2 dt / tau)) w at points any steps apart.

    Exact for every step, so statistics do not depend on the sampling rate. Drawing in pieces, each starting from the
    last value of the previous piece, gives the same numbers as drawing at once.

    Args:
        steps: [n] time, or distance, from the previous point, at least 0; the first is from `start`.
        constant: tau, above 0, in the same unit; the correlation time of an Ornstein-Uhlenbeck process.
        start: [k] values before the first step; standard normal for a stationary process.
        draws: advances by n * k normals.

    Returns:
        [n, k].

    Source: exact discretisation of the Ornstein-Uhlenbeck equation.
    """
    fresh = draws.standard_normal((len(steps), len(start)))
    kept = np.exp(-np.asarray(steps, dtype=np.float64) / constant)
    fresh *= np.sqrt(1.0 - kept**2)[:, None]
    value = np.asarray(start, dtype=np.float64)
    # Step by step, so that drawing in pieces gives the same bits as drawing at once.
    for index, share in enumerate(kept.tolist()):
        value = share * value + fresh[index]
        fresh[index] = value
    return fresh

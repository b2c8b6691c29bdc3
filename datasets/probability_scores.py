"""How well stated probabilities fit what came true."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Bins of equal width, as of Guo et al. 2017.
N_BINS = 15


def brier_score(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Mean squared difference between probabilities and outcomes, summed over labels: 0 is best, 2 is worst.

    >>> brier_score(np.array([[0.5, 0.5]]), np.array([1]))
    0.5

    Args:
        probabilities: [n, n_labels], rows sum to 1.
        labels: [n] that came true.

    Source: G. Brier, "Verification of forecasts expressed in terms of probability", 1950, (2).
    """
    outcomes = np.zeros_like(probabilities)
    outcomes[np.arange(len(labels)), labels] = 1.0
    return float(np.square(probabilities - outcomes).sum(axis=1).mean())


def calibration_error(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Expected calibration error of the most probable label, in [0, 1].

    >>> calibration_error(np.array([[0.2, 0.8]] * 4), np.array([1, 1, 1, 0]))  # said 0.8, came true 0.75
    0.05

    Args:
        probabilities: [n, n_labels], rows sum to 1.
        labels: [n] that came true.

    Source: C. Guo et al., "On calibration of modern neural networks", 2017, (3).
    """
    stated, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    of_bin = np.minimum((stated * N_BINS).astype(np.int64), N_BINS - 1)
    said = np.bincount(of_bin, weights=stated, minlength=N_BINS)
    came_true = np.bincount(of_bin, weights=right.astype(np.float64), minlength=N_BINS)
    return round(float(np.abs(said - came_true).sum() / len(labels)), 12)


def log_loss(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Mean negative logarithm of the probability of what came true."""
    of_label = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(of_label, np.finfo(np.float64).tiny)).mean())

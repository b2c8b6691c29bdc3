"""Ridge regression on the training rows of all clients in one place: the level of linear models that may see all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Scale = tuple[NDArray[np.float64], NDArray[np.float64]]
#: Tables with more columns get no such baseline: its cost grows with their third power.
MOST_COLUMNS = 1000
#: Tried strengths, as shares of the number of rows.
_SHARES = np.logspace(-6.0, 2.0, 33)


class PooledRidge(NamedTuple):
    """A linear model of scaled columns.

    Attributes:
        scale: mean and standard deviation of the columns.
        weights: [n_columns] of scaled columns, in the unit of the values.
        intercept: value of a row whose columns all have their mean.
        strength: of the penalty, strength * |weights|^2 beside the sum of squared errors.
    """

    scale: Scale
    weights: NDArray[np.float64]
    intercept: float
    strength: float

    def values(self, inputs: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Answers [n] for rows [n, n_columns]."""
        mean, std = self.scale
        return np.asarray((inputs - mean) / std @ self.weights + self.intercept)


def pooled_ridge(parts: Iterable[tuple[NDArray[np.floating[Any]], NDArray[np.float64]]], scale: Scale) -> PooledRidge:
    """The model of all rows, with the strength that generalized cross-validation on these rows chooses.

    Args:
        parts: rows [n, n_columns] and values [n] of every client; only one client's are held at a time.
        scale: mean and standard deviation of the columns.

    Source: G. Golub, M. Heath, G. Wahba, "Generalized cross-validation as a method for choosing a good ridge
    parameter", Technometrics 1979, (1.4).
    """
    mean, std = scale
    moments = np.zeros((len(mean) + 2, len(mean) + 2))  # of rows (1, columns, value)
    for inputs, values in parts:
        rows = np.column_stack([np.ones(len(values)), (inputs - mean) / std, values])
        moments += rows.T @ rows
    n, first = moments[0, 0], moments[0, 1:] / moments[0, 0]
    centered = moments[1:, 1:] - n * np.outer(first, first)
    squares, vectors = np.linalg.eigh(centered[:-1, :-1])
    squares, toward = np.maximum(squares, 0.0), vectors.T @ centered[:-1, -1]

    def cross_validated(strength: float) -> float:
        shrunk = toward / (squares + strength)
        errors = centered[-1, -1] - 2.0 * shrunk @ toward + squares @ shrunk**2
        freedom = n - 1.0 - (squares / (squares + strength)).sum()
        return float(errors / freedom**2) if freedom > 0.0 else np.inf

    strength = float(min(n * _SHARES, key=cross_validated))
    weights = vectors @ (toward / (squares + strength))
    return PooledRidge(scale, weights, float(first[-1] - weights @ first[:-1]), strength)

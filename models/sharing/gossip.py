"""Averaging with neighbors: mixing weights that need only degrees, and the mixing step itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def metropolis_hastings_weights(adjacency: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Mixing matrix that lets neighbors average using only their degrees.

    Args:
        adjacency: [n_clients, n_clients] symmetric, false on the diagonal; one modality's subgraph.

    Returns:
        [n_clients, n_clients] symmetric, non-negative; every row and column sums to 1.

    >>> metropolis_hastings_weights(np.array([[False, True], [True, False]]))
    array([[0.5, 0.5],
           [0.5, 0.5]])

    Source: Metropolis-Hastings weights of Ghalkha et al. 2025, (6); degrees counted inside the modality's subgraph.
    """
    # degrees inside the subgraph of one modality: neighbors without it do not count
    degrees = adjacency.sum(axis=1)
    weights = np.where(adjacency, 1.0 / (1.0 + np.maximum.outer(degrees, degrees)), 0.0)
    # the rest of the weight stays with the own vector, so that rows sum to 1
    np.fill_diagonal(weights, 1.0 - weights.sum(axis=1))
    return weights


def mix(own: Tensor, arrived: Sequence[tuple[Tensor, Tensor | None]], weights: Sequence[float]) -> Tensor:
    """Weighted average (6) of the own vector with those that arrived.

    What did not arrive keeps its weight with the own vector, coordinate by coordinate, so mixing stays an average.

    Args:
        own: [n] own vector.
        arrived: neighbors' vectors [n], each with its mask [n] of coordinates received, or None for all.
        weights: mixing weight of each of them.

    Returns:
        [n] new vector; `own` itself is left as it was.

    >>> mix(torch.tensor([0.0, 0.0]), [(torch.tensor([4.0, 4.0]), torch.tensor([True, False]))], [0.5])
    tensor([2., 0.])
    """
    whole = sum(weight for weight, (_, mask) in zip(weights, arrived, strict=True) if mask is None)
    # vectors with lost coordinates take their share below, coordinate by coordinate
    mixed = own * (1.0 - whole)
    for weight, (vector, mask) in zip(weights, arrived, strict=True):
        if mask is None:
            mixed.add_(vector, alpha=weight)
        else:
            mixed.add_(torch.where(mask, vector - own, 0.0), alpha=weight)
    return mixed

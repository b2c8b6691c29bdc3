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


def edge_weight(degree: int, other_degree: int) -> float:
    """The entry of `metropolis_hastings_weights` of an edge between nodes of these degrees.

    >>> edge_weight(1, 3)
    0.25
    """
    return 1.0 / (1.0 + max(degree, other_degree))


def distance_to_mean(own: Tensor, arrived: Sequence[tuple[Tensor, Tensor | None]]) -> float:
    """Norm of the difference between the own vector and the mean of those that arrived.

    Of every coordinate the mean is over the vectors that it came with; one that nobody sent counts as no difference.

    Args:
        own: [n] own vector.
        arrived: neighbors' vectors [n], one at least, each with its mask [n] of coordinates received, or None for all.

    >>> distance_to_mean(torch.tensor([0.0, 0.0]), [(torch.tensor([3.0, 3.0]), None), (torch.tensor([3.0, 5.0]), None)])
    5.0
    """
    if all(mask is None for _, mask in arrived):
        total = torch.zeros_like(own)
        for vector, _ in arrived:
            total += vector
        return float(torch.linalg.vector_norm(own - total / len(arrived)))
    total, n_came = torch.zeros_like(own), torch.zeros_like(own)
    for vector, mask in arrived:
        # a lost coordinate may hold anything, NaN too, and 0 * NaN is NaN
        total += vector if mask is None else torch.where(mask, vector, 0.0)
        n_came += 1.0 if mask is None else mask.to(own.dtype)
    apart = torch.where(n_came > 0.0, own - total / n_came, 0.0)
    return float(torch.linalg.vector_norm(apart))


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

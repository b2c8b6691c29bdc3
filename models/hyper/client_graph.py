"""The graph of clients that a server draws from their embeddings, and how smooth features are on it."""

from __future__ import annotations

import torch
from torch import Tensor


def nearest_neighbors(embeddings: Tensor, known: Tensor, n_neighbors: int) -> Tensor:
    """Edges between clients that are near by cosine: one is there if either end is among the other's nearest.

    Of clients at the same distance those of lower numbers come first. An embedding of length 0 is at distance 1 from
    all others.

    Args:
        embeddings: [n_clients, width].
        known: [n_clients] bool; clients whose embedding is not known have no edges.
        n_neighbors: K, cut to the number of others.

    Returns:
        [2, n_edges] int64 numbers of both ends, the lower one first, in ascending order; no client is its own neighbor.

    >>> nearest_neighbors(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), torch.ones(3, dtype=torch.bool), 1)
    tensor([[0, 1],
            [1, 2]])

    Source: Liang et al. 2025, (4); cosine, union of both ends' choices and K = 5 are ours, the paper leaves them open.
    """
    members = known.nonzero().squeeze(1)
    unit = torch.nn.functional.normalize(embeddings[members].to(torch.float64), dim=1)
    # sums of equal embeddings may differ in their last bit, which must not decide
    similarity = (unit @ unit.T).round(decimals=12)
    similarity.fill_diagonal_(-torch.inf)
    n_chosen = min(n_neighbors, max(0, len(members) - 1))
    # stable, so that lower numbers come first among equals
    chosen = torch.sort(similarity, dim=1, descending=True, stable=True).indices[:, :n_chosen]
    adjacency = torch.zeros_like(similarity, dtype=torch.bool)
    adjacency[torch.arange(len(members), device=chosen.device).unsqueeze(1), chosen] = True
    return members[(adjacency | adjacency.T).triu(1).nonzero().T]


def all_pairs(known: Tensor) -> Tensor:
    """Edges [2, n_edges] between all clients whose embedding is known, in the form of `nearest_neighbors`.

    >>> all_pairs(torch.tensor([True, False, True]))
    tensor([[0],
            [2]])
    """
    members = known.nonzero().squeeze(1)
    return torch.combinations(members, 2).T.contiguous()

"""The average of a server, and what a client takes over from it: element by element, as packets get lost."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .vector_gossip import Combine


def server_average(mixing: float = 1.0) -> Combine:
    """What a server makes of its vector and those of its clients.

    Weights count among those that were heard, so that a client that was not heard pulls nowhere. An element that
    nobody was heard about keeps its value:

        new[e] = (1 - beta) old[e] + beta sum_k w_k m_k[e] u_k[e] / sum_k w_k m_k[e]

    Args:
        mixing: beta in (0, 1]; 1 forgets the old vector.

    >>> apart = [(torch.tensor([2.0, 4.0, 9.0]), torch.tensor([True, True, False])), (torch.tensor([6.0, 9.0, 9.0]),
    ...     torch.tensor([True, False, False]))]
    >>> server_average()(torch.zeros(3), apart, [1.0, 3.0])
    tensor([5., 4., 0.])

    Source: FedAvg (McMahan et al. 2017), algorithm 1, for beta = 1 and no losses; beta as in pFedMe (Dinh et al. 2020).
    """

    def combine(own: Tensor, arrived: Sequence[tuple[Tensor, Tensor | None]], weights: Sequence[float]) -> Tensor:
        total, heard = torch.zeros_like(own), torch.zeros_like(own)
        whole = sum(weights)
        for weight, (vector, mask) in zip(weights, arrived, strict=True):
            share = weight / whole
            # a lost coordinate may hold anything, NaN too, and 0 * NaN is NaN
            total.add_(vector if mask is None else torch.where(mask, vector, 0.0), alpha=share)
            heard.add_(1.0 if mask is None else mask.to(own.dtype), alpha=share)
        mean = total / heard
        mixed = mean if mixing == 1.0 else (1.0 - mixing) * own + mixing * mean
        return torch.where(heard > 0.0, mixed, own)

    return combine


def taken_over(own: Tensor, arrived: Sequence[tuple[Tensor, Tensor | None]], _weights: Sequence[float]) -> Tensor:
    """What a client has after it took over its server's vector: its own value wherever that was lost.

    >>> taken_over(torch.tensor([1.0, 2.0]), [(torch.tensor([7.0, 8.0]), torch.tensor([True, False]))], [1.0])
    tensor([7., 2.])
    """
    ((vector, mask),) = arrived
    return vector if mask is None else torch.where(mask, vector, own)

"""The average of a server over the tensors that its clients' factors make, with factors computed anew (ACT)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..sharing.server_average import server_average
from ..sharing.vector_gossip import Combine, ServerCombine
from .canonical import to_dense
from .factor_layout import FactoredWeight, FactorLayout, as_block
from .refactorize import refactorized, refactorizing_flops


def tensor_average(layout: FactorLayout) -> ServerCombine:
    """What a server makes of factors where it averages tensors.

        omega = (1 - beta) [[A]] + beta sum_k w_k [[A_k]], then factors near omega

    over the clients whose factors of a weight came whole; where there is none, the weight keeps its factors. What is
    dense is averaged entry by entry.

    Args:
        layout: of the vector; running statistics may follow behind it.

    Source: Wang et al., equations (21) and (22), where the second is left open; see `refactorized`.
    """

    def averaging(mixing: float) -> Combine:
        entries = server_average(mixing)

        def combine(own: Tensor, arrived: Sequence[tuple[Tensor, Tensor | None]], weights: Sequence[float]) -> Tensor:
            new = entries(own, arrived, weights)
            for one in layout.weights:
                new[one.values] = _block(one, own, arrived, weights, mixing)
            return new

        return combine

    composing = sum(2.0 * one.rank * (one.dense.stop - one.dense.start) for one in layout.weights)
    fitting = sum(refactorizing_flops(one.dims, one.rank) for one in layout.weights)
    return ServerCombine(averaging, lambda n_clients: n_clients * composing + fitting)


def _block(
    one: FactoredWeight,
    own: Tensor,
    arrived: Sequence[tuple[Tensor, Tensor | None]],
    weights: Sequence[float],
    mixing: float,
) -> Tensor:
    """New values of one weight, flat."""
    whole = [
        (weight, vector)
        for weight, (vector, mask) in zip(weights, arrived, strict=True)
        if mask is None or bool(mask[one.values].all())
    ]
    if not whole:
        return own[one.values]
    total, start = sum(weight for weight, _ in whole), one.factors(own)
    mean = torch.stack([weight / total * to_dense(one.factors(vector)) for weight, vector in whole]).sum(dim=0)
    if mixing != 1.0:
        mean = (1.0 - mixing) * to_dense(start) + mixing * mean
    return as_block(refactorized(mean, start))

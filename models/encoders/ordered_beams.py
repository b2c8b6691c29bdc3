"""Sweeps put in the order in which a client's beams lie along its codebook, before their encoder sees them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class OrderedBeams(nn.Module):
    """A normalizer of sweeps, and the beams of every sweep in another order behind it.

    The encoders of neighbors then read the same place of the codebook at the same number, whatever numbers their base
    stations give their beams; exported models take sweeps in the base station's own numbers.

    Args:
        scale: normalizer that takes and gives [batch, length, n_beams].
        order: [n_beams] the own beam at every place.
    """

    order: Tensor

    def __init__(self, scale: nn.Module, order: NDArray[np.int64]) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("order", torch.from_numpy(order.copy()))

    def forward(self, powers_db: Tensor) -> Tensor:
        """[batch, length, n_beams] -> same shape."""
        scaled: Tensor = self.scale(powers_db)
        return scaled[..., self.order]

    def turn(self) -> None:
        """Read the codebook from its other end from now on."""
        # in place: the model is held by others, too
        self.order.copy_(self.order.flip(0))

    def extra_repr(self) -> str:
        """The order: exported graphs hold it as a constant, and models of other orders have other graphs."""
        return ", ".join(map(str, self.order.tolist()))

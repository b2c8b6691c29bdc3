"""Work of one pass through a model, counted and not measured."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


def forward_flops(model: nn.Module, inputs: Mapping[str, Tensor]) -> float:
    """Floating-point operations of one forward pass of these rows, matrix work only.

    The model is as it was afterwards: running statistics do not move, and it trains again if it did before.
    """
    trained = model.training
    model.eval()
    counter = FlopCounterMode(display=False)
    try:
        with counter, torch.no_grad():
            model(inputs)
    finally:
        model.train(trained)
    return float(counter.get_total_flops())

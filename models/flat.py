"""A module's parameters as one vector, without copies: what gossip averages and one optimizer call updates."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FlatModule:
    """Re-homes a module's parameters and floating buffers onto one vector; the module keeps working on views of it.

    Args:
        module: whose parameters are to lie in one vector.
        share_buffers: whether floating buffers are part of the vector, and so of what neighbors average; without them
            every client keeps the running statistics of its own view.

    >>> layer = nn.Linear(2, 1)
    >>> FlatModule(layer).vector.zero_().shape, layer.bias.item()  # the module sees the change
    (torch.Size([3]), 0.0)

    Attributes:
        vector: [n] parameters first, then the floating buffers (running statistics). Change it in place only.
        trainable: [n_parameters] view of the parameters, with their gradient as one vector in `trainable.grad`.
    """

    def __init__(self, module: nn.Module, *, share_buffers: bool = True) -> None:
        parameters = list(module.parameters())
        buffers = [buffer for buffer in module.buffers() if share_buffers and buffer.is_floating_point()]
        tensors: list[Tensor] = [*parameters, *buffers]
        # of a module without parameters nothing is averaged, and no step changes it
        self.vector = torch.cat([tensor.detach().reshape(-1) for tensor in tensors]) if tensors else torch.empty(0)
        n_parameters = sum(parameter.numel() for parameter in parameters)
        self.trainable = self.vector[:n_parameters]
        self.trainable.grad = torch.zeros_like(self.trainable)
        at = 0
        for tensor in tensors:
            end = at + tensor.numel()
            tensor.data = self.vector[at:end].view_as(tensor)
            if isinstance(tensor, nn.Parameter):
                tensor.grad = self.trainable.grad[at:end].view_as(tensor)  # backward accumulates into this view
            at = end

    @property
    def gradient(self) -> Tensor:
        """[n_parameters] accumulated gradient."""
        assert self.trainable.grad is not None
        return self.trainable.grad

"""A module's parameters as one vector, without copies: what gossip averages and one optimizer call updates."""

from __future__ import annotations

from typing import Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from .native_norms import leave_cudnn_where_unaligned


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
        self._parameters = parameters = list(module.parameters())
        buffers = [buffer for buffer in module.buffers() if share_buffers and buffer.is_floating_point()]
        self._tensors = tensors = [*parameters, *buffers]
        # of a module without parameters nothing is averaged, and no step changes it
        self.vector = torch.cat([tensor.detach().reshape(-1) for tensor in tensors]) if tensors else torch.empty(0)
        n_parameters = sum(parameter.numel() for parameter in parameters)
        self.trainable = self.vector[:n_parameters]
        self.trainable.grad = torch.zeros_like(self.trainable)
        at = 0
        for tensor in tensors:
            end = at + tensor.numel()
            tensor.data = self.vector[at:end].view_as(tensor)
            at = end
        leave_cudnn_where_unaligned(module)
        self._places = [tensor.data_ptr() for tensor in tensors]
        self._gradients = self._pieces(self.trainable.grad)
        self._attach()

    @classmethod
    def of(cls, module: nn.Module, *, share_buffers: bool = True) -> Self:
        """The vector that a module lies on already, with a gradient of 0, or else a new one.

        Models that one client wears after the other keep theirs.
        """
        known = _KNOWN.setdefault(module, {})
        found = known.get(share_buffers)
        if isinstance(found, cls) and found._is_home:
            found.gradient.zero_()
            found._attach()
        else:
            found = known[share_buffers] = cls(module, share_buffers=share_buffers)
        return found

    @property
    def gradient(self) -> Tensor:
        """[n_parameters] accumulated gradient."""
        assert self.trainable.grad is not None
        return self.trainable.grad

    @property
    def _is_home(self) -> bool:
        """Whether the module's tensors still are views of the vector."""
        return all(tensor.data_ptr() == place for tensor, place in zip(self._tensors, self._places, strict=True))

    def _attach(self) -> None:
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient  # backward accumulates into this view

    def _pieces(self, vector: Tensor) -> list[Tensor]:
        """Views of a vector [n_parameters], one per parameter."""
        pieces = torch.split(vector, [parameter.numel() for parameter in self._parameters])
        return [piece.view_as(parameter) for piece, parameter in zip(pieces, self._parameters, strict=True)]


#: Module that is alive -> by whether buffers are shared, the vector that it lay on when that was last asked for.
_KNOWN: WeakKeyDictionary[nn.Module, dict[bool, FlatModule]] = WeakKeyDictionary()

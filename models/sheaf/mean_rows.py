"""A restriction map whose rows are means of coordinates: a head seen at a coarser resolution of its outputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class MeanRows:
    """P [n_rows, dim] whose row r is the mean of k coordinates that no other row reads, so that P P^T = I / k.

    Args:
        dim: of the vector.
        index: [n_rows, k] int64 coordinates, each once.

    Attributes:
        dim, index: as given.
        length: norm of every row, 1 / sqrt(k).

    >>> MeanRows(4, torch.tensor([[0, 1], [2, 3]])).project(torch.tensor([1.0, 3.0, 5.0, 9.0]))
    tensor([2., 7.])
    """

    def __init__(self, dim: int, index: Tensor) -> None:
        self.dim, self.index = dim, index
        self._k = index.shape[1]
        self.length = 1.0 / math.sqrt(self._k)

    def __len__(self) -> int:
        return len(self.index)

    def to(self, device: torch.device | str) -> MeanRows:
        """The same map on another device."""
        return MeanRows(self.dim, self.index.to(device))

    def project(self, vector: Tensor) -> Tensor:
        """P w, [n_rows]; of several vectors [..., dim] at once: [..., n_rows]."""
        return vector[..., self.index].mean(dim=-1)

    def pull(self, residual: Tensor) -> Tensor:
        """P^T r, [dim]; of several residuals [..., n_rows] at once: [..., dim]."""
        pulled = residual.new_zeros(*residual.shape[:-1], self.dim)
        pulled[..., self.index] = (residual / self._k).unsqueeze(-1).expand(*residual.shape, self._k)
        return pulled

    def dense(self, dtype: torch.dtype) -> Tensor:
        """The matrix [n_rows, dim]."""
        return self.pull(torch.eye(len(self), dtype=dtype, device=self.index.device))

    @property
    def n_bytes(self) -> int:
        return self.index.element_size() * self.index.nelement()

    @property
    def product_flops(self) -> float:
        """Floating-point operations of one `project` or one `pull`."""
        return 1.0 * self.index.nelement()

"""A random restriction map with orthogonal rows that is never built: rows of a randomized Hadamard transform."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor


class HadamardMap:
    """P = c R T S, [n_rows, dim]: S takes m coordinates of a vector, T rotates them at random, R takes n_rows of them.

    T = W_last D_2 W_first D_1 with diagonal random signs D, and with W the orthonormal Hadamard transform of the first,
    or of the last, n coordinates, n the largest power of two up to m. Every factor is orthogonal, so P P^T = c^2 I for
    any m, without padding; the average over signs and rows of P^T P is c^2 n_rows / m on the m coordinates. A product
    takes m log m operations, and the map 2 bytes per coordinate and 8 per row.

    Args:
        dim: of the vector.
        at: [m] coordinates that are compared; None: all, in order.
        rows: [n_rows] which of the m rows, each once.
        signs: [2, m] int8, the diagonals of D_1 and D_2.
        length: c, of every row.

    Source: subsampled randomized Hadamard transforms (Ailon and Chazelle 2006; Tropp 2011), which are for powers of
    two; the two overlapping windows are ours.
    """

    def __init__(self, dim: int, rows: Tensor, signs: Tensor, at: Tensor | None = None, length: float = 1.0) -> None:
        self.dim, self.length, self._rows, self._signs, self._at = dim, length, rows, signs, at
        self._m = signs.shape[1]
        self._n = 1 << (self._m.bit_length() - 1)

    def __len__(self) -> int:
        return len(self._rows)

    def to(self, device: torch.device | str) -> HadamardMap:
        """The same map on another device."""
        at = None if self._at is None else self._at.to(device)
        return HadamardMap(self.dim, self._rows.to(device), self._signs.to(device), at, self.length)

    def project(self, vector: Tensor) -> Tensor:
        """P w, [n_rows]; of several vectors [..., dim] at once: [..., n_rows]."""
        first, second = self._signs.to(vector.dtype)
        m, n = self._m, self._n
        taken = first * (vector if self._at is None else vector[..., self._at])
        taken = second * torch.cat([hadamard_transform(taken[..., :n]), taken[..., n:]], dim=-1)
        turned = torch.cat([taken[..., : m - n], hadamard_transform(taken[..., m - n :])], dim=-1)
        return self.length * turned[..., self._rows]

    def pull(self, residual: Tensor) -> Tensor:
        """P^T r, [dim]; of several residuals [..., n_rows] at once: [..., dim]."""
        first, second = self._signs.to(residual.dtype)
        m, n = self._m, self._n
        turned = residual.new_zeros(*residual.shape[:-1], m)
        turned[..., self._rows] = self.length * residual
        turned = second * torch.cat([turned[..., : m - n], hadamard_transform(turned[..., m - n :])], dim=-1)
        taken: Tensor = first * torch.cat([hadamard_transform(turned[..., :n]), turned[..., n:]], dim=-1)
        if self._at is None:
            return taken
        pulled = residual.new_zeros(*residual.shape[:-1], self.dim)
        pulled[..., self._at] = taken
        return pulled

    def dense(self, dtype: torch.dtype) -> Tensor:
        """The matrix [n_rows, dim]."""
        return self.pull(torch.eye(len(self), dtype=dtype, device=self._rows.device))

    @property
    def n_bytes(self) -> int:
        held = [self._rows, self._signs, *(() if self._at is None else (self._at,))]
        return sum(tensor.element_size() * tensor.nelement() for tensor in held)

    @property
    def product_flops(self) -> float:
        """Floating-point operations of one `project` or one `pull`."""
        return 2.0 * self._n * math.log2(self._n) + 4.0 * self._m


def drawn_hadamard_map(
    dim: int, n_rows: int, draws: np.random.Generator, at: Tensor | None = None, length: float = 1.0
) -> HadamardMap:
    """A map with random signs and rows."""
    m = dim if at is None else len(at)
    signs = torch.from_numpy(draws.integers(0, 2, size=(2, m), dtype=np.int8) * 2 - 1)
    rows = torch.from_numpy(np.sort(draws.choice(m, size=n_rows, replace=False)))
    return HadamardMap(dim, rows, signs, at, length)


#: Largest matrix by which one step of a transform multiplies; beyond it the work grows faster than the memory traffic.
_LARGEST_FACTOR = 32


def hadamard_transform(values: Tensor) -> Tensor:
    """Orthonormal Hadamard transform of the last dimension, [..., n] with n a power of two.

    The matrix of n = f_1 f_2 ... is the Kronecker product of those of the factors. Each step multiplies by one of them
    and moves its digit of the index to the front, so that all digits are in their places again after the last.

    >>> hadamard_transform(torch.tensor([1.0, 1.0, 1.0, 1.0]))
    tensor([2., 0., 0., 0.])
    """
    n = left = values.shape[-1]
    turned = values.reshape(-1, n)
    while left > 1:
        factor = min(left, _LARGEST_FACTOR)
        turned = turned.reshape(-1, n // factor, factor) @ _hadamard_matrix(factor).to(values)
        turned = turned.transpose(-1, -2).reshape(-1, n)
        left //= factor
    return turned.reshape(values.shape)


@cache
def _hadamard_matrix(size: int) -> Tensor:
    """[size, size] float64, orthonormal and symmetric."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(size.bit_length() - 1):
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64), matrix)
    return matrix / math.sqrt(size)

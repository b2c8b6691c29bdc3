"""Canonical (CP) factors of tensors as pure functions; all of them take several tensors at once along leading axes.

N is the order of a tensor, I_n the size of its mode n, R the rank; A^(n) [..., I_n, R] is the factor matrix of mode n,
and scale lives in the factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

#: A^(n) [..., I_n, R] of every mode.
Factors = Sequence[Tensor]


def unfold(tensor: Tensor, mode: int, order: int) -> Tensor:
    """X_(n) [..., I_n, product of the other sizes]: the fibers of a mode as columns, lowest remaining mode fastest.

    Args:
        tensor: [..., I_1, ..., I_N].
        mode: n, from 0.
        order: N.

    Source: Kolda and Bader 2009, *Tensor Decompositions and Applications*, section 2.4.
    """
    first = tensor.dim() - order
    others = [first + other for other in reversed(range(order)) if other != mode]
    return tensor.permute(*range(first), first + mode, *others).flatten(start_dim=first + 1)


def khatri_rao(matrices: Factors) -> Tensor:
    """Column-wise Kronecker product [..., product of rows, R] of matrices [..., rows, R], rows of the last fastest.

    >>> khatri_rao([torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [5.0]])]).flatten().tolist()
    [3.0, 5.0, 6.0, 10.0]
    """
    product = matrices[0]
    for matrix in matrices[1:]:
        product = (product.unsqueeze(-2) * matrix.unsqueeze(-3)).flatten(start_dim=-3, end_dim=-2)
    return product


def to_dense(factors: Factors) -> Tensor:
    """[[A]] [..., I_1, ..., I_N], of which an element is sum_r prod_n A^(n)[i_n, r]."""
    *before, last = factors
    flat = khatri_rao(before) @ last.mT
    return flat.reshape(*flat.shape[:-2], *(matrix.shape[-2] for matrix in factors))


def others_product(factors: Factors, mode: int) -> Tensor:
    """H_n = A^(N) (.) ... (.) A^(1) without A^(n), [..., product of the other sizes, R], in the order of `unfold`."""
    return khatri_rao([matrix for other, matrix in reversed(list(enumerate(factors))) if other != mode])


def others_gram(factors: Factors, mode: int) -> Tensor:
    """V_n = H_n^T H_n [..., R, R]: the elementwise product of A^(m)^T A^(m) over the other modes."""
    grams = [matrix.mT @ matrix for other, matrix in enumerate(factors) if other != mode]
    product = grams[0]
    for gram in grams[1:]:
        product = product * gram
    return product


def gradient(tensor: Tensor, factors: Factors) -> list[Tensor]:
    """Gradients [..., I_n, R] of |X - [[A]]|^2 / 2 by the factors, all at the same values: A^(n) V_n - X_(n) H_n.

    Args:
        tensor: X [..., I_1, ..., I_N].
        factors: of a tensor of this shape.

    Source: equation (25) in the appendix of Wang et al., *Tensor Decomposition based Personalized Federated Learning*,
    without its lambda; their equation (17) prints the sum of the two terms.
    """
    order = len(factors)
    return [
        matrix @ others_gram(factors, mode) - unfold(tensor, mode, order) @ others_product(factors, mode)
        for mode, matrix in enumerate(factors)
    ]


def gradient_flops(dims: Sequence[int], rank: int) -> float:
    """Floating-point operations of `gradient` of one tensor: the products with H_n, with V_n, and the Gram matrices."""
    return 2.0 * rank * (len(dims) * math.prod(dims) + 2 * rank * sum(dims))


def initial(dims: Sequence[int], rank: int, variance: float, draws: torch.Generator) -> list[Tensor]:
    """Factors [I_n, R] of independent normal entries for which the entries of [[A]] have this variance.

    R products of N entries each add up, so that an entry has the standard deviation (variance / R)^(1 / 2N). Our
    choice: the paper says no more than that the server initializes them.

    Args:
        dims: I_n.
        rank: R.
        variance: of a weight, such as torch draws it.
        draws: random stream.
    """
    std = (variance / rank) ** (0.5 / len(dims))
    return [torch.randn(size, rank, generator=draws, dtype=torch.float64) * std for size in dims]

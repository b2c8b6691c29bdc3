"""Factors of a given tensor: truncated singular values for matrices, alternating least squares for higher orders."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .canonical import Factors, others_gram, others_product, unfold

#: Sweeps of alternating least squares over all modes; they start where the last fit has ended.
SWEEPS = 10
#: Share of the mean diagonal of V_n that is added to it: at the ranks of convolutions its columns are nearly dependent.
DAMPING = 1e-8


def refactorized(tensor: Tensor, start: Factors, sweeps: int = SWEEPS) -> list[Tensor]:
    """Factors [I_n, R] near a tensor [I_1, ..., I_N], of the rank of `start`, the best ones for a matrix.

    Args:
        tensor: what is to be approximated.
        start: factors that the fit of a tensor of order 3 and more begins with; of a matrix only the rank counts.
        sweeps: of alternating least squares.

    Source: ours; Wang et al., equation (22), leave the algorithm open.
    """
    rank = start[0].shape[-1]
    return _truncated(tensor, rank) if tensor.dim() == 2 else _least_squares(tensor, start, sweeps)


def refactorizing_flops(dims: Sequence[int], rank: int, sweeps: int = SWEEPS) -> float:
    """Floating-point operations of a fit: of a thin singular value decomposition, or of the sweeps.

    Source: Golub and Van Loan, *Matrix Computations*, figure 8.6.1 (R-SVD with both bases).
    """
    if len(dims) == 2:
        short, long = sorted(dims)
        return float(6 * long * short**2 + 20 * short**3)
    size = 1
    for one in dims:
        size *= one
    return float(sweeps * sum(2 * rank * size + 2 * one * rank**2 + rank**3 for one in dims))


def _truncated(matrix: Tensor, rank: int) -> list[Tensor]:
    """U sqrt(S) and V sqrt(S) of the largest singular values; columns of zeros where there are no more of them."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    roots = values[:rank].sqrt()
    found = [left[:, :rank] * roots, right[:rank].mT * roots]
    return [torch.nn.functional.pad(one, (0, rank - one.shape[1])) for one in found]


def _least_squares(tensor: Tensor, start: Factors, sweeps: int) -> list[Tensor]:
    """A^(n) <- X_(n) H_n V_n^-1, mode by mode; columns of a rank-one term share its scale evenly after every sweep."""
    factors, order = list(start), tensor.dim()
    for _ in range(sweeps):
        for mode in range(order):
            gram = others_gram(factors, mode)
            damped = gram + DAMPING * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype).to(gram.device)
            product = unfold(tensor, mode, order) @ others_product(factors, mode)
            factors[mode] = torch.linalg.lstsq(damped, product.mT).solution.mT
        factors = _balanced(factors)
    return factors


def _balanced(factors: Factors) -> list[Tensor]:
    """The same tensor by columns of equal norm in all modes."""
    norms = torch.stack([matrix.norm(dim=-2) for matrix in factors]).clamp_min(torch.finfo(factors[0].dtype).tiny)
    common = norms.log().mean(dim=0).exp()
    return [matrix * (common / norm) for matrix, norm in zip(factors, norms, strict=True)]

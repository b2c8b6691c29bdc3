"""Sums of rank-one terms with fewer terms: the closest sum of a given rank, and how far away it is."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class LowRank(NamedTuple):
    """The matrix D^T W as the sum of its rank-one terms.

    Attributes:
        heads: W, [n_terms, head_dim].
        residuals: D, [n_terms, n_rows].
        norm: Frobenius norm of the matrix.
        dropped: Frobenius norm of what it is short of the matrix that it was made from.
    """

    heads: Tensor
    residuals: Tensor
    norm: float
    dropped: float


def truncated(heads: Tensor, residuals: Tensor, most_terms: int) -> LowRank | None:
    """The matrix D^T W with at most so many terms: no other sum of as many is closer in the Frobenius norm.

    Terms of less than the rounding of the largest are left out as well. Both factors are orthogonalized, so that the
    singular values are those of a small matrix. The arithmetic is float64 whatever the factors are, because rounding
    in the type of float32 factors would add up over the truncations of a long run.

    Args:
        heads, residuals: W [n_terms, head_dim] and D [n_terms, n_rows].
        most_terms: bound on the rank.

    Returns:
        the matrix with its singular vectors as factors, orthogonal terms in descending order; None: it is not finite.

    Source: Eckart and Young (1936); singular values of a product by QR of both factors.
    """
    head_basis, head_core = torch.linalg.qr(heads.T.to(torch.float64))  # [head_dim, k], [k, n_terms]
    residual_basis, residual_core = torch.linalg.qr(residuals.T.to(torch.float64))
    core = residual_core @ head_core.T
    if not bool(core.isfinite().all()):
        return None
    left, sizes, right = torch.linalg.svd(core, full_matrices=False)
    least = sizes[:1] * max(torch.finfo(heads.dtype).eps, len(heads) * torch.finfo(sizes.dtype).eps)
    n_terms = min(most_terms, int((sizes > least).sum()))
    roots = sizes[:n_terms].sqrt()  # half of every singular value to either factor, so that both are of one size
    return LowRank(
        ((head_basis @ right[:n_terms].T) * roots).T.to(heads.dtype),
        ((residual_basis @ left[:, :n_terms]) * roots).T.to(residuals.dtype),
        float(sizes[:n_terms].norm()),
        float(sizes[n_terms:].norm()),
    )

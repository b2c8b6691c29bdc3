"""How large steps may be: the corrected limits of Theorem 1, and the norms that they need.

    heads   alpha < 2 / (L + lambda |L_F|)      L smoothness of the losses, L_F the sheaf Laplacian
    maps    eta < 2 / (lambda s_e)              s_e = |w_i|^2 + |w_j|^2 of the two heads of an edge

Source: Ghalkha et al. 2025, Theorem 1, corrected: the paper's limit of heads, 2 / L, leaves out the curvature of the
coupling, and heads diverge below it. One step beyond the limit of maps multiplies an edge's residual by 1 - eta lambda
s_e, exactly, so that the residual grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from ...emulator.contracts import NodeId
from .equations import sheaf_laplacian
from .map_starts import MapStart, add_pull, frobenius_sq, norm_sq_bound, project_start
from .restriction_maps import RestrictionMaps

#: Step size times curvature from which on a quadratic diverges.
UNSTABLE_FROM = 2.0
#: Coordinates of all clients together up to which iterates over all of them are kept: 1.6 MB each, some dozens.
MOST_COORDINATES = 200_000
#: Iterates before an estimate counts as converged: the first ones may lie close to a smaller eigenvalue.
LEAST_PRODUCTS = 12
#: Share of the estimate below which the rest of an iterate is rounding.
ROUNDING_SHARE = 1e-12


def step_limit(smoothness: float, coupling: float, laplacian_norm: float) -> float:
    """Largest stable alpha; with a smoothness of 0, the limit for losses of any smoothness.

    >>> step_limit(smoothness=1.0, coupling=0.5, laplacian_norm=2.0)
    1.0
    """
    curvature = smoothness + coupling * laplacian_norm
    return UNSTABLE_FROM / curvature if curvature > 0.0 else math.inf


def map_step_limit(coupling: float, norms_sq: float) -> float:
    """Largest stable eta of an edge whose two heads have squared norms of this sum."""
    curvature = coupling * norms_sq
    return UNSTABLE_FROM / curvature if curvature > 0.0 else math.inf


def sheaf_laplacian_norm(
    starts: Mapping[NodeId, Mapping[NodeId, MapStart]], head_dims: Mapping[NodeId, int], *, tolerance: float = 1e-3
) -> float:
    """Largest eigenvalue of L_F under given maps, from above; L_F itself is never built.

    Args:
        starts: client -> neighbor -> map, rows of the identity [d_ij] or a matrix, both ends of every edge.
        head_dims: d_i of every client.
        tolerance: relative, of the estimate.
    """
    clients = sorted(head_dims)
    sizes = [head_dims[client] for client in clients]
    edges = [(i, j) for i in sorted(starts) for j in sorted(starts[i]) if i < j]

    def images(stacked: Tensor) -> tuple[Tensor, Tensor]:
        heads = dict(zip(clients, torch.split(stacked, sizes), strict=True))
        first = [project_start(starts[i][j], heads[i]) for i, j in edges]
        second = [project_start(starts[j][i], heads[j]) for i, j in edges]
        return torch.cat(first), torch.cat(second)

    def pulled(first: Tensor, second: Tensor) -> Tensor:
        pulls = {client: first.new_zeros(head_dims[client]) for client in clients}
        n_rows = [len(starts[i][j]) for i, j in edges]
        for (i, j), at_i, at_j in zip(edges, torch.split(first, n_rows), torch.split(second, n_rows), strict=True):
            add_pull(pulls[i], starts[i][j], at_i)
            add_pull(pulls[j], starts[j][i], at_j)
        return torch.cat([pulls[client] for client in clients])

    def laplacian(stacked: Tensor) -> Tensor:
        return sheaf_laplacian(stacked, images, pulled)

    return largest_eigenvalue(laplacian, sum(sizes), tolerance=tolerance) if edges else 0.0


def sheaf_laplacian_bound(starts: Mapping[NodeId, Mapping[NodeId, MapStart]]) -> float:
    """What the norm of L_F never exceeds, from the maps one by one: 2 max_i sum_j |P_ij|^2.

    For rows of the identity that is twice the largest degree, as for the Laplacian of any graph. Costs one pass over
    every map, where the norm itself takes dozens of products and keeps as many vectors over all clients.

    Args:
        starts: as for `sheaf_laplacian_norm`.

    Source: |a - b|^2 <= 2 |a|^2 + 2 |b|^2 in w^T L_F w = sum over edges of |P_ij w_i - P_ji w_j|^2.
    """
    return 2.0 * max((sum(map(norm_sq_bound, of_client.values())) for of_client in starts.values()), default=0.0)


def sheaf_laplacian_limit(
    starts: Mapping[NodeId, Mapping[NodeId, MapStart]], dims: Mapping[NodeId, int], *, tolerance: float = 1e-3
) -> float:
    """Norm of L_F from above, or, where models are too large for that, twice the squared norm of one client's maps.

    That client has the longest rows, and the most for its size. Twice the largest |P_i|^2 bounds the norm as in
    `sheaf_laplacian_bound`; which of drawn maps have it is certain but for chance, which is small in such models.

    Args: as of `sheaf_laplacian_norm`.
    """
    if sum(dims.values()) <= MOST_COORDINATES:
        return sheaf_laplacian_norm(starts, dims, tolerance=tolerance)

    def expected(i: NodeId) -> float:
        row_sq = max((frobenius_sq(start) / len(start) for start in starts[i].values()), default=0.0)
        return row_sq * (1.0 + math.sqrt(sum(map(len, starts[i].values())) / dims[i])) ** 2

    client = max(starts, key=expected)

    def pulled(vector: Tensor) -> Tensor:
        pull = torch.zeros_like(vector)
        for start in starts[client].values():
            add_pull(pull, start, project_start(start, vector))
        return pull

    return 2.0 * largest_eigenvalue(pulled, dims[client], tolerance=max(tolerance, 1e-2))


def map_norm_sq(maps: RestrictionMaps, head: Tensor, *, tolerance: float = 1e-2) -> float:
    """|P_i|^2 of one client's stacked maps, from above: the curvature of its pull while neighbors stand still.

    Args:
        maps: of the client.
        head: for size, dtype and device.
    """
    if maps.n_rows == 0:
        return 0.0
    return largest_eigenvalue(lambda x: maps.pull(maps.project(x.to(head))).cpu(), len(head), tolerance=tolerance)


def largest_eigenvalue(
    apply: Callable[[Tensor], Tensor], size: int, *, tolerance: float, most_products: int = 200
) -> float:
    """Upper estimate of the largest eigenvalue of a symmetric operator without negative ones.

    Power iteration that keeps all iterates (Lanczos with full orthogonalization): the best combination of all
    iterates instead of the last one. Returned is its Rayleigh quotient plus the norm of its residual, which bounds how
    far the eigenvalue can be away.

    Args:
        apply: the operator, [size] -> [size].
        size: of the space.
        tolerance: relative; the residual at which it stops.
        most_products: give up there; the estimate is then less tight, and still from above.

    Returns:
        the estimate, infinite where the operator leaves the finite numbers.
    """
    vector = torch.from_numpy(np.random.default_rng(0).normal(size=size))  # any start that is not orthogonal to it
    basis = [vector / vector.norm()]
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        image = apply(basis[-1]).to(torch.float64)
        diagonal.append(float(image @ basis[-1]))
        kept = torch.stack(basis)
        for _ in range(2):  # once leaves rounding errors that grow
            image = image - kept.T @ (kept @ image)
        rest = float(image.norm())
        if not math.isfinite(rest):
            return math.inf
        values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
        largest, residual = float(values[-1]), rest * abs(float(vectors[-1, -1]))
        converged = len(basis) >= LEAST_PRODUCTS and residual <= tolerance * largest
        if converged or rest <= ROUNDING_SHARE * largest or len(basis) == min(size, most_products):
            return largest + residual
        basis.append(image / rest)
        beside.append(rest)

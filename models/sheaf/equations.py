"""The sheaf coupling of heads as pure functions: edge stalks, initial maps, and equations (11) and (12).

The sheaf lives on the communication graph: the stalk of a client is its flattened head, restriction maps take both
ends of an edge into the edge's stalk, and the coupling pulls the two images together.
Source: Ghalkha et al. 2025, (1), (2), (7), (11), (12); each undirected edge counts once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import ConfigError
from ..head import HeadLayout, shared_coordinates
from ..model_layout import Layout, ModelLayout, common_coordinates
from .map_starts import MapStart
from .mean_rows import MeanRows

#: Stalks of all nodes, in whatever form the maps of a sheaf know them.
Stalks = TypeVar("Stalks")


def edge_stalk_dim(
    compression: float, own_dim: int, peer_dim: int, n_shared: int | None = None, *, of_smaller: bool = False
) -> int:
    """Dimension d_ij of an edge's stalk: floor(compression * mean head size), never below 1.

    Args:
        compression: gamma in (0, 1].
        own_dim, peer_dim: head sizes of the two ends.
        n_shared: how many coordinates the heads have in common; a structured map cannot have more rows. None: no limit
            but the smaller head.
        of_smaller: take the smaller size instead of the mean, as Sheaf-FMTL does for whole models.

    >>> edge_stalk_dim(0.1, 40, 60), edge_stalk_dim(0.1, 40, 60, of_smaller=True)
    (5, 4)
    """
    limit = min(own_dim, peer_dim) if n_shared is None else min(own_dim, peer_dim, n_shared)
    size = min(own_dim, peer_dim) if of_smaller else (own_dim + peer_dim) / 2
    wanted = math.floor(compression * size + 1e-9)  # 0.1 * 4160 must not fall to 415
    return max(1, min(wanted, limit))


def stalk_dim(compression: float, own: Layout, peer: Layout, n_shared: int | None = None) -> int:
    """`edge_stalk_dim` of two heads, or of two whole models."""
    of_smaller = isinstance(own, ModelLayout)
    return edge_stalk_dim(compression, own.dim, peer.dim, n_shared, of_smaller=of_smaller)


def structured_starts(
    own: Layout, peer: Layout, compression: float, draws: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Initial maps of both ends of an edge as rows of the identity, comparing identical coordinates.

    Returns:
        two [d_ij] int64 index lists, for the own and the peer's end, drawn together so that both agree.
    """
    own_at, peer_at = common_coordinates(own, peer)
    return _drawn_rows(own_at, peer_at, stalk_dim(compression, own, peer, len(own_at)), draws)


def aligned_starts(
    own: Layout,
    peer: Layout,
    own_outputs: Sequence[int],
    peer_outputs: Sequence[int],
    compression: float,
    draws: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """Initial maps of both ends of an edge as rows of the identity, comparing coordinates that mean the same.

    As `structured_starts`, except that a class is known by what it is about and not by its number: two base stations
    that number the same beams in different orders compare the weights of one and the same beam.

    Args:
        own_outputs, peer_outputs: [n_outputs] what every class of each end is about, each once.

    Raises:
        ConfigError: the ends have no class in common. Weights and biases alike belong to a class, so nothing is left
            that an edge could compare.
    """
    own_at, peer_at = common_coordinates(own, peer, own_outputs, peer_outputs)
    if len(own_at) == 0:
        ends = " and ".join(f"{', '.join(map(str, outputs[:3]))}, ..." for outputs in (own_outputs, peer_outputs))
        raise ConfigError(
            f"sheaf.map_start = 'aligned' compares outputs that are about the same, but two neighbors have none in"
            f" common ({ends}); use 'random', or do without this edge"
        )
    return _drawn_rows(own_at, peer_at, stalk_dim(compression, own, peer, len(own_at)), draws)


def resampled_starts(
    own: HeadLayout, peer: HeadLayout, own_places: Sequence[int], peer_places: Sequence[int]
) -> tuple[MapStart, MapStart]:
    """Initial maps of both ends of an edge between codebooks of any two sizes, one of which divides the other.

    The end with fewer outputs shows all of its head, the other one the mean over the k outputs that lie where one of
    the peer's does: it is seen at the peer's resolution, and what its outputs do not have in common is left alone. Only
    that both codebooks cover one sector is assumed, not where in it the first beam of either points; counted from the
    other end at both, the maps are the same. Codebooks of equal size get the maps of `aligned_starts`.

    Args:
        own, peer: heads.
        own_places, peer_places: [n_outputs] place of every output along the codebook, from 0.

    Raises:
        ConfigError: neither number of outputs divides the other one.
    """
    if own.n_outputs > peer.n_outputs:
        second, first = resampled_starts(peer, own, peer_places, own_places)
        return first, second
    k, left = divmod(peer.n_outputs, own.n_outputs)
    if left:
        raise ConfigError(
            "sheaf.map_start = 'learned' compares codebooks of which one has a whole multiple of the other's beams, but"
            f" two neighbors have {own.n_outputs} and {peer.n_outputs}; change n_beams of one"
        )
    # every part of the peer's outputs is matched with the same own coordinates, in the same order
    parts = [
        shared_coordinates(own, peer, [place * k + part for place in own_places], peer_places) for part in range(k)
    ]
    own_at = torch.from_numpy(parts[0][0])
    peer_at = torch.from_numpy(np.stack([at_peer for _, at_peer in parts], axis=1))
    return own_at, peer_at[:, 0] if k == 1 else MeanRows(peer.dim, peer_at)


def kronecker_starts(
    own: HeadLayout, peer: HeadLayout, compression: float, draws: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Initial maps I_C x R of both ends of an edge, comparing the same columns of all outputs.

    A column is what every output's row of the head has at one feature, or the column of biases. R has
    m = floor(compression * mean (width + 1)) rows of the identity, never less than 1, nor more than there are common
    columns.

    Returns:
        two [C * m] int64 index lists, class by class, drawn together so that both ends agree.

    Raises:
        ConfigError: the ends have different numbers of outputs.
    """
    if own.n_outputs != peer.n_outputs:
        raise ConfigError(
            "sheaf.map_storage = 'kronecker' compares whole columns of heads, but two neighbors have"
            f" {own.n_outputs} and {peer.n_outputs} outputs; use 'factored', or give all groups as many outputs"
        )
    of_one = replace(own, n_outputs=1), replace(peer, n_outputs=1)  # their coordinates are the columns
    own_at, peer_at = shared_coordinates(*of_one)
    n_columns = edge_stalk_dim(compression, own.width + 1, peer.width + 1, len(own_at))
    first, second = _drawn_rows(own_at, peer_at, n_columns, draws)
    return _of_every_output(own, first), _of_every_output(peer, second)


def _of_every_output(layout: HeadLayout, columns: Tensor) -> Tensor:
    """Flat indices [C * m] of columns [m], those of the first output first."""
    outputs = torch.arange(layout.n_outputs).unsqueeze(1)
    of_weights, of_biases = outputs * layout.width + columns, layout.n_outputs * layout.width + outputs
    return torch.where(columns < layout.width, of_weights, of_biases).flatten()


def _drawn_rows(
    own_at: NDArray[np.int64], peer_at: NDArray[np.int64], n_rows: int, draws: np.random.Generator
) -> tuple[Tensor, Tensor]:
    chosen = np.sort(draws.choice(len(own_at), size=n_rows, replace=False))
    return torch.from_numpy(own_at[chosen]), torch.from_numpy(peer_at[chosen])


def sheaf_laplacian(
    stalks: Stalks, images: Callable[[Stalks], tuple[Tensor, Tensor]], pulled: Callable[[Tensor, Tensor], Stalks]
) -> Stalks:
    """L_F x = delta^T delta x edge by edge, for any maps on any graph; L_F itself is never built.

    (L_F x)_i = sum_j P_ij^T (P_ij x_i - P_ji x_j), whichever end of an edge is called the first one.

    Args:
        stalks: x.
        images: gives P_ij x_i and P_ji x_j, the images of both ends of all edges, of equal shapes.
        pulled: takes what the first and the second ends differ by, and gives the sum over edges of P_ij^T of it.

    >>> gap = sheaf_laplacian(
    ...     torch.tensor([1.0, 4.0]), lambda x: (x[:1], x[1:]), lambda first, second: torch.cat([first, second])
    ... )
    >>> gap
    tensor([-3.,  3.])
    """
    first, second = images(stalks)
    residual = first - second  # the coboundary
    return pulled(residual, -residual)


def coupled_step(vector: Tensor, gradient: Tensor, pull: Tensor, *, step_size: float, coupling: float) -> Tensor:
    """New head after one step of (11), or new model after one step of Sheaf-FMTL or dFedU.

    Args:
        vector, gradient: [d_i] what is coupled, and the gradient of the local loss.
        pull: [d_i] sum over neighbors of P_ij^T (P_ij w_i - P_ji w_j).
        step_size: alpha.
        coupling: lambda.

    >>> coupled_step(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([4.0]), step_size=0.25, coupling=0.5)
    tensor([0.])
    """
    return vector - step_size * (gradient + coupling * pull)  # (11)


def edge_trust(own: Tensor, peer: Tensor, scale: float) -> Tensor:
    """Share of its pull that an edge uses, []: 1 for images that agree, less the more they differ, both ends alike.

    1 / (1 + rho / kappa)^2 with rho = |u - v|^2 / (|u|^2 + |v|^2), which is 0 in agreement, about 1 for unrelated
    images and 2 in opposition. The pull falls again for neighbors that are far away, so an outlier loses its hold on
    the others; both ends know u and v, so nothing more is sent and mixing stays symmetric.

    Args:
        own, peer: [d_ij] images u and v.
        scale: kappa, the relative residual at which a quarter of the pull is left; 0 trusts all neighbors alike.

    Source: weights of the robust loss of Geman and McClure (1985), here of a relative residual.
    """
    if scale == 0.0:
        return own.new_ones(())
    size, gap = own @ own + peer @ peer, own - peer
    rho = gap @ gap / size.clamp_min(torch.finfo(size.dtype).tiny)
    return (1.0 + rho / scale) ** -2


def map_step_sizes(step_size: float, coupling: float, own_norm_sq: Tensor, peer_norms_sq: Tensor) -> Tensor:
    """Map step eta of every edge, clamped so that no edge residual changes its sign.

    One step of (12) multiplies the residual of an edge by 1 - eta * lambda * (|w_i|^2 + |w_j|^2), exactly; the clamp
    keeps that factor at 0 or above.

    Args:
        step_size: eta as configured.
        coupling: lambda.
        own_norm_sq: [] squared norm of the own new head.
        peer_norms_sq: [n_edges] squared norms of the neighbors' new heads.

    Returns:
        [n_edges] step sizes.

    >>> map_step_sizes(0.1, 1.0, torch.tensor(10.0), torch.tensor([0.0, 10.0]))
    tensor([0.1000, 0.0500])
    """
    if coupling == 0.0:
        return torch.full_like(peer_norms_sq, step_size)
    # clamped below by the smallest float, because norms of zero heads would divide by 0
    limits = 1.0 / (coupling * (own_norm_sq + peer_norms_sq)).clamp_min(torch.finfo(peer_norms_sq.dtype).tiny)
    return limits.clamp_max(step_size)


def reproject_locally(
    own_after: Tensor, residual: Tensor, *, step_size: Tensor | float, coupling: float, norm_sq: Tensor
) -> Tensor:
    """Projection of an unchanged head under the map that (12) is about to make, without the map.

    P^{r+1} w = v - eta * lambda * |w|^2 * r_e: what makes the first exchange of the next round redundant.

    Args:
        own_after: [d_ij] v, the old map's image of the new head.
        residual: [d_ij] v_own - v_peer, seen from the end whose projection is wanted.
        step_size: eta of this edge (a scalar, or [d_ij]).
        coupling: lambda.
        norm_sq: |w|^2 of the head that was projected.
    """
    return own_after - step_size * coupling * norm_sq * residual

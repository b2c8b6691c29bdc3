"""Initial maps that are drawn, by the name that `sheaf.map_start` gives them, and what they come to in expectation.

Maps of the two ends of an edge are drawn apart, as Sheaf-FMTL does, or once for both, over the coordinates that they
have in common. Drawn apart, E[P_ij^T (P_ij w_i - P_ji w_j)] = d_ij v w_i with v the variance of the entries: in
expectation the coupling is weight decay, and holds no pull towards the neighbor.

Source: Ben Issaid et al., Sheaf-FMTL, for the starts; the variance is theirs where `sheaf.map_scale` = 1, with
which orthonormal rows are as long as Gaussian ones are in the mean, so that a `sheaf.coupling` means the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..model_layout import Layout, common_coordinates
from ..settings import SheafSettings
from .equations import stalk_dim
from .hadamard_map import drawn_hadamard_map
from .map_starts import MapStart

Draws = np.random.Generator


class _Matrices(NamedTuple):
    """How the matrix of one end is drawn.

    Attributes:
        draw: (draws, n_rows, dim, scale) -> float64 matrix [n_rows, dim].
        scale: dim -> the scale of maps without `sheaf.map_scale`.
        variance: (scale, dim) -> mean square of an entry, where no entry means more than another; else None.
    """

    draw: Callable[[Draws, int, int, float], np.ndarray]
    scale: Callable[[int], float]
    variance: Callable[[float, int], float] | None


def _orthonormal(draws: Draws, n_rows: int, dim: int, scale: float) -> np.ndarray:
    columns, triangle = np.linalg.qr(draws.normal(size=(dim, n_rows)))
    # signs make the draw uniform over all such matrices, which the QR of LAPACK alone is not
    return np.ascontiguousarray((scale * dim**0.5 * columns * np.sign(np.diag(triangle))).T)


#: Dense starts; `hadamard` is drawn without a matrix.
_MATRICES: dict[str, _Matrices] = {
    "random": _Matrices(
        lambda draws, n_rows, dim, scale: draws.normal(scale=scale, size=(n_rows, dim)),
        lambda dim: dim**-0.5,
        lambda scale, _dim: scale**2,
    ),
    "uniform": _Matrices(
        lambda draws, n_rows, dim, scale: draws.uniform(-scale, scale, size=(n_rows, dim)),
        lambda dim: (3.0 / dim) ** 0.5,
        lambda scale, _dim: scale**2 / 3.0,
    ),
    "orthonormal": _Matrices(_orthonormal, lambda dim: dim**-0.5, lambda scale, _dim: scale**2),
    "identity_noise": _Matrices(
        lambda draws, n_rows, dim, scale: np.eye(n_rows, dim) + draws.normal(scale=scale, size=(n_rows, dim)),
        lambda _dim: 0.01,
        None,
    ),
}


def drawn_starts(sheaf: SheafSettings, own: Layout, peer: Layout, draws: Draws) -> tuple[MapStart, MapStart]:
    """Initial maps of both ends of an edge, [d_ij, own.dim] and [d_ij, peer.dim]; matrices are float64."""
    if sheaf.map_share == "end":
        n_rows = stalk_dim(sheaf.compression, own, peer)
        return _drawn(sheaf, own.dim, n_rows, draws), _drawn(sheaf, peer.dim, n_rows, draws)
    own_at, peer_at = (torch.from_numpy(at) for at in common_coordinates(own, peer))
    n_rows = stalk_dim(sheaf.compression, own, peer, len(own_at))
    if sheaf.map_start == "hadamard":
        seed = int(draws.integers(2**63))
        first, second = (
            drawn_hadamard_map(layout.dim, n_rows, np.random.default_rng(seed), at, _length(sheaf, len(at)))
            for layout, at in ((own, own_at), (peer, peer_at))
        )
        return first, second
    common = _drawn(sheaf, len(own_at), n_rows, draws)
    assert isinstance(common, Tensor)
    return _placed(common, own_at, own.dim), _placed(common, peer_at, peer.dim)


def dense_bytes(sheaf: SheafSettings, own: Layout, peer: Layout) -> int:
    """Memory of the float32 matrices of both ends of an edge; 0 where none are built."""
    if sheaf.map_start not in _MATRICES:
        return 0
    return 4 * stalk_dim(sheaf.compression, own, peer) * (own.dim + peer.dim)


def entry_variance(sheaf: SheafSettings, dim: int) -> float | None:
    """Mean square of the entries of a map [d_ij, dim]; None where some entries mean more than others."""
    if sheaf.map_start == "hadamard":
        return _length(sheaf, dim) ** 2 / dim
    if sheaf.map_start not in _MATRICES:
        return None
    kind = _MATRICES[sheaf.map_start]
    return None if kind.variance is None else kind.variance(_scale(sheaf, dim), dim)


def _drawn(sheaf: SheafSettings, dim: int, n_rows: int, draws: Draws) -> MapStart:
    if sheaf.map_start == "hadamard":
        return drawn_hadamard_map(dim, n_rows, draws, length=_length(sheaf, dim))
    return torch.from_numpy(_MATRICES[sheaf.map_start].draw(draws, n_rows, dim, _scale(sheaf, dim)))


def _scale(sheaf: SheafSettings, dim: int) -> float:
    return sheaf.map_scale or _MATRICES[sheaf.map_start].scale(dim)


def _length(sheaf: SheafSettings, dim: int) -> float:
    """Of the rows of a Hadamard map."""
    return sheaf.map_scale * dim**0.5 if sheaf.map_scale > 0.0 else 1.0


def _placed(matrix: Tensor, at: Tensor, dim: int) -> Tensor:
    """A map of some coordinates [d_ij, m] as a map of all of them [d_ij, dim]."""
    placed = matrix.new_zeros(len(matrix), dim)
    placed[:, at] = matrix
    return placed

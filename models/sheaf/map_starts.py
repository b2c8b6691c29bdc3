"""Initial restriction maps in every form, one at a time and stacked over the edges of a client.

A map starts as rows of the identity (an index list [d_ij]), as a matrix [d_ij, d_i], or as an `ImplicitMap`, which is
never built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from ...emulator.contracts import NodeId
from .mean_rows import MeanRows


class ImplicitMap(Protocol):
    """A map [n_rows, dim] that is never built; its rows are orthogonal to each other and of one norm.

    `HadamardMap` and `MeanRows` are of this kind.

    Attributes:
        dim: of the vector that it takes.
        length: norm of every row.
    """

    dim: int
    length: float

    def __len__(self) -> int: ...

    def to(self, device: torch.device | str, /) -> ImplicitMap:
        """The same map on another device."""
        ...

    def project(self, vector: Tensor, /) -> Tensor:
        """P w, [n_rows]."""
        ...

    def pull(self, residual: Tensor, /) -> Tensor:
        """P^T r, [dim]."""
        ...

    def dense(self, dtype: torch.dtype, /) -> Tensor:
        """The matrix [n_rows, dim]."""
        ...

    @property
    def n_bytes(self) -> int: ...

    @property
    def product_flops(self) -> float: ...


MapStart = Tensor | ImplicitMap


def project_start(start: MapStart, vector: Tensor) -> Tensor:
    """P w, [d_ij]."""
    if not isinstance(start, Tensor):
        return start.project(vector)
    return vector[start] if start.ndim == 1 else start @ vector


def add_pull(pull: Tensor, start: MapStart, residual: Tensor) -> None:
    """Add P^T r to a pull [d_i], in place."""
    if not isinstance(start, Tensor):
        pull.add_(start.pull(residual))
    elif start.ndim == 1:
        pull.index_add_(0, start, residual)
    else:
        pull.add_(start.T @ residual)


def dense_start(start: MapStart, dim: int, dtype: torch.dtype) -> Tensor:
    """A start as the matrix [d_ij, d_i] that it stands for."""
    if not isinstance(start, Tensor):
        return start.dense(dtype)
    if start.ndim == 2:
        return start.to(dtype)
    matrix = torch.zeros(len(start), dim, dtype=dtype)
    matrix[torch.arange(len(start)), start] = 1.0
    return matrix


def frobenius_sq(start: MapStart) -> float:
    """Squared Frobenius norm."""
    if not isinstance(start, Tensor):
        return len(start) * start.length**2
    return float(len(start) if start.ndim == 1 else start.square().sum())


def norm_sq_bound(start: MapStart) -> float:
    """|P|^2, or a bound from above: of a matrix its squared entries' sum."""
    if not isinstance(start, Tensor):
        return start.length**2
    if start.numel() == 0:
        return 0.0
    # of rows of the identity: how often the most frequent is there
    return float(torch.bincount(start).max()) if start.ndim == 1 else float(start.square().sum())


class StackedStart(Protocol):
    """Initial maps of one client on all its edges, [n_rows, d_i]."""

    def project(self, vector: Tensor) -> Tensor:
        """P w, [n_rows]."""
        ...

    def pull(self, residual: Tensor) -> Tensor:
        """P^T r, [d_i]."""
        ...

    def dense(self) -> Tensor:
        """The matrix [n_rows, d_i]."""
        ...

    @property
    def n_bytes(self) -> int: ...

    @property
    def product_flops(self) -> float: ...


class IdentityRows:
    """Rows of the identity.

    Args:
        index: [n_rows] int64, which rows.
        rows: neighbor -> its rows in the stack.
        like: [any, d_i] for size, dtype and device.
    """

    def __init__(self, index: Tensor, rows: Mapping[NodeId, slice], like: Tensor) -> None:
        self.index, self._rows, self._like = index, rows, like[:0]
        # rows of an edge that follow each other, as those of whole heads do, are copied: six times as fast as by number
        runs = [_run(index[own]) for own in rows.values()]
        self._runs = [run for run in runs if run is not None] if None not in runs else []

    def project(self, vector: Tensor) -> Tensor:
        return torch.cat([vector[run] for run in self._runs]) if self._runs else vector[self.index]

    def pull(self, residual: Tensor) -> Tensor:
        pulled = torch.zeros(self._like.shape[1], dtype=residual.dtype, device=residual.device)
        # edge by edge: the same coordinate twice would make a GPU add in any order
        if self._runs:
            for run, rows in zip(self._runs, self._rows.values(), strict=True):
                pulled[run] += residual[rows]
            return pulled
        for rows in self._rows.values():
            pulled.index_add_(0, self.index[rows], residual[rows])
        return pulled

    def pull_rows(self, places: Tensor, residuals: Tensor) -> Tensor:
        """P^T of residuals [n, n_places] on these rows [n_places], ascending, and 0 on the others: [n, d_i]."""
        pulled = residuals.new_zeros(len(residuals), self._like.shape[1])
        for rows in self._rows.values():  # edge by edge, see `pull`
            own = (places >= rows.start) & (places < rows.stop)
            pulled.index_add_(1, self.index[places[own]], residuals[:, own])
        return pulled

    def dense(self) -> Tensor:
        matrix = dense_start(self.index.cpu(), self._like.shape[1], self._like.dtype)
        return matrix.to(self._like.device)

    @property
    def n_bytes(self) -> int:
        return self.index.element_size() * self.index.nelement()

    @property
    def product_flops(self) -> float:
        return 2.0 * len(self.index)


def _run(index: Tensor) -> slice | None:
    """Coordinates [n] as a slice, where they ascend by one; None: they do not."""
    first = int(index[0]) if len(index) else 0
    follow = torch.arange(first, first + len(index), device=index.device)
    return slice(first, first + len(index)) if torch.equal(index, follow) else None


class StartMatrix:
    """A matrix [n_rows, d_i]."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    def project(self, vector: Tensor) -> Tensor:
        return self.matrix @ vector

    def pull(self, residual: Tensor) -> Tensor:
        return self.matrix.T @ residual

    def dense(self) -> Tensor:
        return self.matrix

    @property
    def n_bytes(self) -> int:
        return self.matrix.element_size() * self.matrix.nelement()

    @property
    def product_flops(self) -> float:
        return 2.0 * self.matrix.nelement()


class ImplicitStarts:
    """Maps that are never built, one per edge.

    Args:
        maps: neighbors ascending; one at least.
        like: [any, d_i] for dtype and device.
    """

    def __init__(self, maps: Sequence[ImplicitMap], like: Tensor) -> None:
        self._maps, self._dtype = [one.to(like.device) for one in maps], like.dtype
        self._sizes = [len(one) for one in maps]

    def project(self, vector: Tensor) -> Tensor:
        return torch.cat([one.project(vector) for one in self._maps])

    def pull(self, residual: Tensor) -> Tensor:
        pulled = residual.new_zeros(self._maps[0].dim)
        for one, part in zip(self._maps, torch.split(residual, self._sizes), strict=True):
            pulled.add_(one.pull(part))
        return pulled

    def dense(self) -> Tensor:
        return torch.cat([one.dense(self._dtype) for one in self._maps])

    @property
    def n_bytes(self) -> int:
        return sum(one.n_bytes for one in self._maps)

    @property
    def product_flops(self) -> float:
        return sum(one.product_flops for one in self._maps)


def stacked_start(starts: Sequence[MapStart], rows: Mapping[NodeId, slice], like: Tensor) -> StackedStart:
    """Starts of all edges, neighbors ascending, in the smallest form that holds them.

    Args:
        starts: of every neighbor in `rows`.
        rows: neighbor -> its rows in the stack.
        like: [any, d_i] for size, dtype and device.
    """
    if any(isinstance(start, MeanRows) for start in starts):
        starts = [_as_means(start, like.shape[1]) for start in starts]
    implicit = [start for start in starts if not isinstance(start, Tensor)]
    if implicit and len(implicit) == len(starts):
        return ImplicitStarts(implicit, like)
    lists = [start for start in starts if isinstance(start, Tensor) and start.ndim == 1]
    if len(lists) == len(starts):
        index = torch.cat([torch.zeros(0, dtype=torch.int64), *lists]).to(like.device)
        return IdentityRows(index, rows, like)
    return StartMatrix(torch.cat([dense_start(start, like.shape[1], like.dtype) for start in starts]).to(like.device))


def _as_means(start: MapStart, dim: int) -> MapStart:
    """Rows of the identity as means of one coordinate each, so that edges of both kinds make one stack."""
    return MeanRows(dim, start.unsqueeze(1)) if isinstance(start, Tensor) and start.ndim == 1 else start

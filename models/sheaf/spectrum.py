"""Eigenvalues of the sheaf Laplacian: the largest of any sheaf, the smallest above 0 where it can be had exactly.

Rows of the identity make L_F the Laplacian of a graph of coordinates: a node for every coordinate of every client, an
edge for every row. It falls apart into the parts of that graph, each of about as many nodes as there are clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from ...emulator.contracts import NodeId
from .stability import MOST_COORDINATES, largest_eigenvalue
from .whole_sheaf import WholeSheaf

#: Rows or columns up to which a matrix is built and all of its eigenvalues are computed: a second.
MOST_DENSE = 1200
#: Share of the largest eigenvalue below which one counts as 0: rounding of maps in float32.
ZERO_SHARE = 1e-5
#: Coordinates that float32 can count.
_COUNTED = 1 << 24


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Ends of the spectrum of L_F.

    Attributes:
        largest: largest eigenvalue; from above, within 0.1 %, where it is not exact.
        smallest: smallest eigenvalue above 0; None: the maps are too large for it.
        sections: dimension of the kernel, the vectors on which all neighbors agree; None: as before.
    """

    largest: float
    smallest: float | None
    sections: int | None


def laplacian_spectrum(sheaf: WholeSheaf, like: Tensor) -> Spectrum:
    """Spectrum of a sheaf; all 0 without edges.

    Args:
        sheaf: with its maps.
        like: a vector of a client, for type and device.
    """
    if not sheaf.edges:
        return Spectrum(0.0, None, sheaf.dim)
    if min(sheaf.n_rows, sheaf.dim) <= MOST_DENSE:
        coboundary = sheaf.coboundary()
        small = coboundary @ coboundary.T if sheaf.n_rows < sheaf.dim else coboundary.T @ coboundary
        return _of_values(np.linalg.eigvalsh(small), sheaf.dim)
    ends = coordinate_edges(sheaf, like)
    if ends is not None and (values := _of_parts(ends, sheaf.dim)) is not None:
        return _of_values(values, sheaf.dim)
    if sheaf.dim > MOST_COORDINATES:
        return Spectrum(float("nan"), None, None)
    return Spectrum(largest_eigenvalue(sheaf.stacked_laplacian(like), sheaf.dim, tolerance=1e-3), None, None)


def coordinate_edges(sheaf: WholeSheaf, like: Tensor) -> NDArray[np.int64] | None:
    """[n_rows, 2] coordinates that each row of the maps compares, counted over all clients; None: others."""
    index, first = {}, 0
    for client in sorted(sheaf.dims):
        found = identity_rows(sheaf, client, like)
        if found is None:
            return None
        index[client] = found + first
        first += sheaf.dims[client]
    pairs = [np.stack([index[i][sheaf.rows(i, j)], index[j][sheaf.rows(j, i)]], axis=1) for i, j in sheaf.edges]
    return np.concatenate(pairs)


def identity_rows(sheaf: WholeSheaf, client: NodeId, like: Tensor) -> NDArray[np.int64] | None:
    """[n_rows] the coordinate that each row of a client's maps gives back; None: one of them does something else.

    Found by asking: what comes back of 1, 2, 3, ... names the coordinates, and other vectors check them.
    """
    dim = sheaf.dims[client]
    if dim >= _COUNTED:
        return None
    index = sheaf.project(client, torch.arange(1, dim + 1).to(like)).round().long() - 1
    if not bool(((index >= 0) & (index < dim)).all()):
        return None
    draws = np.random.default_rng(0)
    for _ in range(2):
        vector = torch.from_numpy(draws.normal(size=dim)).to(like)
        if not torch.equal(sheaf.project(client, vector), vector[index]):
            return None
    return index.cpu().numpy()


def _of_values(values: NDArray[np.floating[Any]], dim: int) -> Spectrum:
    """Spectrum with these eigenvalues of L_F, or of B B^T, which has the same ones above 0."""
    largest = float(values.max())
    above = values[values > ZERO_SHARE * largest]
    smallest = float(above.min()) if len(above) else None
    return Spectrum(largest, smallest, dim - len(above))


def _of_parts(ends: NDArray[np.int64], dim: int) -> NDArray[np.floating[Any]] | None:
    """[dim] eigenvalues of the Laplacian of a graph with so many nodes, part by part; None: a part is too large."""
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(dim, dim))
    _, part = connected_components(graph, directed=False)
    if np.bincount(part).max() > MOST_DENSE:
        return None
    known: dict[bytes, NDArray[np.floating[Any]]] = {}
    values: list[NDArray[np.floating[Any]]] = []
    for nodes, rows in _parts(part, ends):
        places = np.searchsorted(nodes, rows)
        name = places.tobytes() + bytes(str(len(nodes)), "ascii")
        if name not in known:
            known[name] = _graph_eigenvalues(places, len(nodes))
        values.append(known[name])
    return np.concatenate(values)


def _parts(part: NDArray[np.int32], ends: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Nodes, ascending, and edges of every part of a graph."""
    nodes, rows = np.argsort(part, kind="stable"), np.argsort(part[ends[:, 0]], kind="stable")
    numbers = np.arange(part.max() + 2)
    of_nodes = np.searchsorted(part[nodes], numbers)
    of_rows = np.searchsorted(part[ends[rows, 0]], numbers)
    for k in range(len(numbers) - 1):
        yield nodes[of_nodes[k] : of_nodes[k + 1]], ends[rows[of_rows[k] : of_rows[k + 1]]]


def _graph_eigenvalues(ends: NDArray[np.int64], n_nodes: int) -> NDArray[np.floating[Any]]:
    laplacian = np.zeros((n_nodes, n_nodes))
    np.add.at(laplacian, (ends[:, 0], ends[:, 1]), -1.0)
    laplacian += laplacian.T
    laplacian[np.diag_indices(n_nodes)] = -laplacian.sum(axis=1)
    return np.linalg.eigvalsh(laplacian)

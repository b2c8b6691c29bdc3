"""The sheaf of all clients as one operator, under the maps as they are now.

    (B w)_ij = P_ij w_i - P_ji w_j      coboundary, one row block per edge
    L_F = B^T B                         sheaf Laplacian; w^T L_F w is the energy

L_F is never built unless it is small. Source: Ghalkha et al. 2025, (1), (2), (8), each edge once; Hansen and Ghrist,
Toward a spectral theory of cellular sheaves (2019), for Laplacian and sections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, lsqr
from torch import Tensor

from ...emulator.contracts import NodeId
from .restriction_maps import RestrictionMaps

#: Tolerance of least squares, above the rounding of maps in float32.
TOLERANCE = 1e-6
#: Directions that maps shorten to less than this count as not seen: steps of maps tilt their rows a little towards the
#: vector that is coupled, which would otherwise be seen as a whole.
DAMPING = 0.03
#: Iterations of least squares: as many as distinct singular values, which maps near rows of the identity have few of.
MOST_ITERATIONS = 60

Heads = Mapping[NodeId, Tensor]


class WholeSheaf:
    """Maps of all clients, on the edges of which both ends have one.

    Args:
        maps: client -> its restriction maps.
        dims: client -> d_i.

    Attributes:
        dims: as given.
        edges: pairs of clients, the smaller number first, ascending.
    """

    def __init__(self, maps: Mapping[NodeId, RestrictionMaps], dims: Mapping[NodeId, int]) -> None:
        self._maps, self.dims = maps, dims
        self.edges = [(i, j) for i in sorted(maps) for j in maps[i].rows if i < j and i in maps[j].rows]
        self._neighbors = {i: [j for j in maps[i].rows if j in maps and i in maps[j].rows] for i in maps}

    @property
    def dim(self) -> int:
        """Dimension of all node stalks together."""
        return sum(self.dims.values())

    @property
    def n_rows(self) -> int:
        """Dimension of all edge stalks together."""
        return sum(self._size(i, j) for i, j in self.edges)

    def rows(self, client: NodeId, neighbor: NodeId) -> slice:
        """Rows of an edge in the client's stack."""
        return self._maps[client].rows[neighbor]

    def project(self, client: NodeId, vector: Tensor) -> Tensor:
        """P_i x, [n_rows] of all edges of a client."""
        return self._maps[client].project(vector)

    def residuals(self, heads: Heads) -> dict[NodeId, Tensor]:
        """Client -> [n_rows] P_ij w_i - P_ji w_j on its edges, so that every edge is there twice."""
        images = {i: self._maps[i].project(head) for i, head in heads.items()}
        found = {}
        for i, image in images.items():
            residual = torch.zeros_like(image)
            for j in self._neighbors[i]:
                rows = self.rows(i, j)
                residual[rows] = image[rows] - images[j][self.rows(j, i)]
            found[i] = residual
        return found

    def energy(self, heads: Heads) -> float:
        """w^T L_F w, the sum over edges of |P_ij w_i - P_ji w_j|^2."""
        return 0.5 * sum(float(residual @ residual) for residual in self.residuals(heads).values())

    def laplacian(self, heads: Heads) -> dict[NodeId, Tensor]:
        """L_F w by client: sum_j P_ij^T (P_ij w_i - P_ji w_j), the pull without lambda."""
        return {i: self._maps[i].pull(residual) for i, residual in self.residuals(heads).items()}

    def stacked_laplacian(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        """The operator on vectors of all clients behind each other, ascending; `like` for type and device of maps."""
        clients = sorted(self.dims)
        sizes = [self.dims[i] for i in clients]

        def apply(stacked: Tensor) -> Tensor:
            parts = torch.split(stacked.to(like), sizes)
            pulled = self.laplacian(dict(zip(clients, parts, strict=True)))
            return torch.cat([pulled[i] for i in clients]).cpu()

        return apply

    def transported(self, start: NodeId, end: NodeId, vector: Tensor) -> Tensor:
        """P_ji^+ P_ij x: the shortest vector of the end that looks on the edge as x of the start does."""
        image = self._maps[start].project(vector)[self.rows(start, end)]
        return self._least_squares(end, [self.rows(end, start)], image)

    def seen(self, client: NodeId, vector: Tensor) -> Tensor:
        """(P_i^T P_i + delta^2)^-1 P_i^T P_i x, delta = `DAMPING`: the part that any neighbor can tell from 0.

        That is P_i^+ P_i x but for directions that maps shorten to about delta, which are lost.
        """
        rows = [self.rows(client, j) for j in self._neighbors[client]]
        image = self._maps[client].project(vector)
        return self._least_squares(client, rows, torch.cat([image[:0], *(image[one] for one in rows)]), DAMPING)

    def coboundary(self) -> NDArray[np.float64]:
        """B as a matrix [rows of all edges, dimension of all stalks]; only of small sheaves."""
        starts = dict(zip(sorted(self.dims), np.cumsum([0, *(self.dims[i] for i in sorted(self.dims))]), strict=False))
        matrix = np.zeros((self.n_rows, self.dim))
        at = 0
        for i, j in self.edges:
            end = at + self._size(i, j)
            matrix[at:end, starts[i] : starts[i] + self.dims[i]] = self._maps[i].dense(j).cpu().numpy()
            matrix[at:end, starts[j] : starts[j] + self.dims[j]] = -self._maps[j].dense(i).cpu().numpy()
            at = end
        return matrix

    def _size(self, i: NodeId, j: NodeId) -> int:
        rows = self.rows(i, j)
        return int(rows.stop - rows.start)

    def _least_squares(self, client: NodeId, rows: Sequence[slice], image: Tensor, damping: float = 0.0) -> Tensor:
        """Shortest x [d_i] with the least |P x - image|^2 + damping^2 |x|^2 on these rows of a client's maps."""
        maps, dim = self._maps[client], self.dims[client]

        def project(vector: NDArray[np.float64]) -> NDArray[np.float64]:
            all_rows = maps.project(torch.from_numpy(vector.reshape(-1)).to(image))
            return torch.cat([all_rows[:0], *(all_rows[one] for one in rows)]).cpu().double().numpy()

        def pull(residual: NDArray[np.float64]) -> NDArray[np.float64]:
            all_rows, at = image.new_zeros(maps.n_rows), 0
            values = torch.from_numpy(residual.reshape(-1)).to(image)
            for one in rows:
                size = one.stop - one.start
                all_rows[one] = values[at : at + size]
                at += size
            return maps.pull(all_rows).cpu().double().numpy()

        operator = LinearOperator((len(image), dim), matvec=project, rmatvec=pull, dtype=np.float64)
        right = image.cpu().double().numpy()
        solved = lsqr(operator, right, damp=damping, atol=TOLERANCE, btol=TOLERANCE, iter_lim=MOST_ITERATIONS)[0]
        return torch.from_numpy(solved).to(image)

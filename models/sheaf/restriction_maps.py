"""Restriction maps of one client, all its edges stacked: dense as the equations read, or factored.

Both classes hold the linear operator P_i = [P_ij; P_ik; ...] of one client, [n_rows, head_dim], and offer the same
calls. `DenseMaps` is (11) and (12) to the letter. `FactoredMaps` never builds a large operator: a round of (12) adds
one rank-one term per edge whose head factor is common to all edges, so the initial map, the history of heads and that
of residuals hold the same information in a fraction of the memory, for as long as that history is short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from ...emulator.contracts import NodeId, State
from ...emulator.saved_state import SavedState
from ..state.tensors import restore_tensor, restored_tensor, to_array
from .low_rank import truncated
from .map_starts import IdentityRows, ImplicitStarts, MapStart, StartMatrix, dense_start, stacked_start
from .normal_form import GatheredHistory, NormalForm

#: Terms of a history, after which it is folded or truncated: above the rounds of every shipped scenario, which
#: therefore stay exact, and few enough that a product with the history costs no more than a few training steps.
MOST_TERMS = 96
#: Terms that a truncation leaves. Of what 1,200 rounds of `beam_tracking` taught the maps, 48 of 96 leave out 0.06 to
#: 0.12 %, and 64 of 96 0.05 to 0.09 %, for half as much time again in truncations.
KEPT_TERMS = 48


class RestrictionMaps(Protocol):
    """All restriction maps of one client.

    Attributes:
        rows: neighbor -> its rows in everything that is stacked.
        n_rows: total of the edge-stalk dimensions.
    """

    rows: dict[NodeId, slice]
    n_rows: int

    @property
    def truncation(self) -> float | None:
        """Bound on how far these maps are from those that all steps make, as a share of how far steps have moved them.

        In the Frobenius norm over all edges, beyond rounding. None: nothing was left out.
        """
        ...

    def project(self, head: Tensor) -> Tensor:
        """P w, [n_rows]: the head's image on every edge."""
        ...

    def pull(self, residual: Tensor) -> Tensor:
        """P^T r, [head_dim]: what residuals [n_rows] on the edges mean for the head."""
        ...

    def normal_form(self, weights: Tensor) -> NormalForm | None:
        """P^T diag(weights) P as an operator on heads, with weights [n_rows]; None: there is no cheaper one than P."""
        ...

    def step(self, scaled_residual: Tensor, head: Tensor) -> None:
        """P <- P - s w^T with s [n_rows] = eta * lambda * (v_own - v_peer), equation (12) on every edge."""
        ...

    def dense(self, neighbor: NodeId) -> Tensor:
        """One map as a matrix [d_ij, head_dim]; for tests and monitors."""
        ...

    @property
    def n_bytes(self) -> int:
        """Memory that the maps hold."""
        ...

    @property
    def product_flops(self) -> float:
        """Floating-point operations of one `project` or one `pull`."""
        ...

    def state(self) -> State:
        """A copy of the maps in the form that they are held in."""
        ...

    def restore(self, saved: SavedState) -> None:
        """Be those maps, on the same rows and heads of the same size."""
        ...


def stacked_rows(starts: Mapping[NodeId, MapStart]) -> tuple[dict[NodeId, slice], int]:
    """Row range of every neighbor in the stack, neighbors ascending, and the total."""
    rows, end = {}, 0
    for neighbor in sorted(starts):
        rows[neighbor] = slice(end, end + len(starts[neighbor]))
        end += len(starts[neighbor])
    return rows, end


class DenseMaps:
    """Restriction maps as one matrix; the plain form of (11) and (12), for small heads and for tests.

    Args:
        starts: neighbor -> initial map, [d_ij] int64 rows of the identity or a matrix [d_ij, head_dim].
        head_dim: d_i.
        dtype, device: of the arithmetic.

    >>> maps = DenseMaps({7: torch.tensor([0, 2])}, head_dim=3)
    >>> maps.project(torch.tensor([1.0, 2.0, 3.0]))
    tensor([1., 3.])
    >>> maps.pull(torch.tensor([1.0, 1.0]))
    tensor([1., 0., 1.])
    """

    def __init__(
        self,
        starts: Mapping[NodeId, MapStart],
        head_dim: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rows, self.n_rows = stacked_rows(starts)
        parts = [dense_start(starts[neighbor], head_dim, dtype) for neighbor in self.rows]
        self.matrix = torch.cat([torch.zeros(0, head_dim, dtype=dtype), *parts]).to(device)

    def project(self, head: Tensor) -> Tensor:
        return self.matrix @ head

    def pull(self, residual: Tensor) -> Tensor:
        return self.matrix.T @ residual

    def normal_form(self, weights: Tensor) -> None:
        return None

    def step(self, scaled_residual: Tensor, head: Tensor) -> None:
        self.matrix.addr_(scaled_residual, head, alpha=-1.0)  # (12), without the outer product as a matrix of its own

    def dense(self, neighbor: NodeId) -> Tensor:
        return self.matrix[self.rows[neighbor]].clone()

    @property
    def truncation(self) -> None:
        return None

    @property
    def n_bytes(self) -> int:
        return self.matrix.element_size() * self.matrix.nelement()

    @property
    def product_flops(self) -> float:
        return 2.0 * self.matrix.nelement()

    def state(self) -> State:
        return {"matrix": to_array(self.matrix)}

    def restore(self, saved: SavedState) -> None:
        restore_tensor(self.matrix, saved.parts("matrix")["matrix"])


class FactoredMaps:
    """The same operator as `DenseMaps`, kept as initial map + history; equal up to rounding for `MOST_TERMS` steps.

    P = P0 - D^T W, with W [n_terms, head_dim] the heads and D [n_terms, n_rows] the scaled residuals of all steps.
    Where a dense matrix needs no more memory than the history, or P0 is one anyway, the history is folded into it,
    exactly. Otherwise a history of `MOST_TERMS` terms is replaced by the closest one of `KEPT_TERMS`, so that memory
    is bounded whatever the number of steps; what that leaves out is added up in `truncation`.

    Args: as of `DenseMaps`.

    >>> maps = FactoredMaps({7: torch.tensor([0, 2])}, head_dim=3)
    >>> maps.step(torch.tensor([0.5, 0.0]), torch.tensor([1.0, 0.0, 0.0]))
    >>> maps.dense(7)
    tensor([[0.5000, 0.0000, 0.0000],
            [0.0000, 0.0000, 1.0000]])
    """

    def __init__(
        self,
        starts: Mapping[NodeId, MapStart],
        head_dim: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rows, self.n_rows = stacked_rows(starts)
        self.head_dim = head_dim
        self.n_terms = 0
        self._dropped, self._moved = 0.0, 0.0  # Frobenius norms: of all that was left out, and of the history it left
        self._heads = torch.zeros(0, head_dim, dtype=dtype, device=device)
        self._residuals = torch.zeros(0, self.n_rows, dtype=dtype, device=device)
        # P0, or, once history was folded into it, a matrix
        self._start = stacked_start([starts[neighbor] for neighbor in self.rows], self.rows, self._heads)
        self._gathered = GatheredHistory(self._heads)
        # kept for states that hold neither an index nor a matrix
        self._implicit = self._start if isinstance(self._start, ImplicitStarts) else None

    def project(self, head: Tensor) -> Tensor:
        image = self._start.project(head)
        if self.n_terms:
            heads, residuals = self._history()
            image = torch.addmv(image, residuals.T, heads @ head, alpha=-1.0)
        return image

    def pull(self, residual: Tensor) -> Tensor:
        pulled = self._start.pull(residual)
        if self.n_terms:
            heads, residuals = self._history()
            pulled = torch.addmv(pulled, heads.T, residuals @ residual, alpha=-1.0)
        return pulled

    def normal_form(self, weights: Tensor) -> NormalForm | None:
        # a form of fewer rows than coordinates reads more than P and P^T do
        if not isinstance(self._start, IdentityRows) or self.n_rows <= self.head_dim:
            return None
        return self._gathered.form(self._start, *self._history(), weights)

    def step(self, scaled_residual: Tensor, head: Tensor) -> None:
        self._remember(head, scaled_residual)
        # the history needs more memory than the dense matrix from here on
        outgrown = self.n_terms * (self.head_dim + self.n_rows) > self.n_rows * self.head_dim
        if outgrown or (self.n_terms >= MOST_TERMS and isinstance(self._start, StartMatrix)):
            self.fold()
        elif self.n_terms >= MOST_TERMS:
            self._truncate()

    def fold(self) -> None:
        """Turn initial map and history into one dense matrix; nothing is lost but the memory advantage."""
        self._start = StartMatrix(self._whole())
        self._forget()

    @property
    def truncation(self) -> float | None:
        return self._dropped / self._moved if self._moved else None

    def dense(self, neighbor: NodeId) -> Tensor:
        return self._whole()[self.rows[neighbor]]

    @property
    def n_bytes(self) -> int:
        history = sum(t.element_size() * t.nelement() for t in (self._heads, self._residuals))
        return self._start.n_bytes + history + self._gathered.n_bytes

    @property
    def product_flops(self) -> float:
        return self._start.product_flops + 2.0 * self.n_terms * (self.n_rows + self.head_dim)

    def state(self) -> State:
        heads, residuals = self._history()
        return {
            # a start that is neither follows from the scenario
            "index": to_array(self._start.index) if isinstance(self._start, IdentityRows) else None,
            "matrix": to_array(self._start.matrix) if isinstance(self._start, StartMatrix) else None,
            "heads": to_array(heads),
            "residuals": to_array(residuals),
            "dropped": self._dropped,
            "moved": self._moved,
        }

    def restore(self, saved: SavedState) -> None:
        whole = ("index", "matrix", "heads", "residuals")
        # states from before truncation hold all steps, and no norms
        parts = saved.parts(*whole, *(name for name in ("dropped", "moved") if name in saved.named()))
        self._restore_start(parts["index"], parts["matrix"])
        self._dropped, self._moved = (parts[n].number() if n in parts else 0.0 for n in ("dropped", "moved"))
        heads = restored_tensor(parts["heads"], self._heads, None, self.head_dim)
        residuals = restored_tensor(parts["residuals"], self._residuals, len(heads), self.n_rows)
        self._refill(heads, residuals)

    def _remember(self, head: Tensor, scaled_residual: Tensor) -> None:
        if self.n_terms == len(self._heads):
            self._heads = self._grown(self._heads)
            self._residuals = self._grown(self._residuals)
        self._heads[self.n_terms] = head
        self._residuals[self.n_terms] = scaled_residual
        self.n_terms += 1

    def _truncate(self) -> None:
        """Leave the closest history of `KEPT_TERMS` terms, a function of this history alone."""
        left = truncated(*self._history(), KEPT_TERMS)
        if left is None:  # a run that has left the finite numbers is stopped by its next training step
            return
        self._dropped, self._moved = self._dropped + left.dropped, left.norm
        self._refill(left.heads, left.residuals)

    def _refill(self, heads: Tensor, residuals: Tensor) -> None:
        """Hold these terms instead, in the room that as many steps would have made."""
        self._forget()
        for head, residual in zip(heads, residuals, strict=True):
            self._remember(head, residual)

    def _forget(self) -> None:
        self._heads, self._residuals = self._heads[:0].clone(), self._residuals[:0].clone()
        self._gathered = GatheredHistory(self._heads)
        self.n_terms = 0

    def _restore_start(self, index: SavedState, matrix: SavedState) -> None:
        """Rows of the identity, or a matrix; a new object may have the one where an old one had come to the other."""
        if matrix.state is not None:
            self._start = StartMatrix(restored_tensor(matrix, self._heads, self.n_rows, self.head_dim))
            return
        if index.state is None and self._implicit is not None:
            self._start = self._implicit
            return
        rows = restored_tensor(index, torch.zeros(0, dtype=torch.int64, device=self._heads.device), self.n_rows)
        if not bool(((rows >= 0) & (rows < self.head_dim)).all()):
            index.refuse(f"name coordinates from 0 to {self.head_dim - 1}", "others")
        self._start = IdentityRows(rows, self.rows, self._heads)

    def _whole(self) -> Tensor:
        heads, residuals = self._history()
        return self._start.dense() - residuals.T @ heads

    def _history(self) -> tuple[Tensor, Tensor]:
        return self._heads[: self.n_terms], self._residuals[: self.n_terms]

    def _grown(self, rows: Tensor) -> Tensor:
        """Room for twice as many terms, or for all that there can be before the next truncation."""
        extra = max(8, min(len(rows), MOST_TERMS - len(rows)))
        return torch.cat([rows, rows.new_zeros(extra, rows.shape[1])])

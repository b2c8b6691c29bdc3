"""Restriction maps that treat all outputs alike: I_C x R, one small matrix per edge."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...emulator.contracts import NodeId, State
from ...emulator.saved_state import SavedState
from ..state.tensors import restore_tensor, to_array
from .restriction_maps import stacked_rows


class KroneckerMaps:
    """All restriction maps of one client, each of the form P = I_C x R, on a head seen as a matrix.

    With H [C, width + 1] the head's weights and, in the last column, its biases: P w = H R^T, row by row, and (12)
    restricted to R is R <- R - eta * lambda * sum_c r_c h_c^T. What one output learns about an edge holds for all, so a
    step cannot absorb an edge's whole residual at once, as a rank-one term of a full matrix can: R would have to undo C
    different rows with one matrix.

    One step multiplies the residual of an edge, [C, m], by I - eta * lambda * (H_i H_i^T + H_j H_j^T) from the left.
    The norm of that sum is at most |w_i|^2 + |w_j|^2, so the clamp of `map_step_sizes` is safe here too.

    Args:
        starts: neighbor -> [C * m] rows of the identity, class by class, the same m columns of H for every class.
        head_dim: C * (width + 1).
        n_outputs: C.
        dtype, device: of the arithmetic.

    Source: ours; Ghalkha et al. 2025 leave the form of the maps open.
    """

    def __init__(
        self,
        starts: Mapping[NodeId, Tensor],
        head_dim: int,
        n_outputs: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rows, self.n_rows = stacked_rows(starts)
        self._n_outputs, self._n_columns = n_outputs, head_dim // n_outputs
        parts = [self._first_matrix(starts[neighbor]) for neighbor in self.rows]
        self.matrix = torch.cat([torch.zeros(0, self._n_columns), *parts]).to(device, dtype)  # R of all edges, stacked
        self._columns = {
            neighbor: slice(r.start // n_outputs, r.stop // n_outputs) for neighbor, r in self.rows.items()
        }
        self._places = self._places_of_rows().to(device)

    def project(self, head: Tensor) -> Tensor:
        return (self._as_matrix(head) @ self.matrix.T).view(-1)[self._places]

    def pull(self, residual: Tensor) -> Tensor:
        pulled = self._by_output(residual) @ self.matrix  # [C, width + 1]
        return torch.cat([pulled[:, :-1].reshape(-1), pulled[:, -1]])

    def normal_form(self, weights: Tensor) -> None:
        return None

    def step(self, scaled_residual: Tensor, head: Tensor) -> None:
        self.matrix.addmm_(self._by_output(scaled_residual).T, self._as_matrix(head), alpha=-1.0)  # (12), R only

    def dense(self, neighbor: NodeId) -> Tensor:
        matrix = self.matrix[self._columns[neighbor]]  # [m, width + 1]
        outputs = torch.eye(self._n_outputs, dtype=matrix.dtype, device=matrix.device)
        weights = torch.kron(outputs, matrix[:, :-1])
        return torch.cat([weights, torch.kron(outputs, matrix[:, -1:])], dim=1)

    @property
    def norm_sq(self) -> float:
        """Squared Frobenius norm of all maps, each of them C copies of its small matrix."""
        return self._n_outputs * float(self.matrix.square().sum())

    @property
    def truncation(self) -> None:
        """Nothing is ever left out."""

    @property
    def n_bytes(self) -> int:
        held = (self.matrix, self._places)
        return sum(tensor.element_size() * tensor.nelement() for tensor in held)

    @property
    def product_flops(self) -> float:
        return 2.0 * self._n_outputs * self.matrix.nelement()

    def state(self) -> State:
        return {"small": to_array(self.matrix)}

    def restore(self, saved: SavedState) -> None:
        restore_tensor(self.matrix, saved.parts("small")["small"])

    def _first_matrix(self, start: Tensor) -> Tensor:
        """[m, width + 1] rows of the identity, read off the first class."""
        of_first = start[: len(start) // self._n_outputs]
        columns = of_first.clamp_max(self._n_columns - 1)  # its bias lies behind the weights of all classes
        return torch.eye(self._n_columns)[columns]

    def _places_of_rows(self) -> Tensor:
        """[n_rows] where every stacked row, edge by edge, is found in [C, columns of all edges]."""
        width = len(self.matrix)
        outputs = torch.arange(self._n_outputs).unsqueeze(1)
        parts = [(outputs * width + torch.arange(c.start, c.stop)).flatten() for c in self._columns.values()]
        return torch.cat([torch.zeros(0, dtype=torch.int64), *parts])

    def _as_matrix(self, head: Tensor) -> Tensor:
        """H, [C, width + 1]."""
        n_weights = self._n_outputs * (self._n_columns - 1)
        return torch.cat(
            [head[:n_weights].view(self._n_outputs, self._n_columns - 1), head[n_weights:].unsqueeze(1)], dim=1
        )

    def _by_output(self, stacked: Tensor) -> Tensor:
        """Residuals [n_rows] as [C, columns of all edges]."""
        # rows are stacked edge by edge, the product needs them output by output
        sorted_out = torch.empty_like(stacked)
        sorted_out[self._places] = stacked  # every place once, so no order of writing matters
        return sorted_out.view(self._n_outputs, len(self.matrix))

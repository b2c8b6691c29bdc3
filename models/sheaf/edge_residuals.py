"""Norms of what the two ends of every edge of a client differ by, as the client knew them at its last exchange."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ...emulator.contracts import Figures, NodeId, State
from ...emulator.saved_state import SavedState
from ..state.tensors import finite

#: Name of the norms in figures and in states; states of before may lack it.
RESIDUALS = "residuals"


class EdgeResiduals:
    """Norm |P_ij w_i - P_ji w_j| of every edge that the last exchange heard anything of.

    >>> residuals = EdgeResiduals()
    >>> residuals.note({3: 5.0})
    >>> residuals.figures()
    {'residuals': {'3': 5.0}}
    """

    def __init__(self) -> None:
        self._norms: dict[NodeId, float] = {}

    def note(self, norms: Mapping[NodeId, float]) -> None:
        """Keep the norms of an exchange, by neighbor; those of neighbors that were not heard are left out."""
        self._norms = {neighbor: finite(norm) for neighbor, norm in norms.items()}

    def note_rows(self, residual: Tensor, rows: Mapping[NodeId, slice]) -> None:
        """Keep the norms of a residual [n_rows] that is stacked over edges, on the rows of those that were heard."""
        self.note({neighbor: float(residual[of_edge].norm()) for neighbor, of_edge in rows.items()})

    def figures(self) -> Figures:
        """For monitors; their names are text, as in JSON."""
        return {RESIDUALS: self._by_name()}

    def state(self) -> dict[str, State]:
        """An entry for the state of the coupling."""
        return {RESIDUALS: self._by_name()}

    def restore(self, parts: Mapping[str, SavedState]) -> None:
        """Take over the entry among the parts of a state, if there is one."""
        norms = parts[RESIDUALS].named() if RESIDUALS in parts else {}
        self._norms = {int(neighbor): norm.number() for neighbor, norm in norms.items()}

    def _by_name(self) -> dict[str, float]:
        return {str(neighbor): norm for neighbor, norm in self._norms.items()}

"""Health of one client's coupling, from numbers that its rounds compute anyway.

Nothing pins the maps: P = 0 makes the energy of the sheaf vanish, so a coupling can come to compare nothing. Norms are
followed by the algebra of rank-one steps, because a factored map is never built.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from torch import Tensor

from ...emulator.contracts import State
from ...emulator.saved_state import SavedState
from ..state.tensors import finite
from .map_starts import MapStart, frobenius_sq
from .stability import UNSTABLE_FROM

#: Share of its projections below which a residual is rounding of float32, from which no step size can be derived.
LEAST_RESIDUAL = 1e-3


class CouplingHealth:
    """Figures of one client, all of them finite.

    Args:
        starts: initial maps, see `restriction_maps`.
        image: [n_rows] projection of the initial head.
        head: [d_i] initial head.

    Attributes:
        overshot: the first eta * lambda * s_e of 2 or more, from where on a step makes an edge's residual grow; or 0.
    """

    def __init__(self, starts: Iterable[MapStart], image: Tensor, head: Tensor) -> None:
        self._map_norm_sq = sum(map(frobenius_sq, starts))
        # so that figures of clients with few and with many edges compare
        self._rows_per_coordinate = len(image) / len(head)
        self._share_at_start = self._share(image, head @ head)
        self._share_now = self._share_at_start
        self._energy, self._largest_map_step, self.overshot = 0.0, 0.0, 0.0

    def record_projection(self, image: Tensor, norm_sq: Tensor) -> None:
        """Image [n_rows] of a head with this squared norm []."""
        self._share_now = self._share(image, norm_sq)

    def record_residual(self, residual: Tensor) -> None:
        """Own less peer's projections [n_rows], 0 on rows that did not arrive; the peer counts the other half."""
        self._energy = 0.5 * float(residual @ residual)

    def record_map_step(self, scaled_residual: Tensor, image: Tensor, norm_sq: Tensor) -> None:
        """A step of the maps by - s w^T, s [n_rows]; `image` is P w before the step, `norm_sq` is |w|^2."""
        change = (scaled_residual @ scaled_residual) * norm_sq - 2.0 * (scaled_residual @ image)
        self._map_norm_sq += float(change)
        self.record_projection(image - scaled_residual * norm_sq, norm_sq)

    def record_maps(self, norm_sq: float, image: Tensor, head_norm_sq: Tensor) -> None:
        """Squared Frobenius norm of the maps after a step of another kind, and the head's image [n_rows] under them."""
        self._map_norm_sq = norm_sq
        self.record_projection(image, head_norm_sq)

    def record_step_sizes(self, strengths: Iterable[float]) -> None:
        """Values of eta * lambda * s_e of the edges whose maps stepped."""
        self._largest_map_step = max(map(finite, strengths), default=0.0)
        if not self.overshot and self._largest_map_step >= UNSTABLE_FROM:
            self.overshot = self._largest_map_step

    def figures(self) -> Mapping[str, float]:
        """Squared residuals, norm of all maps, |P w|^2 / |w|^2 as a share of its first value, largest map step."""
        share = self._share_now / self._share_at_start if self._share_at_start > 0.0 else 1.0
        figures = {
            "sheaf_energy": self._energy,
            "map_norm": math.sqrt(max(self._map_norm_sq, 0.0)),
            "projection_share": share,
            "largest_map_step": self._largest_map_step,
        }
        return {name: finite(value) for name, value in figures.items()}

    def state(self) -> State:
        """Figures as they are followed; their first values follow from the scenario."""
        return {
            "map_norm_sq": float(self._map_norm_sq),
            "share_now": self._share_now,
            "energy": self._energy,
            "largest_map_step": self._largest_map_step,
            "overshot": self.overshot,
        }

    def restore(self, saved: SavedState) -> None:
        names = ("map_norm_sq", "share_now", "energy", "largest_map_step", "overshot")
        parts = saved.parts(*names)
        self._map_norm_sq, self._share_now, self._energy, self._largest_map_step, self.overshot = (
            parts[name].number() for name in names
        )

    def _share(self, image: Tensor, norm_sq: Tensor) -> float:
        """1 for maps that neither stretch nor shrink, whatever the size and number of edges."""
        size = float(norm_sq) * self._rows_per_coordinate
        return float(image @ image) / size if size > 0.0 else 0.0


def step_strengths(before: Tensor, after: Tensor, images: Tensor, rows: Iterable[slice]) -> list[float]:
    """Values of eta * lambda * s_e, one per edge: a map step leaves 1 - eta * lambda * s_e of its residual, exactly.

    Args:
        before, after: [n_rows] residuals of the same heads under the old and the new maps; 0 where nothing arrived.
        images: [n_rows] own projections under the old maps, for scale.
        rows: of every edge. Edges whose residuals are rounding are left out.
    """
    strengths = []
    for edge in rows:
        square, scale = float(before[edge] @ before[edge]), float(images[edge] @ images[edge])
        if square > LEAST_RESIDUAL**2 * scale:
            strengths.append(1.0 - float(after[edge] @ before[edge]) / square)
    return strengths

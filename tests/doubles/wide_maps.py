"""Maps whose history is truncated before they would fold into a matrix, and the steps of a long training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from reference.sheaves import normal
from sheafedge.models.sheaf.restriction_maps import DenseMaps, FactoredMaps
from torch import Tensor

#: Sizes at which a dense matrix needs more memory than the longest history: 200 * 400 / 600 > 96.
WIDE_HEAD, WIDE_ROWS = 200, 400


def wide_maps(dtype: torch.dtype = torch.float64) -> tuple[FactoredMaps, DenseMaps]:
    starts = {j: torch.arange(WIDE_ROWS // 2) for j in (0, 1)}
    return FactoredMaps(starts, WIDE_HEAD, dtype=dtype), DenseMaps(starts, WIDE_HEAD, dtype=torch.float64)


def walk_of_heads(n_steps: int, noise: float, seed: int = 43) -> Iterator[tuple[Tensor, Tensor]]:
    """Scaled residuals and heads as rounds of training leave them: a slow path in a few directions, and noise."""
    rng = np.random.default_rng(seed)
    paths = normal(rng, 6, WIDE_HEAD), normal(rng, 6, WIDE_ROWS)
    for step in range(n_steps):
        at = torch.from_numpy(np.cos(np.arange(6) * (1.0 + step / 300.0)))
        head, residual = (at @ path + noise * normal(rng, path.shape[1]) for path in paths)
        yield 1e-3 * residual, head

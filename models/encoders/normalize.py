"""From physical units to what a network likes, inside the model, so that an exported model takes physical units."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class StandardizePosition(nn.Module):
    """Positions in metres, shifted and scaled by statistics of training rows.

    Args:
        rows: [n_rows, length, 2] training positions, east and north of the base station, in metres.
    """

    mean_m: Tensor
    std_m: Tensor

    def __init__(self, rows: NDArray[np.float32]) -> None:
        super().__init__()
        flat = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
        self.register_buffer("mean_m", torch.tensor(flat.mean(axis=0), dtype=torch.float32))
        self.register_buffer("std_m", torch.tensor(np.maximum(flat.std(axis=0), 1e-3), dtype=torch.float32))

    def forward(self, positions_m: Tensor) -> Tensor:
        """[batch, length, 2] -> same shape, about zero mean and unit spread."""
        return (positions_m - self.mean_m) / self.std_m


class RelativePower(nn.Module):
    """Beam powers in dB, relative to the sweep's own mean and scaled by the spread of training rows.

    What remains is which beams are strong, not how strong the sweep is: the absolute level belongs to the site.

    Args:
        rows: [n_rows, length, n_beams] training sweeps in dB.
    """

    std_db: Tensor

    def __init__(self, rows: NDArray[np.float32]) -> None:
        super().__init__()
        relative = rows - rows.mean(axis=-1, keepdims=True)
        self.register_buffer("std_db", torch.tensor(max(float(relative.std()), 1e-3), dtype=torch.float32))

    def forward(self, powers_db: Tensor) -> Tensor:
        """[batch, length, n_beams] -> same shape."""
        return (powers_db - powers_db.mean(dim=-1, keepdim=True)) / self.std_db


NORMALIZERS: dict[str, type[StandardizePosition] | type[RelativePower]] = {
    "gps": StandardizePosition,
    "rf": RelativePower,
}

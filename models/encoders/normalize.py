"""Normalizers from physical units to numbers near 1; part of the model, so that exported models take physical units."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...emulator.contracts import ConfigError


class StandardizePosition(nn.Module):
    """Positions in metres, shifted and scaled by statistics of training rows.

    Args:
        rows: [n_rows, length, 2] training positions, east and north of the base station, in metres.
    """

    mean_m: Tensor
    std_m: Tensor

    def __init__(self, rows: NDArray[np.float32]) -> None:
        super().__init__()
        # float64: sums of thousands of float32 positions would lose the digits of the mean
        flat = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
        mean = flat.mean(axis=0, keepdims=True)
        self.register_buffer("mean_m", torch.tensor(mean[0], dtype=torch.float32))
        # a vehicle that only stands has no spread to divide by
        std = np.maximum(flat.std(axis=0, mean=mean), 1e-3)
        self.register_buffer("std_m", torch.tensor(std, dtype=torch.float32))

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


class StandardizeColumns(nn.Module):
    """Position reports, every column shifted and scaled by its own statistics over training rows.

    Columns may have any unit; degrees around the base station spread over some 1e-4 only. A column that never changes
    in training is shifted but not scaled.

    Args:
        rows: [n_rows, n_columns] any sample of training rows.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, rows: NDArray[np.floating[Any]]) -> None:
        super().__init__()
        mean, std = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
        moves = std > 1e-6 * np.maximum(np.abs(mean), 1e-3)  # above the rounding of float32
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(np.where(moves, std, 1.0), dtype=torch.float32))

    def forward(self, reports: Tensor) -> Tensor:
        """[batch, n_columns] -> same shape, about zero mean and unit spread."""
        return (reports - self.mean) / self.std


class StandardizePower(nn.Module):
    """Beam powers in dB, shifted and scaled by one mean and one spread of training rows.

    Unlike `RelativePower` it keeps how strong a sweep is: a blockage shows there first.

    Args:
        rows: [n_rows, length, n_beams] any sample of training sweeps in dB.
    """

    mean_db: Tensor
    std_db: Tensor

    def __init__(self, rows: NDArray[np.floating[Any]]) -> None:
        super().__init__()
        self.register_buffer("mean_db", torch.tensor(rows.mean(dtype=np.float64), dtype=torch.float32))
        self.register_buffer("std_db", torch.tensor(max(rows.std(dtype=np.float64), 1e-3), dtype=torch.float32))

    def forward(self, powers_db: Tensor) -> Tensor:
        """[batch, length, n_beams] -> same shape."""
        return (powers_db - self.mean_db) / self.std_db


class LidarScale(nn.Module):
    """LiDAR sweeps with range and angle brought to about 1; the sensor's limits suffice, no statistics are needed.

    Args:
        max_range_m: largest range that the sensor reports.

    Raises:
        ConfigError: a range that is not positive.
    """

    unit: Tensor

    def __init__(self, max_range_m: float = 16.0) -> None:
        super().__init__()
        if not (math.isfinite(max_range_m) and max_range_m > 0.0):
            raise ConfigError(f"lidar.max_range_m must be a positive number of meters, got {max_range_m}; usual is 16")
        # a buffer, not a number: it differs between clients that share one traced graph
        self.register_buffer("unit", torch.tensor([max_range_m, math.pi]).view(2, 1, 1))

    def forward(self, sweeps: Tensor) -> Tensor:
        """[batch, 2, length, n_rays], range in m and angle in rad -> same shape, in [0, 1] and [-1, 1]."""
        return sweeps / self.unit


class CameraScale(nn.Module):
    """Images 0 to 255, bytes or floats, brought to [0, 1], or to zero mean and unit spread of training rows.

    Args:
        rows: [n_rows, channels, height, width] any sample of training images 0 to 255; some hundred suffice. None
            only scales to [0, 1].
    """

    mean: Tensor
    std: Tensor

    def __init__(self, rows: NDArray[Any] | None = None) -> None:
        super().__init__()
        mean, std = (0.0, 255.0) if rows is None else (rows.mean(dtype=np.float64), rows.std(dtype=np.float64))
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        # images of one grey level have no spread; one level is the step of a byte
        self.register_buffer("std", torch.tensor(max(std, 1.0), dtype=torch.float32))

    def forward(self, images: Tensor) -> Tensor:
        """[batch, channels, height, width] -> same shape, in the model's own type."""
        return (images.to(self.mean.dtype) - self.mean) / self.std

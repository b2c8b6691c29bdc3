"""Scaling of rows that no sensor here recorded, by the mean and spread of their data set or of one client."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

#: Largest scaled value of a column. A column that is almost always 0 has a small spread, and its rare ones would be
#: values of 20 and more, with which steps of ordinary size diverge.
CLIP = 3.0

Scale = tuple[NDArray[np.float64], NDArray[np.float64]]


def column_scale(rows: NDArray[np.floating[Any]]) -> Scale:
    """Mean and standard deviation [*shape] of every value of rows [n, *shape]; 1 where a column never changes."""
    mean, std = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    moves = std > 1e-6 * np.maximum(np.abs(mean), 1e-12)  # above the rounding of float32
    return mean, np.where(moves, std, 1.0)


def pixel_scale(images: NDArray[np.floating[Any]]) -> Scale:
    """One mean and one standard deviation [] of all pixels of images [n, ...]: pixels of an image are comparable."""
    std = float(images.std(dtype=np.float64))
    return np.asarray(images.mean(dtype=np.float64)), np.asarray(std if std > 0.0 else 1.0)


class ScaledColumns(nn.Module):
    """Inputs shifted and scaled, and clipped where a limit is given.

    Args:
        mean, std: [] or of the shape of one row.
        limit: largest magnitude of a scaled value; None: any.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: NDArray[np.float64], std: NDArray[np.float64], limit: float | None = CLIP) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))
        self._limit = limit

    def forward(self, rows: Tensor) -> Tensor:
        """[batch, *shape] -> same shape, about zero mean and unit spread."""
        scaled = (rows - self.mean) / self.std
        return scaled if self._limit is None else scaled.clamp(-self._limit, self._limit)


class AsColumns(nn.Module):
    """Encoder without parameters: every row is its own embedding, so that the head is a linear model of the columns.

    Args:
        shape: of one row.

    Attributes:
        embedding_dim: number of columns.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.embedding_dim = math.prod(shape)

    def forward(self, rows: Tensor) -> Tensor:
        """[batch, *shape] -> [batch, embedding_dim]."""
        return rows.flatten(start_dim=1)

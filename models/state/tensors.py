"""Tensors in a state: copied out as arrays, and read back checked.

Tensors that others hold views of are overwritten in place. All copies in lie in memory that torch has allocated,
because the last bit of a sum may depend on how its terms are aligned.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import State
from ...emulator.saved_state import SavedState


def to_array(tensor: Tensor) -> NDArray[Any]:
    """Copy of a tensor [...] on any device, in row order."""
    return np.array(tensor.numpy(force=True), order="C")


def restored_tensor(saved: SavedState, like: Tensor, *shape: int | None) -> Tensor:
    """New tensor of the type and on the device of `like`, and of its shape where no other is given.

    Raises:
        ConfigError: the saved array has another type or shape.
    """
    array = saved.array(numpy_type(like), *(shape or like.shape))
    # memory of torch and not of numpy: sums depend on alignment in the last bit
    return torch.empty(array.shape, dtype=like.dtype, device=like.device).copy_(torch.from_numpy(array))


def restore_tensor(tensor: Tensor, saved: SavedState) -> None:
    """Overwrite a tensor [...] in place.

    Raises:
        ConfigError: the saved array has another type or shape.
    """
    tensor.detach().copy_(torch.from_numpy(saved.array(numpy_type(tensor), *tensor.shape)))


def numpy_type(tensor: Tensor) -> np.dtype[Any]:
    """The numpy type of a tensor's elements."""
    return _numpy_type(tensor.dtype)


@cache
def _numpy_type(kind: torch.dtype) -> np.dtype[Any]:
    dtype: np.dtype[Any] = torch.empty(0, dtype=kind).numpy().dtype
    return dtype


class TensorPart:
    """A tensor that is a part of a state by itself.

    Args:
        tensor: [...] overwritten in place.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def state(self) -> State:
        return to_array(self.tensor)

    def restore(self, saved: SavedState) -> None:
        restore_tensor(self.tensor, saved)


def finite(value: float) -> float:
    """The value, or the largest float in its place: figures of a diverging run must still be written to JSON."""
    return value if math.isfinite(value) else sys.float_info.max

"""The vector as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.saved_state import SavedState
from .codec import Decoded


class Plain:
    """Four bytes per number, or as many as the vector itself has; nothing is left out."""

    def encode(self, values: NDArray[np.floating[Any]]) -> NDArray[Any]:
        return values

    def decode(self, payload: NDArray[Any], received: NDArray[np.bool_] | None, n_values: int) -> Decoded:
        return Decoded(payload, received)

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def restore(self, saved: SavedState) -> None:
        saved.parts()

"""Floats as they are, and in half precision: codecs without a state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError
from ...emulator.saved_state import SavedState
from .codec import Decoded, check_payload

HALF = np.dtype("<f2")
LARGEST = float(np.finfo(HALF).max)


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


class Float16:
    """Two bytes and eleven significant bits per number: rounded to nearest, the error is below a part in 2000."""

    def encode(self, values: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """[n] halves.

        Raises:
            ConfigError: a finite number is too large for one.
        """
        # overflow is refused below with a sentence of our own
        with np.errstate(over="ignore"):
            halves = values.astype(HALF)
        if (too_large := np.isinf(halves) & np.isfinite(values)).any():
            raise ConfigError(
                f"sharing.codec = 'float16' holds numbers up to {LARGEST:g}, but a shared vector has grown to"
                f" {values[too_large][0]:g}; use 'int8' or 'float32', or lower training.encoder_step_size"
            )
        return halves

    def decode(self, payload: NDArray[Any], received: NDArray[np.bool_] | None, n_values: int) -> Decoded:
        check_payload(payload, HALF, n_values)
        return Decoded(payload.astype(np.float32), received)

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def restore(self, saved: SavedState) -> None:
        saved.parts()

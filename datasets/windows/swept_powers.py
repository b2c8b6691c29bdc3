"""Powers of sweeps some of whose beams, or all, were not measured (NaN)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError


def measured_powers(powers: NDArray[np.float64], first_frame: int = 0) -> NDArray[np.float64]:
    """[n, n_beams] with the weakest measured power of a sweep in the place of its beams that were not measured (NaN).

    Args:
        powers: [n, n_beams].
        first_frame: number of the first row, for messages.

    Raises:
        DataError: a sweep without any measured beam.
    """
    if (silent := without_powers(powers)).any():
        frame = first_frame + int(silent.argmax())
        raise DataError(f"no beam was measured in frame {frame}; leave this frame out")
    return filled_powers(powers)


def filled_powers(powers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same without an error: a sweep without any measured beam stays NaN."""
    missing = np.isnan(powers)
    weakest = np.min(powers, axis=1, keepdims=True, where=~missing, initial=np.inf)
    return np.where(missing & np.isfinite(weakest), weakest, powers)


def without_powers(powers: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """[n] whether no beam of a sweep [n, n_beams] was measured."""
    return np.asarray(np.isnan(powers).all(axis=1), dtype=np.bool_)

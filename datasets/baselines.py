"""What a model must beat: repeating the last beam, and the most frequent beams of the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .windows import Windows


def persistence_predictions(windows: Windows, k: int = 3) -> NDArray[np.int64]:
    """Beams by distance from the one that was best a sweep ago: b, b + 1, b - 1, b + 2, ...

    At an edge of the codebook the beams beyond it are skipped, so the last of 64 gives 63, 62, 61.

    Returns:
        [n, k] int64, ranked, without repeats.
    """
    offset = np.arange(windows.n_beams) - windows.previous_beam[:, None]  # [n, n_beams]
    return np.argsort(2 * np.abs(offset) - (offset > 0), axis=1, kind="stable")[:, :k].astype(np.int64)


def majority_predictions(
    train_labels: NDArray[np.integer[Any]], n_test: int, n_beams: int, k: int = 3
) -> NDArray[np.int64]:
    """Beams by how often they were best in training; the lower index on a tie. The same for every test row.

    Returns:
        [n_test, k] int64, ranked, without repeats.
    """
    counts = np.bincount(train_labels, minlength=n_beams)
    return np.tile(np.argsort(-counts, kind="stable")[:k].astype(np.int64), (n_test, 1))

"""What a model must beat: repeating the last beam or state, and the most frequent ones of the training rows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .sensor_windows import BlockageWindows


class BeamHistory(Protocol):
    """Samples that know the beam before: `Windows`, `BeamWindows`."""

    @property
    def n_beams(self) -> int:
        """Size of the codebook."""
        ...

    @property
    def previous_beam(self) -> NDArray[np.int64]:
        """[n] best beam of the sweep before now."""
        ...


def persistence_predictions(windows: BeamHistory, k: int = 3) -> NDArray[np.int64]:
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


def blockage_persistence(windows: BlockageWindows) -> NDArray[np.bool_]:
    """[n] what is blocked now stays blocked over the horizon, and what is clear stays clear."""
    return windows.blocked_now


def blockage_majority(train_labels: NDArray[np.integer[Any]], n_test: int) -> NDArray[np.bool_]:
    """[n_test] whatever came more often in training, the same for every test row; clear on a tie."""
    return np.full(n_test, 2 * int(train_labels.sum()) > len(train_labels))

"""Baselines that a model must beat: the last beam or state, and the most frequent one of the training rows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .windows.sensor_windows import BlockageWindows


class BeamHistory(Protocol):
    """Samples with the best beam of the sweep before, such as `BeamWindows`."""

    @property
    def n_beams(self) -> int:
        """Number of beams of the codebook."""
        ...

    @property
    def previous_beam(self) -> NDArray[np.int64]:
        """[n] best beam of the sweep before now."""
        ...

    @property
    def numbering(self) -> NDArray[np.int64]:
        """[n_beams] beam of the codebook that each number stands for."""
        ...


def persistence_predictions(windows: BeamHistory, k: int = 3) -> NDArray[np.int64]:
    """Beams by distance from the one that was best a sweep ago: b, b + 1, b - 1, b + 2, ...

    At an edge of the codebook the beams beyond it are skipped, so the last of 64 gives 63, 62, 61. Neighbors are those
    of the codebook, whatever their numbers: a base station knows which of its beams lie side by side.

    Returns:
        [n, k] int64, ranked, without repeats.
    """
    beam = windows.numbering
    offset = beam - beam[windows.previous_beam, None]  # [n, n_beams]
    # distance d on the upper side ranks 2d - 1, on the lower side 2d: the upper neighbor goes first
    return np.argsort(2 * np.abs(offset) - (offset > 0), axis=1, kind="stable")[:, :k].astype(np.int64)


def majority_predictions(
    train_labels: NDArray[np.integer[Any]],
    n_test: int,
    n_beams: int,
    k: int = 3,
    *,
    numbering: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Beams by how often they were best in training; the lower one on a tie. The same for every test row.

    Args:
        train_labels: [n_train] best beams.
        n_test: rows to answer for.
        n_beams: size of the codebook.
        k: ranks.
        numbering: [n_beams] beam of the codebook that each number stands for, for ties; None: the numbers themselves.

    Returns:
        [n_test, k] int64, ranked, without repeats.
    """
    counts = np.bincount(train_labels, minlength=n_beams)
    beam = np.arange(n_beams) if numbering is None else numbering
    # lexsort takes its last key first: by count, then by place in the codebook
    return np.tile(np.lexsort((beam, -counts))[:k].astype(np.int64), (n_test, 1))


def blockage_persistence(windows: BlockageWindows) -> NDArray[np.bool_]:
    """[n] what is blocked now stays blocked over the horizon, and what is clear stays clear."""
    return windows.blocked_now


def blockage_majority(train_labels: NDArray[np.integer[Any]], n_test: int) -> NDArray[np.bool_]:
    """[n_test] whatever came more often in training, the same for every test row; clear on a tie."""
    return np.full(n_test, 2 * int(train_labels.sum()) > len(train_labels))

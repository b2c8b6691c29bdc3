"""How good a ranking of beams is: the one scoring for models and baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..emulator.contracts import DataError


@dataclass(frozen=True, slots=True)
class BeamScores:
    """Mean over samples.

    Attributes:
        top1: share of samples whose best beam is ranked first.
        top3: share of samples whose best beam is among the first three.
        power_loss_db: how far the first-ranked beam is below the best one, mean of dB values.
    """

    top1: float
    top3: float
    power_loss_db: float


def score_ranking(
    ranking: NDArray[np.integer[Any]], labels: NDArray[np.integer[Any]], powers: NDArray[np.floating[Any]]
) -> BeamScores:
    """Scores of ranked beams.

    Args:
        ranking: [n, k] beam indices, best guess first, k >= 3.
        labels: [n] best beam.
        powers: [n, n_beams] linear received power of the same sweep.

    Raises:
        DataError: no sample, or shapes that do not fit.
    """
    n = len(labels)
    if n == 0 or ranking.ndim != 2 or ranking.shape[1] < 3 or len(ranking) != n or powers.ndim != 2 or len(powers) != n:
        raise DataError(
            f"cannot score ranking {ranking.shape} against labels {labels.shape} and powers {powers.shape}; "
            "needs [n, 3 or more], [n] and [n, n_beams] with n of at least 1"
        )
    hits = ranking[:, :3] == labels[:, None]
    chosen = np.take_along_axis(powers, ranking[:, :1], axis=1)[:, 0]
    return BeamScores(
        top1=float(hits[:, 0].mean()),
        top3=float(hits.any(axis=1).mean()),
        power_loss_db=float((10 * np.log10(powers.max(axis=1) / chosen)).mean()),
    )

"""Scores of beam rankings, blockage warnings, classes and values, the same for models and baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..emulator.contracts import DataError


@dataclass(frozen=True, slots=True)
class BeamScores:
    """Scores of beam rankings, each a mean over samples.

    Attributes:
        top1: share of samples whose best beam is ranked first.
        top3: share of samples whose best beam is among the first three.
        power_loss_db: how far the first-ranked beam is below the best one, mean of dB values over the samples that have
            powers; NaN where none has.
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
        powers: [n, n_beams] linear received power of the same sweep; rows of NaN where only the label is known.

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
    swept = ~np.isnan(powers).all(axis=1)
    powers, first = (powers, ranking[:, :1]) if swept.all() else (powers[swept], ranking[swept, :1])
    chosen = np.take_along_axis(powers, first, axis=1)[:, 0]
    return BeamScores(
        top1=float(hits[:, 0].mean()),
        top3=float(hits.any(axis=1).mean()),
        # a mean of dB values: the few largest losses would dominate a mean of ratios
        power_loss_db=float((10 * np.log10(powers.max(axis=1) / chosen)).mean()) if len(powers) else float("nan"),
    )


@dataclass(frozen=True, slots=True)
class BlockageScores:
    """Scores of warnings.

    Attributes:
        accuracy: share of samples that are right.
        balanced_accuracy: mean of the shares among blocked and among clear samples; 0.5 for one that never
            changes its answer. The share of the one kind where the labels hold only one.
        f1: harmonic mean of precision and recall of warnings; 0 where nothing was rightly warned of.
    """

    accuracy: float
    balanced_accuracy: float
    f1: float


def score_blockage(predicted: NDArray[Any], labels: NDArray[Any]) -> BlockageScores:
    """Scores of warnings.

    Args:
        predicted: [n] bool, or 0 and 1: whether a blockage was predicted.
        labels: [n] bool, or 0 and 1: whether one came.

    Raises:
        DataError: no sample, shapes that do not fit, or values other than 0 and 1.
    """
    if labels.ndim != 1 or len(labels) == 0 or predicted.shape != labels.shape:
        raise DataError(
            f"cannot score warnings {predicted.shape} against labels {labels.shape}; needs [n] and [n], n >= 1"
        )
    for name, values in (("warnings", predicted), ("labels", labels)):
        if not np.isin(values, (0, 1)).all():
            raise DataError(
                f"{name} of blockage must be 0 and 1, got values like {values[~np.isin(values, (0, 1))][0]}"
            )
    warned, blocked = predicted.astype(np.bool_), labels.astype(np.bool_)
    right = warned == blocked
    # each class counts the same, however rare blockages are
    recalls = [float(right[kind].mean()) for kind in (blocked, ~blocked) if kind.any()]
    n_hits, n_mistakes = int((warned & blocked).sum()), int((~right).sum())
    return BlockageScores(
        accuracy=float(right.mean()),
        balanced_accuracy=sum(recalls) / len(recalls),
        f1=2 * n_hits / (2 * n_hits + n_mistakes) if n_hits else 0.0,
    )


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Scores of chosen classes.

    Attributes:
        accuracy: share of samples that are right.
        balanced_accuracy: mean of that share over the classes that the labels hold.
    """

    accuracy: float
    balanced_accuracy: float


def score_classes(chosen: NDArray[np.integer[Any]], labels: NDArray[np.integer[Any]]) -> ClassScores:
    """Scores of chosen classes.

    Args:
        chosen: [n] class from 0.
        labels: [n] right class.

    Raises:
        DataError: no sample, or shapes that do not fit.
    """
    _check_pairs("classes", chosen, labels)
    right = chosen == labels
    # each class counts the same, however rare it is
    n_right, n_rows = np.bincount(labels, weights=right), np.bincount(labels)
    recalls = n_right[n_rows > 0] / n_rows[n_rows > 0]
    return ClassScores(float(right.mean()), float(recalls.mean()))


def score_values(predicted: NDArray[np.floating[Any]], truth: NDArray[np.floating[Any]]) -> dict[str, float]:
    """Scores of predicted values.

    Args:
        predicted: [n] values.
        truth: [n] right values, in the same unit.

    Returns:
        mse: mean squared error, in the square of the unit; rmse: its root; r2: share of the variance of the right
        values that is explained, which there is where these differ.

    Raises:
        DataError: no sample, or shapes that do not fit.
    """
    _check_pairs("values", predicted, truth)
    mse = float(np.mean((predicted - truth) ** 2))
    scores = {"mse": mse, "rmse": float(np.sqrt(mse))}
    variance = float(np.var(truth))
    return scores | ({"r2": 1.0 - mse / variance} if variance > 0.0 else {})


def _check_pairs(what: str, predicted: NDArray[Any], truth: NDArray[Any]) -> None:
    if truth.ndim != 1 or len(truth) == 0 or predicted.shape != truth.shape:
        raise DataError(f"cannot score {what} {predicted.shape} against labels {truth.shape}; needs [n], [n], n >= 1")

"""Curves behind scores: confusion, ROC, reliability, residuals and lead times, as plain numbers for JSON.

All of them are pooled over samples; answers that are not finite, as of a model that diverges, are left out. What is
not defined for these samples is None.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Most points of a ROC curve, both ends included.
MOST_POINTS = 200
#: Bins of probabilities, of values and of residuals.
N_BINS, N_RESIDUAL_BINS = 10, 20

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]
Curve = dict[str, Any]


def confusion_counts(chosen: Integers, labels: Integers, n_classes: int) -> list[list[int]]:
    """How often each class was taken for which: rows are right classes, columns chosen ones.

    Args:
        chosen, labels: [n] chosen and right class, from 0.
        n_classes: k.

    Returns:
        [k, k] counts.

    >>> confusion_counts(np.array([0, 1, 1]), np.array([0, 0, 1]), 2)
    [[1, 1], [0, 1]]
    """
    pairs = labels.astype(np.int64) * n_classes + chosen.astype(np.int64)
    counts: list[list[int]] = np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes).tolist()
    return counts


def roc(scores: Floats, positive: NDArray[np.bool_]) -> Curve | None:
    """Receiver operating characteristic over all thresholds; equal scores are passed together.

    Args:
        scores: [n] the larger, the rather positive.
        positive: [n] bool, the right answer.

    Returns:
        `fpr` and `tpr`, from (0, 0) to (1, 1), and the area `auc` under the whole curve, before points were left out;
        None where the right answers are all the same.
    """
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if n_positive == 0 or n_negative == 0:
        return None
    order = np.argsort(-scores, kind="stable")  # NaN comes last
    # One point behind each run of equal scores: a threshold cannot part them.
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    tpr = np.concatenate([[0.0], np.cumsum(positive[order])[ends] / n_positive])
    fpr = np.concatenate([[0.0], np.cumsum(~positive[order])[ends] / n_negative])
    kept = np.unique(np.linspace(0, len(fpr) - 1, min(MOST_POINTS, len(fpr))).round().astype(np.int64))
    return {"fpr": fpr[kept].tolist(), "tpr": tpr[kept].tolist(), "auc": float(np.trapezoid(tpr, fpr))}


def reliability(probability: Floats, right: NDArray[np.bool_]) -> Curve:
    """Stated against observed frequencies, in bins of equal width over [0, 1]; bins without samples are left out.

    Args:
        probability: [n] stated probability of what `right` says.
        right: [n] bool, whether it came true.

    Returns:
        `predicted`: mean stated probability of every bin; `observed`: share that came true; `n`: its samples.

    Source: reliability diagrams as of Guo et al., *On Calibration of Modern Neural Networks* (2017), 10 bins.
    """
    probability, right = _where_finite(probability, right)
    of_bin = np.minimum((probability * N_BINS).astype(np.int64), N_BINS - 1)
    return _means_by_bin(of_bin, probability, right.astype(np.float64))


def expected_calibration_error(probability: Floats, right: NDArray[np.bool_]) -> float:
    """Mean distance of stated and observed frequencies over the bins of `reliability`, weighted by their samples.

    Source: Guo et al. 2017, eq. (3).
    """
    bins = reliability(probability, right)
    predicted, observed, n = (np.asarray(bins[key], dtype=np.float64) for key in ("predicted", "observed", "n"))
    return float((n * np.abs(predicted - observed)).sum() / n.sum()) if len(n) else 0.0


def residual_histogram(predicted: Floats, truth: Floats) -> Curve:
    """Histogram of predicted less right values [n], in their unit: `edges` [21] and `counts` [20]."""
    predicted, truth = _where_finite(predicted, truth)
    counts, edges = np.histogram(predicted.astype(np.float64) - truth, bins=N_RESIDUAL_BINS)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def value_calibration(predicted: Floats, truth: Floats) -> Curve:
    """Mean right against mean predicted value [n], in bins of as many samples each, by the predicted value.

    Returns:
        `predicted` and `observed` means of every bin in the unit of the values, and `n` samples; fewer than ten bins
        for fewer samples.
    """
    predicted, truth = _where_finite(predicted, truth)
    rank = np.argsort(np.argsort(predicted, kind="stable"), kind="stable")
    return _means_by_bin(rank * N_BINS // max(1, len(rank)), predicted, truth)


def lead_times(lead_s: Floats, warned: NDArray[np.bool_], frame_s: float, horizon: int) -> Curve:
    """Histogram of the times from clear samples to the blockages that follow them, a bin per frame.

    Args:
        lead_s: [n] time from each sample to the blockage in s.
        warned: [n] bool, whether it was predicted there.
        frame_s: time from one frame to the next in s.
        horizon: largest number of frames ahead.

    Returns:
        `edges` [horizon + 1] in s; `warned` and `missed` [horizon] samples.
    """
    edges = (np.arange(horizon + 1) + 0.5) * frame_s
    within = np.clip(lead_s, edges[0], edges[-1])
    counts = {name: np.histogram(within[kind], edges)[0] for name, kind in (("warned", warned), ("missed", ~warned))}
    return {"edges": edges.tolist(), **{name: found.tolist() for name, found in counts.items()}}


def _where_finite(predicted: Floats, right: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    is_finite = np.isfinite(predicted)
    return predicted[is_finite], right[is_finite]


def _means_by_bin(of_bin: Integers, predicted: Floats, observed: Floats) -> Curve:
    """Means of both over the samples of every bin; bins without any are left out."""
    n = np.bincount(of_bin, minlength=N_BINS)
    seen = n > 0
    sums = {"predicted": predicted, "observed": observed}
    means = {name: np.bincount(of_bin, weights=one, minlength=N_BINS)[seen] / n[seen] for name, one in sums.items()}
    return {**{name: one.tolist() for name, one in means.items()}, "n": n[seen].tolist()}

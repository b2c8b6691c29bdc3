"""Boosted trees that predict blockages from one sensor: a second, independent learner beside the networks.

Trees converge in seconds on a few hundred features, where the networks do not within their steps, so that they are the
stricter test of what a sensor knows too early. Onsets are rare at short horizons: unchecked, trees learn the training
ones by heart and warn too seldom of others. So leaves are large, and the threshold is the one that is best on the last
part of the training time. They need scikit-learn, which comes with the extra `examples`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, Modality
from .warning_samples import Batch, SiteSamples

#: What to say where trees are left out.
WITHOUT_TREES = "boosted trees are left out: scikit-learn is not installed; run: pip install 'sheafedge[examples]'"
#: Changes are counted from this many frames before the last one: 0.4 s.
STEP = 4
#: Rays, and pixels of an image, per feature.
N_RAYS, ROW_PIXELS, COLUMN_PIXELS = 2, 8, 2
#: Number of windows turned into features at once, which bounds memory.
N_WINDOWS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """Training of the trees, the same for every sensor.

    Attributes:
        n_iterations: trees per horizon.
        learning_rate: shrinkage of each.
        max_leaf_nodes: leaves of each.
        min_samples_leaf: fewest samples of a leaf.
        l2_regularization: pull of the leaves' values to 0.
        threshold_share: share at the end of every base station's training samples that no tree sees, and on which the
            threshold is chosen.
    """

    n_iterations: int = 100
    learning_rate: float = 0.07
    max_leaf_nodes: int = 12
    min_samples_leaf: int = 60
    l2_regularization: float = 5.0
    threshold_share: float = 0.2


def has_trees() -> bool:
    """Whether scikit-learn is installed."""
    return find_spec("sklearn") is not None


def tree_predictions(
    modality: Modality,
    sites: Sequence[tuple[SiteSamples, SiteSamples]],
    horizons: Sequence[int],
    settings: TreeSettings,
    seed: int,
) -> list[NDArray[np.bool_]]:
    """Predictions of one classifier per horizon, trained on the training samples of all base stations.

    Args:
        modality: lidar, camera or rf.
        sites: training and held-out samples per base station.
        horizons: frames, each at most the horizon of the samples.
        settings: size and training of the trees.
        seed: of the classifiers.

    Returns:
        Per base station [n_held_out, n_horizons] whether a blockage is predicted.

    Raises:
        ConfigError: scikit-learn is not installed, or at some horizon no training sample precedes a blockage, or none
            of those that the threshold is chosen on.
    """
    try:
        from sklearn.ensemble import (
            HistGradientBoostingClassifier,
        )
    except ImportError:
        raise ConfigError(WITHOUT_TREES) from None
    features = [_features(modality, samples, index) for index, (samples, _) in enumerate(sites)]
    ahead = [samples.frames_ahead for samples, _ in sites]
    grown = [np.arange(len(each)) < round((1.0 - settings.threshold_share) * len(each)) for each in ahead]
    all_features, all_ahead = np.concatenate(features), np.concatenate(ahead)
    is_grown: NDArray[np.bool_] = np.concatenate(grown)
    held_out = [_features(modality, samples, index) for index, (_, samples) in enumerate(sites)]
    predicted: list[list[NDArray[np.bool_]]] = [[] for _ in sites]
    for horizon in horizons:
        comes = all_ahead <= horizon
        for part, what in ((is_grown, "training"), (~is_grown, "last training")):
            if comes[part].all() or not comes[part].any():
                kind = "without" if comes[part].all() else "with"
                raise ConfigError(
                    f"no {what} window {kind} a blockage within {horizon} frames among {int(part.sum())}; record longer"
                )
        model: Any = HistGradientBoostingClassifier(
            max_iter=settings.n_iterations,
            learning_rate=settings.learning_rate,
            max_leaf_nodes=settings.max_leaf_nodes,
            min_samples_leaf=settings.min_samples_leaf,
            l2_regularization=settings.l2_regularization,
            early_stopping=False,
            class_weight="balanced",
            categorical_features=[0],
            random_state=seed % 2**32,
        )
        model.fit(all_features[is_grown], comes[is_grown])
        threshold = best_threshold(model.predict_proba(all_features[~is_grown])[:, 1], comes[~is_grown])
        for columns, of_site in zip(predicted, held_out, strict=True):
            columns.append(np.asarray(model.predict_proba(of_site)[:, 1] >= threshold, dtype=np.bool_))
    return [np.stack(columns, axis=1) for columns in predicted]


def best_threshold(probabilities: NDArray[np.floating[Any]], comes: NDArray[np.bool_]) -> float:
    """Threshold with the best balanced accuracy; of equal ones the highest.

    Args:
        probabilities: [n] of a blockage.
        comes: [n] whether one comes; both kinds are there.

    >>> best_threshold(np.array([0.1, 0.2, 0.3, 0.4]), np.array([False, False, True, True]))
    0.3
    """
    order = np.argsort(-probabilities, kind="stable")
    ranked, right = probabilities[order], comes[order]
    gained = np.cumsum(right) / right.sum() - np.cumsum(~right) / (~right).sum()
    gained[:-1][ranked[:-1] == ranked[1:]] = -1.0  # a threshold cannot part equal probabilities
    return float(ranked[int(gained.argmax())])


def _features(modality: Modality, samples: SiteSamples, site: int) -> Batch:
    """[n, k] features of the windows; the first is the number of the base station, since each has its own geometry."""
    pieces = []
    for begin in range(0, len(samples), N_WINDOWS_AT_ONCE):
        window = samples.inputs(slice(begin, begin + N_WINDOWS_AT_ONCE))
        features = _of_power(window) if modality == "rf" else _of_scene(modality, window)
        number = np.full((len(features), 1), site, dtype=np.float32)
        pieces.append(np.concatenate([number, features], axis=1))
    return np.concatenate(pieces)


def _of_power(window: Batch) -> Batch:
    """[b, length, n_beams] dB -> the last sweep, how far it lies off the mean of those before, and every best beam."""
    last, before = window[:, -1], window[:, :-1]
    return np.concatenate([last, last - before.mean(axis=1), window.max(axis=2)], axis=1)


def _of_scene(modality: Modality, window: Batch) -> Batch:
    """Coarse last frame and its change in `STEP` frames, of ranges [b, 2, length, n] or images [b, length, h, w]."""
    if modality == "lidar":
        frames = window[:, 0]
        n_rays = frames.shape[2] // N_RAYS
        coarse = frames[:, :, : n_rays * N_RAYS].reshape(*frames.shape[:2], n_rays, N_RAYS).min(axis=3)
    else:
        rows, columns = window.shape[2] // ROW_PIXELS, window.shape[3] // COLUMN_PIXELS
        cut = window[:, :, : rows * ROW_PIXELS, : columns * COLUMN_PIXELS]
        blocks = cut.reshape(*window.shape[:2], rows, ROW_PIXELS, columns, COLUMN_PIXELS)
        coarse = blocks.mean(axis=(3, 5)).reshape(*window.shape[:2], rows * columns)
    return np.concatenate([coarse[:, -1], coarse[:, -1] - coarse[:, -1 - STEP]], axis=1)

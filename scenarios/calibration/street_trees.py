"""Boosted trees that predict blockages from one sensor: a second, independent learner beside the networks.

Trees converge in seconds on a few hundred features, where the networks do not within their steps, so that they are the
stricter test of what a sensor knows too early. They need scikit-learn, which comes with the extra `examples`.
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
    """

    n_iterations: int = 150
    learning_rate: float = 0.1
    max_leaf_nodes: int = 31


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
        ConfigError: scikit-learn is not installed, or no training sample precedes a blockage at some horizon.
    """
    try:
        from sklearn.ensemble import (
            HistGradientBoostingClassifier,
        )
    except ImportError:
        raise ConfigError(WITHOUT_TREES) from None
    train = np.concatenate([_features(modality, samples, index) for index, (samples, _) in enumerate(sites)])
    ahead = np.concatenate([samples.frames_ahead for samples, _ in sites])
    held_out = [_features(modality, samples, index) for index, (_, samples) in enumerate(sites)]
    predicted: list[list[NDArray[np.bool_]]] = [[] for _ in sites]
    for horizon in horizons:
        comes = ahead <= horizon
        if comes.all() or not comes.any():
            raise ConfigError(
                f"no training window {'without' if comes.all() else 'with'} a blockage within {horizon} frames among"
                f" {len(comes)}; record longer"
            )
        model: Any = HistGradientBoostingClassifier(
            max_iter=settings.n_iterations,
            learning_rate=settings.learning_rate,
            max_leaf_nodes=settings.max_leaf_nodes,
            early_stopping=False,
            class_weight="balanced",  # the threshold of balanced accuracy is then one half
            categorical_features=[0],
            random_state=seed % 2**32,
        )
        model.fit(train, comes)
        for columns, features in zip(predicted, held_out, strict=True):
            columns.append(np.asarray(model.predict(features), dtype=np.bool_))
    return [np.stack(columns, axis=1) for columns in predicted]


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

"""Published accuracy of blockage prediction and beam prediction, to compare calibrations with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedShare:
    """Accuracy over several DeepSense scenarios, 0 to 1; equals balanced accuracy, as classes are balanced.

    Attributes:
        mean: mean over the scenarios.
        lowest, highest: range over the scenarios; equal to the mean if only that is known.
    """

    mean: float
    lowest: float
    highest: float


#: Sensor -> prediction horizon in s, published as 1, 5 and 10 frames at about 10 Hz -> accuracy.
#: LiDAR: scenarios 24-29, arXiv 2111.09581. Power: scenarios 17-22, arXiv 2111.08242. Camera: scenarios 17-22, rounded.
PUBLISHED_BLOCKAGE: Mapping[str, Mapping[float, PublishedShare]] = {
    "lidar": {
        0.1: PublishedShare(0.926, 0.875, 0.962),
        0.5: PublishedShare(0.907, 0.865, 0.945),
        1.0: PublishedShare(0.844, 0.794, 0.887),
    },
    "camera": {0.1: PublishedShare(0.90, 0.90, 0.90), 1.0: PublishedShare(0.80, 0.80, 0.80)},
    "rf": {
        0.1: PublishedShare(0.913, 0.833, 0.982),
        0.5: PublishedShare(0.621, 0.467, 0.747),
        1.0: PublishedShare(0.511, 0.450, 0.587),
    },
}


def published_blockage(sensor: str, horizon_s: float) -> PublishedShare | None:
    """Published accuracy of a sensor at a prediction horizon, or None; a world may have frames at other times."""
    shares = PUBLISHED_BLOCKAGE.get(sensor, {})
    return next((share for at_s, share in shares.items() if math.isclose(at_s, horizon_s)), None)


@dataclass(frozen=True, slots=True)
class PublishedBeams:
    """Published accuracy on DeepSense 6G scenario 23: one drone, one base station, 32 of 64 beams at 60 GHz.

    Attributes:
        top1: top-1 accuracy, 0 to 1.
        top3: top-3 accuracy; None if not published.
        source: publication and data.
    """

    top1: float
    top3: float | None
    source: str


_CHARAN = "Charan et al., GLOBECOM 2022"
_AHMAD = "Ahmad et al., PIMRC 2023"
_SCENARIO_23 = "nearest neighbors on the public samples of scenario 23"

#: (split, predictor) -> published results, the most comparable one first.
PUBLISHED_TOP1: Mapping[tuple[str, str], tuple[PublishedBeams, ...]] = {
    ("random", "image"): (
        PublishedBeams(0.878, 0.992, f"{_CHARAN}: saved predictions, ResNet-50"),
        PublishedBeams(0.86, None, _AHMAD),
    ),
    ("random", "gps"): (
        PublishedBeams(0.576, 0.918, f"{_CHARAN}: saved predictions, latitude and longitude"),
        PublishedBeams(0.60, None, _AHMAD),
        PublishedBeams(0.668, None, "Ghalkha et al. 2025: public result files, centralized"),
    ),
    ("random", "both"): (
        PublishedBeams(0.863, 1.0, f"{_CHARAN}: abstract"),
        PublishedBeams(0.90, 1.0, _AHMAD),
    ),
    ("random", "neighbors"): (PublishedBeams(0.686, 0.922, _SCENARIO_23),),
    ("flights", "neighbors"): (PublishedBeams(0.399, 0.733, _SCENARIO_23),),
    ("random", "persistence"): (PublishedBeams(0.820, None, _SCENARIO_23),),
    ("random", "majority"): (PublishedBeams(0.249, None, _SCENARIO_23),),
}
#: Lag in frames -> share of best beams that are still the best.
PUBLISHED_PERSISTENCE: Mapping[int, float] = {1: 0.820, 3: 0.665, 5: 0.569, 10: 0.451}

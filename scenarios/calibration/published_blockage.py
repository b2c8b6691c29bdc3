"""Published accuracy of blockage prediction in measured streets."""

from __future__ import annotations

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


#: Sensor -> prediction horizon in frames at about 10 Hz -> accuracy.
#: LiDAR: scenarios 24-29, arXiv 2111.09581. Power: scenarios 17-22, arXiv 2111.08242. Camera: scenarios 17-22, rounded.
PUBLISHED: Mapping[str, Mapping[int, PublishedShare]] = {
    "lidar": {
        1: PublishedShare(0.926, 0.875, 0.962),
        5: PublishedShare(0.907, 0.865, 0.945),
        10: PublishedShare(0.844, 0.794, 0.887),
    },
    "camera": {1: PublishedShare(0.90, 0.90, 0.90), 10: PublishedShare(0.80, 0.80, 0.80)},
    "rf": {
        1: PublishedShare(0.913, 0.833, 0.982),
        5: PublishedShare(0.621, 0.467, 0.747),
        10: PublishedShare(0.511, 0.450, 0.587),
    },
}

"""What has been published about warnings of blockages in measured streets, to print beside what ours give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedShare:
    """Accuracy over several DeepSense scenarios, 0 to 1; read as balanced, because their two classes are.

    Attributes:
        mean: over the scenarios.
        lowest, highest: of them; both the mean where only that is known.
    """

    mean: float
    lowest: float
    highest: float


#: Sensor -> frames ahead at about 10 Hz -> what was published.
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

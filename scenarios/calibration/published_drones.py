"""Published accuracy on DeepSense 6G scenario 23: one drone, one base station, 32 of 64 beams at 60 GHz."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """One published result.

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
PUBLISHED_TOP1: Mapping[tuple[str, str], tuple[Published, ...]] = {
    ("random", "image"): (
        Published(0.878, 0.992, f"{_CHARAN}: saved predictions, ResNet-50"),
        Published(0.86, None, _AHMAD),
    ),
    ("random", "gps"): (
        Published(0.576, 0.918, f"{_CHARAN}: saved predictions, latitude and longitude"),
        Published(0.60, None, _AHMAD),
        Published(0.668, None, "Ghalkha et al. 2025: public result files, centralized"),
    ),
    ("random", "both"): (
        Published(0.863, 1.0, f"{_CHARAN}: abstract"),
        Published(0.90, 1.0, _AHMAD),
    ),
    ("random", "neighbors"): (Published(0.686, 0.922, _SCENARIO_23),),
    ("flights", "neighbors"): (Published(0.399, 0.733, _SCENARIO_23),),
    ("random", "persistence"): (Published(0.820, None, _SCENARIO_23),),
    ("random", "majority"): (Published(0.249, None, _SCENARIO_23),),
}
#: Lag in frames -> share of best beams that are still the best.
PUBLISHED_PERSISTENCE: Mapping[int, float] = {1: 0.820, 3: 0.665, 5: 0.569, 10: 0.451}

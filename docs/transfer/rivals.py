"""What models have to beat: lookups and lines on the same samples, and what needs no sample at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray
from sheafedge.datasets.baselines import persistence_predictions
from sheafedge.datasets.scores import score_ranking
from sheafedge.datasets.windows.sensor_windows import BeamWindows

#: Half of the sector that the 64 beams of an emulated array cover, evenly in angle.
SECTOR_HALF_WIDTH_DEG = 45.0
#: Neighbors that are tried, and the largest number of ranks that scores use.
NEIGHBORS, RANKS = (1, 3, 5, 9, 15, 25), 3
Rival = Callable[[BeamWindows, BeamWindows], NDArray[np.int64]]


def scores(ranking: NDArray[np.int64], test: BeamWindows) -> Mapping[str, float]:
    """Scores of ranked beams [n, RANKS] on held-out samples."""
    return asdict(score_ranking(ranking, test.label, test.powers))


def bearing_deg(samples: BeamWindows) -> NDArray[np.float64]:
    """[n] bearing of the last position, clockwise from what the array faces."""
    last_m = samples.inputs()["gps"][:, -1].astype(np.float64)
    return np.degrees(np.arctan2(last_m[:, 0], last_m[:, 1]))


def around(place: NDArray[np.float64], n_beams: int) -> NDArray[np.int64]:
    """[n, RANKS] beams by distance from a place among them, which need not be whole."""
    far = np.abs(np.arange(n_beams) - place[:, None])
    return np.argsort(far, axis=1, kind="stable")[:, :RANKS].astype(np.int64)


def sector(_train: BeamWindows, test: BeamWindows) -> NDArray[np.int64]:
    """The beam that points to the last position by the sector's geometry; no sample is used."""
    step_deg = 2.0 * SECTOR_HALF_WIDTH_DEG / (test.n_beams - 1)
    return around((bearing_deg(test) + SECTOR_HALF_WIDTH_DEG) / step_deg, test.n_beams)


def line(train: BeamWindows, test: BeamWindows) -> NDArray[np.int64]:
    """Least squares of the best beam over the bearing of the last position, refitted once without what lies far off."""
    off_deg, beam = bearing_deg(train), train.label.astype(np.float64)
    fit = np.polyfit(off_deg, beam, 1)
    residual = np.abs(np.polyval(fit, off_deg) - beam)
    near = residual <= max(3.0 * float(np.median(residual)), 1.0)
    if near.sum() >= 3:
        fit = np.polyfit(off_deg[near], beam[near], 1)
    return around(np.polyval(fit, bearing_deg(test)), test.n_beams)


def neighbors(train: BeamWindows, test: BeamWindows) -> NDArray[np.int64]:
    """Votes of the nearest last positions by inverse distance; how many is chosen by leaving drive-bys out."""
    last = train.inputs()["gps"][:, -1].astype(np.float64)
    fold = np.unique(train.sequence, return_inverse=True)[1] % 4
    right = dict.fromkeys(NEIGHBORS, 0)
    for one in range(4 if len(train) >= 20 else 0):
        kept, left = fold != one, fold == one
        if left.any() and kept.any():
            for k in NEIGHBORS:
                found = _votes(last[kept], train.label[kept], last[left], k, test.n_beams)
                right[k] += int((found[:, 0] == train.label[left]).sum())
    k = max(right, key=lambda one: right[one])
    return _votes(last, train.label, test.inputs()["gps"][:, -1].astype(np.float64), k, test.n_beams)


def _votes(
    known: NDArray[np.float64], label: NDArray[np.int64], asked: NDArray[np.float64], k: int, n_beams: int
) -> NDArray[np.int64]:
    far = np.linalg.norm(asked[:, None] - known, axis=2)
    near = np.argsort(far, axis=1, kind="stable")[:, : min(k, len(known))]
    weight = 1.0 / (np.take_along_axis(far, near, axis=1) + 0.1)
    votes = np.zeros((len(asked), n_beams))
    np.add.at(votes, (np.arange(len(asked))[:, None], label[near]), weight)
    return np.argsort(-votes, axis=1, kind="stable")[:, :RANKS].astype(np.int64)


def persistence(_train: BeamWindows, test: BeamWindows) -> NDArray[np.int64]:
    """The best beam of the last sweep, then its neighbors; no sample is used."""
    return persistence_predictions(test, RANKS)


#: Inputs -> rival -> its answers; with True, it learns from samples.
RIVALS: Mapping[str, Mapping[str, tuple[Rival, bool]]] = {
    "gps": {"sector, no samples": (sector, False), "line": (line, True), "nearest neighbors": (neighbors, True)},
    "rf": {"last sweep's best": (persistence, False)},
}

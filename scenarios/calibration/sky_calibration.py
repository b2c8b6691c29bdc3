"""Beam prediction from images and positions of drones in our sky, with the protocol of published measurements.

Each base station is evaluated alone, as in the publications; results are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.baselines import majority_predictions, persistence_predictions
from ...datasets.recordings.recording_reader import RecordingReader
from ...datasets.scores import BeamScores, score_ranking
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.sensor_windows import BeamWindows, beam_windows
from ...emulator.contracts import ConfigError, Modality
from ...emulator.random_streams import named_stream
from ...emulator.sensors.gps import METERS_PER_DEGREE
from ..recording.recording_cache import cached_recording
from ..schema.world_section import WorldSection
from .sky_models import Budget, Rows, SkySamples, both_scores, gps_scores, image_scores, learn_images

Split = Literal["random", "flights"]
SPLITS: tuple[Split, ...] = ("random", "flights")
#: Predictors in the order of the tables.
PREDICTORS = ("image", "gps", "both", "neighbors", "persistence", "majority")

#: As published: 11,387 samples at 6.4 Hz, 32 of 64 beams, 60 % of the samples for training, 15 neighbors, 5 folds.
RATE_HZ, N_BEAMS, N_NEIGHBORS = 6.25, 32, 15
RANDOM_TRAIN_SHARE, N_FLIGHT_FOLDS = 0.6, 5
#: Models are trained once, on two thirds of the flights: five folds would take five times as long.
N_MODEL_FOLDS = 3
#: Lags of beam persistence, in frames.
LAGS = (1, 3, 5, 10)
#: Standard deviations of the drifting GPS error per horizontal axis in m; 0: real-time kinematic corrections (RTK).
GPS_BIASES_M = (0.0, 0.75, 1.5, 3.0, 6.0)

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SkyStudy:
    """Settings of a sky calibration.

    Attributes:
        n_sites: number of base stations.
        minutes: recorded time per base station.
        seed: seed of worlds, splits and models.
        budget: training budget of the models.
        rate_hz: frames per second; lags are in frames.

    Raises:
        ConfigError: no base station, or a recording too short to hold flights out.
    """

    n_sites: int = 3
    minutes: float = 30.0
    seed: int = 0
    budget: Budget = field(default_factory=Budget)
    rate_hz: float = RATE_HZ

    def __post_init__(self) -> None:
        if self.n_sites < 1 or not 10.0 <= self.minutes <= 10_000.0:
            raise ConfigError(
                f"a study of the sky needs n_sites >= 1 and 10 <= minutes <= 10000, got {self.n_sites} and "
                f"{self.minutes:g}; 3 and 30 compare with the published measurements"
            )

    def section(self, bias_m: float | None = None) -> WorldSection:
        """World section: a default sky with this rate, and with this GPS error if one is given."""
        tree: dict[str, object] = {
            "kind": "sky",
            "n_sites": self.n_sites,
            "duration_s": 60.0 * self.minutes,
            "rate_hz": self.rate_hz,
        }
        if bias_m is not None:
            # RTK also makes the white error of every fix smaller, which a drift of 0 would leave as it is
            tree["gps"] = {"bias_m": bias_m} if bias_m else {"rtk": True}
        return WorldSection.model_validate(tree)


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """Results of one base station.

    Attributes:
        scores: split -> predictor -> scores; neighbors over all folds, models on the first of three folds.
        persistence: share of frames with the same best beam as `lag` frames before, for every lag of `LAGS`.
        n_samples, n_flights: counts of the recording.
    """

    scores: Mapping[Split, Mapping[str, BeamScores]]
    persistence: tuple[float, ...]
    n_samples: int
    n_flights: int


@dataclass(frozen=True, slots=True)
class NoisePoint:
    """Top-1 accuracy at one GPS error on held-out flights, mean over base stations.

    Attributes:
        bias_m: standard deviation of the drifting error per horizontal axis; 0: RTK.
        top1: predictor (image, gps, both, neighbors) -> top-1 accuracy.
    """

    bias_m: float
    top1: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SkyFigures:
    """Results of a sky calibration.

    Attributes:
        study: settings.
        sites: results per base station.
        noise: results per GPS error, in the given order.
    """

    study: SkyStudy
    sites: tuple[SiteFigures, ...]
    noise: tuple[NoisePoint, ...]

    def top(self, split: Split, predictor: str, k: Literal[1, 3] = 1) -> tuple[float, float]:
        """Mean and standard deviation of the top-k accuracy over base stations."""
        return _mean_and_std([getattr(site.scores[split][predictor], f"top{k}") for site in self.sites])

    def persistence(self, lag: int) -> tuple[float, float]:
        """Mean and standard deviation of beam persistence at a lag of `LAGS`."""
        return _mean_and_std([site.persistence[LAGS.index(lag)] for site in self.sites])


def calibrate_sky(
    study: SkyStudy,
    *,
    biases_m: Sequence[float] = GPS_BIASES_M,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> SkyFigures:
    """Records a sky, trains the models and scores them. Deterministic on one machine with one thread.

    Args:
        study: settings.
        biases_m: further GPS errors in m; their recordings reuse the images of the first.
        cache_dir: cache of recordings, see `cached_recording`.
        progress: called with (base stations done, base stations in total).

    Raises:
        ConfigError: an invalid world.
        DataError: the cache cannot be written.
    """
    # the first has all sensors and the default GPS, the others no camera
    recording, *noisy = (_recording(study, bias_m, cache_dir) for bias_m in (None, *biases_m))
    sites: list[SiteFigures] = []
    points: list[dict[str, list[float]]] = [{} for _ in biases_m]
    for index in range(study.n_sites):
        windows = recorded_windows(recording, index, ("gps", "camera"))
        figures, by_noise = _site(windows, [recorded_windows(path, index, ("gps",)) for path in noisy], study, index)
        sites.append(figures)
        for point, scores in zip(points, by_noise, strict=True):
            for name, top1 in scores.items():
                point.setdefault(name, []).append(top1)
        if progress is not None:
            progress(index + 1, study.n_sites)
    means = [{name: float(np.mean(values)) for name, values in point.items()} for point in points]
    return SkyFigures(study, tuple(sites), tuple(map(NoisePoint, biases_m, means)))


def random_split(n: int, draws: np.random.Generator) -> tuple[Rows, Rows]:
    """60 % of n samples, and the rest. It leaks (adjacent frames on both sides); only to compare with publications."""
    order = draws.permutation(n)
    cut = round(RANDOM_TRAIN_SHARE * n)
    return order[:cut], order[cut:]


def flight_folds(sequence: NDArray[np.int64], n_folds: int, draws: np.random.Generator) -> list[tuple[Rows, Rows]]:
    """(Training, test) indices per fold; whole flights are held out, each in one fold.

    Raises:
        ConfigError: fewer flights than folds.
    """
    flights = draws.permutation(np.unique(sequence))
    if len(flights) < n_folds:
        raise ConfigError(
            f"{len(flights)} flights cannot be held out in {n_folds} parts; record more minutes, or try another seed"
        )
    held_out = [np.isin(sequence, some) for some in np.array_split(flights, n_folds)]
    return [(np.flatnonzero(~held), np.flatnonzero(held)) for held in held_out]


def neighbor_ranking(
    place_m: NDArray[np.float64], label: NDArray[np.int64], train: Rows, test: Rows, n_beams: int
) -> NDArray[np.int64]:
    """[n_test, 3] beams ranked by votes of the 15 nearest training positions, weighted by inverse distance."""
    k = min(N_NEIGHBORS, len(train))
    # one test sample at a time: all distances at once would take hundreds of megabytes
    known_m, ranking = place_m[train].T, np.empty((len(test), 3), dtype=np.int64)
    for row, here_m in enumerate(place_m[test]):
        apart_m = np.hypot(*(known_m - here_m[:, None]))
        nearest = np.argpartition(apart_m, k - 1)[:k]
        # a micrometer keeps the weight of a neighbor at the very same place finite
        votes = np.bincount(label[train[nearest]], 1.0 / (apart_m[nearest] + 1e-6), minlength=n_beams)
        # stable: ties go to the lower beam on every machine
        ranking[row] = np.argsort(-votes, kind="stable")[:3]
    return ranking


def _recording(study: SkyStudy, bias_m: float | None, cache_dir: Path | None) -> Path:
    """Path of the recording; one with another GPS error leaves out the camera, whose images would be the same."""
    section = study.section(bias_m)
    if bias_m is not None:
        section = section.model_copy(update={"sensors": ("rf", "gps")})
    return cached_recording(section, study.seed, cache_dir)


def recorded_windows(recording: Path, index: int, modalities: Sequence[Modality]) -> BeamWindows:
    """Windows of one base station with 32 beams."""
    with RecordingReader(recording) as reader:
        # powers are kept although no model reads them: scores include the power loss of a wrong beam
        frames = SensedFrames.of(reader.base_stations[index], modalities, color=True, keep_powers=True)
    return beam_windows(frames, modalities, N_BEAMS)


def _site(
    windows: BeamWindows, noisy: Sequence[BeamWindows], study: SkyStudy, index: int
) -> tuple[SiteFigures, list[dict[str, float]]]:
    """Results of one base station, and for every GPS of `noisy` predictor -> top-1 on held-out flights."""
    samples = SkySamples(windows)
    sequence, label = windows.sequence, windows.label
    draws = named_stream(study.seed, "sky calibration", index, "split")
    # one stream for all splits, in this order: exchanging them would change every split
    folds: dict[Split, list[tuple[Rows, Rows]]] = {
        "random": [random_split(len(windows), draws)],
        "flights": flight_folds(sequence, min(N_FLIGHT_FOLDS, len(np.unique(sequence))), draws),
    }
    # folds of their own: the first of three holds out a third of the flights, the first of five only a fifth
    model_rows = {"random": folds["random"][0], "flights": flight_folds(sequence, N_MODEL_FOLDS, draws)[0]}
    model_seed = int(named_stream(study.seed, "sky calibration", index, "models").integers(1 << 31))
    scores: dict[Split, dict[str, BeamScores]] = {}
    for split in SPLITS:
        train, test = model_rows[split]
        image = learn_images(samples, train, study.budget, model_seed)
        scores[split] = {
            "image": image_scores(samples, image, test),
            "gps": gps_scores(samples, train, test, study.budget, model_seed),
            "both": both_scores(samples, image, train, test, study.budget, model_seed),
            "neighbors": neighbor_scores(windows, folds[split]),
            "persistence": score_ranking(persistence_predictions(windows)[test], label[test], windows.powers[test]),
            "majority": score_ranking(
                majority_predictions(label[train], len(test), N_BEAMS), label[test], windows.powers[test]
            ),
        }
    figures = SiteFigures(
        scores=scores,
        persistence=tuple(_same_share(label, sequence, lag) for lag in LAGS),
        n_samples=len(windows),
        n_flights=len(np.unique(sequence)),
    )
    # the last split is "flights", so `image`, `train` and `test` belong to it
    points = []
    for other in noisy:
        # embeddings of images do not depend on the GPS, so that the image model is reused
        moved = samples.with_fixes(other)
        points.append(
            {
                "image": image_scores(moved, image, test).top1,
                "gps": gps_scores(moved, train, test, study.budget, model_seed).top1,
                "both": both_scores(moved, image, train, test, study.budget, model_seed).top1,
                "neighbors": neighbor_scores(other, folds["flights"]).top1,
            }
        )
    return figures, points


def neighbor_scores(windows: BeamWindows, folds: Sequence[tuple[Rows, Rows]]) -> BeamScores:
    """Scores of the nearest-neighbor prediction from GPS positions, over the test samples of all folds."""
    fix = windows.frames["gps"][windows.end].astype(np.float64)
    # meridians converge: a degree of longitude is shorter by the cosine of the latitude
    per_longitude = float(np.cos(np.radians(windows.gps_origin[0])))
    place_m = fix[:, :2] * METERS_PER_DEGREE * np.array([1.0, per_longitude])
    ranking = [neighbor_ranking(place_m, windows.label, train, test, N_BEAMS) for train, test in folds]
    rows = np.concatenate([test for _, test in folds])
    return score_ranking(np.concatenate(ranking), windows.label[rows], windows.powers[rows])


def _same_share(label: NDArray[np.int64], sequence: NDArray[np.int64], lag: int) -> float:
    # between two flights lies a pause of unknown length, which is no lag
    same_flight = sequence[lag:] == sequence[:-lag]
    return float((label[lag:] == label[:-lag])[same_flight].mean())


def _mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values))

"""Blockage prediction on recorded streets, compared with measured streets: one small model per sensor, held-out time.

Published figures are for sequences that end before a blockage or without one. Windows whose last frame is clear
correspond to that. Once a link is blocked every sensor observes it, and that it stays blocked is no prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordingReader
from ...datasets.scores import score_blockage
from ...emulator.contracts import ConfigError, DataError, Modality
from ..recording.record import Progress
from ..recording.recording_cache import cached_recording
from ..schema.world_section import STREET_SENSORS, WorldSection
from .street_figures import StreetFigures, street_figures
from .street_models import ReferenceSettings, predictions_of, trained_network
from .street_trees import TreeSettings, tree_predictions
from .warning_samples import PooledSamples, SiteSamples, site_samples

#: Input frames, and prediction horizons in frames: 0.1 s to 1 s at the 10 Hz of streets.
LENGTH = 16
HORIZONS = (1, 2, 3, 5, 7, 10)
TEST_FRACTION = 0.3

#: "clear now": windows whose last frame is clear, as for the published figures. "all": all windows.
Protocol = Literal["clear now", "all"]
#: A sensor, or a baseline without one.
Predictor: TypeAlias = Modality | Literal["persistence", "majority"]
#: What learns from a sensor: one small network, or boosted trees.
Learner = Literal["network", "trees"]

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WarningCurve:
    """Accuracy of one predictor by prediction horizon.

    Attributes:
        predictor: sensor or baseline.
        protocol: windows that were used.
        horizons: [n_horizons] frames, ascending.
        by_site: [n_sites][n_horizons] balanced accuracy on held-out time.
        learner: what learned it; baselines count as "network".
    """

    predictor: Predictor
    protocol: Protocol
    horizons: tuple[int, ...]
    by_site: tuple[tuple[float, ...], ...]
    learner: Learner = "network"

    def mean(self, horizon: int) -> float:
        """Mean over the base stations."""
        return float(np.mean(self._of(horizon)))

    def spread(self, horizon: int) -> float:
        """Standard deviation over the base stations."""
        return float(np.std(self._of(horizon)))

    def _of(self, horizon: int) -> list[float]:
        column = self.horizons.index(horizon)
        return [row[column] for row in self.by_site]


@dataclass(frozen=True, slots=True)
class StreetCalibration:
    """Results of a street calibration.

    Attributes:
        seed: seed of the world and of the reference models.
        rate_hz: frames per second.
        station_names: names of the base stations.
        n_frames: frames per base station, training and held out.
        curves: one per predictor, protocol and learner.
        figures: statistics of the recording.
    """

    seed: int
    rate_hz: float
    station_names: tuple[str, ...]
    n_frames: int
    curves: tuple[WarningCurve, ...]
    figures: StreetFigures

    def curve(
        self, predictor: Predictor, protocol: Protocol = "clear now", learner: Learner = "network"
    ) -> WarningCurve:
        """Curve of a predictor, protocol and learner.

        Raises:
            ConfigError: the calibration was made without it.
        """
        for curve in self.curves:
            if (curve.predictor, curve.protocol, curve.learner) == (predictor, protocol, learner):
                return curve
        raise ConfigError(
            f"the calibration has no curve of {predictor!r} on {protocol!r} windows by {learner}; calibrate with "
            "that sensor, protocol and learner"
        )


def calibrate_street(
    section: WorldSection,
    seed: int,
    *,
    sensors: Sequence[Modality] = STREET_SENSORS,
    protocols: Sequence[Protocol] = ("clear now",),
    horizons: Sequence[int] = HORIZONS,
    settings: ReferenceSettings | None = None,
    trees: TreeSettings | None = None,
    cache_dir: Path | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    report: Report | None = None,
) -> StreetCalibration:
    """Records streets, or reuses their recording, and scores reference models and baselines on held-out time.

    Args:
        section: streets with a standing user, recorded with at least these sensors.
        seed: seed of world and models.
        sensors: input sensors, one model each.
        protocols: windows to train and test on.
        horizons: frames, ascending.
        settings: settings of the reference models; None: those of the documented figures.
        trees: settings of boosted trees beside the networks; None: no trees.
        cache_dir, threads, progress: see `cached_recording`.
        report: called with a line of text before every training; None: no reports.

    Raises:
        ConfigError: another kind of world, a sensor that is not recorded, or trees without scikit-learn.
        DataError: the recording is too short.
    """
    _check(section, sensors)
    path = cached_recording(section, seed, cache_dir, progress, threads=threads)
    curves: list[WarningCurve] = []
    for sensor in sensors:
        names, n_frames, sites = _samples(path, sensor, max(horizons))
        for protocol in protocols:
            if report is not None:
                report(f"training on {sensor}, {protocol if protocol == 'clear now' else 'all windows'}")
            chosen = [_of_protocol(site, protocol) for site in sites]
            curves.append(_learned_curve(sensor, protocol, horizons, chosen, settings or ReferenceSettings(), seed))
            if trees is not None:
                if report is not None:
                    report(f"growing trees on {sensor}")
                predicted = tree_predictions(sensor, chosen, horizons, trees, seed)
                scores = (site_scores(one, test, horizons) for one, (_, test) in zip(predicted, chosen, strict=True))
                curves.append(WarningCurve(sensor, protocol, tuple(horizons), tuple(scores), "trees"))
            # baselines read labels only, which are the same for every sensor
            if sensor == sensors[0]:
                curves.extend(_baseline_curves(protocol, horizons, chosen))
        del sites, chosen  # free memory before the frames of the next sensor are read
    if report is not None:
        report("statistics of the recording")
    return StreetCalibration(seed, section.rate_hz, names, n_frames, tuple(curves), street_figures(path))


def site_scores(predicted: NDArray[np.bool_], samples: SiteSamples, horizons: Sequence[int]) -> tuple[float, ...]:
    """Balanced accuracy of one base station per horizon.

    Args:
        predicted: [n, n_horizons] whether a blockage is predicted.
        samples: n held-out samples.
        horizons: [n_horizons] frames.

    Returns:
        [n_horizons] in 0 to 1.

    Raises:
        DataError: for some horizon all samples are of one class, so that balanced accuracy is undefined.
    """
    scores = []
    for column, horizon in enumerate(horizons):
        comes = samples.frames_ahead <= horizon
        # balanced accuracy is the mean of the recalls of both classes
        if comes.all() or not comes.any():
            raise DataError(
                f"no held-out window {'without' if comes.all() else 'with'} a blockage within {horizon} frames "
                f"among {len(comes)}; record longer"
            )
        scores.append(score_blockage(predicted[:, column], comes).balanced_accuracy)
    return tuple(scores)


def _check(section: WorldSection, sensors: Sequence[Modality]) -> None:
    if not section.has_clear_level:
        raise ConfigError(
            f'blockage is calibrated on streets with a standing user, got world.kind = "{section.kind}" and '
            f'world.user = "{section.user}"; set world.kind=street and world.user=kerb'
        )
    if not sensors:
        raise ConfigError("no sensor to calibrate; name at least one of lidar, camera, rf")
    for sensor in (*sensors, "rf"):  # the statistics of the recording need the powers
        if sensor not in section.recorded:
            raise ConfigError(f"world.sensors lacks {sensor}, which the calibration needs; leave world.sensors empty")


def _samples(
    path: Path, sensor: Modality, horizon: int
) -> tuple[tuple[str, ...], int, list[tuple[SiteSamples, SiteSamples]]]:
    """Names of the base stations, frames per base station, and (training, held-out) samples of each."""
    with RecordingReader(path) as reader:
        stations = reader.base_stations
        sites = [site_samples(station, sensor, LENGTH, horizon, TEST_FRACTION) for station in stations]
        return tuple(station.name for station in stations), stations[0].n_frames, sites


def _of_protocol(site: tuple[SiteSamples, SiteSamples], protocol: Protocol) -> tuple[SiteSamples, SiteSamples]:
    return site if protocol == "all" else (site[0].clear_now(), site[1].clear_now())


def _learned_curve(
    sensor: Modality,
    protocol: Protocol,
    horizons: Sequence[int],
    sites: Sequence[tuple[SiteSamples, SiteSamples]],
    settings: ReferenceSettings,
    seed: int,
) -> WarningCurve:
    network = trained_network(sensor, PooledSamples.of([train for train, _ in sites]), horizons, settings, seed)
    by_site = tuple(site_scores(predictions_of(network, test), test, horizons) for _, test in sites)
    return WarningCurve(sensor, protocol, tuple(horizons), by_site)


def _baseline_curves(
    protocol: Protocol, horizons: Sequence[int], sites: Sequence[tuple[SiteSamples, SiteSamples]]
) -> list[WarningCurve]:
    """Curves of persistence (the present state) and majority (the more frequent class in training)."""
    persistence, majority = [], []
    for train, test in sites:
        # on "clear now" windows this never predicts a blockage, so that its balanced accuracy is 0.5
        now = np.repeat(test.windows.blocked_now[:, None], len(horizons), axis=1)
        usual = [2 * int((train.frames_ahead <= horizon).sum()) > len(train) for horizon in horizons]
        persistence.append(site_scores(now, test, horizons))
        majority.append(site_scores(np.tile(np.array(usual), (len(test), 1)), test, horizons))
    return [
        WarningCurve("persistence", protocol, tuple(horizons), tuple(persistence)),
        WarningCurve("majority", protocol, tuple(horizons), tuple(majority)),
    ]

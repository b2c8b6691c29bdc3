"""Do recorded streets warn of blockages as measured ones do? Small reference models, one per sensor, on held-out time.

Published figures are for stretches that lead up to a blockage or to nothing. Windows whose last frame is clear are the
like of that; once a link is blocked every sensor sees it, and knowing that it goes on is no warning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordingReader
from ...datasets.scores import score_blockage
from ...emulator.contracts import ConfigError, DataError, Modality
from ..recording.record import Progress
from ..recording.recording_cache import cached_recording
from ..schema.world_section import STREET_SENSORS, WorldSection
from .street_figures import StreetFigures, street_figures
from .street_models import ReferenceSettings, trained_network, warnings_of
from .warning_samples import PooledSamples, SiteSamples, site_samples

#: Frames looked at, and ahead; at the 10 Hz of streets the latter are 0.1 s to 1 s.
LENGTH = 16
HORIZONS = (1, 2, 3, 5, 7, 10)
TEST_FRACTION = 0.3

#: "clear now": windows whose last frame is clear, which is what published figures compare with. "all": all windows.
Protocol = Literal["clear now", "all"]
#: A sensor, or one of the two that need none.
Warner = Literal["lidar", "camera", "rf", "persistence", "majority"]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WarningCurve:
    """How well somebody warns, by how far ahead.

    Attributes:
        warner: who.
        protocol: on which windows.
        horizons: frames ahead, ascending.
        by_site: [n_sites][n_horizons] balanced accuracy on held-out time.
    """

    warner: Warner
    protocol: Protocol
    horizons: tuple[int, ...]
    by_site: tuple[tuple[float, ...], ...]

    def mean(self, horizon: int) -> float:
        """Over the base stations."""
        return float(np.mean(self._of(horizon)))

    def spread(self, horizon: int) -> float:
        """Standard deviation over the base stations."""
        return float(np.std(self._of(horizon)))

    def _of(self, horizon: int) -> list[float]:
        column = self.horizons.index(horizon)
        return [row[column] for row in self.by_site]


@dataclass(frozen=True, slots=True)
class StreetCalibration:
    """What some recorded streets give.

    Attributes:
        seed: of the world and of the reference models.
        rate_hz: frames per second.
        station_names: of the base stations.
        n_frames: of each, training and held out.
        curves: of every sensor and of the two that need none, protocol by protocol.
        figures: that need no learning.
    """

    seed: int
    rate_hz: float
    station_names: tuple[str, ...]
    n_frames: int
    curves: tuple[WarningCurve, ...]
    figures: StreetFigures

    def curve(self, warner: Warner, protocol: Protocol = "clear now") -> WarningCurve:
        """The one curve of these.

        Raises:
            ConfigError: it was not asked for.
        """
        for curve in self.curves:
            if (curve.warner, curve.protocol) == (warner, protocol):
                return curve
        raise ConfigError(f"no curve of {warner!r} on {protocol!r} windows was made; ask for that sensor and protocol")


def calibrate_street(
    section: WorldSection,
    seed: int,
    *,
    sensors: Sequence[Modality] = STREET_SENSORS,
    protocols: Sequence[Protocol] = ("clear now",),
    horizons: Sequence[int] = HORIZONS,
    settings: ReferenceSettings | None = None,
    cache_dir: Path | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    say: Say | None = None,
) -> StreetCalibration:
    """Records streets, or takes the recording made before, and asks reference models and baselines on held-out time.

    Args:
        section: streets with a standing user, recorded by at least these sensors.
        seed: of everything drawn.
        sensors: to ask, each alone.
        protocols: which windows to train and ask on.
        horizons: frames ahead, ascending.
        settings: of the reference models; None: the ones that documented figures are made with.
        cache_dir, threads, progress: of the recording, see `cached_recording`.
        say: told what is being done.

    Raises:
        ConfigError: another kind of world, or a sensor that is not recorded.
        DataError: too short a recording.
    """
    _check(section, sensors)
    say = say or _nobody
    path = cached_recording(section, seed, cache_dir, progress, threads=threads)
    curves: list[WarningCurve] = []
    for sensor in sensors:
        names, n_frames, sites = _samples(path, sensor, max(horizons))
        for protocol in protocols:
            say(f"training on {sensor}, {protocol if protocol == 'clear now' else 'all windows'}")
            chosen = [_of_protocol(site, protocol) for site in sites]
            curves.append(_learned_curve(sensor, protocol, horizons, chosen, settings or ReferenceSettings(), seed))
            if sensor == sensors[0]:
                curves.extend(_baseline_curves(protocol, horizons, chosen))
        del sites, chosen  # before the next sensor's frames come in
    say("figures without learning")
    return StreetCalibration(seed, section.rate_hz, names, n_frames, tuple(curves), street_figures(path))


def site_scores(said: NDArray[np.bool_], samples: SiteSamples, horizons: Sequence[int]) -> tuple[float, ...]:
    """Balanced accuracy of one base station, horizon by horizon.

    Args:
        said: [n, n_horizons] whether somebody warned.
        samples: n of them, held out.
        horizons: [n_horizons].

    Raises:
        DataError: the samples of a horizon are all of one kind, so that there is no balanced accuracy.
    """
    scores = []
    for column, horizon in enumerate(horizons):
        comes = samples.frames_ahead <= horizon
        if comes.all() or not comes.any():
            raise DataError(
                f"no held-out window {'without' if comes.all() else 'with'} a blockage within {horizon} frames "
                f"among {len(comes)}; record longer"
            )
        scores.append(score_blockage(said[:, column], comes).balanced_accuracy)
    return tuple(scores)


def _check(section: WorldSection, sensors: Sequence[Modality]) -> None:
    if not section.has_clear_level:
        raise ConfigError(
            f'blockage is calibrated on streets with a standing user, got world.kind = "{section.kind}" and '
            f'world.user = "{section.user}"; set world.kind=street and world.user=kerb'
        )
    if not sensors:
        raise ConfigError("no sensor to calibrate; name at least one of lidar, camera, rf")
    for sensor in (*sensors, "rf"):  # power is needed for the figures without learning
        if sensor not in section.recorded:
            raise ConfigError(f"world.sensors lacks {sensor}, which the calibration needs; leave world.sensors empty")


def _samples(
    path: Path, sensor: Modality, horizon: int
) -> tuple[tuple[str, ...], int, list[tuple[SiteSamples, SiteSamples]]]:
    """Names of the base stations, frames of each, and their training and held-out samples."""
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
    by_site = tuple(site_scores(warnings_of(network, test), test, horizons) for _, test in sites)
    assert sensor != "gps"  # no network would have been made
    return WarningCurve(sensor, protocol, tuple(horizons), by_site)


def _baseline_curves(
    protocol: Protocol, horizons: Sequence[int], sites: Sequence[tuple[SiteSamples, SiteSamples]]
) -> list[WarningCurve]:
    """What is blocked stays blocked, and: always what came more often in training."""
    persistence, majority = [], []
    for train, test in sites:
        now = np.repeat(test.windows.blocked_now[:, None], len(horizons), axis=1)
        usual = [2 * int((train.frames_ahead <= horizon).sum()) > len(train) for horizon in horizons]
        persistence.append(site_scores(now, test, horizons))
        majority.append(site_scores(np.tile(np.array(usual), (len(test), 1)), test, horizons))
    return [
        WarningCurve("persistence", protocol, tuple(horizons), tuple(persistence)),
        WarningCurve("majority", protocol, tuple(horizons), tuple(majority)),
    ]


def _nobody(text: str) -> None:
    """Whoever does not want to be told."""

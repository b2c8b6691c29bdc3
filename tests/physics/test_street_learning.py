"""Do streets warn of blockages as measured ones do? Small reference models on held-out time, a few minutes of work.

Thresholds are the specification's. Published means over DeepSense scenarios, at 0.1, 0.5 and 1 s: LiDAR 92.6, 90.7 and
84.4 %, power 91.3, 62.1 and 51.1 %; camera about 90 % at 0.1 s and 80 % at 1 s.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.emulator.random_streams import named_stream
from sheafedge.scenarios.calibration.street_calibration import (
    LENGTH,
    TEST_FRACTION,
    StreetCalibration,
    calibrate_street,
    site_scores,
)
from sheafedge.scenarios.calibration.street_models import ReferenceSettings, predictions_of, trained_network
from sheafedge.scenarios.calibration.warning_samples import PooledSamples, site_samples
from sheafedge.scenarios.recording.recording_cache import cached_recording
from sheafedge.scenarios.schema.world_section import WorldSection

pytestmark = [pytest.mark.physics, pytest.mark.slow, pytest.mark.timeout(1200)]

SEED = 11
#: The least that holds enough blockages: about 400 to learn from at 0.1 s, and 20 held out per street.
#: Thresholds are for the channel of the documented networks, model B; docs/calibration.md says what is missed without.
SECTION = WorldSection.model_validate({"n_sites": 8, "duration_s": 480.0, "blockage": "3gpp_b"})
SOON, LATE = 1, 10
#: One network that has learned nothing still warns of some kind of scene, which then comes before blockages more often
#: than not, or less: single ones lie up to 0.15 from chance, so several are averaged.
N_CONTROLS = 8
#: Two standard errors of that average.
CHANCE_MARGIN = 0.1


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def streets(cache: Path) -> StreetCalibration:
    return calibrate_street(SECTION, SEED, cache_dir=cache)


@pytest.mark.parametrize("sensor", ["lidar", "camera"])
def test_lidar_and_camera_see_a_blockage_come(streets: StreetCalibration, sensor: str) -> None:
    curve = streets.curve("lidar" if sensor == "lidar" else "camera")
    assert curve.mean(SOON) >= 0.88
    assert curve.mean(LATE) >= 0.80


def test_power_alone_notices_only_when_it_is_about_to_happen(streets: StreetCalibration) -> None:
    curve = streets.curve("rf")
    assert curve.mean(SOON) >= 0.85
    assert curve.mean(LATE) <= 0.65
    means = [curve.mean(horizon) for horizon in curve.horizons]
    assert (np.diff(means) < 0).all()  # the longer ahead, the less it tells


def test_whoever_needs_no_sensor_is_at_chance_while_the_link_is_clear(streets: StreetCalibration) -> None:
    for baseline in ("persistence", "majority"):
        curve = streets.curve("persistence" if baseline == "persistence" else "majority")
        assert {curve.mean(horizon) for horizon in curve.horizons} == {0.5}


def test_labels_that_tell_nothing_teach_nothing(cache: Path) -> None:
    # Negative control: were the split to leak, or the scoring to be lenient, this would be above chance.
    horizons = (SOON, LATE)
    with RecordingReader(cached_recording(SECTION, SEED, cache)) as reader:
        sites = [site_samples(station, "lidar", LENGTH, LATE, TEST_FRACTION) for station in reader.base_stations]
    clear = [(train.clear_now(), test.clear_now()) for train, test in sites]
    pool = PooledSamples.of([train for train, _ in clear])
    means = []
    for control in range(N_CONTROLS):
        shuffled = pool.shuffled(named_stream(SEED, "shuffled", control))
        network = trained_network("lidar", shuffled, horizons, ReferenceSettings(n_steps=200), SEED + control)
        means.append(np.mean([site_scores(predictions_of(network, test), test, horizons) for _, test in clear], axis=0))
    np.testing.assert_allclose(np.mean(means, axis=0), 0.5, atol=CHANCE_MARGIN)


def test_figures_without_learning_stay_in_their_ranges(streets: StreetCalibration) -> None:
    figures = streets.figures
    assert 15.0 <= figures.vehicle_fall_db <= 25.0
    assert 7.0 <= figures.pedestrian_fall_db <= 15.0
    assert 0.05 <= figures.blocked_share <= 0.15

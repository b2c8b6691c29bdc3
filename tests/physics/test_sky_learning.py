"""Can the best beam of a drone be learned as well as measured ones can, from images, from positions, from both?

Ranges are those of measurements on one drone and one base station: see docs/calibration.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sheafedge.datasets.windows.perturb import Occlusion
from sheafedge.datasets.windows.sensor_windows import BeamWindows
from sheafedge.emulator.random_streams import named_stream
from sheafedge.scenarios.calibration.published_figures import PUBLISHED_PERSISTENCE, PUBLISHED_TOP1
from sheafedge.scenarios.calibration.sky_calibration import (
    SPLITS,
    SkyFigures,
    SkyStudy,
    Split,
    calibrate_sky,
    flight_folds,
    neighbor_scores,
    random_split,
    recorded_windows,
)
from sheafedge.scenarios.calibration.sky_models import Budget, SkySamples, both_scores, image_scores, learn_images
from sheafedge.scenarios.recording.recording_cache import cached_recording

pytestmark = [pytest.mark.physics, pytest.mark.slow, pytest.mark.timeout(1200)]

#: Some three minutes of learning on one core.
STUDY = SkyStudy(n_sites=2, minutes=15.0, seed=3, budget=Budget(n_steps=500))
BIASES_M = (0.0, 1.5, 6.0)
OCCLUDED_TOP1 = (0.50, 0.70)
IMAGE_TOP1, GPS_TOP1, LEAST_TOP3 = (0.80, 0.90), (0.40, 0.70), 0.90
#: Images alone come within some hundredths of what noisy labels allow, so that positions can add nothing there: "at
#: least as good" holds but for the scatter of 4,500 test rows. Published: 1.5 points worse to 4 better.
SAME = 0.01
#: Other flights than the published ones, which keep to fewer beams; base stations differ by .03 among each other.
NEIGHBOR_SLACK = 0.1
#: Flights differ from hour to hour by some hundredths; the check asks for "near 0.8 at lag 1".
PERSISTENCE_SLACK = {1: 0.05, 3: 0.06, 5: 0.07, 10: 0.08}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def figures(cache: Path) -> SkyFigures:
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return calibrate_sky(STUDY, biases_m=BIASES_M, cache_dir=cache)
    finally:
        torch.set_num_threads(n_threads)


def test_images_tell_80_to_90_percent_of_the_best_beams(figures: SkyFigures) -> None:
    assert IMAGE_TOP1[0] <= figures.top("random", "image")[0] <= IMAGE_TOP1[1]


def test_positions_tell_40_to_70_percent_of_the_best_beams(figures: SkyFigures) -> None:
    assert GPS_TOP1[0] <= figures.top("random", "gps")[0] <= GPS_TOP1[1]


@pytest.mark.parametrize("split", SPLITS)
def test_both_together_are_at_least_as_good_as_each(figures: SkyFigures, split: str) -> None:
    both, image, gps = (figures.top(split, name)[0] for name in ("both", "image", "gps"))  # type: ignore[arg-type]
    assert both >= image - SAME
    assert both >= gps


def test_the_best_beam_is_nearly_always_among_the_first_three(figures: SkyFigures) -> None:
    for predictor in ("image", "gps", "both"):
        assert figures.top("random", predictor, 3)[0] >= LEAST_TOP3
    for predictor in ("image", "both"):
        assert figures.top("flights", predictor, 3)[0] >= LEAST_TOP3


def test_worse_positions_tell_less_and_images_do_not_care(figures: SkyFigures) -> None:
    for predictor in ("gps", "neighbors"):
        rtk, usual, bad = (point.top1[predictor] for point in figures.noise)
        assert rtk > usual + 0.05 > bad + 0.10
    assert len({point.top1["image"] for point in figures.noise}) == 1
    both = [point.top1["both"] for point in figures.noise]
    assert max(both) - min(both) < 2 * SAME


def test_rows_of_flights_already_seen_are_easier(figures: SkyFigures) -> None:
    for predictor in ("gps", "neighbors"):
        assert figures.top("random", predictor)[0] > figures.top("flights", predictor)[0] + 0.1


def test_neighbors_of_fixes_tell_beams_as_well_as_in_measurements(cache: Path) -> None:
    # As long as the measurements: with fewer flights, those held out lead where no other was.
    study = SkyStudy(n_sites=3, minutes=30.0, seed=3)
    section = study.section().model_copy(update={"sensors": ("rf", "gps")})
    top1: dict[Split, list[float]] = {split: [] for split in SPLITS}
    recording = cached_recording(section, study.seed, cache)
    for index in range(study.n_sites):
        windows = recorded_windows(recording, index, ("gps",))
        draws = named_stream(study.seed, "neighbors", index)
        folds = {"random": [random_split(len(windows), draws)], "flights": flight_folds(windows.sequence, 5, draws)}
        for split in SPLITS:
            top1[split].append(neighbor_scores(windows, folds[split]).top1)
    for split in SPLITS:
        published = PUBLISHED_TOP1[split, "neighbors"][0].top1
        assert np.mean(top1[split]) == pytest.approx(published, abs=NEIGHBOR_SLACK)


@pytest.mark.parametrize("lag", PERSISTENCE_SLACK)
def test_beams_last_as_long_as_measured_ones(figures: SkyFigures, lag: int) -> None:
    assert figures.persistence(lag)[0] == pytest.approx(PUBLISHED_PERSISTENCE[lag], abs=PERSISTENCE_SLACK[lag])


@pytest.fixture(scope="module")
def windows(cache: Path) -> BeamWindows:
    """Of the first base station."""
    return recorded_windows(cached_recording(STUDY.section(), STUDY.seed, cache), 0, ("gps", "camera"))


def test_positions_help_where_images_are_occluded(windows: BeamWindows) -> None:
    # Published, learned centrally: .619 from images, .668 from positions, .650 from both (Ghalkha et al. 2025).
    samples = SkySamples(windows).with_images(Occlusion(1))
    train, test = random_split(len(windows), named_stream(STUDY.seed, "occluded"))
    model = learn_images(samples, train, STUDY.budget, seed=0)
    image = image_scores(samples, model, test).top1
    assert OCCLUDED_TOP1[0] <= image <= OCCLUDED_TOP1[1]
    assert both_scores(samples, model, train, test, STUDY.budget, seed=0).top1 >= image + 0.05


def test_images_of_other_instants_tell_nothing(windows: BeamWindows) -> None:
    # Negative control: the same model, but every image goes with the beam of another instant.
    draws = named_stream(STUDY.seed, "images of other instants")
    samples = SkySamples(replace(windows, end=draws.permutation(windows.end)))
    train, test = random_split(len(windows), draws)
    model = learn_images(samples, train, Budget(n_steps=150, width=0.25), seed=0)
    chance = np.bincount(windows.label).max() / len(windows)
    assert image_scores(samples, model, test).top1 < 2 * chance

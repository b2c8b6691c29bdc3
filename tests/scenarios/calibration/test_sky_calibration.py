"""The study of the sky: fair splits, votes of neighbors, the same figures again, and what a person gets to see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import typer
from numpy.testing import assert_array_equal
from rich.console import Console
from sheafedge.datasets.recordings.recording_reader import RecordedStation, RecordingReader
from sheafedge.datasets.scores import BeamScores
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.sensor_windows import BeamWindows, beam_windows
from sheafedge.emulator.contracts import ConfigError, DataError, Modality
from sheafedge.scenarios.calibration import sky_calibration as sky
from sheafedge.scenarios.calibration import street_calibration
from sheafedge.scenarios.calibration.calibration_pictures import draw_sky_figures
from sheafedge.scenarios.calibration.sky_calibration import (
    PREDICTORS,
    SPLITS,
    NoisePoint,
    SiteFigures,
    SkyFigures,
    SkyStudy,
    calibrate_sky,
    flight_folds,
    neighbor_ranking,
    random_split,
)
from sheafedge.scenarios.calibration.sky_models import Budget, SkySamples
from sheafedge.scenarios.recording.recording_cache import cached_recording
from sheafedge.scenarios.schema.world_section import WorldSection
from sheafedge.scenarios.terminal.calibration_commands import calibrate_sky_command, street
from sheafedge.scenarios.terminal.calibration_console import print_sky_figures
from typer.testing import CliRunner

TINY = SkyStudy(n_sites=1, minutes=10.0, seed=1, budget=Budget(n_steps=3, width=0.1), rate_hz=1.0)


def draws(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def figures(cache: Path) -> SkyFigures:
    return calibrate_sky(TINY, biases_m=(0.0, 6.0), cache_dir=cache)


def test_a_random_split_uses_every_row_once() -> None:
    train, test = random_split(1000, draws())
    assert len(train) == 600
    assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(1000))


def test_every_flight_is_held_out_once_and_as_a_whole() -> None:
    flight = np.repeat(np.arange(7), [5, 1, 8, 3, 3, 9, 2])
    held_out = []
    for train, test in flight_folds(flight, 3, draws()):
        assert not set(flight[train]) & set(flight[test])
        assert len(train) + len(test) == len(flight)
        held_out.append(test)
    assert_array_equal(np.sort(np.concatenate(held_out)), np.arange(len(flight)))


def test_too_few_flights_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 flights"):
        flight_folds(np.array([0, 0, 1]), 3, draws())


def test_neighbors_vote_by_inverse_distance() -> None:
    place_m = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 0.1], [0.2, 0.0]])
    label = np.array([3, 3, 5, 5, 9])
    train, test = np.arange(4), np.array([4])
    # 1/.2 + 1/.8 for beam 3 and 1/1.8 twice for beam 5: the nearer two win, not the equal number.
    assert_array_equal(neighbor_ranking(place_m, label, train, test, 32)[0, :2], [3, 5])
    place_m[4] = [1.9, 0.0]
    assert_array_equal(neighbor_ranking(place_m, label, train, test, 32)[0, :2], [5, 3])


def test_only_the_nearest_fifteen_vote() -> None:
    place_m = np.concatenate([np.full((15, 2), 1.0), np.full((1000, 2), 1.5), np.zeros((1, 2))])
    label = np.concatenate([np.full(15, 1), np.full(1000, 2), [0]])
    assert neighbor_ranking(place_m, label, np.arange(1015), np.array([1015]), 4)[0, 0] == 1


def test_the_study_flies_the_default_sky_at_the_published_rate() -> None:
    section = SkyStudy().section()
    assert section == WorldSection.model_validate({"kind": "sky", "n_sites": 3, "duration_s": 1800.0, "rate_hz": 6.25})
    assert SkyStudy().section(3.0).gps == replace(section.gps, bias_m=3.0)
    assert SkyStudy().section(0.0).gps == replace(section.gps, rtk=True)


def test_sweeps_are_less_noisy_in_the_sky_unless_told_otherwise() -> None:
    assert WorldSection.model_validate({"kind": "sky"}).sweep.floor_db == 23.0
    assert WorldSection.model_validate({"kind": "sky", "sweep": {"floor_db": 18.0}}).sweep.floor_db == 18.0
    assert WorldSection.model_validate({"kind": "sky", "sweep": {"n_snapshots": 2}}).sweep.floor_db == 23.0
    assert WorldSection.model_validate({"kind": "street"}).sweep.floor_db == 23.0


@pytest.mark.parametrize("change", [{"n_sites": 0}, {"minutes": 1.0}, {"minutes": float("nan")}])
def test_a_study_too_small_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="n_sites"):
        replace(SkyStudy(), **change)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_same_study_gives_the_same_figures(figures: SkyFigures, cache: Path) -> None:
    assert calibrate_sky(TINY, biases_m=(0.0, 6.0), cache_dir=cache) == figures
    other = calibrate_sky(replace(TINY, seed=2), biases_m=(), cache_dir=cache)
    assert other.sites != figures.sites


def test_every_predictor_is_scored_on_both_splits(figures: SkyFigures) -> None:
    (site,) = figures.sites
    assert site.n_samples == 600 - site.n_flights  # the first frame of a flight has none before it
    for split in SPLITS:
        assert set(site.scores[split]) == set(PREDICTORS)
        for predictor in PREDICTORS:
            top1, top3 = (figures.top(split, predictor, k)[0] for k in (1, 3))
            assert 0.0 <= top1 <= top3 <= 1.0
    assert figures.persistence(1)[0] == site.persistence[0] > figures.persistence(10)[0]
    assert [point.bias_m for point in figures.noise] == [0.0, 6.0]


def test_only_the_gps_differs_where_its_error_does(cache: Path) -> None:
    first, other = (cached_recording(TINY.section(bias_m), TINY.seed, cache) for bias_m in (None, 6.0))
    with RecordingReader(first) as one, RecordingReader(other) as two:
        here, there = one.base_stations[0], two.base_stations[0]
        for name in ("camera", "rf", "best_beam", "sequence"):
            assert_array_equal(here.read(name), there.read(name))
        assert not np.array_equal(here.read("gps"), there.read("gps"))
        samples = SkySamples(windows_of(here, ("gps", "camera"), 32))
        moved = samples.with_fixes(windows_of(there, ("gps",), 32))
        assert moved.image is samples.image
        assert not np.array_equal(moved.fix.numpy(), samples.fix.numpy())
        with pytest.raises(DataError, match="another flight"):
            samples.with_fixes(windows_of(there, ("gps",), 16))


def windows_of(station: RecordedStation, modalities: tuple[Modality, ...], n_beams: int) -> BeamWindows:
    return beam_windows(SensedFrames.of(station, modalities, color=True, keep_powers=True), modalities, n_beams)


def made_up() -> SkyFigures:
    scores = {name: BeamScores(0.9 - 0.1 * place, 0.95, 1.0) for place, name in enumerate(PREDICTORS)}
    site = SiteFigures(dict.fromkeys(SPLITS, scores), (0.8, 0.6, 0.5, 0.4), 100, 5)
    points = tuple(NoisePoint(bias_m, dict.fromkeys(PREDICTORS, 0.5)) for bias_m in (0.0, 1.5))
    return SkyFigures(SkyStudy(), (site, site), points)


def test_tables_put_published_figures_beside_ours() -> None:
    console = Console(width=160, record=True, file=StringIO())
    print_sky_figures(console, made_up())
    text = console.export_text()
    for part in ("90.0 ± 0.0", "87.8, 86.0", "GPS neighbors", "39.9", "82.0", "RTK"):
        assert part in text


def test_the_figure_shows_both_splits_and_the_noise(tmp_path: Path) -> None:
    figure = draw_sky_figures(made_up())
    assert [ax.get_title() for ax in figure.axes] == [
        "random split (leaks)",
        "whole flights held out",
        "whole flights held out, over GPS error",
    ]
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_command_studies_prints_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def calibrate(study: SkyStudy, **_: object) -> SkyFigures:
        asked.append(study)
        return made_up()

    monkeypatch.setattr(sky, "calibrate_sky", calibrate)
    app = typer.Typer()
    app.command()(calibrate_sky_command)
    picture = tmp_path / "[beams].png"
    result = CliRunner().invoke(app, ["--sites", "2", "--minutes", "12", "--seed", "5", "--plot", str(picture)])
    assert result.exit_code == 0, result.output
    assert asked == [SkyStudy(2, 12.0, 5)]
    assert "best of 32 beams" in result.output
    assert f"wrote {picture}" in result.output
    assert picture.is_file()


def test_a_picture_is_a_png_under_the_name_that_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sky, "calibrate_sky", lambda *_, **__: made_up())
    calibrate_sky_command(plot=tmp_path / "beams")
    assert [path.name for path in tmp_path.iterdir()] == ["beams"]
    assert (tmp_path / "beams").read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize("command", [calibrate_sky_command, street])
@pytest.mark.parametrize(
    ("plot", "said"),
    [
        ("nowhere/beams.png", r"--plot .*beams\.png lies in a folder that does not exist; make .*nowhere first"),
        (".", r"--plot .* is a folder; name a file in it, such as .*calibration\.png"),
        ("beams.pdf", r"--plot .*beams\.pdf must end in \.png, because pictures are PNG, got \.pdf"),
    ],
)
def test_a_picture_that_cannot_be_is_refused_before_a_study(
    command: Callable[..., None], plot: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("a study began")

    monkeypatch.setattr(sky, "calibrate_sky", never)
    monkeypatch.setattr(street_calibration, "calibrate_street", never)
    with pytest.raises(ConfigError, match=said):
        command(plot=tmp_path / plot)
    assert not list(tmp_path.iterdir())

"""Samples, scores and tables of the street calibration; what it finds is tested in tests/physics."""

from __future__ import annotations

import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.sensor_windows import blockage_windows
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.scenarios.calibration.calibration_pictures import draw_street_calibration
from sheafedge.scenarios.calibration.published_figures import PUBLISHED_BLOCKAGE
from sheafedge.scenarios.calibration.street_calibration import (
    StreetCalibration,
    WarningCurve,
    calibrate_street,
    site_scores,
)
from sheafedge.scenarios.calibration.street_figures import event_lengths, street_figures
from sheafedge.scenarios.calibration.street_models import ReferenceSettings, predictions_of, trained_network
from sheafedge.scenarios.calibration.street_trees import TreeSettings, tree_predictions
from sheafedge.scenarios.calibration.warning_samples import PooledSamples, SiteSamples, frames_ahead, site_samples
from sheafedge.scenarios.recording.pictures import save_picture
from sheafedge.scenarios.recording.recording_cache import cached_recording
from sheafedge.scenarios.recording.world_file import WorldFile, parse_world
from sheafedge.scenarios.schema.world_section import SweepSection, WorldSection
from sheafedge.scenarios.terminal import cli
from sheafedge.scenarios.terminal.calibration_console import print_street_calibration

SEED = 5
SECTION = WorldSection(n_sites=2, duration_s=150.0)
QUICK = ReferenceSettings(width=0.05, embedding_dim=4, n_steps=4, batch_size=16)
LENGTH, HORIZON = 16, 10


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def recording(cache: Path) -> Path:
    return cached_recording(SECTION, SEED, cache)


@pytest.fixture(scope="module")
def sites(recording: Path) -> list[tuple[SiteSamples, SiteSamples]]:
    with RecordingReader(recording) as reader:
        return [site_samples(station, "rf", LENGTH, HORIZON, 0.3) for station in reader.base_stations]


def test_the_next_blocked_frame_is_counted_from_the_one_after_now() -> None:
    blocked = np.array([0, 1, 0, 0, 1, 0, 0, 0, 0], dtype=bool)
    assert frames_ahead(blocked, np.arange(6), 3).tolist() == [1, 3, 2, 1, 4, 4]


def test_frames_ahead_give_the_label_of_every_horizon(
    recording: Path, sites: list[tuple[SiteSamples, SiteSamples]]
) -> None:
    with RecordingReader(recording) as reader:
        for horizon in (1, 5, 10):
            windows = blockage_windows(SensedFrames.of(reader.base_stations[0], ["rf"]), ["rf"], LENGTH, horizon)
            for side in sites[0]:
                same = np.isin(windows.end, side.windows.end)
                np.testing.assert_array_equal(windows.label[same], side.frames_ahead <= horizon)


def test_no_frame_is_looked_at_in_training_and_asked_about_later(sites: list[tuple[SiteSamples, SiteSamples]]) -> None:
    for train, test in sites:
        assert train.windows.end.max() + HORIZON < test.windows.end.min() - LENGTH + 1


def test_windows_that_are_clear_now_are_all_of_them_and_no_other(sites: list[tuple[SiteSamples, SiteSamples]]) -> None:
    train, _ = sites[0]
    clear = train.clear_now()
    assert not clear.windows.blocked_now.any()
    assert len(clear) == (~train.windows.blocked_now).sum()
    at = np.searchsorted(train.windows.end, clear.windows.end)
    np.testing.assert_array_equal(clear.frames_ahead, train.frames_ahead[at])


def test_half_of_a_batch_comes_before_a_blockage_and_inputs_keep_their_order(
    sites: list[tuple[SiteSamples, SiteSamples]],
) -> None:
    pool = PooledSamples.of([train for train, _ in sites])
    members = pool.balanced(30, np.random.default_rng(1))
    assert (pool.frames_ahead[members] <= HORIZON).sum() == 15
    assert set(pool.site[members]) == {0, 1}
    for row, member in zip(pool.inputs(members), members, strict=True):
        site = pool.sites[pool.site[member]]
        np.testing.assert_array_equal(row, site.inputs(pool.sample[[member]])[0])
    assert pool.blocked_share(HORIZON) == 0.5
    assert 0.0 < pool.blocked_share(1) < pool.blocked_share(5) < 0.5


def test_shuffling_moves_labels_and_nothing_else(sites: list[tuple[SiteSamples, SiteSamples]]) -> None:
    pool = PooledSamples.of([train for train, _ in sites])
    shuffled = pool.shuffled(np.random.default_rng(1))
    assert sorted(shuffled.frames_ahead) == sorted(pool.frames_ahead)
    assert (shuffled.frames_ahead != pool.frames_ahead).any()
    assert shuffled.sites is pool.sites


def test_a_pool_without_any_blockage_is_refused(sites: list[tuple[SiteSamples, SiteSamples]]) -> None:
    train, _ = sites[0]
    never = SiteSamples(train.windows, np.full(len(train), HORIZON + 1))
    with pytest.raises(DataError, match=r"0 of .* training windows end within 10 frames of a blockage.*record longer"):
        PooledSamples.of([never])


def test_scores_are_right_for_who_knows_and_even_for_who_always_warns(
    sites: list[tuple[SiteSamples, SiteSamples]],
) -> None:
    _, test = sites[0]
    horizons = (1, 10)
    knows = test.frames_ahead[:, None] <= np.array(horizons)
    assert site_scores(knows, test, horizons) == (1.0, 1.0)
    assert site_scores(~knows, test, horizons) == (0.0, 0.0)
    assert site_scores(np.ones_like(knows), test, horizons) == (0.5, 0.5)
    never = SiteSamples(test.windows, np.full(len(test), 11))
    with pytest.raises(DataError, match=r"no held-out window with a blockage within 1 frames.*record longer"):
        site_scores(knows, never, horizons)


def test_a_network_is_the_same_for_a_seed_and_another_for_another(
    sites: list[tuple[SiteSamples, SiteSamples]],
) -> None:
    pool = PooledSamples.of([train for train, _ in sites])
    one, again, other = (
        [value.sum().item() for value in trained_network("rf", pool, (1, 5), QUICK, seed).state_dict().values()]
        for seed in (1, 1, 2)
    )
    assert one == again
    assert one != other


def test_power_is_learned_where_it_decides(sites: list[tuple[SiteSamples, SiteSamples]]) -> None:
    """Over all windows the network sees at least what is blocked already."""
    pool = PooledSamples.of([train for train, _ in sites])
    settings = ReferenceSettings(n_steps=60, batch_size=32)
    network = trained_network("rf", pool, (1, 10), settings, SEED)
    scores = [site_scores(predictions_of(network, test), test, (1, 10)) for _, test in sites]
    assert np.mean(scores, axis=0)[0] > 0.7


def test_blocked_stretches_are_measured_to_the_ends_of_the_recording() -> None:
    assert event_lengths(np.array([1, 1, 0, 1, 0, 0, 1, 1, 1], dtype=bool)).tolist() == [2, 1, 3]
    assert event_lengths(np.zeros(4, dtype=bool)).tolist() == []


def test_figures_without_learning_come_from_the_recording(recording: Path) -> None:
    figures = street_figures(recording)
    with RecordingReader(recording) as reader:
        blocked = [station.read("blocked_geometric") for station in reader.base_stations]
    assert figures.blocked_share == pytest.approx(np.mean([one.mean() for one in blocked]))
    assert figures.n_events == sum(len(event_lengths(one)) for one in blocked)
    assert figures.vehicle_fall_db > 10.0
    assert figures.lowest_share <= figures.blocked_share <= figures.highest_share


@pytest.fixture(scope="module")
def calibration(cache: Path, recording: Path) -> StreetCalibration:
    return calibrate_street(
        SECTION, SEED, sensors=("rf", "lidar"), protocols=("clear now", "all"), settings=QUICK, cache_dir=cache
    )


def test_every_sensor_and_baseline_has_a_curve_of_every_protocol(calibration: StreetCalibration) -> None:
    found = {(curve.predictor, curve.protocol) for curve in calibration.curves}
    predictors = ("rf", "lidar", "persistence", "majority")
    assert found == {(predictor, protocol) for predictor in predictors for protocol in ("clear now", "all")}
    for curve in calibration.curves:
        assert len(curve.by_site) == SECTION.n_sites
        assert all(0.0 <= score <= 1.0 for row in curve.by_site for score in row)
    assert calibration.curve("persistence").mean(1) == 0.5  # nothing is blocked now
    assert calibration.curve("persistence", "all").mean(1) > 0.8
    with pytest.raises(ConfigError, match="no curve of 'camera'"):
        calibration.curve("camera")


def test_trees_are_a_second_learner_beside_the_networks(cache: Path, recording: Path) -> None:
    pytest.importorskip("sklearn")
    few = TreeSettings(n_iterations=30)
    found = calibrate_street(
        SECTION, SEED, sensors=("rf",), horizons=(1, 10), settings=QUICK, trees=few, cache_dir=cache
    )
    by_trees = found.curve("rf", learner="trees")
    assert by_trees.mean(1) > by_trees.mean(10) > 0.5
    assert by_trees.mean(1) > 0.65  # while networks of four batches have learned nothing
    screen = StringIO()
    print_street_calibration(Console(file=screen, width=80), found)
    assert all(part in screen.getvalue() for part in ("trees", f"{100 * by_trees.mean(1):.1f}±"))


def test_trees_without_scikit_learn_are_left_out_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, sites: list[tuple[SiteSamples, SiteSamples]]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(ConfigError, match=r"scikit-learn is not installed; run: pip install 'sheafedge\[examples\]'"):
        tree_predictions("rf", sites, (1,), TreeSettings(), SEED)


def test_mean_and_spread_are_over_base_stations() -> None:
    curve = WarningCurve("lidar", "clear now", (1, 10), ((1.0, 0.5), (0.8, 0.7)))
    assert (curve.mean(1), curve.spread(1)) == pytest.approx((0.9, 0.1))
    assert (curve.mean(10), curve.spread(10)) == pytest.approx((0.6, 0.1))


def test_the_table_shows_published_figures_beside_ours(calibration: StreetCalibration) -> None:
    screen = StringIO()
    print_street_calibration(Console(file=screen, width=80), calibration)
    text = screen.getvalue()
    ours = calibration.curve("lidar")
    assert f"{100 * ours.mean(1):.1f}±{100 * ours.spread(1):.0f}" in text
    assert all(part in text for part in ("92.6", "(88-96)", "51.1", "(45-59)"))
    assert f"seed {SEED}, 2 base stations" in text


def test_the_picture_has_a_line_per_sensor_and_a_marker_per_published_figure(
    calibration: StreetCalibration, tmp_path: Path
) -> None:
    figure = draw_street_calibration(calibration)
    assert isinstance(figure, Figure)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    np.testing.assert_allclose(
        lines["LiDAR"].get_ydata(), [100 * calibration.curve("lidar").mean(h) for h in (1, 2, 3, 5, 7, 10)]
    )
    assert "camera" not in lines  # was not asked for
    assert len(figure.axes[0].containers) == sum(len(shares) for shares in PUBLISHED_BLOCKAGE.values())
    save_picture(figure, tmp_path / "street.png")
    assert (tmp_path / "street.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_published_figures_keep_their_times_where_a_world_has_other_frames(calibration: StreetCalibration) -> None:
    """At 20 Hz the second frame is a tenth of a second ahead, and the first one has no published figure."""
    fast = replace(calibration, rate_hz=20.0)
    screen = StringIO()
    print_street_calibration(Console(file=screen, width=120), fast)
    lines = screen.getvalue().splitlines()
    heading = next(line for line in lines if "horizon" in line)
    published = next(line for line in lines if "92.6" in line)
    for time, share in ((" 0.1 s", "92.6"), (" 0.5 s", "90.7")):
        assert heading.index(time) + len(time) == published.index(share) + len(share)
    assert "84.4" not in screen.getvalue()  # a second, which is none of the horizons
    (ax,) = draw_street_calibration(fast).axes
    places_s = sorted(container[0].get_xdata()[0] for container in ax.containers)
    wanted_s = sorted(horizon_s for shares in PUBLISHED_BLOCKAGE.values() for horizon_s in shares)
    np.testing.assert_allclose(places_s, wanted_s, atol=0.02)  # markers stand a little beside each other
    lowest_s, highest_s = ax.get_xlim()
    assert lowest_s < 0.05
    assert highest_s > 1.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "sky"}, 'got world.kind = "sky"'),
        ({"user": "car"}, 'world.user = "car"'),
        ({"sensors": ["rf"]}, "world.sensors lacks lidar"),
    ],
)
def test_worlds_that_cannot_be_calibrated_are_refused_at_once(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        calibrate_street(WorldSection.model_validate(change), 0)


def test_no_sensor_is_refused() -> None:
    with pytest.raises(ConfigError, match="name at least one"):
        calibrate_street(SECTION, 0, sensors=())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "world.kind=sky"], "world.kind=street"),
        (["--plot", "no such folder/street.png"], "lies in a folder that does not exist; make no such folder first"),
        (["--set", "world.sites=3"], "world.sites is not a known field"),
        (["--sites", "0"], "world.n_sites"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_sentence(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["sheafedge", "calibrate", "street", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_streets_start_from_their_own_sweep_and_what_is_said_counts() -> None:
    street, sky = (WorldSection.model_validate({"kind": kind}) for kind in ("street", "sky"))
    assert (street.sweep.n_snapshots, street.sweep.floor_db) == (street.sweep.n_subcarriers, 23.0)
    assert sky.sweep == SweepSection()
    said = WorldSection.model_validate({"sweep": {"n_snapshots": 8}})
    assert (said.sweep.n_snapshots, said.sweep.floor_db) == (8, 23.0)
    assert parse_world(WorldFile(said, 0).text(), "a text").section == said
    assert WorldSection(sweep=SweepSection()).sweep == SweepSection()

"""Baselines and the scoring that they share with models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.baselines import majority_predictions, persistence_predictions
from sheafedge.datasets.deepsense.deepsense_rows import load_deepsense_rows
from sheafedge.datasets.scores import BeamScores, score_ranking
from sheafedge.datasets.splits.partition import assign_clients, partition
from sheafedge.datasets.windows.drive_bys import Recording
from sheafedge.datasets.windows.sensor_windows import BeamWindows
from sheafedge.datasets.windows.track_windows import tracking_windows
from sheafedge.emulator.contracts import DataError


def windows_with_beams(beams: list[int], n_beams: int) -> BeamWindows:
    powers = np.full((len(beams), n_beams), 0.01)
    powers[np.arange(len(beams)), beams] = 1.0
    sequence = np.zeros(len(beams), dtype=np.int64)
    return tracking_windows(Recording("street", np.zeros((len(beams), 2)), powers, sequence), 1)


def test_scores_of_a_hand_made_example() -> None:
    powers = np.array([[1.0, 0.5, 0.1, 0.01], [0.1, 1.0, 0.2, 0.01], [0.2, 0.1, 0.01, 1.0], [0.5, 0.1, 0.2, 1.0]])
    ranking = np.array([[0, 1, 2, 3], [2, 1, 0, 3], [2, 1, 3, 0], [2, 1, 0, 3]])
    scores = score_ranking(ranking, powers.argmax(axis=1), powers)
    assert (scores.top1, scores.top3) == (1 / 4, 3 / 4)
    # 0 dB, one fifth (6.99 dB), one hundredth (20 dB), one fifth
    assert scores.power_loss_db == pytest.approx((0 + 6.9897 + 20 + 6.9897) / 4, abs=1e-4)


def test_the_best_beams_lose_nothing() -> None:
    powers = np.random.default_rng(2).uniform(0.1, 1, size=(30, 8))
    ranking = np.argsort(-powers, axis=1)
    assert score_ranking(ranking, powers.argmax(axis=1), powers) == BeamScores(1.0, 1.0, 0.0)
    worst = score_ranking(ranking[:, ::-1], powers.argmax(axis=1), powers)
    assert worst.top1 == worst.top3 == 0
    assert worst.power_loss_db > 3


def test_power_loss_is_a_mean_over_the_samples_that_have_powers() -> None:
    powers = np.array([[1.0, 10.0, 5.0], [np.nan] * 3, [2.0, 1.0, 20.0]])
    ranking, labels = np.array([[0, 1, 2]] * 3), np.array([1, 0, 2])
    scores = score_ranking(ranking, labels, powers)
    assert (scores.top1, scores.top3, scores.power_loss_db) == (pytest.approx(1 / 3), 1.0, pytest.approx(10.0))
    without = score_ranking(ranking, labels, np.full((3, 3), np.nan))
    assert (without.top1, without.top3) == (scores.top1, scores.top3)
    assert np.isnan(without.power_loss_db)


@pytest.mark.parametrize(
    ("ranking", "n_labels", "powers"),
    [((0, 3), 0, (0, 8)), ((4, 2), 4, (4, 8)), ((4, 3), 5, (5, 8)), ((4, 3), 4, (5, 8)), ((4,), 4, (4, 8))],
)
def test_shapes_that_do_not_fit_cannot_be_scored(
    ranking: tuple[int, ...], n_labels: int, powers: tuple[int, ...]
) -> None:
    with pytest.raises(DataError, match="cannot score"):
        score_ranking(np.zeros(ranking, dtype=int), np.zeros(n_labels, dtype=int), np.ones(powers))


def test_persistence_ranks_the_last_beam_then_its_neighbors_inside_the_codebook() -> None:
    windows = windows_with_beams([4, 0, 7, 6, 2], n_beams=8)
    assert_array_equal(persistence_predictions(windows), [[4, 5, 3], [0, 1, 2], [7, 6, 5], [6, 7, 5]])
    whole = persistence_predictions(windows, k=8)
    assert_array_equal(np.sort(whole, axis=1), np.tile(np.arange(8), (4, 1)))
    assert_array_equal(whole[3], [6, 7, 5, 4, 3, 2, 1, 0])


def test_persistence_is_right_as_often_as_the_beam_stays() -> None:
    windows = windows_with_beams([3, 3, 3, 4, 4, 9], n_beams=16)
    scores = score_ranking(persistence_predictions(windows), windows.label, windows.powers)
    assert (scores.top1, scores.top3) == (3 / 5, 4 / 5)
    assert scores.power_loss_db == pytest.approx(2 / 5 * 20)


def test_majority_ranks_by_frequency_and_then_by_index() -> None:
    ranking = majority_predictions(np.array([5, 5, 2, 7, 2, 5]), n_test=2, n_beams=8, k=5)
    assert_array_equal(ranking, [[5, 2, 7, 0, 1]] * 2)
    assert_array_equal(majority_predictions(np.array([1, 1, 3, 3]), 1, n_beams=4), [[1, 3, 0]])


@pytest.mark.parametrize(
    ("scenario", "n_windows", "top1", "top3", "power_loss_db"),
    [(1, 2306, 0.436, 0.781, 0.362), (5, 2184, 0.407, 0.729, 0.292), (8, 3711, 0.274, 0.566, 0.591)],
)
def test_persistence_on_all_rows_of_the_real_streets(
    deepsense_root: Path, scenario: int, n_windows: int, top1: float, top3: float, power_loss_db: float
) -> None:
    """A snapshot of these files: another figure means that another row, beam or window is read."""
    windows = tracking_windows(load_deepsense_rows(deepsense_root, scenario), 4)
    scores = score_ranking(persistence_predictions(windows), windows.label, windows.powers)
    assert len(windows) == n_windows
    assert_allclose([scores.top1, scores.top3, scores.power_loss_db], [top1, top3, power_loss_db], atol=6e-4)


def test_persistence_on_held_out_drive_bys_is_as_good_as_the_pilot_found(deepsense_root: Path) -> None:
    """The pilot printed .34 to .37 top-1 and .40 to .46 dB as means over its groups of clients."""
    windows = [tracking_windows(load_deepsense_rows(deepsense_root, s), 4) for s in (1, 5, 8)]
    scores, majority = [], []
    assignment = assign_clients([len(np.unique(samples.sequence)) for samples in windows], 20)
    for client in partition([windows[index] for index in assignment], assignment, np.random.default_rng(0)):
        test = windows[client.recording_index].take(client.test)
        train_labels = windows[client.recording_index].label[client.train]
        scores.append(score_ranking(persistence_predictions(test), test.label, test.powers))
        majority.append(score_ranking(majority_predictions(train_labels, len(test), 64), test.label, test.powers))
    assert 0.32 < np.mean([s.top1 for s in scores]) < 0.40
    assert 0.64 < np.mean([s.top3 for s in scores]) < 0.76
    assert 0.36 < np.mean([s.power_loss_db for s in scores]) < 0.50
    assert np.mean([s.top1 for s in majority]) < 0.15  # no beam dominates a street

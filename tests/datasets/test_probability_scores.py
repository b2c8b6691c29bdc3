"""Scores of probabilities, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sheafedge.datasets.probability_scores import brier_score, calibration_error, log_loss

RNG = np.random.default_rng(0)


def test_sure_and_right_is_best_and_sure_and_wrong_is_worst() -> None:
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert (brier_score(sure, np.array([0, 1])), brier_score(sure, np.array([1, 0]))) == (0.0, 2.0)
    assert (calibration_error(sure, np.array([0, 1])), calibration_error(sure, np.array([1, 0]))) == (0.0, 1.0)
    assert log_loss(sure, np.array([0, 1])) == 0.0


def test_scores_by_hand() -> None:
    probabilities, labels = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]), np.array([0, 1])
    assert brier_score(probabilities, labels) == pytest.approx((0.16 + 0.09 + 0.01 + 0.04 + 0.64 + 0.36) / 2)
    # both are in the bin of 0.6, of which half came true
    assert calibration_error(probabilities, labels) == pytest.approx(0.1)
    assert log_loss(probabilities, labels) == pytest.approx(-(np.log(0.6) + np.log(0.2)) / 2)


def test_true_probabilities_have_nearly_no_calibration_error_and_overstated_ones_do() -> None:
    truth = RNG.uniform(0.5, 1.0, 20_000)
    labels = (RNG.random(20_000) < truth).astype(np.int64)
    stated = np.stack([1.0 - truth, truth], axis=1)
    overstated = np.stack([(1.0 - truth) ** 3, 1.0 - (1.0 - truth) ** 3], axis=1)
    assert calibration_error(stated, labels) < 0.015
    assert calibration_error(overstated, labels) > 0.1

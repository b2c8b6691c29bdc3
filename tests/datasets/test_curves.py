"""Curves behind scores, against cases worked out by hand and definitions written another way."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.datasets.curves import (
    MOST_POINTS,
    confusion_counts,
    lead_times,
    reliability,
    residual_histogram,
    roc,
    value_calibration,
)

ROUNDING = 1e-12


def test_rows_of_a_confusion_are_right_classes_and_columns_chosen_ones() -> None:
    chosen, labels = np.array([2, 0, 2, 2]), np.array([0, 0, 2, 1])
    assert confusion_counts(chosen, labels, 3) == [[1, 0, 1], [0, 0, 1], [0, 0, 1]]


def test_a_roc_passes_equal_scores_together() -> None:
    found = roc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    assert found == {"fpr": [0.0, 0.0, 0.5, 1.0], "tpr": [0.0, 0.5, 1.0, 1.0], "auc": 0.875}


def test_the_area_is_the_share_of_pairs_in_the_right_order_also_of_a_thinned_curve() -> None:
    draws = np.random.default_rng(4)
    positive = draws.random(2000) < 0.3
    scores = np.round(draws.normal(size=2000) + positive, 2)  # rounded: some are equal
    found = roc(scores, positive)
    assert found is not None
    higher = scores[positive][:, None] - scores[~positive]
    assert found["auc"] == pytest.approx((higher > 0).mean() + 0.5 * (higher == 0).mean(), abs=ROUNDING)
    assert len(found["fpr"]) == len(found["tpr"]) == MOST_POINTS
    assert (found["fpr"][0], found["tpr"][0], found["fpr"][-1], found["tpr"][-1]) == (0.0, 0.0, 1.0, 1.0)
    assert (np.diff(found["fpr"]) >= 0.0).all()


@pytest.mark.parametrize("answer", [True, False])
def test_there_is_no_roc_without_both_answers(answer: bool) -> None:
    assert roc(np.array([0.1, 0.2]), np.array([answer, answer])) is None


def test_reliability_has_one_entry_per_bin_with_samples_and_counts_a_certain_answer_in_the_last() -> None:
    found = reliability(np.array([0.02, 0.06, 1.0, 0.95, 0.5]), np.array([False, True, True, False, True]))
    assert_allclose(found["predicted"], [0.04, 0.5, 0.975], atol=ROUNDING)
    assert found["observed"] == [0.5, 1.0, 0.5]
    assert found["n"] == [2, 1, 2]


def test_residuals_are_predicted_less_right_values() -> None:
    found = residual_histogram(np.array([1.0, 2.0, 5.0]), np.array([2.0, 2.0, 2.0]))
    assert (found["edges"][0], found["edges"][-1], len(found["edges"])) == (-1.0, 3.0, 21)
    assert (sum(found["counts"]), found["counts"][0], found["counts"][-1]) == (3, 1, 1)


def test_values_are_calibrated_in_bins_of_as_many_samples_each() -> None:
    predicted = np.arange(30.0)[::-1]
    found = value_calibration(predicted, predicted * 2.0 + 1.0)
    assert found["n"] == [3] * 10
    assert found["predicted"] == [1.0 + 3.0 * index for index in range(10)]
    assert found["observed"] == [2.0 * mean + 1.0 for mean in found["predicted"]]
    assert value_calibration(np.array([1.0, 2.0]), np.array([3.0, 4.0]))["n"] == [1, 1]


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_answers_that_are_not_finite_are_left_out(broken: float) -> None:
    answers, truth = np.array([0.3, broken]), np.array([0.5, 0.5])
    assert reliability(answers, truth > 0.0) == {"predicted": [0.3], "observed": [1.0], "n": [1]}
    assert sum(residual_histogram(answers, truth)["counts"]) == 1
    assert value_calibration(answers, truth) == {"predicted": [0.3], "observed": [0.5], "n": [1]}
    assert value_calibration(answers[1:], truth[1:]) == {"predicted": [], "observed": [], "n": []}


def test_lead_times_have_a_bin_per_frame() -> None:
    found = lead_times(np.array([0.1, 0.1, 0.3]), np.array([True, False, True]), frame_s=0.1, horizon=3)
    assert_allclose(found["edges"], [0.05, 0.15, 0.25, 0.35], atol=ROUNDING)
    assert (found["warned"], found["missed"]) == ([1, 0, 1], [1, 0, 0])

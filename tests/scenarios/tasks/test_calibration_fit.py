"""Temperatures and priors of a bundle: a model that is too sure, or that weighed its classes, is put right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.edge.label_probabilities import label_probabilities
from sheafedge.emulator.edge.manifest import ForecastSpec, OutputSpec
from sheafedge.models.objectives import balanced_weights
from sheafedge.scenarios.tasks.calibration_fit import calibrated, prior_shift, temperature

N = 20_000
CLASSES = OutputSpec("classes", ("a", "b", "c"), "")


def drawn(sure: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are too large by a factor, and labels that came true."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=1.5, size=(N, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn by their softmax
    return (sure * logits).astype(np.float32), labels


@pytest.mark.parametrize("sure", [0.5, 1.0, 4.0])
def test_the_factor_by_which_a_model_is_too_sure_is_found(sure: float) -> None:
    logits, labels = drawn(sure)
    # about 1 / sqrt(N) of it is chance
    assert temperature(CLASSES, logits, labels) == pytest.approx(sure, rel=0.05)


def test_probabilities_of_a_model_that_is_too_sure_get_better_on_samples_that_fitted_nothing() -> None:
    output, scores = calibrated(CLASSES, *drawn(4.0))
    assert scores is not None
    assert output.temperature == pytest.approx(4.0, rel=0.05)
    assert scores.ece_before > 0.1
    assert scores.ece_after < 0.02
    assert scores.brier_after < scores.brier_before
    _, already = calibrated(CLASSES, *drawn(1.0))
    assert already is not None
    assert already.brier_after == pytest.approx(already.brier_before, abs=2e-3)


def test_a_model_of_balanced_weights_says_how_rare_a_class_is_again() -> None:
    rng = np.random.default_rng(1)
    labels = (rng.random(N) < 0.1).astype(np.int64)
    shift = prior_shift(labels, 2, balanced=True)
    assert_allclose(np.diff(shift), -np.diff(np.log(balanced_weights(labels, 2))))
    evidence = np.where(labels == 1, 1.0, -1.0) + rng.normal(scale=1.0, size=N)
    logits = (2.0 * evidence)[:, None].astype(np.float32)  # log likelihood ratio: what balanced training learns
    output, scores = calibrated(OutputSpec("binary", ("no", "yes"), "", prior_shift=shift), logits, labels)
    assert scores is not None
    assert output.temperature == pytest.approx(1.0, rel=0.1)
    assert scores.brier_after < 0.6 * scores.brier_before
    said = [float(label_probabilities(logits, one)[:, 1].mean()) for one in (output, replace(output, prior_shift=()))]
    assert said[0] == pytest.approx(0.1, abs=0.02)
    assert said[1] > 0.2, "without the prior it is said far more often than it is true"


def test_unweighted_training_moves_nothing_and_few_samples_fit_nothing() -> None:
    assert prior_shift(np.array([0, 0, 1]), 2, balanced=False) == ()
    logits, labels = drawn(4.0)
    assert calibrated(CLASSES, logits[:49], labels[:49]) == (CLASSES, None)


def test_a_class_that_training_never_had_is_left_where_it_is() -> None:
    assert prior_shift(np.array([0, 0, 0, 1]), 3, balanced=True)[2] == 0.0


def test_a_forecast_has_one_temperature_and_warns_from_the_same_probability_on() -> None:
    rng = np.random.default_rng(2)
    logits = rng.normal(loc=-2.0, scale=1.5, size=(N // 10, 6))
    labels = (rng.random(logits.shape) < 1.0 / (1.0 + np.exp(-logits))).astype(np.int64)
    spec = ForecastSpec(("own", "neighbor"), (14.0, 8.0), (0.1, 0.2, 0.3), 2)
    threshold = float(np.log(0.1 / 0.9))
    plain = OutputSpec("forecast", ("no", "yes"), "", threshold=threshold, forecast=spec)
    output, scores = calibrated(plain, 3.0 * logits, labels)
    assert scores is not None
    assert output.temperature == pytest.approx(3.0, rel=0.1)
    at_threshold = np.full((1, 6), output.threshold)
    assert label_probabilities(at_threshold, output)[0, 1] == pytest.approx(0.1, abs=1e-9)
    assert scores.ece_after < scores.ece_before
    assert scores.brier_after < scores.brier_before
    odds = 1.0 / (1.0 + np.exp(-3.0 * logits))
    assert scores.brier_before == pytest.approx(float(np.mean((odds - labels) ** 2)))
    assert calibrated(plain, logits[:20], labels[:20]) == (plain, None)

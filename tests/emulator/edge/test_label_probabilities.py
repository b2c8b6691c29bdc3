"""What logits stand for: the label that the scores are of, and probabilities that the manifest corrects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from doubles.bundles import tiny_manifest
from numpy.testing import assert_allclose
from sheafedge.emulator.edge.label_probabilities import (
    decided_labels,
    forecast_probabilities,
    label_probabilities,
)
from sheafedge.emulator.edge.manifest import OutputSpec

BINARY = tiny_manifest().output


def one(logits: np.ndarray, output: OutputSpec) -> tuple[int, np.ndarray]:
    """Label and probabilities of one answer."""
    return int(decided_labels(logits, output)[0]), label_probabilities(logits, output)[0]


def test_probabilities_are_those_of_the_logits() -> None:
    binary, classes = BINARY, tiny_manifest(kind="classes").output
    for logit in (-800.0, -1.0, 0.0, 2.5, 800.0):
        label, probabilities = one(np.array([[logit]]), binary)
        assert label == int(logit > 0)
        assert probabilities[1] == pytest.approx(1 / (1 + np.exp(-logit)) if abs(logit) < 100 else float(logit > 0))
    logits = np.array([1000.0, 999.0, *[-1000.0] * 6])
    label, probabilities = one(logits[None], classes)
    assert label == 0
    assert probabilities[:2] == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))])
    assert probabilities.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("threshold", "labels"), [(0.0, [0, 1, 1]), (2.0, [0, 0, 1]), (-2.0, [1, 1, 1])])
def test_a_threshold_decides_the_label_and_not_the_probability(threshold: float, labels: list[int]) -> None:
    output = replace(BINARY, threshold=threshold)
    decisions = [one(np.array([[logit]]), output) for logit in (-1.0, 1.0, 3.0)]
    assert [label for label, _ in decisions] == labels
    assert [shares[1] for _, shares in decisions] == pytest.approx([1 / (1 + np.exp(-x)) for x in (-1.0, 1.0, 3.0)])


def test_weights_of_the_loss_are_taken_out_of_the_probabilities() -> None:
    """A model that learned p(c) w_c says p(c) again."""
    truth, weights = np.array([0.7, 0.2, 0.1]), np.array([0.5, 2.0, 4.0])
    output = OutputSpec("classes", ("a", "b", "c"), "", prior_shift=tuple(-np.log(weights)))
    assert_allclose(label_probabilities(np.log(truth * weights)[None], output), truth[None], atol=1e-12)
    binary = replace(BINARY, prior_shift=tuple(-np.log(weights[:2])))
    logit = np.log(0.2 * 2.0) - np.log(0.8 * 0.5)
    assert_allclose(label_probabilities(np.array([[logit]]), binary), [[0.8, 0.2]], atol=1e-12)


def test_a_temperature_makes_answers_less_sure_and_changes_no_label() -> None:
    logits = np.random.default_rng(0).normal(size=(50, 3))
    output = OutputSpec("classes", ("a", "b", "c"), "")
    hot = replace(output, temperature=3.0)
    assert (decided_labels(logits, hot) == decided_labels(logits, output)).all()
    assert (label_probabilities(logits, hot).max(axis=1) < label_probabilities(logits, output).max(axis=1)).all()


def test_every_time_of_a_forecast_has_a_probability_of_its_own() -> None:
    output = tiny_manifest(kind="forecast").output
    logits = np.random.default_rng(1).normal(size=(5, 6))
    found = forecast_probabilities(logits, output)
    assert list(found) == ["own", "neighbor"]
    odds = 1 / (1 + np.exp(-logits / 2.0))  # its temperature
    assert_allclose(found["own"], odds[:, :3], atol=1e-12)
    assert_allclose(found["neighbor"], odds[:, 3:], atol=1e-12)
    assert forecast_probabilities(np.zeros((1, 1)), BINARY) == {}


def test_a_forecast_warns_of_the_first_times_of_the_first_series_alone() -> None:
    """Two of three times; the third, and the neighbor, may say what they want."""
    output = replace(tiny_manifest(kind="forecast").output, threshold=-1.0)
    for logits, label, logit in (
        ([-3.0, -0.5, 9.0, 9.0, 9.0, 9.0], 1, -0.5),
        ([-2.0, -4.0, 9.0, 9.0, 9.0, 9.0], 0, -2.0),
        ([2.0, -4.0, -9.0, -9.0, -9.0, -9.0], 1, 2.0),
    ):
        decided, probabilities = one(np.array([logits]), output)
        assert decided == label
        assert probabilities[1] == pytest.approx(1 / (1 + np.exp(-logit / 2.0)))
        assert probabilities.sum() == pytest.approx(1.0)

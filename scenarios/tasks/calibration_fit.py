"""Probabilities that hold what they say: weights of training undone, and a temperature fitted on held-out samples.

A temperature moves no decision, so that held-out samples can fit it and still score decisions. Scores of the
probabilities themselves are of the half of the samples, in time, that their temperature was not fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.curves import expected_calibration_error
from ...datasets.probability_scores import brier_score, calibration_error, log_loss
from ...emulator.contracts import Labels
from ...emulator.edge.label_probabilities import forecast_probabilities, label_probabilities
from ...emulator.edge.manifest import OutputKind, OutputSpec
from ...models.objectives import balanced_weights
from .task_spec import Outputs

#: Between a model of which nothing is believed, and one that is believed far more than it says.
LOWEST, HIGHEST = 0.05, 20.0
#: Fewer held-out samples fit nothing.
FEWEST = 50
_STEPS = 60  # of a golden section: far finer than a temperature is known
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True)
class CalibrationScores:
    """Scores of probabilities on held-out samples; `before` are those of the softmax of plain logits.

    Attributes:
        ece_before, ece_after: expected calibration error of the most probable label; of a forecast the largest of all
            outputs, of the probability of outage.
        brier_before, brier_after: Brier score; of a forecast the mean over outputs of that of outage alone, which is
            half of the score over both labels.
        samples: number of samples.
    """

    ece_before: float
    ece_after: float
    brier_before: float
    brier_after: float
    samples: int

    def as_metrics(self) -> dict[str, float | int | dict[str, float]]:
        """`Manifest.metrics["calibration"]`."""
        return {
            "samples": self.samples,
            "ece": {"before": self.ece_before, "after": self.ece_after},
            "brier": {"before": self.brier_before, "after": self.brier_after},
        }


def prior_shift(train_labels: NDArray[np.int64], n_labels: int, *, balanced: bool) -> tuple[float, ...]:
    """What weights in the loss added to the logits of every label, with the sign turned; empty: there were none.

    A model whose loss weighs label c by w_c learns p(c) w_c; log w_c is taken away again.

    Args:
        train_labels: [n] labels of the client's own training samples.
        n_labels: number of labels.
        balanced: whether training weighed classes.
    """
    if not balanced:
        return ()
    return tuple(float(one) for one in -np.log(balanced_weights(train_labels, n_labels)))


def label_output(outputs: Outputs, train_labels: Labels, *, balanced: bool) -> OutputSpec:
    """Meaning of the logits of a client's model, with the prior shift of its training and temperature 1.

    Args:
        outputs: of the task, with labels.
        train_labels: [n] labels of the client's own training samples.
        balanced: whether training weighed classes.
    """
    shift = prior_shift(train_labels.astype(np.int64), len(outputs.labels), balanced=balanced)
    kind: OutputKind = "binary" if outputs.n == 1 else "classes"
    return OutputSpec(kind, outputs.labels, outputs.meaning, prior_shift=shift)


def calibrated(
    output: OutputSpec, logits: NDArray[np.floating[Any]], labels: NDArray[np.int64]
) -> tuple[OutputSpec, CalibrationScores | None]:
    """The same output with a temperature, and scores of its probabilities; None: too few samples, temperature 1.

    The threshold of a forecast moves with the temperature: the probability from which on it warns stays.

    Args:
        output: with its prior shift.
        logits: [n, n_outputs] about held-out samples, in the order of time.
        labels: [n] that came true; of a forecast [n, n_outputs] 1 where there was outage.
    """
    if len(labels) < FEWEST:
        return output, None
    halves = np.array_split(np.arange(len(labels)), 2)
    plain = _stated(replace(output, temperature=1.0, prior_shift=()), logits)
    crossed = np.empty_like(plain)
    for fitted, scored in (halves, reversed(halves)):
        other = replace(output, temperature=temperature(output, logits[fitted], labels[fitted]))
        crossed[scored] = _stated(other, logits[scored])
    (ece_before, brier_before), (ece_after, brier_after) = (_errors(output, one, labels) for one in (plain, crossed))
    scores = CalibrationScores(ece_before, ece_after, brier_before, brier_after, len(labels))
    fitted_to_all = temperature(output, logits, labels)
    if output.forecast is not None:  # a warning is one of a probability, and no class that training weighed
        output = replace(output, threshold=output.threshold * fitted_to_all)
    return replace(output, temperature=fitted_to_all), scores


def _stated(output: OutputSpec, logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """[n, n_labels] probabilities of all labels; of a forecast [n, n_outputs] those of outage."""
    if output.forecast is None:
        return label_probabilities(logits, output)
    return np.concatenate([*forecast_probabilities(logits, output).values()], axis=1)


def _errors(output: OutputSpec, stated: NDArray[np.float64], labels: NDArray[np.int64]) -> tuple[float, float]:
    """Expected calibration error and Brier score, see `CalibrationScores`."""
    if output.forecast is None:
        return calibration_error(stated, labels), brier_score(stated, labels)
    worst = max(expected_calibration_error(stated[:, k], labels[:, k] == 1) for k in range(stated.shape[1]))
    return worst, float(np.mean((stated - labels) ** 2))


def temperature(output: OutputSpec, logits: NDArray[np.floating[Any]], labels: NDArray[np.int64]) -> float:
    """The temperature of the smallest log loss, within `LOWEST` and `HIGHEST`; arguments as of `calibrated`.

    The loss is convex in 1 / temperature, so that it has one minimum in log temperature too.
    """

    def loss(log_temperature: float) -> float:
        stated = _stated(replace(output, temperature=float(np.exp(log_temperature))), logits)
        if output.forecast is None:
            return log_loss(stated, labels)
        return log_loss(np.stack([1.0 - stated.ravel(), stated.ravel()], axis=1), labels.ravel())

    low, high = np.log(LOWEST), np.log(HIGHEST)
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return round(float(np.exp(0.5 * (low + high))), 6)

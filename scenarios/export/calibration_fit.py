"""Probabilities that hold what they say: weights of training undone, and a temperature fitted on held-out samples.

A temperature moves no decision, so that held-out samples can fit it and still score decisions. Scores of the
probabilities themselves are of the half of the samples, in time, that their temperature was not fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...datasets.probability_scores import brier_score, calibration_error, log_loss
from ...emulator.edge.label_probabilities import label_probabilities
from ...emulator.edge.manifest import OutputSpec
from ...models.objectives import balanced_weights

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
        ece_before, ece_after: expected calibration error of the most probable label.
        brier_before, brier_after: Brier score.
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


def calibrated(
    output: OutputSpec, logits: NDArray[np.float32], labels: NDArray[np.int64]
) -> tuple[OutputSpec, CalibrationScores | None]:
    """The same output with a temperature, and scores of its probabilities; None: too few samples, temperature 1.

    Args:
        output: with its prior shift.
        logits: [n, n_outputs] about held-out samples, in the order of time.
        labels: [n] that came true.
    """
    if len(labels) < FEWEST:
        return output, None
    halves = np.array_split(np.arange(len(labels)), 2)
    crossed = np.empty((len(labels), len(output.labels)))
    for fitted, scored in (halves, reversed(halves)):
        other = replace(output, temperature=temperature(output, logits[fitted], labels[fitted]))
        crossed[scored] = label_probabilities(logits[scored], other)
    plain = label_probabilities(logits, replace(output, temperature=1.0, prior_shift=()))
    scores = CalibrationScores(
        calibration_error(plain, labels),
        calibration_error(crossed, labels),
        brier_score(plain, labels),
        brier_score(crossed, labels),
        len(labels),
    )
    return replace(output, temperature=temperature(output, logits, labels)), scores


def temperature(output: OutputSpec, logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """The temperature of the smallest log loss, within `LOWEST` and `HIGHEST`.

    The loss is convex in 1 / temperature, so that it has one minimum in log temperature too.
    """

    def loss(log_temperature: float) -> float:
        made = replace(output, temperature=float(np.exp(log_temperature)))
        return log_loss(label_probabilities(logits, made), labels)

    low, high = np.log(LOWEST), np.log(HIGHEST)
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return round(float(np.exp(0.5 * (low + high))), 6)

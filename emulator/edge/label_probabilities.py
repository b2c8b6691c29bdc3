"""From logits to labels and probabilities, as the manifest says; numpy alone, for servers and those who measure them.

Training may weigh classes, which moves the logits by the logarithm of the weights. `OutputSpec.prior_shift` undoes
that, and `OutputSpec.temperature` how sure of itself the model became:

    probabilities = softmax(logits / temperature + prior_shift)

and of a binary model the logistic function of logit / temperature + prior_shift[1] - prior_shift[0]. Labels are chosen
by the logits alone, as in the scores of the manifest: weights say what a mistake costs, probabilities do not.

Every logit of a forecast is one of yes or no, see `ForecastSpec`. Its label is a warning, and the probability of that
is the largest of the times that are warned of: outage at any of them is at least as likely.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .manifest import OutputSpec


def decided_labels(logits: NDArray[np.floating[Any]], output: OutputSpec) -> NDArray[np.int64]:
    """[n] numbers of the labels that logits [n, n_outputs] stand for."""
    if output.kind == "classes":
        return np.asarray(logits.argmax(axis=1), dtype=np.int64)
    return np.asarray(_warning(logits, output) > output.threshold, dtype=np.int64)


def label_probabilities(logits: NDArray[np.floating[Any]], output: OutputSpec) -> NDArray[np.float64]:
    """[n, n_labels] probabilities of all labels; rows sum to 1.

    >>> output = OutputSpec("binary", ("clear", "blocked"), "blockage", prior_shift=(0.0, float(np.log(0.25))))
    >>> label_probabilities(np.array([[0.0]]), output).tolist()
    [[0.8, 0.2]]

    Args:
        logits: [n, n_outputs] finite.
        output: meaning of the logits.
    """
    scaled = logits.astype(np.float64) / output.temperature
    shift = output.prior_shift or (0.0,) * len(output.labels)
    if output.kind != "classes":
        found = np.empty((len(scaled), 2))
        found[:, 1] = logistic(_warning(scaled, output) + shift[1] - shift[0])
        np.subtract(1.0, found[:, 1], out=found[:, 0])
        return found
    scaled = scaled + np.array(shift)
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))  # the largest is 1, so that none overflows
    probabilities: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def forecast_probabilities(logits: NDArray[np.floating[Any]], output: OutputSpec) -> dict[str, NDArray[np.float64]]:
    """Series -> [n, n_ahead] probability of outage at each of `ForecastSpec.ahead_s`; empty of other kinds.

    >>> from sheafedge.emulator.edge.manifest import ForecastSpec
    >>> spec = ForecastSpec(("own", "neighbor"), (14.0, 8.0), (0.1, 0.2), 1)
    >>> output = OutputSpec("forecast", ("no outage", "outage"), "outage ahead", forecast=spec)
    >>> {name: found.tolist() for name, found in forecast_probabilities(np.zeros((1, 4)), output).items()}
    {'own': [[0.5, 0.5]], 'neighbor': [[0.5, 0.5]]}

    Args:
        logits: [n, n_outputs] finite.
        output: meaning of the logits.
    """
    if output.forecast is None:
        return {}
    odds = logistic(logits.astype(np.float64) / output.temperature)
    by_series = odds.reshape(len(odds), len(output.forecast.series), -1)
    return {name: by_series[:, index] for index, name in enumerate(output.forecast.series)}


def _warning(logits: NDArray[np.floating[Any]], output: OutputSpec) -> NDArray[np.floating[Any]]:
    """[n] the logit that stands for the second label; the largest is that of the largest probability."""
    if output.forecast is None:
        return logits[:, 0]
    return np.asarray(logits[:, : output.forecast.warned].max(axis=1))


def logistic(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Probabilities 1 / (1 + exp(-logits)), of the same shape, in a form that cannot overflow.

    >>> logistic(np.array([-1e300, 0.0, 1e300])).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits.astype(np.float64))))

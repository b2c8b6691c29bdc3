"""From logits to labels and probabilities, as the manifest says; numpy alone, for servers and those who measure them.

Training may weigh classes, which moves the logits by the logarithm of the weights. `OutputSpec.prior_shift` undoes
that, and `OutputSpec.temperature` how sure of itself the model became:

    probabilities = softmax(logits / temperature + prior_shift)

and of a binary model the logistic function of logit / temperature + prior_shift[1] - prior_shift[0]. Labels are chosen
by the logits alone, as in the scores of the manifest: weights say what a mistake costs, probabilities do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .manifest import OutputSpec


def decided_labels(logits: NDArray[np.floating[Any]], output: OutputSpec) -> NDArray[np.int64]:
    """[n] numbers of the labels that logits [n, n_outputs] stand for."""
    chosen = logits[:, 0] > output.threshold if output.kind == "binary" else logits.argmax(axis=1)
    return np.asarray(chosen, dtype=np.int64)


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
    shift = np.array(output.prior_shift or (0.0,) * len(output.labels))
    if output.kind == "binary":
        # the logistic function, in a form that cannot overflow
        second = 0.5 * (1.0 + np.tanh(0.5 * (scaled[:, 0] + shift[1] - shift[0])))
        return np.stack([1.0 - second, second], axis=1)
    scaled = scaled + shift
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))  # the largest is 1, so that none overflows
    found: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return found

"""What local training minimizes: mean losses over a minibatch, with classes weighted where there are any."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..emulator.contracts import Labels

#: Outputs [batch, n_outputs], labels [batch] (int64 classes or float32 values) or [batch, n_outputs] (int64, yes or no
#: of every output), weight of every class [n_classes] or None -> mean loss [].
Objective = Callable[[Tensor, Tensor, Tensor | None], Tensor]

#: Limit, so that a class of a handful of rows does not decide every step that one of them is part of.
MAX_CLASS_WEIGHT = 20.0


def cross_entropy(logits: Tensor, labels: Tensor, class_weights: Tensor | None) -> Tensor:
    """One class out of several, one logit for each."""
    return functional.cross_entropy(logits, labels, weight=class_weights)


def binary_cross_entropy(logits: Tensor, labels: Tensor, class_weights: Tensor | None) -> Tensor:
    """Yes or no with one logit [batch, 1]; a second one would double the head for nothing.

    Source: the loss of blockage prediction in Ghalkha et al. 2025.
    """
    truth = labels.to(logits.dtype)
    weights = None if class_weights is None else class_weights[labels]
    return functional.binary_cross_entropy_with_logits(logits[:, 0], truth, weight=weights)


def several_binary_cross_entropy(logits: Tensor, labels: Tensor, class_weights: Tensor | None) -> Tensor:
    """Several questions with yes or no, one logit each [batch, n_outputs]; labels are [batch, n_outputs].

    Losses of the outputs are summed, so that each of them learns at the pace at which it would alone.
    """
    assert class_weights is None, "answers to several questions have no classes to weigh; refused with the scenario"
    of_outputs = functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    return of_outputs.sum(dim=1).mean()


def squared_error(outputs: Tensor, labels: Tensor, class_weights: Tensor | None) -> Tensor:
    """A value, with one output [batch, 1]: mean of (output - label)^2."""
    assert class_weights is None, "values have no classes; refused with the scenario"
    return functional.mse_loss(outputs[:, 0], labels.to(outputs.dtype))


def joint_loss(objective: Objective, logits: Tensor, labels: Tensor, class_weights: Tensor | None) -> Tensor:
    """Mean losses [n_models] of several models, each on rows of its own.

    Args:
        objective: of all of them.
        logits: [n_models, batch, n_outputs].
        labels: [n_models, batch], or [n_models, batch, n_outputs].
        class_weights: [n_models, n_classes] or None.
    """
    if objective is cross_entropy:  # what vmap makes of it takes three times as long
        of_rows = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
        if class_weights is None:
            return of_rows.mean(dim=1)
        of_labels = class_weights.gather(1, labels)
        return (of_labels * of_rows).sum(dim=1) / of_labels.sum(dim=1)
    together = torch.vmap(objective, in_dims=(0, 0, None if class_weights is None else 0))
    losses: Tensor = together(logits, labels, class_weights)
    return losses


#: Name -> objective.
OBJECTIVES: dict[str, Objective] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
    "several_binary_cross_entropy": several_binary_cross_entropy,
    "squared_error": squared_error,
}


def class_logits(logits: Tensor) -> Tensor:
    """Logits [..., n_classes], one per class: a single one stands for two classes, the first of them with logit 0."""
    if logits.shape[-1] > 1:
        return logits
    return torch.cat([torch.zeros_like(logits), logits], dim=-1)


def n_classes(objective: Objective, n_outputs: int) -> int:
    """Number of classes of this many logits."""
    return 2 if objective is binary_cross_entropy else n_outputs


def balanced_weights(labels: Labels, classes: int) -> NDArray[np.float64]:
    """[classes] weights by which all classes count alike: n / (classes * rows of the class), at most 20.

    A class without rows gets 1; it is never used.
    """
    counts = np.bincount(labels, minlength=classes)
    weights = np.ones(classes)
    np.divide(len(labels), classes * counts, out=weights, where=counts > 0)
    return np.minimum(weights, MAX_CLASS_WEIGHT)

"""Gradient of a client's loss over all of its training samples, by the parts of its model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import Modality
from ...models.client_model import ClientModel
from ...models.objectives import OBJECTIVES
from ...models.training.minibatches import class_weights
from ...models.training.training_rows import TrainingRows
from ...models.training.whole_model import trained_part

#: Samples that are passed through a model together.
AT_ONCE = 256
#: Objective -> largest curvature of the loss of a sample in its logits.
#: Source: Boehning, Multinomial logistic regression algorithm (1992), for the first: (I - 1 1^T / C) / 2 from above.
_CURVATURE = {
    "cross_entropy": 0.5,
    "binary_cross_entropy": 0.25,
    "several_binary_cross_entropy": 0.25,
    "squared_error": 2.0,
}


@dataclass(frozen=True, slots=True, eq=False)
class ClientGradient:
    """What one client's loss is, and where it falls.

    Attributes:
        loss: mean over its training samples, with class weights as in training; dropout is off.
        encoders: modality -> [n] gradient in its parameters.
        fusion: [n] gradient in what the fusion learns.
        head: [d_i] gradient in the head.
        whole: [d] gradient in all that is trained, in the order of `ModelLayout`.
        head_smoothness: smoothness of the loss in the head, from above, while encoders and fusion stand still; NaN for
            the objective of a plugin, of which no curvature is known.
    """

    loss: float
    encoders: Mapping[Modality, Tensor]
    fusion: Tensor
    head: Tensor
    whole: Tensor
    head_smoothness: float


def client_gradient(model: ClientModel, rows: TrainingRows, objective: str, *, balanced: bool) -> ClientGradient:
    """Gradient of a model's loss; the model and the gradients of its last step stay as they are.

    Args:
        model: of the client.
        rows: that it trains on.
        objective: name of one of `OBJECTIVES`.
        balanced: whether classes are weighted, as `training.class_weights` says.
    """
    parameters = list(trained_part(model).parameters())
    shares = _shares(model, rows, objective, balanced=balanced)
    weights = class_weights(rows.label, OBJECTIVES[objective], model.layout.n_outputs, model.head) if balanced else None
    loss, gradients = 0.0, [torch.zeros_like(parameter) for parameter in parameters]
    moment = torch.zeros(model.layout.width + 1, model.layout.width + 1, dtype=torch.float64)
    trained = model.training
    model.eval()
    try:
        for piece in _pieces(len(rows.label)):
            fused = model.fusion(model.embeddings(model.tensors(rows.inputs(piece))))
            labels = torch.from_numpy(np.asarray(rows.label)[piece]).to(fused.device)
            # cross-entropy divides by the weights of its rows, all others by their number
            share = float(shares[piece].sum()) if objective == "cross_entropy" else len(piece) / len(rows.label)
            of_piece = OBJECTIVES[objective](model.read(fused), labels, weights) * share
            found = torch.autograd.grad(of_piece, parameters, materialize_grads=True)
            gradients = [total + one for total, one in zip(gradients, found, strict=True)]
            loss += float(of_piece.detach())
            read = torch.nn.functional.pad(fused.detach().cpu().double(), (0, 1), value=1.0)
            moment += read.T @ (torch.from_numpy(shares[piece]).unsqueeze(1) * read)
    finally:
        model.train(trained)
    smoothness = _CURVATURE.get(objective, math.nan) * float(torch.linalg.eigvalsh(moment)[-1])
    by_parameter = {id(parameter): one.reshape(-1) for parameter, one in zip(parameters, gradients, strict=True)}
    whole = torch.cat(list(by_parameter.values()))

    def of(module: torch.nn.Module) -> Tensor:
        parts = [by_parameter[id(one)] for one in module.parameters() if id(one) in by_parameter]
        return torch.cat([whole[:0], *parts])

    encoders = {m: of(model.encoders[m]) for m in model.modalities}
    return ClientGradient(loss, encoders, of(model.fusion), by_parameter[id(model.head)], whole, smoothness)


def _shares(model: ClientModel, rows: TrainingRows, objective: str, *, balanced: bool) -> NDArray[np.float64]:
    """[n_rows] what every sample counts for in the loss."""
    n_rows = len(rows.label)
    if not balanced:
        return np.full(n_rows, 1.0 / n_rows)
    of_class = class_weights(rows.label, OBJECTIVES[objective], model.layout.n_outputs, model.head)
    weights = of_class.cpu().double().numpy()[np.asarray(rows.label)]
    shares: NDArray[np.float64] = weights / (weights.sum() if objective == "cross_entropy" else n_rows)
    return shares


def _pieces(n_rows: int) -> Iterator[NDArray[np.int64]]:
    for first in range(0, n_rows, AT_ONCE):
        yield np.arange(first, min(n_rows, first + AT_ONCE))

"""Turn of prediction: logits of one model, or of several of one architecture at once, each on rows of its own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ...emulator.contracts import Modality
from ...emulator.turns import play
from ..client_model import ClientModel
from ..model_pair import ModelPair, mean_answer
from .architecture import Architecture, architecture_of
from .joint_network import values_in
from .model_stack import at_once

#: Rows of one forward pass of a prediction: a window of images has a quarter of a megabyte.
PREDICTED_AT_ONCE = 128

Inputs = Mapping[Modality, NDArray[np.floating]]


class PredictionTurn:
    """Logits of a model on rows in physical units.

    Args:
        model: in evaluation mode.
        inputs: modality -> [n, ...].

    Attributes:
        logits: [n, n_outputs], once they were computed.
    """

    logits: NDArray[np.float32]

    def __init__(self, model: ClientModel, inputs: Inputs) -> None:
        self.model, self.inputs = model, inputs

    @property
    def n_rows(self) -> int:
        return len(self.inputs[self.model.modalities[0]])

    @property
    def key(self) -> Hashable:
        if self.n_rows == 0:
            return None
        architecture = self._architecture()
        return None if architecture.refusal is not None else architecture.key

    def run(self) -> None:
        self.logits = predict_at_rest(self.model, self.inputs)

    @property
    def at_once(self) -> int:
        return at_once(sum(values.numel() for values in values_in(self.model).values()))

    def run_with(self, others: Sequence[PredictionTurn]) -> None:
        architecture, turns = self._architecture(), [self, *others]
        with architecture.in_evaluation(), torch.no_grad():
            _predict(architecture, turns)

    def rows(self, first: int, last: int) -> dict[str, Tensor]:
        """Modality -> [at most last - first, ...] normalized inputs."""
        model = self.model
        return model.normalized(model.tensors({m: self.inputs[m][first:last] for m in model.modalities}))

    def _architecture(self) -> Architecture:
        return architecture_of(self.model, lambda: self.rows(0, 1))


def predict(model: ClientModel, inputs: Inputs) -> NDArray[np.float32]:
    """Logits [n, n_outputs] of a model on rows in physical units, in pieces, in evaluation mode."""
    # dropout must not draw here, or an evaluation would move the streams of training
    model.eval()
    turn = PredictionTurn(model, inputs)
    play(turn)
    model.train()
    return turn.logits


def predict_pair(pair: ModelPair, inputs: Inputs) -> NDArray[np.float32]:
    """Logits [n, n_outputs] of the mean of two models, arguments as of `predict`."""
    each = (torch.from_numpy(predict(model, inputs)) for model in (pair.trained, pair.kept))
    mean: NDArray[np.float32] = mean_answer(*each).numpy()
    return mean


def predict_at_rest(model: ClientModel, inputs: Inputs) -> NDArray[np.float32]:
    """Logits [n, n_outputs] of a model that is in evaluation mode already, so that several threads may share it."""
    n_rows = len(inputs[model.modalities[0]])
    with torch.no_grad():
        found = [
            model(model.tensors({m: inputs[m][first : first + PREDICTED_AT_ONCE] for m in model.modalities}))
            for first in range(0, n_rows, PREDICTED_AT_ONCE)
        ]
        logits: NDArray[np.float32] = torch.cat(found).cpu().numpy()
    return logits


def _predict(architecture: Architecture, turns: Sequence[PredictionTurn]) -> None:
    """Logits of models that one stack holds; rows that a model does not have are zeros, and left out again."""
    named = [values_in(turn.model) for turn in turns]
    values = {name: torch.stack([own[name] for own in named]) for name in named[0]}
    found: list[Tensor] = []
    for first in range(0, max(turn.n_rows for turn in turns), PREDICTED_AT_ONCE):
        of_models = [turn.rows(first, first + PREDICTED_AT_ONCE) for turn in turns]
        inputs = {m: _stacked([rows[m] for rows in of_models]) for m in of_models[0]}
        _, _, logits = architecture.joint_pass(values, (), inputs)
        found.append(logits)
    whole = torch.cat(found, dim=1).cpu()
    for turn, logits in zip(turns, whole, strict=True):
        turn.logits = logits[: turn.n_rows].numpy()


def _stacked(rows: Sequence[Tensor]) -> Tensor:
    """[n_models, most rows, ...] rows of every model, with zeros behind those of models that have fewer."""
    most = max(len(each) for each in rows)
    return torch.stack([functional.pad(each, (0, 0) * (each.dim() - 1) + (0, most - len(each))) for each in rows])

"""Two models of one client that answer together: one that trained on alone, and the one it started from."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..emulator.contracts import Modality
from .client_model import ClientModel
from .head import HeadLayout
from .objectives import class_logits


class ModelPair(nn.Module):
    """Mean of the class probabilities of two models of the same shape.

    Args:
        trained: the one that trains.
        kept: the other one, which only takes over what the first one was.
    """

    def __init__(self, trained: ClientModel, kept: ClientModel) -> None:
        super().__init__()
        self.trained, self.kept = trained, kept

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Of both."""
        return self.trained.modalities

    @property
    def layout(self) -> HeadLayout:
        """Of both heads."""
        return self.trained.layout

    @property
    def head(self) -> nn.Parameter:
        """Of the model that trains."""
        return self.trained.head

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits [batch, n_outputs] of the mean, inputs in physical units."""
        return mean_answer(self.trained(inputs), self.kept(inputs))


def mean_answer(first: Tensor, second: Tensor) -> Tensor:
    """Logits [batch, n_outputs] of the mean of two classifiers' probabilities; one output is yes or no.

    >>> logits = mean_answer(torch.tensor([[4.0]]), torch.tensor([[-4.0]]))
    >>> logits.item()  # the two contradict each other
    0.0
    """
    both = torch.stack([_log_probabilities(first), _log_probabilities(second)])
    mean = torch.logsumexp(both, dim=0) - math.log(2.0)
    # back to one logit: the difference of the two classes
    return mean[:, 1:] - mean[:, :1] if first.shape[1] == 1 else mean


def _log_probabilities(logits: Tensor) -> Tensor:
    """[batch, n_classes]."""
    return functional.log_softmax(class_logits(logits), dim=1)

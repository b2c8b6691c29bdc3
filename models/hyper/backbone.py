"""All of a client's model that is not its head, as one vector: what a server generates."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...emulator.contracts import Modality
from ..client_model import ClientModel


class BackbonePart(NamedTuple):
    """An encoder, or all that a fusion learns.

    Attributes:
        name: equal for clients whose parts have one shape and mean the same.
        parameters: in order.
    """

    name: str
    parameters: list[nn.Parameter]


def backbone_parts(model: ClientModel, personal: Collection[Modality]) -> list[BackbonePart]:
    """Parts of a model in canonical order; those without parameters, and personal encoders, are left out.

    Running statistics of normalization layers are none: they stay with the client, whose rows they are of.
    """
    found = [
        (f"encoder {modality}", list(model.encoders[modality].parameters()))
        for modality in model.modalities
        if modality not in personal
    ]
    if len(model.modalities) > 1:  # of one modality the weight is 1, whatever the scores
        found.append((f"fusion {'+'.join(model.modalities)}", list(model.fusion.parameters())))
    return [BackbonePart(f"{name} {_shapes(parameters)}", parameters) for name, parameters in found if parameters]


class Backbone:
    """The parameters of a model's backbone, read and written as one vector; the model stays where it is.

    Args:
        model: of the client.
        personal: modalities whose encoders are never generated.
    """

    def __init__(self, model: ClientModel, personal: Collection[Modality]) -> None:
        parts = backbone_parts(model, personal)
        self._parameters = [parameter for part in parts for parameter in part.parameters]
        self._like = model.head.detach()

    @property
    def size(self) -> int:
        """P."""
        return sum(parameter.numel() for parameter in self._parameters)

    def vector(self) -> Tensor:
        """[P] copy of the values as they are now."""
        values = [parameter.detach().reshape(-1) for parameter in self._parameters]
        return torch.cat(values) if values else self._like.new_empty(0)

    def assign(self, vector: Tensor) -> None:
        """Give the model these values [P]."""
        pieces = torch.split(vector, [parameter.numel() for parameter in self._parameters])
        for parameter, values in zip(self._parameters, pieces, strict=True):
            # in place: optimizers and flat vectors hold views
            parameter.data.copy_(values.view_as(parameter))


def _shapes(parameters: list[nn.Parameter]) -> str:
    return ", ".join("x".join(map(str, parameter.shape)) for parameter in parameters)

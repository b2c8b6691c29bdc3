"""Several models of one architecture as rows of one stack: gradients of all of them by one backward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from ..client_model import ClientModel
from ..objectives import joint_loss
from ..training.minibatches import Minibatches, PassedBatch
from .architecture import Architecture
from .joint_network import JointNetwork, dropouts, values_in

#: Parameters in one stack: those of more clients, with gradients and activations, do not stay near the processor
#: from one step to the next, and several stacks are computed side by side.
PARAMETERS_AT_ONCE = 100_000
#: Fewest and most clients of a stack, if there are so many. Below, what a call costs beside its arithmetic is shared by
#: too few; above, nothing of it is left to share.
FEWEST_AT_ONCE, MOST_AT_ONCE = 8, 64


class Trained(Protocol):
    """A model in training, as a row of a stack.

    Attributes:
        model: whose encoders, fusion and head are passed.
        minibatches: its rows.
        penalty: what a minibatch costs beyond its loss, [] or None.
        architecture: of the model.
        trains_fusion: whether the parameters of the fusion are trained.
    """

    model: ClientModel
    minibatches: Minibatches
    penalty: Callable[[PassedBatch], Tensor] | None

    @property
    def architecture(self) -> Architecture: ...

    @property
    def trains_fusion(self) -> bool: ...

    @property
    def parts(self) -> Sequence[Tensor]:
        """Views of all that is trained, in the order of the parameters: encoders, fusion, head."""
        ...


class ModelStack:
    """Parameters, running statistics and gradients of several models, each a row.

    Args:
        members: models in training, of one architecture; their values are copied.

    Attributes:
        members: as given.
        values: [n_members, d] all that is trained.
        gradients: [n_members, d] of the last `backward`; 0 for what is not trained.
        columns: of every part of a member in them.
    """

    def __init__(self, members: Sequence[Trained]) -> None:
        self.members = members
        first = members[0]
        self._network: JointNetwork = first.architecture.network
        self._parts = [member.parts for member in members]
        self.columns = _columns(self._parts[0])
        self.values = first.model.head.new_empty(len(members), self.columns[-1].stop)
        self.gradients = torch.zeros_like(self.values)
        for number in range(len(self.columns)):
            self.take(number)
        self._columns_of: dict[str, Tensor] = {}  # name of a leaf -> its gradient in the stack
        self._leaves = self._trained_leaves(first)
        self._own = [self._untrained(member.model) for member in members]
        self._held = {name: torch.stack([own[name] for own in self._own]) for name in self._own[0]}
        self._dropouts = [dropouts(member.model) for member in members]

    def take(self, number: int) -> None:
        """Copy one part of all members into the stack."""
        columns = self.columns[number]
        self.values[:, columns] = torch.stack([parts[number].reshape(-1) for parts in self._parts])

    def give(self) -> None:
        """Copy all parts of the stack back to the members."""
        for row, parts in zip(self.values, self._parts, strict=True):
            for columns, part in zip(self.columns, parts, strict=True):
                part.copy_(row[columns].view_as(part))

    def give_statistics(self) -> None:
        """Copy running statistics back to the members."""
        for name, stacked in self._held.items():
            for own, row in zip(self._own, stacked, strict=True):
                own[name].copy_(row)

    def backward(self, inputs: Mapping[str, Tensor], labels: Tensor, weights: Tensor | None) -> Tensor:
        """Losses [n_members] of a minibatch of every member, with `gradients` filled.

        Args:
            inputs: modality -> [n_members, batch, ...] normalized.
            labels: [n_members, batch].
            weights: [n_members, n_classes] of classes, or None.
        """
        architecture, objective = self.members[0].architecture, self.members[0].minibatches.objective
        values = {**self._leaves, **self._held}
        embeddings, fused, logits = architecture.joint_pass(values, self._factors(labels.shape[1]), inputs)
        losses = joint_loss(objective, logits, labels, weights)
        whole = losses.sum()
        for number, member in enumerate(self.members):
            if member.penalty is not None:
                of_classes = None if weights is None else weights[number]
                of_member = (embeddings[number], fused[number], logits[number], labels[number], of_classes)
                whole = whole + member.penalty(PassedBatch(*of_member, losses[number]))
        whole.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for name, leaf in self._leaves.items():
            # copied, because torch warns of gradients that are added to columns of a larger tensor
            if leaf.grad is not None:
                self._columns_of[name].copy_(leaf.grad.flatten(start_dim=1))
                leaf.grad = None
        return losses.detach()

    def _factors(self, batch: int) -> list[Tensor]:
        """[n_members, batch, ...] of every dropout, each row drawn from its member's own stream."""
        return [
            torch.stack([own[place].factors((batch, *drop.shape), self.values) for own in self._dropouts])
            for place, drop in enumerate(self._network.drops)
        ]

    def _untrained(self, model: ClientModel) -> dict[str, Tensor]:
        """Name -> buffer or parameter of a model that no step changes."""
        return {name: values.detach() for name, values in values_in(model).items() if name not in self._leaves}

    def _trained_leaves(self, first: Trained) -> dict[str, Tensor]:
        """Name -> [n_members, ...] leaf of autograd, a view of `values`."""
        leaves, at = {}, 0
        for name, parameter in _trained_parameters(first).items():
            end, shape = at + parameter.numel(), (len(self.members), *parameter.shape)
            if parameter.requires_grad:
                leaves[name] = self.values[:, at:end].view(shape).requires_grad_()
                self._columns_of[name] = self.gradients[:, at:end]
            at = end
        return leaves


def at_once(n_values: int) -> int:
    """Clients of one stack, each with so many values.

    >>> at_once(100), at_once(9_610), at_once(1_000_000)
    (64, 10, 8)
    """
    return max(FEWEST_AT_ONCE, min(MOST_AT_ONCE, PARAMETERS_AT_ONCE // max(n_values, 1)))


def _columns(parts: Sequence[Tensor]) -> list[slice]:
    columns, at = [], 0
    for part in parts:
        columns.append(slice(at, at + part.numel()))
        at += part.numel()
    return columns


def _trained_parameters(member: Trained) -> dict[str, Tensor]:
    """Name in the joint network -> parameter, in the order of `parts`."""
    model = member.model
    found = {f"encoders.{name}": parameter for name, parameter in model.encoders.named_parameters()}
    if member.trains_fusion:
        found.update({f"fusion.{name}": parameter for name, parameter in model.fusion.named_parameters()})
    return {**found, "head": model.head}

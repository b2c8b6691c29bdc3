"""Rows of several minibatches of several clients, fetched and normalized before the steps that use them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import PRESENT_NAME
from .model_stack import Trained

#: Numbers that are fetched ahead for one client: steps on large images fetch theirs step by step.
NUMBERS_AHEAD = 2**20


class FedRows:
    """Inputs, labels and class weights of the steps of a stack.

    Args:
        members: of the stack.
        batches: member -> step -> [batch] its rows.
    """

    def __init__(self, members: Sequence[Trained], batches: Sequence[Sequence[NDArray[np.int64]]]) -> None:
        self._members, self._batches = members, batches
        self._batch = len(batches[0][0])
        head = members[0].model.head
        weights = [member.minibatches.weights(member.model.layout.n_outputs, head) for member in members]
        known = [each for each in weights if each is not None]
        self._weights = torch.stack(known) if known else None
        labels = [
            member.minibatches.labels(np.concatenate(of_member), head)
            for member, of_member in zip(members, batches, strict=True)
        ]
        self._labels = torch.stack(labels)  # [n_members, n_steps * batch]
        masks = [self._masks(member, len(batches[0])) for member in members]
        shown = [torch.cat(of_member) for of_member in masks if of_member]
        self._present = torch.stack(shown) if shown else None  # [n_members, n_steps * batch, n_modalities]
        row = members[0].architecture.row_size
        self._ahead = max(1, NUMBERS_AHEAD // max(1, row * self._batch))  # steps
        self._inputs: dict[str, Tensor] = {}
        self._first = -1

    def of_step(self, step: int) -> tuple[dict[str, Tensor], Tensor, Tensor | None]:
        """Inputs by modality [n_members, batch, ...], labels [n_members, batch], weights [n_members, n_classes].

        Inputs have `PRESENT_NAME` [n_members, batch, n_modalities], where sensors are hidden.
        """
        first = step - step % self._ahead
        if first != self._first:
            self._fetch(first)
        at = (step - first) * self._batch
        inputs = {m: rows[:, at : at + self._batch] for m, rows in self._inputs.items()}
        of_step = slice(step * self._batch, (step + 1) * self._batch)
        if self._present is not None:
            inputs[PRESENT_NAME] = self._present[:, of_step]
        labels = self._labels[:, of_step]
        return inputs, labels, self._weights

    def _masks(self, member: Trained, n_steps: int) -> list[Tensor]:
        """[batch, n_modalities] per step, drawn in the order in which a client alone draws them; or none."""
        masks = [member.minibatches.present(member.model, self._batch) for _ in range(n_steps)]
        return [mask for mask in masks if mask is not None]

    def _fetch(self, first: int) -> None:
        """Fetch the rows of the steps from this one on."""
        self._first = first
        of_members = []
        for member, batches in zip(self._members, self._batches, strict=True):
            rows = np.concatenate(batches[first : first + self._ahead])
            with torch.no_grad():
                of_members.append(member.minibatches.normalized(member.model, rows))
        self._inputs = {m: torch.stack([each[m] for each in of_members]) for m in of_members[0]}

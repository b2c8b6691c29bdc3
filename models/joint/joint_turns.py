"""Turns of training: minibatch gradients and local steps of one model, or of several of one architecture at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .fed_rows import FedRows
from .model_stack import ModelStack, Trained, at_once


class Stepped(Trained, Protocol):
    """A model in training that takes minibatch gradients and steps, alone or in a stack."""

    def draw(self) -> NDArray[np.int64]:
        """Rows [batch] of the next minibatch."""
        ...

    def backward_alone(self, batch: NDArray[np.int64]) -> Tensor:
        """Mean loss [] of these rows [batch], with all gradients filled."""
        ...

    def take_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Have these gradients, in the order of `parts`, each flat, as if a backward pass had filled them."""
        ...

    def step_key(self) -> Hashable:
        """Equal where `joint_step` does the same."""
        ...

    def joint_step(self, stack: ModelStack, others: Sequence[StepsTurn], /) -> Callable[[], None]:
        """Function that takes one step of all members of a stack by its gradients."""
        ...


@runtime_checkable
class HoldingStep(Protocol):
    """An own step of a turn for which something can be gathered once per turn."""

    def __call__(self) -> None: ...

    def held(self) -> Callable[[], None]:
        """The same step while the turn lasts, in which it alone changes what it reads; equal up to rounding."""
        ...


OwnStep = Callable[[], None] | HoldingStep


class GradientTurn:
    """Gradient of one minibatch.

    Args:
        trained: gets the gradient.
        batch: [batch] rows.

    Attributes:
        loss: [] of the minibatch, once it was computed.
    """

    loss: Tensor

    def __init__(self, trained: Stepped, batch: NDArray[np.int64]) -> None:
        self.trained, self.batch = trained, batch

    @property
    def key(self) -> Hashable:
        return training_key(self.trained, len(self.batch))

    def run(self) -> None:
        self.loss = self.trained.backward_alone(self.batch)

    @property
    def at_once(self) -> int:
        return at_once(size_of(self.trained))

    def run_with(self, others: Sequence[GradientTurn]) -> None:
        turns = [self, *others]
        stack = ModelStack([turn.trained for turn in turns])
        rows = FedRows(stack.members, [[turn.batch] for turn in turns])
        losses = stack.backward(*rows.of_step(0))
        stack.give_statistics()
        for turn, loss, row in zip(turns, losses, stack.gradients, strict=True):
            turn.loss = loss
            turn.trained.take_gradients([row[columns] for columns in stack.columns])


class StepsTurn:
    """Several minibatch steps, one after the other.

    Args:
        trained: changed by them.
        n_steps: number of steps.
        alone: takes one step of `trained` by its last gradient.
        own_step: changes the part of `trained` that is not stepped by its gradient alone; None: all is.
        places: [d] values that all trained parameters are drawn to, or None.
        strength: of the pull, whose gradient is strength * (parameters - places).

    Attributes:
        loss: [] of the last minibatch, once they were taken.
    """

    loss: Tensor

    def __init__(
        self,
        trained: Stepped,
        n_steps: int,
        alone: Callable[[], None],
        own_step: OwnStep | None = None,
        places: Sequence[Tensor] | None = None,
        strength: float = 0.0,
    ) -> None:
        self.trained, self.own_step = trained, own_step
        self._n_steps, self._alone, self._places, self._strength = n_steps, alone, places, strength

    @property
    def key(self) -> Hashable:
        key = training_key(self.trained, self.trained.minibatches.batch_size)
        own = self.own_step is None, self._places is None, self._strength
        return None if key is None else (key, self._n_steps, own, self.trained.step_key())

    def run(self) -> None:
        for _ in range(self._n_steps):
            self.loss = self.trained.backward_alone(self.trained.draw())
            self._alone()

    @property
    def at_once(self) -> int:
        return at_once(size_of(self.trained))

    def run_with(self, others: Sequence[StepsTurn]) -> None:
        turns = [self, *others]
        stack = ModelStack([turn.trained for turn in turns])
        rows = FedRows(stack.members, [[turn.trained.draw() for _ in range(self._n_steps)] for turn in turns])
        step = self.trained.joint_step(stack, turns)
        places = self._stacked_places(turns)
        for number in range(self._n_steps):
            losses = stack.backward(*rows.of_step(number))
            if places is not None:
                stack.gradients.add_(stack.values - places, alpha=self._strength)
            step()
        stack.give()
        stack.give_statistics()
        for turn, loss in zip(turns, losses, strict=True):
            turn.loss = loss

    @staticmethod
    def _stacked_places(turns: Sequence[StepsTurn]) -> Tensor | None:
        """[n_members, d] values that all members are drawn to, or None."""
        of_members = [turn._places for turn in turns]
        rows = [torch.cat([place.reshape(-1) for place in places]) for places in of_members if places is not None]
        return torch.stack(rows) if rows else None


def held_steps(turns: Sequence[StepsTurn]) -> list[Callable[[], None]]:
    """Own steps of the members of a stack; none where they have none."""
    own_steps = [turn.own_step for turn in turns if turn.own_step is not None]
    return [step.held() if isinstance(step, HoldingStep) else step for step in own_steps]


def training_key(trained: Trained, batch: int) -> Hashable:
    """Equal for models in training whose minibatches of so many rows can be passed together; None: not with any."""
    if trained.architecture.refusal is not None:
        return None
    minibatches = trained.minibatches
    weighted = minibatches.weights(trained.model.layout.n_outputs, trained.model.head) is not None
    return type(trained), trained.architecture.key, trained.trains_fusion, batch, minibatches.objective, weighted


def size_of(trained: Trained) -> int:
    """Values of one row of a stack."""
    return sum(part.numel() for part in trained.parts)

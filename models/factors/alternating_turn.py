"""Turn of a round in which a personal model and the factors near it step in alternation, of one client or of several.

The personal model is the dense vector theta, the factors are A, and [[A]] is the tensor that they make.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adam import adam

from ..factor_settings import MOMENTUM
from ..flat_model import assign
from ..joint.fed_rows import FedRows
from ..joint.joint_turns import size_of, training_key
from ..joint.model_stack import ModelStack, at_once
from ..training.local_training import LocalTraining
from .factor_layout import FactorLayout


@dataclass(frozen=True, slots=True)
class AlternatingSteps:
    """What a round does.

    Attributes:
        n_batches: minibatches, tau.
        personal_steps, factor_steps: steps of theta and of A per minibatch, s and s'.
        attraction: lambda.
        personal_step_size, factor_step_size: of these steps.
    """

    n_batches: int
    personal_steps: int
    factor_steps: int
    attraction: float
    personal_step_size: float
    factor_step_size: float


class AlternatingTurn:
    """A round of one client.

    Args:
        trained: theta, which is changed.
        layout: of the factors.
        values: [n_values] A.
        steps: of the round.

    Attributes:
        values: [n_values] A after the round; the given ones are left alone.
        loss: [] of the last minibatch, once the round was computed.
    """

    loss: Tensor

    def __init__(self, trained: LocalTraining, layout: FactorLayout, values: Tensor, steps: AlternatingSteps) -> None:
        self.trained, self.layout, self.values, self._steps = trained, layout, values, steps

    @property
    def key(self) -> Hashable:
        key = training_key(self.trained, self.trained.minibatches.batch_size)
        # models of one architecture have one layout at one rank each
        return None if key is None else (key, self._steps, tuple(one.rank for one in self.layout.weights))

    def run(self) -> None:
        flat = self.trained.flat
        theta = torch.cat([one.reshape(-1) for one in flat.parameters])
        sizes = [one.numel() for one in flat.parameters]
        alternation = _Alternation(theta, self.values.clone(), self.layout, self._steps)
        for _ in range(self._steps.n_batches):
            batch = self.trained.draw()
            for _ in range(self._steps.personal_steps):
                self.loss = self.trained.backward_alone(batch)
                alternation.step_personal(torch.cat([one.reshape(-1) for one in flat.gradients]))
                pieces = torch.split(theta, sizes)
                assign(flat.parameters, [p.view_as(one) for p, one in zip(pieces, flat.parameters, strict=True)])
            alternation.step_factors()
        self.values = alternation.values

    @property
    def at_once(self) -> int:
        return at_once(size_of(self.trained))

    def run_with(self, others: Sequence[AlternatingTurn]) -> None:
        turns = [self, *others]
        stack = ModelStack([turn.trained for turn in turns])
        rows = FedRows(stack.members, [[turn.trained.draw() for _ in range(self._steps.n_batches)] for turn in turns])
        values = torch.stack([turn.values for turn in turns])
        alternation = _Alternation(stack.values, values, self.layout, self._steps)
        for number in range(self._steps.n_batches):
            batch = rows.of_step(number)
            for _ in range(self._steps.personal_steps):
                losses = stack.backward(*batch)
                alternation.step_personal(stack.gradients)
            alternation.step_factors()
        stack.give()
        stack.give_statistics()
        for turn, own, loss in zip(turns, values, losses, strict=True):
            turn.values, turn.loss = own.clone(), loss


class _Alternation:
    """Steps of theta and of A, with momenta that begin at 0.

    Args:
        theta: [..., n_dense] changed in place.
        values: [..., n_values] A, changed in place.
        layout, steps: as above.
    """

    def __init__(self, theta: Tensor, values: Tensor, layout: FactorLayout, steps: AlternatingSteps) -> None:
        self.values = values
        self._theta, self._layout, self._steps = theta, layout, steps
        self._momentum = torch.zeros_like(theta)
        self._first, self._second = torch.zeros_like(values), torch.zeros_like(values)
        self._n_steps = torch.zeros((), device=values.device)
        self._composed = layout.compose(values)

    def step_personal(self, gradient: Tensor) -> None:
        """One step of theta by Nesterov's momentum, as torch has it, on f + lambda / 2 * |theta - [[A]]|^2.

        Args:
            gradient: [..., n_dense] of f at theta.
        """
        steps = self._steps
        slope = gradient.add(self._theta - self._composed, alpha=steps.attraction)
        self._momentum.mul_(MOMENTUM).add_(slope)
        self._theta.sub_(slope.add_(self._momentum, alpha=MOMENTUM), alpha=steps.personal_step_size)

    def step_factors(self) -> None:
        """All steps of Adam on lambda / 2 * |theta - [[A]]|^2 that follow one minibatch."""
        steps = self._steps
        for _ in range(steps.factor_steps):
            slope = self._layout.gradient(self.values, self._theta).mul_(steps.attraction)
            adam(
                [self.values],
                [slope],
                [self._first],
                [self._second],
                [],
                [self._n_steps],
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=steps.factor_step_size,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )
        self._composed = self._layout.compose(self.values)

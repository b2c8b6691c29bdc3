"""One step of encoders, fusions and heads of all members of a stack: (15), (17) and the step of the head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor
from torch.optim.adam import adam

from ..settings import TrainingSettings
from .joint_turns import StepsTurn, held_steps
from .model_stack import ModelStack


class LocallyTrained(Protocol):
    """A model whose encoders, fusion and head have steps of their own."""

    settings: TrainingSettings

    @property
    def moments(self) -> Sequence[Mapping[str, Tensor]]: ...

    def take_head_gradient(self, gradient: Tensor, /) -> None: ...


class JointStep:
    """Steps of a stack; moments of Adam stay where their optimizers keep them.

    Args:
        stack: of the members.
        turns: of the members.
        members: the same.
        n_encoders: parts that are encoders; the head is the last part, parameters of the fusion lie between.
    """

    def __init__(
        self, stack: ModelStack, turns: Sequence[StepsTurn], members: Sequence[LocallyTrained], n_encoders: int
    ) -> None:
        self._stack, self._members, self._settings = stack, members, members[0].settings
        encoders, self._head = stack.columns[:n_encoders], stack.columns[-1]
        end = encoders[-1].stop
        self._encoders, self._fusion = slice(0, end), slice(end, self._head.start)
        self._own_steps = held_steps(turns)
        self._adam: dict[str, Any] | None = None
        self._whole = self._settings.optimizer == "adam"
        if self._whole or self._settings.encoder_optimizer == "adam":
            stepped = stack.columns if self._whole else encoders
            trained = [columns for columns in stepped if columns.stop > columns.start]
            moments = [kept for member in members for kept in member.moments] if trained else []
            self._adam = {
                "params": [row[columns] for row in stack.values for columns in trained],
                "grads": [row[columns] for row in stack.gradients for columns in trained],
                "exp_avgs": [kept["exp_avg"] for kept in moments],
                "exp_avg_sqs": [kept["exp_avg_sq"] for kept in moments],
                "state_steps": [kept["step"] for kept in moments],
            }

    def __call__(self) -> None:
        values, gradients, settings = self._stack.values, self._stack.gradients, self._settings
        if self._adam is None:
            columns = self._encoders
            values[:, columns].sub_(gradients[:, columns], alpha=settings.encoder_step_size)
        elif self._adam["params"]:
            adam(
                **self._adam,
                max_exp_avg_sqs=[],
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=settings.model_step_size if self._whole else settings.encoder_step_size,
                weight_decay=float(settings.weight_decay) if self._whole else 0.0,
                eps=1e-8,
                maximize=False,
            )
        if self._whole:
            return
        fusion, head = self._fusion, self._head
        values[:, fusion].sub_(gradients[:, fusion], alpha=settings.attention_step_size)
        if not self._own_steps:
            values[:, head].sub_(gradients[:, head], alpha=settings.head_step_size)
            return
        # heads are stepped where their members keep them
        for member, row, own_step in zip(self._members, gradients, self._own_steps, strict=True):
            member.take_head_gradient(row[head])
            own_step()
        self._stack.take(len(self._stack.columns) - 1)

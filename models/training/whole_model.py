"""Minibatch steps of one client on its whole model as one vector: encoders, fusion and head by plain SGD."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ...emulator.contracts import Modality, State
from ...emulator.saved_state import SavedState
from ...emulator.turns import play
from ..client_model import ClientModel
from ..flat import FlatModule
from ..joint.architecture import Architecture, architecture_of
from ..joint.joint_turns import OwnStep, StepsTurn, held_steps
from ..joint.model_stack import ModelStack
from ..joint.prediction_turn import predict
from .client_setup import ClientSetup
from .divergence import refuse_diverged
from .minibatches import Minibatches, PassedBatch


class WholeModel:
    """A model whose parameters are one vector, its rows, and the gradient of its loss.

    Running statistics of normalization layers are no part of the vector, and stay at their client. Normalizers, which
    nothing trains, are none either. `training.model_step_size` is the only step size.

    Args:
        setup: of the client.
        name: of the model.
        weight_decay: strength of the decay; `decay / 2 * |vector|^2` is added to the local loss.

    Attributes:
        model: whose parameters they are.
        settings: of training.
        vector: [d] encoders in canonical order, fusion, head; see `ModelLayout`. Change it in place only.
        weight_decay: as given.
        minibatches: of its rows.
        penalty: None; nothing is added to the loss of a minibatch but the decay's part.
        flops_per_step: floating-point operations of one minibatch.
        loss: of the last minibatch of a round, without the decay's part.
    """

    penalty: Callable[[PassedBatch], Tensor] | None = None

    def __init__(self, setup: ClientSetup, name: str, weight_decay: float = 0.0) -> None:
        self.model, self.settings, self.weight_decay = setup.models[name], setup.training, weight_decay
        self._client_id = setup.client_id
        self._flat = FlatModule(trained_part(self.model), share_buffers=False)
        self.minibatches = Minibatches(setup.rows, setup.objective, setup.training, setup.batch_draws[name])
        self.flops_per_step = self.model.step_flops(setup.rows, self.minibatches.batch_size)
        self.loss = math.nan

    @property
    def vector(self) -> Tensor:
        return self._flat.vector

    @property
    def gradient(self) -> Tensor:
        """[d] gradient of the last `backward`, weight decay included."""
        return self._flat.gradient

    def assign(self, vector: Tensor) -> None:
        """Replace the values of the vector [d]."""
        self.vector.copy_(vector)

    @property
    def architecture(self) -> Architecture:
        """Of the model; found when it is first asked for, which is where clients are computed together."""
        return architecture_of(self.model, lambda: self.minibatches.normalized(self.model, np.arange(1)))

    @property
    def parts(self) -> list[Tensor]:
        """The vector."""
        return [self.vector]

    @property
    def trains_fusion(self) -> bool:
        """Whether the parameters of the fusion are in the vector."""
        return len(self.model.modalities) > 1

    def draw(self) -> NDArray[np.int64]:
        """Rows [batch] of the next minibatch."""
        return self.minibatches.draw()

    def backward_alone(self, batch: NDArray[np.int64]) -> Tensor:
        """Mean loss [] of these rows [batch], with the gradient filled."""
        self.gradient.zero_()
        loss = self.minibatches.passed(self.model, batch).loss
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if self.weight_decay > 0.0:
            self.gradient.add_(self.vector, alpha=self.weight_decay)
        return loss.detach()

    def step(self) -> None:
        """One step of SGD by the last gradient."""
        self.assign(self.vector - self.settings.model_step_size * self.gradient)

    def train(self, round_index: int, step: OwnStep | None = None, reason: Callable[[], str] | None = None) -> None:
        """A round of local steps.

        Args:
            round_index: of this round.
            step: changes the vector by its last gradient; None: `step`.
            reason: see `refuse_diverged`.

        Raises:
            DivergedError: numbers have left the finite ones.
        """
        turn = StepsTurn(self, self.settings.local_steps, step or self.step, step)
        play(turn)
        self.loss = float(turn.loss)
        who = f"client {self._client_id}"
        refuse_diverged(who, round_index, self.loss, [self.vector], self.settings, reason, ["model_step_size"])

    def take_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Have this gradient [d] of the vector, the only one, without the decay's part."""
        self.gradient.copy_(gradients[0]).add_(self.vector, alpha=self.weight_decay)

    def step_key(self) -> Hashable:
        """Equal where `joint_step` does the same."""
        return self.settings.model_step_size, self.weight_decay

    def joint_step(self, stack: ModelStack, turns: Sequence[StepsTurn]) -> Callable[[], None]:
        """Function that takes a step of all members of a stack, as `step` takes one of this client."""
        own_steps = held_steps(turns)

        def step() -> None:
            if not own_steps:
                gradients, decay = stack.gradients, self.weight_decay
                if decay > 0.0:
                    gradients = gradients.add(stack.values, alpha=decay)
                stack.values.sub_(gradients, alpha=self.settings.model_step_size)
                return
            for turn, gradient, own_step in zip(turns, stack.gradients, own_steps, strict=True):
                turn.trained.take_gradients([gradient])
                own_step()
            stack.take(0)

        return step

    def predict(self, inputs: Mapping[Modality, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Logits [n, n_outputs] on rows in physical units."""
        return predict(self.model, inputs)

    def state(self) -> State:
        """Model, place in the epoch, last loss."""
        return {"model": self.model.state(), "minibatches": self.minibatches.state(), "loss": self.loss}

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("model", "minibatches", "loss")
        self.model.restore(parts["model"])
        self.minibatches.restore(parts["minibatches"])
        self.loss = parts["loss"].number()


def trained_part(model: ClientModel) -> nn.Module:
    """Encoders, fusion and head of a model, in the order of the vector; the modules are the model's own.

    Without the fusion where there is one modality: whatever its parameters, all of the weight is on that one.
    """
    fusion = [model.fusion] if len(model.modalities) > 1 else []
    return nn.ModuleList([model.encoders, *fusion, nn.ParameterList([model.head])])

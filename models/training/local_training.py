"""Minibatch steps of one client on its own rows: what every algorithm does between two exchanges."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import Modality, NodeId, State
from ...emulator.saved_state import SavedState
from ...emulator.turns import play
from ..client_model import ClientModel
from ..flat import FlatModule
from ..flat_model import FlatModel
from ..joint.architecture import Architecture, architecture_of
from ..joint.joint_step import JointStep
from ..joint.joint_turns import GradientTurn, OwnStep, StepsTurn
from ..joint.model_stack import ModelStack
from ..joint.prediction_turn import predict
from ..objectives import Objective
from ..settings import TrainingSettings
from ..state.module_state import adam_moments, optimizer_state, restore_optimizer
from .client_setup import ClientSetup
from .divergence import refuse_diverged
from .minibatches import Minibatches, PassedBatch
from .training_rows import TrainingRows


def encoder_optimizer(flats: Sequence[FlatModule], settings: TrainingSettings) -> torch.optim.Optimizer:
    """Optimizer of (15), over all of a client's encoders at once; those without parameters stay as they are."""
    vectors = [flat.trainable for flat in flats if len(flat.trainable) > 0]
    vectors = vectors or [torch.zeros(0)]  # torch refuses an optimizer of nothing
    if settings.encoder_optimizer == "adam":
        return torch.optim.Adam(vectors, lr=settings.encoder_step_size, fused=True)  # one kernel, on CPU too
    return torch.optim.SGD(vectors, lr=settings.encoder_step_size)


def model_optimizer(flat: FlatModel, settings: TrainingSettings) -> torch.optim.Optimizer:
    """One Adam of all that steps change, in the order of `FlatModel.parameters`."""
    assert not isinstance(settings.weight_decay, str), "refused with the scenario"
    of_encoders = [one.trainable for one in flat.encoders.values() if len(one.trainable) > 0]
    vectors = [*of_encoders, *flat.model.fusion.parameters(), flat.model.head]
    return torch.optim.Adam(vectors, lr=settings.model_step_size, weight_decay=settings.weight_decay, fused=True)


class LocalTraining:
    """A model, its rows and its optimizers.

    One `backward` fills all gradients at the current parameters; the steps of (11), (15) and (17) then use them, in any
    order, because none of them reads what another has changed.

    Args:
        client_id: for messages about divergence.
        model: what is trained.
        rows, objective, settings, draws: see `Minibatches`.
        penalty: what a minibatch costs beyond its loss, [] or None.
    """

    def __init__(
        self,
        client_id: NodeId,
        model: ClientModel,
        rows: TrainingRows,
        objective: Objective,
        settings: TrainingSettings,
        draws: np.random.Generator,
        penalty: Callable[[PassedBatch], Tensor] | None = None,
    ) -> None:
        self.client_id, self.model, self.settings = client_id, model, settings
        self.minibatches, self.penalty = Minibatches(rows, objective, settings, draws), penalty
        self.flat = FlatModel(model, share_buffers=not settings.local_statistics)
        self._optimizer = (
            model_optimizer(self.flat, settings)
            if settings.optimizer == "adam"
            else encoder_optimizer(list(self.encoders.values()), settings)
        )
        self.flops_per_step = model.step_flops(rows, min(settings.batch_size, len(rows.label)))
        self.loss = math.nan

    @property
    def encoders(self) -> Mapping[Modality, FlatModule]:
        """Modality -> its encoder."""
        return self.flat.encoders

    @property
    def head(self) -> Tensor:
        """[d_i] flat head; assign in place through `set_head`."""
        return self.model.head.detach()

    @property
    def head_gradient(self) -> Tensor:
        """[d_i] gradient of the local loss at the last `backward`."""
        assert self.model.head.grad is not None
        return self.model.head.grad

    def set_head(self, head: Tensor) -> None:
        """Replace the head's values."""
        # in place: shared vectors and the diffusion of heads hold views of it
        self.model.head.data.copy_(head)

    def draw(self) -> NDArray[np.int64]:
        """Rows [batch] of the next minibatch."""
        return self.minibatches.draw()

    def backward(self, batch: NDArray[np.int64] | None = None) -> Tensor:
        """Mean loss [] of a minibatch, with all gradients filled.

        Args:
            batch: its rows; None: those of the next one.
        """
        turn = GradientTurn(self, self.draw() if batch is None else batch)
        play(turn)
        return turn.loss

    def backward_alone(self, batch: NDArray[np.int64]) -> Tensor:
        """As `backward`, never together with other clients."""
        self.flat.clear_gradients()
        passed = self.minibatches.passed(self.model, batch)
        whole = passed.loss if self.penalty is None else passed.loss + self.penalty(passed)
        whole.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return passed.loss.detach()

    def train(
        self, round_index: int, step_head: OwnStep | None = None, reason: Callable[[], str] | None = None
    ) -> None:
        """A round of local steps: gradients at the current parameters, then encoders, attention and head.

        Args:
            round_index: of this round.
            step_head: changes the head by its last gradient; None: `step_head`.
            reason: see `check_finite`.

        Raises:
            DivergedError: numbers have left the finite ones.
        """
        self.begin_round()
        turn = StepsTurn(self, self.settings.local_steps, partial(self.step, step_head), step_head)
        play(turn)
        self.check_finite(turn.loss, round_index, reason)

    def train_near(self, places: Sequence[Tensor], strength: float, n_steps: int, round_index: int) -> None:
        """A round of local steps on the own loss plus strength / 2 * |parameters - places|^2.

        Args:
            places: in the order of `FlatModel.parameters`.
            strength: of the pull.
            n_steps: number of steps.
            round_index: of this round.

        Raises:
            DivergedError: numbers have left the finite ones.
        """

        def step() -> None:
            if strength > 0.0:
                self.flat.pull(places, strength)
            self.step()

        self.begin_round()
        turn = StepsTurn(self, n_steps, step, places=places if strength > 0.0 else None, strength=strength)
        play(turn)
        self.check_finite(turn.loss, round_index)

    def step(self, step_head: Callable[[], None] | None = None) -> None:
        """One step of all parts by the last gradients: encoders, attention and head; arguments as of `train`."""
        if self.settings.optimizer == "adam":
            assert step_head is None, "refused with the scenario"
            self._optimizer.step()
            return
        self.step_encoders()
        self.step_attention()
        (step_head or self.step_head)()

    def step_encoders(self) -> None:
        """Equation (15)."""
        self._optimizer.step()

    def begin_round(self) -> None:
        """Begin the local steps of a round."""
        if self.settings.moments == "fresh":
            self.forget_moments()

    def forget_moments(self) -> None:
        """Let the optimizer begin anew; plain SGD remembers nothing anyway."""
        self._optimizer.state.clear()

    def step_attention(self) -> None:
        """Equation (17); nothing to do for fusions without scores."""
        for scoring in self.model.fusion.parameters():
            assert scoring.grad is not None
            scoring.data.sub_(scoring.grad, alpha=self.settings.attention_step_size)

    def step_head(self) -> None:
        """Gradient step of a head without coupling."""
        self.set_head(self.head - self.settings.head_step_size * self.head_gradient)

    @property
    def architecture(self) -> Architecture:
        """Of the model; found when it is first asked for, which is where clients are computed together."""
        return architecture_of(self.model, lambda: self.minibatches.normalized(self.model, np.arange(1)))

    @property
    def parts(self) -> list[Tensor]:
        """All that steps change, as views, in the order of the parameters."""
        return self.flat.parameters

    @property
    def trains_fusion(self) -> bool:
        """Whether the parameters of the fusion are among `parts`."""
        return True

    def take_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Have these gradients, each flat, in the order of `parts`."""
        self.flat.take_gradients(gradients)

    def take_head_gradient(self, gradient: Tensor) -> None:
        """Have this gradient [d_i] of the head."""
        self.model.head.grad = gradient

    @property
    def moments(self) -> list[dict[str, Tensor]]:
        """Of every encoder with parameters, or every part of the model, in order: what Adam keeps for it."""
        return adam_moments(self._optimizer)

    def step_key(self) -> Hashable:
        """Equal where `joint_step` does the same."""
        settings = self.settings
        sizes = settings.encoder_step_size, settings.attention_step_size, settings.head_step_size
        whole = settings.optimizer, settings.model_step_size, settings.weight_decay
        return settings.encoder_optimizer, sizes, whole

    def joint_step(self, stack: ModelStack, turns: Sequence[StepsTurn]) -> Callable[[], None]:
        """Function that takes a step of all members of a stack, as `step` takes one of this client."""
        members = [turn.trained for turn in turns if isinstance(turn.trained, LocalTraining)]
        return JointStep(stack, turns, members, len(self.encoders))

    def check_finite(self, loss: Tensor, round_index: int, reason: Callable[[], str] | None = None) -> None:
        """Keep the round's last loss, and stop a run whose numbers have left the finite ones.

        Args:
            loss: of the round's last minibatch.
            round_index: of this round.
            reason: see `refuse_diverged`.

        Raises:
            DivergedError: they have.
        """
        self.loss = float(loss)
        vectors = [self.head, *(flat.vector for flat in self.encoders.values())]
        refuse_diverged(f"client {self.client_id}", round_index, self.loss, vectors, self.settings, reason)

    def predict(self, inputs: Mapping[Modality, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Logits [n, n_outputs] on rows in physical units."""
        return predict(self.model, inputs)

    def state(self) -> State:
        """Model, moments, place in the epoch, last loss; gradients are made anew by every `backward`."""
        return {
            "model": self.model.state(),
            "optimizer": optimizer_state(self._optimizer),
            "minibatches": self.minibatches.state(),
            "loss": self.loss,
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("model", "optimizer", "minibatches", "loss")
        self.model.restore(parts["model"])
        restore_optimizer(self._optimizer, parts["optimizer"])
        self.minibatches.restore(parts["minibatches"])
        self.loss = parts["loss"].number()


def local_training(
    setup: ClientSetup, name: str, penalty: Callable[[PassedBatch], Tensor] | None = None
) -> LocalTraining:
    """Training of one model of a client, with a stream of its own for the order of minibatches.

    Args:
        setup: of the client.
        name: of the model.
        penalty: see `LocalTraining`.
    """
    rows, draws = setup.rows, setup.batch_draws[name]
    return LocalTraining(setup.client_id, setup.models[name], rows, setup.objective, setup.training, draws, penalty)

"""Minibatch steps of one client on its own rows: what every algorithm does between two exchanges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import DivergedError, Modality, NodeId, State
from ...emulator.saved_state import SavedState
from ..client_model import ClientModel
from ..flat import FlatModule
from ..flat_model import FlatModel
from ..objectives import Objective
from ..settings import TrainingSettings
from ..state.module_state import optimizer_state, restore_optimizer
from .client_setup import ClientSetup
from .minibatches import Minibatches, PassedBatch
from .training_rows import TrainingRows

#: Rows of one forward pass of a prediction: a window of images has a quarter of a megabyte.
PREDICTED_AT_ONCE = 128
#: A mean loss that no training comes back from. Float32 numbers of this size are 65,536 apart, so that it says nothing
#: about classes, or about values of which one standard deviation is 1.
DIVERGED_LOSS = 1e12


def predict(model: ClientModel, inputs: Mapping[Modality, NDArray[np.float32]]) -> NDArray[np.float32]:
    """Logits [n, n_outputs] of a model on rows in physical units, in pieces, in evaluation mode."""
    # dropout must not draw here, or an evaluation would move the streams of training
    model.eval()
    logits = predict_at_rest(model, inputs)
    model.train()
    return logits


def predict_at_rest(model: ClientModel, inputs: Mapping[Modality, NDArray[np.float32]]) -> NDArray[np.float32]:
    """Logits [n, n_outputs] of a model that is in evaluation mode already, so that several threads may share it."""
    n_rows = len(inputs[model.modalities[0]])
    with torch.no_grad():
        pieces = [
            model(model.tensors({m: inputs[m][first : first + PREDICTED_AT_ONCE] for m in model.modalities}))
            for first in range(0, n_rows, PREDICTED_AT_ONCE)
        ]
        logits: NDArray[np.float32] = torch.cat(pieces).cpu().numpy()
    return logits


def encoder_optimizer(flats: Sequence[FlatModule], settings: TrainingSettings) -> torch.optim.Optimizer:
    """Optimizer of (15), over all of a client's encoders at once; those without parameters stay as they are."""
    vectors = [flat.trainable for flat in flats if len(flat.trainable) > 0]
    vectors = vectors or [torch.zeros(0)]  # torch refuses an optimizer of nothing
    if settings.encoder_optimizer == "adam":
        return torch.optim.Adam(vectors, lr=settings.encoder_step_size, fused=True)  # one kernel, on CPU too
    return torch.optim.SGD(vectors, lr=settings.encoder_step_size)


def refuse_diverged(
    who: str,
    round_index: int,
    loss: float,
    vectors: Iterable[Tensor],
    settings: TrainingSettings,
    reason: Callable[[], str] | None = None,
    step_sizes: Sequence[str] = ("head_step_size", "encoder_step_size"),
) -> None:
    """Stop a run whose numbers have left the finite ones, or whose loss is beyond `DIVERGED_LOSS`.

    Args:
        who: has diverged.
        round_index: of this round.
        loss: last one.
        vectors: what was trained.
        settings: of training.
        reason: where vectors are coupled: gives the known cause, as a part of a sentence; None: nothing is coupled.
        step_sizes: fields of the settings that this training goes by.

    Raises:
        DivergedError: naming who, the round, the reason where one is known, and the step sizes.
    """
    if not math.isfinite(loss + sum(float(vector.sum()) for vector in vectors)):
        found = f"left the finite numbers in round {round_index} (loss {loss:g})"
    elif loss > DIVERGED_LOSS:
        found = f"training has diverged, loss {loss:.3g} in round {round_index} is beyond {DIVERGED_LOSS:g}"
    else:
        return
    fields = ", ".join(f"training.{name} ({getattr(settings, name):g})" for name in step_sizes)
    cause, coupling = ("", "") if reason is None else (reason(), " or sheaf.coupling")
    raise DivergedError(f"{who}: {found}{cause}; lower {fields}{coupling}")


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
        self._minibatches, self._penalty = Minibatches(rows, objective, settings, draws), penalty
        self.flat = FlatModel(model, share_buffers=not settings.local_statistics)
        self._optimizer = encoder_optimizer(list(self.encoders.values()), settings)
        # work is proportional to rows, so one is counted and scaled
        self.flops_per_step = model.training_flops(model.tensors(rows.inputs(np.arange(1)))) * min(
            settings.batch_size, len(rows.label)
        )
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
        return self._minibatches.draw()

    def backward(self, batch: NDArray[np.int64] | None = None) -> Tensor:
        """Mean loss [] of a minibatch, with all gradients filled.

        Args:
            batch: its rows; None: those of the next one.
        """
        self.flat.clear_gradients()
        passed = self._minibatches.passed(self.model, self.draw() if batch is None else batch)
        whole = passed.loss if self._penalty is None else passed.loss + self._penalty(passed)
        whole.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return passed.loss.detach()

    def train(
        self, round_index: int, step_head: Callable[[], None] | None = None, reason: Callable[[], str] | None = None
    ) -> None:
        """A round of local steps: gradients at the current parameters, then encoders, attention and head.

        Args:
            round_index: of this round.
            step_head: changes the head by its last gradient; None: `step_head`.
            reason: see `check_finite`.

        Raises:
            DivergedError: numbers have left the finite ones.
        """
        for _ in range(self.settings.local_steps):
            loss = self.backward()
            self.step(step_head)
        self.check_finite(loss, round_index, reason)

    def step(self, step_head: Callable[[], None] | None = None) -> None:
        """One step of all parts by the last gradients: encoders, attention and head; arguments as of `train`."""
        self.step_encoders()
        self.step_attention()
        (step_head or self.step_head)()

    def step_encoders(self) -> None:
        """Equation (15)."""
        self._optimizer.step()

    def step_attention(self) -> None:
        """Equation (17); nothing to do for fusions without scores."""
        for scoring in self.model.fusion.parameters():
            assert scoring.grad is not None
            scoring.data.sub_(scoring.grad, alpha=self.settings.attention_step_size)

    def step_head(self) -> None:
        """Gradient step of a head without coupling."""
        self.set_head(self.head - self.settings.head_step_size * self.head_gradient)

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
            "minibatches": self._minibatches.state(),
            "loss": self.loss,
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("model", "optimizer", "minibatches", "loss")
        self.model.restore(parts["model"])
        restore_optimizer(self._optimizer, parts["optimizer"])
        self._minibatches.restore(parts["minibatches"])
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

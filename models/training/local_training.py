"""Minibatch steps of one client on its own rows: what every algorithm does between two exchanges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import DivergedError, Modality, NodeId, State
from ...emulator.saved_state import SavedState
from ..client_model import ClientModel
from ..flat import FlatModule
from ..settings import TrainingSettings
from ..state.module_state import optimizer_state, restore_optimizer
from ..state.random_streams import numpy_stream_state, restore_numpy_stream
from .objectives import Objective, balanced_weights, n_classes

#: Rows that a prediction looks at together: a window of images has a quarter of a megabyte.
PREDICTED_AT_ONCE = 128


class TrainingRows(Protocol):
    """What a client trains on; may grow at the end, between rounds."""

    @property
    def label(self) -> NDArray[np.int64]:
        """[n_rows] classes."""
        ...

    def inputs(self, indices: NDArray[np.integer[Any]]) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, ...] in physical units."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RowsInMemory:
    """Training rows that are simply there.

    Attributes:
        arrays: modality -> [n_rows, ...] in physical units.
        label: [n_rows] int64 classes.
    """

    arrays: Mapping[Modality, NDArray[np.float32]]
    label: NDArray[np.int64]

    def inputs(self, indices: NDArray[np.integer[Any]]) -> Mapping[Modality, NDArray[np.float32]]:
        return {modality: rows[indices] for modality, rows in self.arrays.items()}


class BatchOrder:
    """Endless minibatches, without repeats inside an epoch; a short last batch is dropped, a tiny set is one batch.

    More rows begin a new epoch.
    """

    def __init__(self, n_rows: int, batch_size: int, draws: np.random.Generator) -> None:
        self._batch_size, self._draws = batch_size, draws
        self._order, self._at = draws.permutation(n_rows), 0

    def next(self, n_rows: int) -> NDArray[np.int64]:
        """Row indices [batch] of the next minibatch, of the rows that there are now."""
        size = min(self._batch_size, n_rows)
        if len(self._order) != n_rows or self._at + size > n_rows:
            self._order, self._at = self._draws.permutation(n_rows), 0
        batch = self._order[self._at : self._at + size]
        self._at += size
        return batch

    def state(self) -> State:
        """The epoch, how far it has got, and where its stream stands."""
        return {"order": self._order.copy(), "at": self._at, "draws": numpy_stream_state(self._draws)}

    def restore(self, saved: SavedState) -> None:
        """Go on in that epoch."""
        parts = saved.parts("order", "at", "draws")
        order = parts["order"].array(np.dtype(np.int64), None)
        if not np.array_equal(np.sort(order), np.arange(len(order))):
            parts["order"].refuse("name every row once", "another list of rows")
        self._order, self._at = order, parts["at"].count(len(order))
        restore_numpy_stream(self._draws, parts["draws"])


@dataclass(frozen=True, slots=True)
class Passed:
    """A minibatch on its way through a model.

    Attributes:
        embeddings: [batch, n_modalities, embedding_dim].
        fused: [batch, width] what the head reads.
        logits: [batch, n_outputs].
        labels: [batch] int64.
        class_weights: [n_classes] or None.
        loss: [] mean loss.
    """

    embeddings: Tensor
    fused: Tensor
    logits: Tensor
    labels: Tensor
    class_weights: Tensor | None
    loss: Tensor


class Minibatches:
    """A client's rows, one minibatch after the other, through whatever model is asked.

    Args:
        rows: training rows.
        objective: of training.
        settings: batch size and class weights.
        draws: of the order.
    """

    def __init__(
        self, rows: TrainingRows, objective: Objective, settings: TrainingSettings, draws: np.random.Generator
    ) -> None:
        self._rows, self._objective = rows, objective
        self._balanced = settings.class_weights == "balanced"
        self._class_weights: Tensor | None = None
        self._n_weighted = 0
        self._order = BatchOrder(len(rows.label), settings.batch_size, draws)

    def next(self, model: ClientModel) -> Passed:
        """The next minibatch through this model."""
        label = self._rows.label
        batch = self._order.next(len(label))
        embeddings = model.embeddings(model.tensors(self._rows.inputs(batch)))
        fused = model.fusion(embeddings)
        logits = model.read(fused)
        labels = torch.from_numpy(label[batch]).to(logits.device)
        weights = self._weights(label, logits)
        return Passed(embeddings, fused, logits, labels, weights, self._objective(logits, labels, weights))

    def state(self) -> State:
        """Of the order; class weights follow from the rows."""
        return self._order.state()

    def restore(self, saved: SavedState) -> None:
        """Go on in that order."""
        self._order.restore(saved)

    def _weights(self, label: NDArray[np.int64], logits: Tensor) -> Tensor | None:
        """[n_classes] of the rows that there are now, or None."""
        if self._balanced and self._n_weighted != len(label):
            self._class_weights = class_weights(label, self._objective, logits)
            self._n_weighted = len(label)
        return self._class_weights


def class_weights(label: NDArray[np.int64], objective: Objective, logits: Tensor) -> Tensor:
    """[n_classes] weights that give every class among these labels the same say, for logits [batch, n_outputs]."""
    return torch.from_numpy(balanced_weights(label, n_classes(objective, logits.shape[1]))).to(logits)


def predict(model: ClientModel, inputs: Mapping[Modality, NDArray[np.float32]]) -> NDArray[np.float32]:
    """Logits [n, n_outputs] of a model on rows in physical units, in pieces; dropout and running statistics rest."""
    model.eval()
    logits = answers(model, inputs)
    model.train()
    return logits


def answers(model: ClientModel, inputs: Mapping[Modality, NDArray[np.float32]]) -> NDArray[np.float32]:
    """The same of a model that is at rest already, and may be asked by several threads at once."""
    n_rows = len(inputs[model.modalities[0]])
    with torch.no_grad():
        pieces = [
            model(model.tensors({m: inputs[m][first : first + PREDICTED_AT_ONCE] for m in model.modalities}))
            for first in range(0, n_rows, PREDICTED_AT_ONCE)
        ]
        logits: NDArray[np.float32] = torch.cat(pieces).cpu().numpy()
    return logits


def encoder_optimizer(flats: Sequence[FlatModule], settings: TrainingSettings) -> torch.optim.Optimizer:
    """Of (15), over all of a client's encoders at once."""
    vectors = [flat.trainable for flat in flats]
    if settings.encoder_optimizer == "adam":
        return torch.optim.Adam(vectors, lr=settings.encoder_step_size, fused=True)  # one kernel, on CPU too
    return torch.optim.SGD(vectors, lr=settings.encoder_step_size)


def refuse_infinite(
    who: str,
    round_index: int,
    loss: float,
    vectors: Iterable[Tensor],
    settings: TrainingSettings,
    reason: Callable[[], str] = str,
) -> None:
    """Stop a run whose numbers have left the finite ones.

    Raises:
        DivergedError: naming who, the round, the reason where one is known, and the step sizes.
    """
    if not math.isfinite(loss + sum(float(vector.sum()) for vector in vectors)):
        raise DivergedError(
            f"{who}: left the finite numbers in round {round_index} (loss {loss:g}){reason()}; lower"
            f" training.head_step_size ({settings.head_step_size:g}), training.encoder_step_size"
            f" ({settings.encoder_step_size:g}) or sheaf.coupling"
        )


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
        penalty: Callable[[Passed], Tensor] | None = None,
    ) -> None:
        self.client_id, self.model, self.settings = client_id, model, settings
        self._minibatches, self._penalty = Minibatches(rows, objective, settings, draws), penalty
        share = not settings.local_statistics
        self.encoders = {m: FlatModule(model.encoders[m], share_buffers=share) for m in model.modalities}
        self._optimizer = encoder_optimizer(list(self.encoders.values()), settings)
        self.flops_per_step = model.training_flops(model.tensors(rows.inputs(np.arange(1)))) * min(
            settings.batch_size, len(rows.label)
        )
        self.loss = math.nan

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
        self.model.head.data.copy_(head)

    def backward(self) -> Tensor:
        """Mean loss [] of the next minibatch, with all gradients filled."""
        self._clear_gradients()
        passed = self._minibatches.next(self.model)
        whole = passed.loss if self._penalty is None else passed.loss + self._penalty(passed)
        whole.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return passed.loss.detach()

    def step_encoders(self) -> None:
        """Equation (15)."""
        self._optimizer.step()

    def step_attention(self) -> None:
        """Equation (17); nothing to do for fusions without scores."""
        for scoring in self.model.fusion.parameters():
            assert scoring.grad is not None
            scoring.data.sub_(scoring.grad, alpha=self.settings.attention_step_size)

    def step_head(self) -> None:
        """A head that nobody pulls at follows its own gradient."""
        self.set_head(self.head - self.settings.head_step_size * self.head_gradient)

    def check_finite(self, loss: Tensor, round_index: int, reason: Callable[[], str] = str) -> None:
        """Remember the round's last loss, and stop a run whose numbers have left the finite ones.

        Args:
            loss: of the round's last minibatch.
            round_index: of this round.
            reason: is asked for what else is known about why, as a part of a sentence.

        Raises:
            DivergedError: they have.
        """
        self.loss = float(loss)
        vectors = [self.head, *(flat.vector for flat in self.encoders.values())]
        refuse_infinite(f"client {self.client_id}", round_index, self.loss, vectors, self.settings, reason)

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
        """Train on from there."""
        parts = saved.parts("model", "optimizer", "minibatches", "loss")
        self.model.restore(parts["model"])
        restore_optimizer(self._optimizer, parts["optimizer"])
        self._minibatches.restore(parts["minibatches"])
        self.loss = parts["loss"].number()

    def _clear_gradients(self) -> None:
        for flat in self.encoders.values():
            flat.gradient.zero_()
        self.model.head.grad = None
        for scoring in self.model.fusion.parameters():
            scoring.grad = None

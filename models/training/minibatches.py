"""Minibatches of a client's rows, in an order drawn anew every epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import Labels, State
from ...emulator.saved_state import SavedState
from ..client_model import ClientModel
from ..objectives import Objective, balanced_weights, n_classes
from ..settings import TrainingSettings
from ..state.stream_states import numpy_stream_state, restore_numpy_stream
from .hidden_sensors import HiddenSensors
from .training_rows import TrainingRows


class BatchOrder:
    """Endless minibatches, without repeats inside an epoch; a short last batch is dropped, a tiny set is one batch.

    More rows begin a new epoch.

    >>> order = BatchOrder(5, 2, np.random.default_rng(0))
    >>> [order.next(5).tolist() for _ in range(3)]  # the fifth row waits for the next epoch
    [[2, 4], [3, 0], [4, 1]]
    """

    def __init__(self, n_rows: int, batch_size: int, draws: np.random.Generator) -> None:
        self._batch_size, self._draws = batch_size, draws
        self._order, self._at = draws.permutation(n_rows), 0

    def next(self, n_rows: int) -> NDArray[np.int64]:
        """Row indices [batch] of the next minibatch, of the rows that there are now."""
        size = self.size(n_rows)
        # rows have grown, or too few are left for a whole batch
        if len(self._order) != n_rows or self._at + size > n_rows:
            self._order, self._at = self._draws.permutation(n_rows), 0
        batch = self._order[self._at : self._at + size]
        self._at += size
        return batch

    def size(self, n_rows: int) -> int:
        """Rows of a minibatch of so many rows."""
        return min(self._batch_size, n_rows)

    def state(self) -> State:
        """Order and position of the epoch, and position of the stream."""
        return {"order": self._order.copy(), "at": self._at, "draws": numpy_stream_state(self._draws)}

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("order", "at", "draws")
        order = parts["order"].array(np.dtype(np.int64), None)
        if not np.array_equal(np.sort(order), np.arange(len(order))):
            parts["order"].refuse("name every row once", "another list of rows")
        self._order, self._at = order, parts["at"].count(len(order))
        restore_numpy_stream(self._draws, parts["draws"])


@dataclass(frozen=True, slots=True)
class PassedBatch:
    """A minibatch and what a model makes of it.

    Attributes:
        embeddings: [batch, n_modalities, embedding_dim].
        fused: [batch, width] what the head reads.
        logits: [batch, n_outputs].
        labels: [batch] int64 classes, or float32 values.
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
    """A client's rows, one minibatch after the other, through a model that the caller chooses.

    Args:
        rows: training rows.
        objective: of training.
        settings: batch size and class weights.
        draws: of the order.

    Attributes:
        objective: as given.
    """

    def __init__(
        self, rows: TrainingRows, objective: Objective, settings: TrainingSettings, draws: np.random.Generator
    ) -> None:
        self._rows, self.objective = rows, objective
        self._balanced = settings.class_weights == "balanced"
        self._class_weights: Tensor | None = None
        self._n_weighted = 0
        self._order = BatchOrder(len(rows.label), settings.batch_size, draws)
        # a spawned stream leaves that of the order where it was
        self._hidden = HiddenSensors(settings.hide_sensors, draws.spawn(1)[0]) if settings.hide_sensors > 0.0 else None

    def next(self, model: ClientModel) -> PassedBatch:
        """The next minibatch through this model."""
        return self.passed(model, self.draw())

    def draw(self) -> NDArray[np.int64]:
        """Rows [batch] of the next minibatch."""
        return self._order.next(len(self._rows.label))

    def passed(self, model: ClientModel, batch: NDArray[np.int64]) -> PassedBatch:
        """These rows [batch] through this model."""
        embeddings = model.embeddings(self.inputs(model, batch))
        present = self.present(model, len(batch))
        fused = model.fusion(embeddings) if present is None else model.fusion.masked(embeddings, present)[0]
        logits = model.read(fused)
        labels, weights = self.labels(batch, logits), self.weights(logits.shape[1], logits)
        return PassedBatch(embeddings, fused, logits, labels, weights, self.objective(logits, labels, weights))

    def present(self, model: ClientModel, n: int) -> Tensor | None:
        """[n, n_modalities] sensors that the next n rows have, see `HiddenSensors`; None: all."""
        return None if self._hidden is None else self._hidden.present(n, len(model.modalities), model.head)

    @property
    def batch_size(self) -> int:
        """Rows of a minibatch, of the rows that there are now."""
        return self._order.size(len(self._rows.label))

    def inputs(self, model: ClientModel, rows: NDArray[np.int64]) -> dict[str, Tensor]:
        """Modality -> [n, ...] inputs of these rows [n] in physical units, for this model."""
        return model.tensors(self._rows.inputs(rows))

    def normalized(self, model: ClientModel, rows: NDArray[np.int64]) -> dict[str, Tensor]:
        """Modality -> [n, ...] what the encoders of this model get of these rows [n]."""
        return model.normalized(self.inputs(model, rows))

    def labels(self, rows: NDArray[np.int64], like: Tensor) -> Tensor:
        """[n] labels of these rows [n], on a device."""
        return torch.from_numpy(self._rows.label[rows]).to(like.device)

    def weights(self, n_outputs: int, like: Tensor) -> Tensor | None:
        """[n_classes] weights of classes of the rows that there are now, for so many logits; or None."""
        # of all rows, not of the minibatch: the loss would otherwise change from batch to batch;
        # counted again only where rows have grown: it is a pass over all labels
        label = self._rows.label
        if self._balanced and self._n_weighted != len(label):
            self._class_weights = class_weights(label, self.objective, n_outputs, like)
            self._n_weighted = len(label)
        return self._class_weights

    def state(self) -> State:
        """State of the order, and of what hides sensors; class weights follow from the rows."""
        if self._hidden is None:
            return self._order.state()
        return {"order": self._order.state(), "hidden": self._hidden.state()}

    def restore(self, saved: SavedState) -> None:
        if self._hidden is None:
            self._order.restore(saved)
            return
        parts = saved.parts("order", "hidden")
        self._order.restore(parts["order"])
        self._hidden.restore(parts["hidden"])


def class_weights(label: Labels, objective: Objective, n_outputs: int, like: Tensor) -> Tensor:
    """[n_classes] weights by which all classes among these classes count alike, for logits [..., n_outputs].

    Args:
        label: [n] classes.
        objective, n_outputs: of the model.
        like: tensor of the wanted type and device.
    """
    return torch.from_numpy(balanced_weights(label, n_classes(objective, n_outputs))).to(like)

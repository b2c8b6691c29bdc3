"""Minibatch steps of one client on its own rows: what every algorithm does between two exchanges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..emulator.contracts import DivergedError, Modality, NodeId
from .client_model import ClientModel
from .flat import FlatModule
from .fusion import AttentionFusion
from .objectives import Objective, balanced_weights, n_classes
from .settings import TrainingSettings

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


class LocalTraining:
    """A model, its rows and its optimizers.

    One `backward` fills all gradients at the current parameters; the steps of (11), (15) and (17) then use them, in any
    order, because none of them reads what another has changed.
    """

    def __init__(
        self,
        client_id: NodeId,
        model: ClientModel,
        rows: TrainingRows,
        objective: Objective,
        settings: TrainingSettings,
        draws: np.random.Generator,
    ) -> None:
        self.client_id, self.model, self.settings = client_id, model, settings
        self._rows, self._objective = rows, objective
        self._class_weights: Tensor | None = None
        self._n_weighted = 0
        n_rows = len(rows.label)
        self._order = BatchOrder(n_rows, settings.batch_size, draws)
        share = not settings.local_statistics
        self.encoders = {m: FlatModule(model.encoders[m], share_buffers=share) for m in model.modalities}
        flats = [flat.trainable for flat in self.encoders.values()]
        self._optimizer: torch.optim.Optimizer = (
            torch.optim.Adam(flats, lr=settings.encoder_step_size, fused=True)  # one kernel, on CPU too
            if settings.encoder_optimizer == "adam"
            else torch.optim.SGD(flats, lr=settings.encoder_step_size)
        )
        sample = self._tensors(rows.inputs(np.arange(1)))
        self.flops_per_step = model.training_flops(sample) * min(settings.batch_size, n_rows)
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
        label = self._rows.label
        batch = self._order.next(len(label))
        self._clear_gradients()
        logits = self.model(self._tensors(self._rows.inputs(batch)))
        labels = torch.from_numpy(label[batch]).to(logits.device)
        loss = self._objective(logits, labels, self._weights(label, logits))
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return loss.detach()

    def step_encoders(self) -> None:
        """Equation (15)."""
        self._optimizer.step()

    def step_attention(self) -> None:
        """Equation (17); nothing to do for fusions without scores."""
        if isinstance(self.model.fusion, AttentionFusion):
            scoring = self.model.fusion.scoring
            assert scoring.grad is not None
            scoring.data.sub_(scoring.grad, alpha=self.settings.attention_step_size)

    def check_finite(self, loss: Tensor, round_index: int) -> None:
        """Remember the round's last loss, and stop a run whose numbers have left the finite ones."""
        self.loss = float(loss)
        flats = [self.head, *(flat.vector for flat in self.encoders.values())]
        if not math.isfinite(self.loss + sum(float(flat.sum()) for flat in flats)):
            raise DivergedError(
                f"client {self.client_id}: left the finite numbers in round {round_index} (loss {self.loss:g});"
                f" lower training.head_step_size ({self.settings.head_step_size:g}), training.encoder_step_size"
                f" ({self.settings.encoder_step_size:g}) or sheaf.coupling"
            )

    def predict(self, inputs: Mapping[Modality, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Logits [n, n_outputs] on rows in physical units."""
        n_rows = len(inputs[self.model.modalities[0]])
        self.model.eval()
        with torch.no_grad():
            pieces = [
                self.model(self._tensors({m: inputs[m][first : first + PREDICTED_AT_ONCE] for m in inputs}))
                for first in range(0, n_rows, PREDICTED_AT_ONCE)
            ]
            logits: NDArray[np.float32] = torch.cat(pieces).cpu().numpy()
        self.model.train()
        return logits

    def _tensors(self, inputs: Mapping[Modality, NDArray[np.float32]]) -> dict[str, Tensor]:
        head = self.model.head
        return {str(m): torch.as_tensor(inputs[m]).to(head.device, head.dtype) for m in self.model.modalities}

    def _weights(self, label: NDArray[np.int64], logits: Tensor) -> Tensor | None:
        """[n_classes] of the rows that there are now, or None."""
        if self.settings.class_weights == "balanced" and self._n_weighted != len(label):
            classes = n_classes(self._objective, self.model.layout.n_outputs)
            self._class_weights = torch.from_numpy(balanced_weights(label, classes)).to(logits)
            self._n_weighted = len(label)
        return self._class_weights

    def _clear_gradients(self) -> None:
        for flat in self.encoders.values():
            flat.gradient.zero_()
        self.model.head.grad = None
        if isinstance(self.model.fusion, AttentionFusion):
            self.model.fusion.scoring.grad = None

"""Minibatch steps of one client on its own rows: what every algorithm does between two exchanges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..emulator.contracts import DivergedError, Modality, NodeId
from .client_model import ClientModel
from .flat import FlatModule
from .fusion import AttentionFusion
from .settings import TrainingSettings


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """What a client trains on.

    Attributes:
        inputs: modality -> [n_rows, ...] in physical units.
        labels: [n_rows] int64 classes.
    """

    inputs: Mapping[Modality, NDArray[np.float32]]
    labels: NDArray[np.int64]


class BatchOrder:
    """Endless minibatches, without repeats inside an epoch; a short last batch is dropped, a tiny set is one batch."""

    def __init__(self, n_rows: int, batch_size: int, draws: np.random.Generator) -> None:
        self._n_rows, self._size, self._draws = n_rows, min(batch_size, n_rows), draws
        self._order = draws.permutation(n_rows)
        self._at = 0

    def next(self) -> NDArray[np.int64]:
        """Row indices [batch] of the next minibatch."""
        if self._at + self._size > self._n_rows:
            self._order, self._at = self._draws.permutation(self._n_rows), 0
        batch = self._order[self._at : self._at + self._size]
        self._at += self._size
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
        settings: TrainingSettings,
        draws: np.random.Generator,
    ) -> None:
        self.client_id, self.model, self.settings = client_id, model, settings
        device, dtype = model.head.device, model.head.dtype
        self._inputs = {str(m): torch.as_tensor(rows.inputs[m], device=device, dtype=dtype) for m in model.modalities}
        self._labels = torch.as_tensor(rows.labels, device=device)
        self._order = BatchOrder(len(rows.labels), settings.batch_size, draws)
        share = not settings.local_statistics
        self.encoders = {m: FlatModule(model.encoders[m], share_buffers=share) for m in model.modalities}
        flats = [flat.trainable for flat in self.encoders.values()]
        self._optimizer: torch.optim.Optimizer = (
            torch.optim.Adam(flats, lr=settings.encoder_step_size, fused=True)  # one kernel, on CPU too
            if settings.encoder_optimizer == "adam"
            else torch.optim.SGD(flats, lr=settings.encoder_step_size)
        )
        sample = {name: rows_[:1] for name, rows_ in self._inputs.items()}
        self.flops_per_step = model.training_flops(sample) * min(settings.batch_size, len(rows.labels))
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
        """Mean cross-entropy [] of the next minibatch, with all gradients filled."""
        batch = torch.from_numpy(self._order.next()).to(self._labels.device)
        self._clear_gradients()
        logits = self.model({name: rows[batch] for name, rows in self._inputs.items()})
        loss = functional.cross_entropy(logits, self._labels[batch])
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
        head = self.model.head
        self.model.eval()
        with torch.no_grad():
            tensors = {
                str(m): torch.as_tensor(inputs[m], device=head.device, dtype=head.dtype) for m in self.model.modalities
            }
            logits: NDArray[np.float32] = self.model(tensors).cpu().numpy()
        self.model.train()
        return logits

    def _clear_gradients(self) -> None:
        for flat in self.encoders.values():
            flat.gradient.zero_()
        self.model.head.grad = None
        if isinstance(self.model.fusion, AttentionFusion):
            self.model.fusion.scoring.grad = None

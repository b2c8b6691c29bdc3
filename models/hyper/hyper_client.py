"""What a client does whose backbone a server generates: it trains all of its model and says what that has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import DataError, Message, MessageKind, State
from ...emulator.saved_state import SavedState
from ..client_model import ClientModel
from ..codecs.codec_table import CODECS
from ..sharing.chained_learner import Inputs, Logits
from ..sharing.payload import to_payload, to_tensor
from ..state.tensors import finite, restore_tensor, to_array
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training
from ..training.training_rows import TrainingRows
from .backbone import Backbone, backbone_parts
from .part_answer import PartAnswer
from .schedule import HyperSchedule

#: Rows of one forward pass of an embedding.
EMBEDDED_AT_ONCE = 256


def mean_embedding(model: ClientModel, rows: TrainingRows) -> Tensor:
    """[width] mean over all rows of what the head reads, in evaluation mode: dropouts do not draw.

    Source: Liang et al. 2025, (3).
    """
    model.eval()
    total, n_rows = torch.zeros(model.layout.width, dtype=model.head.dtype, device=model.head.device), len(rows.label)
    with torch.no_grad():
        # every pass over a graph computes all of its nodes
        at_once = n_rows if model.passes_all else EMBEDDED_AT_ONCE
        for first in range(0, n_rows, at_once):
            chosen = np.arange(first, min(first + at_once, n_rows))
            total += model.fusion(model.embeddings(model.tensors(rows.inputs(chosen)))).sum(dim=0)
    model.train()
    return total / n_rows


class HyperClient:
    """Backbone w from the server, head of its own: local steps on both, then dw = w - w_received goes back.

    An exchange begins with w <- w_received and new moments of the optimizer. Where a number of w_received did not
    arrive, it keeps the value that arrived last (at first that of the common start), and dw is 0 there, because the
    server would take it for a step from what it had sent.

    A client that was off when an exchange opened has received nothing of it either.

    Args:
        setup: of the client.
        schedule: of its exchanges.

    Source: Liang et al. 2025, (1) and its algorithm 1; the losses are ours.
    """

    def __init__(self, setup: ClientSetup, schedule: HyperSchedule) -> None:
        self._client_id, self._rows, self._schedule = setup.client_id, setup.rows, schedule
        self._training = local_training(setup, "fused")
        self._n_steps = setup.training.local_steps
        self._backbone = Backbone(self._training.model, setup.training.personal_encoders)
        parts = backbone_parts(self._training.model, setup.training.personal_encoders)
        self._answers = [PartAnswer(part, setup.hyper, schedule.participation.seed) for part in parts]
        starts = [one.start for one in self._answers]
        self._received = torch.cat(starts) if starts else self._backbone.vector()
        self._heard = torch.zeros_like(self._received, dtype=torch.bool)
        self._opened: int | None = None  # the exchange that it was there for when that opened
        self._codec = CODECS[setup.sharing.codec](to_payload(self._received), setup.sharing)

    @property
    def size(self) -> int:
        """Numbers of a model or of an update as it is sent: P, or fewer where the server answers factors."""
        return len(self._received)

    @property
    def flops(self) -> float:
        """Of one round of local steps."""
        return self._n_steps * self._training.flops_per_step

    @property
    def update_flops(self) -> float:
        """Of one update."""
        return sum(one.change_flops for one in self._answers)

    @property
    def embedding_flops(self) -> float:
        """Of one embedding: a forward pass over all rows."""
        model = self._training.model
        return model.step_flops(self._rows, len(self._rows.label)) / 3.0  # without a backward pass

    def begin(self, round_index: int) -> None:
        """Open an exchange: nothing of the server's model has arrived yet."""
        self._opened = self._schedule.exchange(round_index)
        self._heard.zero_()

    def receive(self, arrived: Sequence[Message]) -> None:
        """Keep what arrived of the server's model, which may be nothing.

        Raises:
            DataError: it is not a model of this client's size.
        """
        for message in arrived:
            values, known = self._codec.decode(message.payload, message.received, self.size)
            vector = to_tensor(values, self._received)
            if len(vector) != self.size:
                raise DataError(f"the server sent {len(vector)} numbers for a backbone of {self.size}")
            self._heard.fill_(True)
            if known is not None:
                self._heard.copy_(to_tensor(known, self._received))
            # a lost number may be anything, NaN too
            self._received.copy_(torch.where(self._heard, vector, self._received))

    def take_over(self, _round_index: int) -> None:
        """Begin local training from what was received."""
        self._backbone.assign(self._generated())
        self._training.forget_moments()

    def train(self, round_index: int) -> None:
        """A round of local steps on all of the model."""
        self._training.train(round_index)

    def train_head(self, round_index: int) -> None:
        """A round of local steps on the head alone, by whatever steps it: the backbone is put back after each."""
        self._training.begin_round()
        backbone = self._backbone.vector()
        for _ in range(self._n_steps):
            loss = self._training.backward()
            self._training.step()
            self._backbone.assign(backbone)
        self._training.check_finite(loss, round_index)

    def update(self, phase: str, round_index: int) -> Message:
        """Message with dw, or with what it comes to for the factors that were received."""
        came = self._heard if self._opened == self._schedule.exchange(round_index) else torch.zeros_like(self._heard)
        change = torch.where(came, self._change(self._backbone.vector() - self._generated()), 0.0)
        return self._message(MessageKind.UPDATE, self._codec.encode(to_payload(change)), phase, round_index)

    def embedding(self, phase: str, round_index: int) -> Message:
        """Message with x_i [width] of the model as it is now."""
        payload = to_payload(mean_embedding(self._training.model, self._rows))
        return self._message(MessageKind.EMBEDDING, payload, phase, round_index)

    def predict(self, inputs: Inputs) -> Logits:
        """Logits of the model as it is now."""
        return {"fused": self._training.predict(inputs)}

    def health(self) -> Mapping[str, float]:
        """Training loss, and how far local steps have led from the backbone as it was received, relative to it."""
        generated = self._generated()
        away = torch.linalg.vector_norm(self._backbone.vector() - generated)
        norm = torch.linalg.vector_norm(generated).clamp_min(1e-12)
        return {"loss": self._training.loss, "update_norm": finite(float(away / norm))}

    def state(self) -> State:
        return {
            "training": self._training.state(),
            "received": to_array(self._received),
            "heard": to_array(self._heard),
            "opened": self._opened,
            "codec": self._codec.state(),
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("training", "received", "heard", "opened", "codec")
        self._training.restore(parts["training"])
        restore_tensor(self._received, parts["received"])
        restore_tensor(self._heard, parts["heard"])
        self._opened = None if parts["opened"].state is None else parts["opened"].count()
        self._codec.restore(parts["codec"])

    def _generated(self) -> Tensor:
        """[P] backbone that was received."""
        pieces = [one.parameters(values) for one, values in self._pieces()]
        return torch.cat(pieces) if pieces else self._received

    def _change(self, of_backbone: Tensor) -> Tensor:
        """[size] what a change of the backbone [P] comes to for what was received."""
        sizes = [len(one.parameters(values)) for one, values in self._pieces()]
        changes = zip(self._pieces(), torch.split(of_backbone, sizes), strict=True)
        found = [one.change(values, change) for (one, values), change in changes]
        return torch.cat(found) if found else self._received

    def _pieces(self) -> list[tuple[PartAnswer, Tensor]]:
        """What was received, part by part."""
        pieces = torch.split(self._received, [one.size for one in self._answers])
        return list(zip(self._answers, pieces, strict=True))

    def _message(self, kind: MessageKind, payload: NDArray[Any], phase: str, round_index: int) -> Message:
        return Message(kind, self._client_id, self._schedule.participation.server, round_index, phase, payload)

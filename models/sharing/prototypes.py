"""Mean features of every class over a client and its neighbors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import Message, MessageKind, MessageSlot, NodeId, State
from ...emulator.saved_state import SavedState
from ..state.tensors import restore_tensor, to_array
from ..training.minibatches import PassedBatch
from .payload import from_neighbors, to_neighbors, to_payload, to_tensor


class Prototypes:
    """Class means of one client: those of its own last round, and those over the neighborhood.

    A message of them holds n_classes * n_features means, then the rows that each stands for: neighbors learn how often
    a client saw each class, which no message of the sheaf reveals.

    Args:
        n_classes, n_features: of what is averaged.
        like: tensor of the wanted type and device.
    """

    def __init__(self, n_classes: int, n_features: int, *, like: Tensor) -> None:
        self.means = like.detach().new_zeros(n_classes, n_features)
        self.known = torch.zeros(n_classes, dtype=torch.bool, device=like.device)
        self._sums, self._counts = torch.zeros_like(self.means), self.means.new_zeros(n_classes)

    def begin_round(self) -> None:
        """Reset the sums over the client's own rows."""
        self._sums, self._counts = torch.zeros_like(self._sums), torch.zeros_like(self._counts)

    def count(self, features: Tensor, labels: Tensor) -> None:
        """Count features [batch, n_views, n_features] of rows with these labels [batch]."""
        # every modality of a row counts as a row of its own
        views = features.shape[1]
        self._sums.index_add_(0, labels, features.sum(dim=1))
        self._counts.index_add_(0, labels, self._counts.new_full(labels.shape, float(views)))

    def distance(self, features: Tensor, labels: Tensor) -> Tensor:
        """Mean squared distance [] of features [batch, n_views, n_features] to the mean of their class."""
        known = self.known[labels].to(features.dtype)  # [batch]
        gaps = (features - self.means[labels].unsqueeze(1)).square().sum(dim=2).sum(dim=1)
        return (known * gaps).sum() / len(labels)

    def payload(self) -> NDArray[np.floating[Any]]:
        """[n_classes * n_features + n_classes] means and row counts of the own round."""
        # a class without rows has sum 0 and count 0, and is sent as 0, not NaN
        means = self._sums / self._counts.clamp_min(1.0).unsqueeze(1)
        return to_payload(torch.cat([means.view(-1), self._counts]))

    def absorb(self, arrived: Sequence[NDArray[Any]]) -> None:
        """Means over the own and the neighbors' rows; a class without rows keeps its mean of before."""
        sums, counts = self._sums.clone(), self._counts.clone()
        n_means = self.means.numel()
        for payload in arrived:
            values = to_tensor(payload, self.means)
            rows = values[n_means:]
            # a mean times its rows is the sum again
            sums.add_(values[:n_means].view_as(sums) * rows.unsqueeze(1))
            counts.add_(rows)
        seen = counts > 0
        # in place: the penalty of the next round reads the same tensor
        self.means[seen] = sums[seen] / counts[seen].unsqueeze(1)
        self.known |= seen

    def state(self) -> State:
        """Means of the neighborhood, and sums over the own rows of the round."""
        return {name: to_array(values) for name, values in self._held().items()}

    def restore(self, saved: SavedState) -> None:
        held = self._held()
        for name, one in saved.parts(*held).items():
            restore_tensor(held[name], one)

    def _held(self) -> dict[str, Tensor]:
        return {"means": self.means, "known": self.known, "sums": self._sums, "counts": self._counts}


def prototype_penalty(
    prototypes: Prototypes, pull: float, features_of: Callable[[PassedBatch], Tensor]
) -> Callable[[PassedBatch], Tensor]:
    """Cost of a minibatch that draws what a model makes of its rows to the means of their classes.

    Args:
        prototypes: the means; the rows of a minibatch are counted towards the next ones.
        pull: strength; the cost [] is `pull` times the squared distance, mean over rows and features.
        features_of: gives the features [batch, n_features] of a minibatch.
    """

    def penalty(passed: PassedBatch) -> Tensor:
        features = features_of(passed).unsqueeze(1)  # [batch, 1, n_features]: one view per row
        prototypes.count(features.detach(), passed.labels)
        return pull / features.shape[2] * prototypes.distance(features, passed.labels)

    return penalty


class PrototypeExchange:
    """The exchange of class means with all neighbors; see `Exchange`.

    Args:
        client_id: sender of the messages.
        neighbors: receivers.
        prototypes: of the client; `begin_round` is called by the work that counts rows.
    """

    kinds = frozenset({MessageKind.PROTOTYPES})

    def __init__(self, client_id: NodeId, neighbors: Iterable[NodeId], prototypes: Prototypes) -> None:
        self._client_id, self._neighbors, self.prototypes = client_id, sorted(neighbors), prototypes

    def messages(self, phase: str, round_index: int) -> list[Message]:
        payloads = dict.fromkeys(self._neighbors, self.prototypes.payload())
        return to_neighbors(MessageKind.PROTOTYPES, self._client_id, payloads, phase, round_index)

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return from_neighbors(MessageKind.PROTOTYPES, self._neighbors, phase, round_index)

    def absorb(self, arrived: Sequence[Message]) -> None:
        self.prototypes.absorb([message.payload for message in arrived])

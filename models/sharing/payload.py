"""Payloads of messages to and from all neighbors, and their way between numpy and torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import Message, MessageKind, MessageSlot, NodeId


def to_payload(vector: Tensor) -> NDArray[np.floating[Any]]:
    """Snapshot [n] of a tensor on any device; later changes of the tensor do not reach it."""
    return np.array(vector.detach().cpu().numpy(), copy=True)


def to_tensor(array: NDArray[Any], like: Tensor) -> Tensor:
    """Tensor on the device of `like` (and of its dtype, unless it is a mask) with the array's content.

    On the CPU it is a view of the array: read it, never write to it.
    """
    tensor = torch.from_numpy(np.asarray(_Writable(array)))
    return tensor.to(like.device) if tensor.dtype == torch.bool else tensor.to(like)


def arrived_values(message: Message, n_values: int, like: Tensor) -> tuple[Tensor, Tensor | float]:
    """The first `n_values` coordinates of a message, 0 where one was lost, and 1 where it came, else 0; or just 1."""
    values = to_tensor(message.payload[:n_values], like)
    if message.received is None:
        return values, 1.0
    came = to_tensor(message.received[:n_values], like)
    # a lost coordinate may hold anything, NaN too, and 0 * NaN is NaN
    return torch.where(came, values, 0.0), came.to(like.dtype)


def to_neighbors(
    kind: MessageKind,
    sender: NodeId,
    payloads: Mapping[NodeId, NDArray[Any]],
    phase: str,
    round_index: int,
) -> list[Message]:
    """One message of a kind to every neighbor.

    Args:
        kind, sender, phase, round_index: of the messages.
        payloads: neighbor -> payload [n]; neighbors may share an array.
    """
    return [Message(kind, sender, neighbor, round_index, phase, payload) for neighbor, payload in payloads.items()]


def from_neighbors(
    kind: MessageKind, neighbors: Iterable[NodeId], phase: str, round_index: int
) -> frozenset[MessageSlot]:
    """Slots of one message of a kind from every neighbor."""
    return frozenset(MessageSlot(round_index, phase, neighbor, kind) for neighbor in neighbors)


class _Writable:
    """View of an array that claims to be writable: torch has no read-only tensors, and warns of arrays that are."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array  # keeps the memory alive
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}

"""Architectures of models, each tried once: whether several models of one can be passed by one call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ..client_model import ClientModel
from .joint_network import JointNetwork, is_convolutional, signature, values_of
from .joint_pass import JointPass, joint_pass


@dataclass(frozen=True, slots=True, eq=False)
class Architecture:
    """What all models of one signature have in common.

    Attributes:
        key: of the models and of the shapes of their inputs.
        network: of the models.
        joint_pass: of several of them.
        convolutional: whether an encoder convolves.
        row_size: numbers of one input, over all modalities.
        refusal: why several models cannot be passed by one call; None: they can.
    """

    key: Hashable
    network: JointNetwork
    joint_pass: JointPass
    convolutional: bool
    row_size: int
    refusal: str | None


_KNOWN: dict[Hashable, Architecture] = {}
#: Architectures that are remembered; beyond it they are made again, which costs milliseconds.
_MOST_KNOWN = 64


#: Of models that are alive: to read it off a model again takes longer than a small prediction.
_OF_MODELS: WeakKeyDictionary[ClientModel, Architecture] = WeakKeyDictionary()


def architecture_of(model: ClientModel, row: Callable[[], Mapping[str, Tensor]]) -> Architecture:
    """Architecture of a model, found once.

    Args:
        model: its values and streams are left alone.
        row: gives modality -> [1, ...] one normalized input.
    """
    found = _OF_MODELS.get(model)
    if found is None:
        found = _OF_MODELS[model] = _known(model, row())
    return found


def _known(model: ClientModel, row: Mapping[str, Tensor]) -> Architecture:
    key = signature(model), tuple((m, tuple(row[m].shape[1:])) for m in model.modalities)
    found = _KNOWN.get(key)
    if found is None:
        network = JointNetwork(model)
        found = Architecture(
            key,
            network,
            joint_pass(network),
            is_convolutional(model),
            sum(each.numel() for each in row.values()),
            _refusal(network, row),
        )
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = found
    return found


def _refusal(network: JointNetwork, row: Mapping[str, Tensor]) -> str | None:
    """What two copies of a network raise when they are passed together; None: nothing."""
    rows = {m: torch.cat([values, values]) for m, values in row.items()}
    twice = {m: torch.stack([values, values]) for m, values in rows.items()}
    before = {name: values.detach().clone() for name, values in values_of(network).items()}
    try:
        network.passed(
            {name: values.clone() for name, values in before.items()}, (), rows
        )  # dropouts note their shapes
        stacked = {name: torch.stack([values, values]) for name, values in before.items()}
        factors = [torch.ones(2, 2, *drop.shape).to(rows[network.modalities[0]]) for drop in network.drops]
        torch.vmap(network.passed)(stacked, factors, twice)
    except Exception as error:  # noqa: BLE001 - any module of a plugin may raise anything
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None

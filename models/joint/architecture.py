"""Architectures of models, each tried once: whether several models of one can be passed by one call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from threading import local
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ..client_model import ClientModel
from ..encoders.graph_convolution import GraphConvolutions
from .joint_network import JointNetwork, is_convolutional, signature, values_of
from .joint_pass import JointPass, joint_pass


class Architecture:
    """What all models of one signature have in common.

    Args:
        key: of the models and of the shapes of their inputs.
        pattern: joint network of the models.
        convolutional: whether an encoder convolves.
        row: modality -> [1, ...] one normalized input.

    Attributes:
        key, convolutional: as given.
        row_size: numbers of one input, over all modalities.
        refusal: why several models cannot be passed by one call; None: they can.
    """

    def __init__(self, key: Hashable, pattern: JointNetwork, row: Mapping[str, Tensor], *, convolutional: bool) -> None:
        self.key, self.convolutional = key, convolutional
        self.row_size = sum(each.numel() for each in row.values())
        self.refusal = _refusal(pattern, row)
        self._pattern, self._of_thread = pattern, local()

    @property
    def network(self) -> JointNetwork:
        """Joint network of this thread: while it is passed, it holds factors of dropouts, and may be in evaluation."""
        found: JointNetwork | None = getattr(self._of_thread, "network", None)
        if found is None:
            found = self._of_thread.network = copy.deepcopy(self._pattern)
        return found

    @property
    def joint_pass(self) -> JointPass:
        """Pass of several models by the network of this thread."""
        return joint_pass(self.network)

    @contextmanager
    def in_evaluation(self) -> Iterator[None]:
        """Context in which passes are those of evaluation."""
        network = self.network.eval()
        try:
            yield
        finally:
            network.train()


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
        found = Architecture(key, JointNetwork(model), row, convolutional=is_convolutional(model))
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = found
    return found


def _refusal(network: JointNetwork, row: Mapping[str, Tensor]) -> str | None:
    """Why two copies of a network cannot be passed together, or what they raise; None: nothing."""
    own = next((module for module in network.encoders.modules() if isinstance(module, GraphConvolutions)), None)
    if own is not None:
        return "every client has a graph of its own"
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

"""The state of networks and of their optimizers."""

from __future__ import annotations

from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ...emulator.contracts import State
from ...emulator.saved_state import SavedState, Stateful, has_state
from .tensors import restore_tensor, restored_tensor, to_array

#: Values that an optimizer holds for every vector, from its first step on. Adam counts its steps in a float.
KEPT: dict[type[torch.optim.Optimizer], tuple[str, ...]] = {
    torch.optim.Adam: ("step", "exp_avg", "exp_avg_sq"),
    torch.optim.SGD: (),
}


def module_state(module: nn.Module) -> State:
    """Parameters, buffers such as running statistics, and positions of the streams that its dropouts draw from."""
    return {
        "values": {name: to_array(values) for name, values in _named(module).values.items()},
        "dropout": stream_states(module),
    }


def stream_states(module: nn.Module) -> State:
    """Positions of the streams that its dropouts draw from, by name."""
    return {name: dropout.state() for name, dropout in _named(module).drawing.items()}


def restore_module(module: nn.Module, saved: SavedState) -> None:
    """Overwrite parameters, buffers and streams in place: vectors that parameters are views of see the change.

    Raises:
        ConfigError: the state is that of another network.
    """
    parts, (values, dropouts) = saved.parts("values", "dropout"), _named(module)
    for name, one in parts["values"].parts(*values).items():
        restore_tensor(values[name], one)
    for name, one in parts["dropout"].parts(*dropouts).items():
        dropouts[name].restore(one)


class ModulePart:
    """A network that is a part of a state by itself."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def state(self) -> State:
        return module_state(self._module)

    def restore(self, saved: SavedState) -> None:
        restore_module(self._module, saved)


def optimizer_state(optimizer: torch.optim.Optimizer) -> State:
    """Moments of every vector and the number of its steps; an empty mapping before the first one."""
    return [
        {name: to_array(optimizer.state[vector][name]) for name in _kept(optimizer) if vector in optimizer.state}
        for vector in _vectors(optimizer)
    ]


def restore_optimizer(optimizer: torch.optim.Optimizer, saved: SavedState) -> None:
    """Overwrite moments and step counts; settings stay those that the optimizer was made with.

    Raises:
        ConfigError: the state belongs to other vectors or to another kind of optimizer.
    """
    vectors = _vectors(optimizer)
    for vector, one in zip(vectors, saved.listed(len(vectors)), strict=True):
        if not one.named():  # no step yet
            # the saved optimizer has made no step, this one may have
            optimizer.state.pop(vector, None)
            continue
        kept = one.parts(*_kept(optimizer))
        like = {"step": torch.zeros((), device=vector.device)}  # a fused optimizer counts on the vector's device
        optimizer.state[vector] = {name: restored_tensor(part, like.get(name, vector)) for name, part in kept.items()}


def adam_moments(optimizer: torch.optim.Optimizer) -> list[dict[str, Tensor]]:
    """Of every vector of a fused Adam: number of steps and moments, as they are or as its first step finds them."""
    for vector in _vectors(optimizer):
        if vector not in optimizer.state:
            moments = {name: torch.zeros_like(vector.detach()) for name in ("exp_avg", "exp_avg_sq")}
            optimizer.state[vector] = {"step": torch.zeros((), device=vector.device), **moments}
    return [optimizer.state[vector] for vector in _vectors(optimizer)]


class _Named(NamedTuple):
    """What a network consists of.

    Attributes:
        values: its parameters and buffers.
        drawing: its submodules with a random stream: the only state of a network that is no tensor.
    """

    values: dict[str, Tensor]
    drawing: dict[str, Stateful]


#: Of networks that are alive: the objects stay the same, and torch walks through all modules to name them.
_NAMED: WeakKeyDictionary[nn.Module, _Named] = WeakKeyDictionary()


def _named(module: nn.Module) -> _Named:
    found = _NAMED.get(module)
    if found is None:
        drawing = {name: cast("Stateful", part) for name, part in module.named_modules() if has_state(part)}
        found = _NAMED[module] = _Named({**dict(module.named_parameters()), **dict(module.named_buffers())}, drawing)
    return found


def _vectors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [vector for group in optimizer.param_groups for vector in group["params"]]


def _kept(optimizer: torch.optim.Optimizer) -> tuple[str, ...]:
    return KEPT[type(optimizer)]

"""What networks and their optimizers remember."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from ...emulator.contracts import State
from ..encoders.dropout import SeededDropout
from .state_fields import Saved, to_array

#: What an optimizer keeps of every vector, from its first step on. Adam counts its steps in a float.
KEPT: dict[type[torch.optim.Optimizer], tuple[str, ...]] = {
    torch.optim.Adam: ("step", "exp_avg", "exp_avg_sq"),
    torch.optim.SGD: (),
}


def module_state(module: nn.Module) -> State:
    """Parameters, buffers such as running statistics, and where the streams of its dropouts stand."""
    return {
        "values": {name: to_array(values) for name, values in _values(module).items()},
        "dropout": {name: dropout.state() for name, dropout in _dropouts(module).items()},
    }


def resume_module(module: nn.Module, saved: Saved) -> None:
    """Overwrite all that in place: vectors that parameters are views of see the change.

    Raises:
        ConfigError: it is of another network.
    """
    parts, values, dropouts = saved.parts("values", "dropout"), _values(module), _dropouts(module)
    for name, one in parts["values"].parts(*values).items():
        one.into(values[name])
    for name, one in parts["dropout"].parts(*dropouts).items():
        dropouts[name].resume(one)


def optimizer_state(optimizer: torch.optim.Optimizer) -> State:
    """Moments of every vector, and the number of its steps; nothing before the first one."""
    return [
        {name: to_array(optimizer.state[vector][name]) for name in _kept(optimizer) if vector in optimizer.state}
        for vector in _vectors(optimizer)
    ]


def resume_optimizer(optimizer: torch.optim.Optimizer, saved: Saved) -> None:
    """Take them in; the settings stay those that the optimizer was made with.

    Raises:
        ConfigError: they belong to other vectors or to another kind of optimizer.
    """
    vectors = _vectors(optimizer)
    for vector, one in zip(vectors, saved.listed(len(vectors)), strict=True):
        if not one.named():  # no step yet
            optimizer.state.pop(vector, None)
            continue
        kept = one.parts(*_kept(optimizer))
        like = {"step": torch.zeros((), device=vector.device)}  # a fused optimizer counts on the vector's device
        optimizer.state[vector] = {name: part.tensor(like.get(name, vector)) for name, part in kept.items()}


def _values(module: nn.Module) -> dict[str, Tensor]:
    return dict(itertools.chain(module.named_parameters(), module.named_buffers()))


def _dropouts(module: nn.Module) -> dict[str, SeededDropout]:
    return {name: part for name, part in module.named_modules() if isinstance(part, SeededDropout)}


def _vectors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [vector for group in optimizer.param_groups for vector in group["params"]]


def _kept(optimizer: torch.optim.Optimizer) -> tuple[str, ...]:
    return KEPT[type(optimizer)]

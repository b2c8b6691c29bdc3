"""The network of one architecture as a function of its values, so that `torch.vmap` passes many clients at once."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ...emulator.contracts import PRESENT_NAME
from ..client_model import ClientModel
from ..encoders.conv_block import ChannelsLast
from ..encoders.dropout import SeededDropout
from ..fusion import Fusion
from ..head import apply_head

#: Attributes of a module that belong to torch or to its children.
_OF_TORCH = frozenset(vars(nn.Module()))
#: What an attribute of a module may be to be compared.
_PLAIN = (bool, int, float, str, tuple, type(None))


class GivenDropout(nn.Module):
    """Dropout by factors that were drawn outside, because no function under `torch.vmap` can draw from a stream.

    Attributes:
        factors: for the next inputs, of their shape; None: the shape of the inputs is noted, and nothing else done.
        shape: of one row of the inputs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.factors: Tensor | None = None
        self.shape: tuple[int, ...] = ()

    def forward(self, values: Tensor) -> Tensor:
        if self.training and self.factors is None:
            self.shape = tuple(values.shape[1:])
        return values if self.factors is None or not self.training else values * self.factors


class JointNetwork(nn.Module):
    """Encoders, fusion and head of a client's model, without its normalizers and with values from outside.

    Args:
        model: its modules are copied.

    Attributes:
        modalities, n_outputs: of the model.
        drops: places of the dropouts, in the order of `dropouts`.
    """

    def __init__(self, model: ClientModel) -> None:
        super().__init__()
        given = {id(dropout): GivenDropout() for dropout in dropouts(model)}
        # vmap cannot change the order of maps in memory, which changes no value
        plain = {id(module): nn.Identity() for module in model.encoders.modules() if _changes_nothing(module)}
        replaced: dict[int, Any] = {**given, **plain}
        self.modalities, self.n_outputs = model.modalities, model.layout.n_outputs
        self.encoders: nn.ModuleDict = copy.deepcopy(model.encoders, replaced)
        self.fusion: Fusion = copy.deepcopy(model.fusion, replaced)
        self.head = nn.Parameter(model.head.detach().clone())
        self.drops = list(given.values())
        self.train()

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings, what the head reads, and logits of normalized inputs; see `PassedBatch`."""
        embeddings = torch.stack([self.encoders[m](inputs[m]) for m in self.modalities], dim=1)
        present = inputs.get(PRESENT_NAME)
        fused = self.fusion(embeddings) if present is None else self.fusion.masked(embeddings, present)[0]
        return embeddings, fused, apply_head(self.head, fused, self.n_outputs)

    def passed(
        self, values: Mapping[str, Tensor], factors: Sequence[Tensor], inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `forward`, with these parameters and buffers by name, and these factors of dropouts or none."""
        for drop, chosen in zip(self.drops, factors, strict=bool(factors)):
            drop.factors = chosen
        try:
            found: tuple[Tensor, Tensor, Tensor] = functional_call(self, dict(values), (inputs,))
        finally:
            for drop in self.drops:
                drop.factors = None
        return found


def dropouts(model: ClientModel) -> list[SeededDropout]:
    """Dropouts of a model that draw, in order."""
    drops = (module for module in model.encoders.modules() if isinstance(module, SeededDropout))
    return [drop for drop in drops if drop.p > 0.0]


def _changes_nothing(module: nn.Module) -> bool:
    return isinstance(module, ChannelsLast) or (isinstance(module, SeededDropout) and module.p == 0.0)


#: Of models that are alive: the objects stay the same, and torch walks through all modules to name them.
_VALUES: WeakKeyDictionary[ClientModel, dict[str, Tensor]] = WeakKeyDictionary()


def values_in(model: ClientModel) -> Mapping[str, Tensor]:
    """Name of a parameter or buffer of the joint network -> the same of a model."""
    found = _VALUES.get(model)
    if found is None:
        named = {"encoders": model.encoders, "fusion": model.fusion}
        found = {f"{part}.{name}": each for part, module in named.items() for name, each in values_of(module).items()}
        found = _VALUES[model] = {**found, "head": model.head}
    return found


def values_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters, then buffers, by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def is_convolutional(model: ClientModel) -> bool:
    """Whether any encoder convolves."""
    return any(isinstance(module, nn.modules.conv._ConvNd) for module in model.encoders.modules())


def signature(model: ClientModel) -> Hashable:
    """Equal for models that compute the same function of their values: classes, shapes and plain attributes."""
    parts = tuple(_module_signature(name, module) for name, module in _networks(model))
    named = [pair for part in _parts(model) for pair in values_of(part).items()]
    shapes = tuple((name, tuple(values.shape), values.dtype, values.requires_grad) for name, values in named)
    return model.modalities, parts, shapes, tuple(model.head.shape), model.head.dtype, str(model.head.device)


def _parts(model: ClientModel) -> tuple[nn.Module, nn.Module]:
    return model.encoders, model.fusion


def _networks(model: ClientModel) -> Iterator[tuple[str, nn.Module]]:
    for part in _parts(model):
        yield from part.named_modules()


def _module_signature(name: str, module: nn.Module) -> Hashable:
    kept = {key: value for key, value in vars(module).items() if key not in _OF_TORCH and _is_plain(value)}
    return name, type(module), tuple(sorted((key, repr(value)) for key, value in kept.items()))


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)

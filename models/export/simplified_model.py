"""A deployed model in fewer steps: normalizations, averages and scales merged into the layers beside them.

In evaluation the normalization of a batch is y = a x + b per channel, a = gamma / sqrt(var + eps), b = beta - a mean.

Right behind a convolution it goes into the weights. Behind convolution, ReLU and max pooling, the order of Ghalkha et
al. 2025, with s = 1 where a >= 0 and -1 elsewhere,

    s (a pool(relu(z)) + b) = max(pool(|a| z + s b), s b)

so that the convolution takes |a| and s b, and what stays of ReLU and normalization is a lower bound per channel behind
the pooling. The next convolution has s in its weights; it pads with 0, which has no sign. (It could not take b: at the
border the padding would have to be -b / a.) A linear layer that follows takes a and b as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..encoders.conv_block import AsMap, ChannelsLast
from ..encoders.dropout import SeededDropout
from ..encoders.normalize import CameraScale, RelativePower, StandardizePower
from ..factors.factored_layers import FactoredConv2d, FactoredLinear

#: Where a layer stands: the sequence that holds it, and its name there.
_Place = tuple[nn.Sequential, str]
#: What changes no value, or no channel, in evaluation.
_PASSES = (SeededDropout, nn.Dropout, nn.Identity, ChannelsLast, AsMap)


class LowerBound(nn.Module):
    """Maps [batch, channels, h, w], every channel cut off below its own bound; ReLU where all bounds are 0.

    Args:
        lowest: [channels, 1, 1].
    """

    lowest: Tensor

    def __init__(self, lowest: Tensor) -> None:
        super().__init__()
        self.register_buffer("lowest", lowest)

    def forward(self, maps: Tensor) -> Tensor:
        """[batch, channels, h, w] -> the same."""
        return torch.maximum(maps, self.lowest)

    def extra_repr(self) -> str:
        """Number of channels, by which two architectures differ."""
        return f"{len(self.lowest)}"


class SectorMeans(nn.Module):
    """Adaptive average pooling to one row: one mean over the rows, then a product with the weights of the columns.

    Args:
        n_columns: columns of the maps.
        n_sectors: columns of the result; sectors overlap by a column where the numbers do not divide.
    """

    def __init__(self, n_columns: int, n_sectors: int) -> None:
        super().__init__()
        each = torch.eye(n_columns)[None, :, None]  # [1, columns, 1, columns]: a map for every column
        # no buffer: it follows from the sizes, and is no value of a client
        self.weights = nn.functional.adaptive_avg_pool2d(each, (1, n_sectors))[0, :, 0]

    def forward(self, maps: Tensor) -> Tensor:
        """[batch, channels, h, n_columns] -> [batch, channels, n_sectors]."""
        return maps.mean(dim=2) @ self.weights

    def extra_repr(self) -> str:
        """Sizes, by which two architectures differ."""
        return " -> ".join(map(str, self.weights.shape))


class Centered(nn.Module):
    """Inputs [batch, ...] less a mean of training samples; None: less the mean of their own last axis.

    Args:
        mean: [] in the unit of the inputs.
    """

    mean: Tensor | None

    def __init__(self, mean: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("mean", mean)

    def forward(self, inputs: Tensor) -> Tensor:
        """[batch, ...] -> the same shape."""
        return inputs - (inputs.mean(dim=-1, keepdim=True) if self.mean is None else self.mean)

    def extra_repr(self) -> str:
        """Kind of mean, by which two architectures differ."""
        return "own mean" if self.mean is None else "mean"


def put_sector_means(encoder: nn.Module, inputs: Tensor) -> None:
    """Replace pooling to one row whose windows are uneven: the exporter makes an operator of every column of a window.

    Args:
        encoder: changed in place.
        inputs: any inputs of it, of the right shape.
    """
    if not isinstance(encoder, nn.Sequential):
        return
    seen: dict[nn.Module, int] = {}

    def remember(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen[layer] = given[0].shape[-1]

    pooled = [place for place in _places(encoder) if isinstance(_at(place), nn.AdaptiveAvgPool2d)]
    hooks = [_at(place).register_forward_pre_hook(remember) for place in pooled]
    with torch.no_grad():
        encoder(inputs)
    for hook in hooks:
        hook.remove()
    for place in pooled:
        size, n_columns = _at(place).output_size, seen[_at(place)]
        if isinstance(size, tuple) and size[0] == 1 and isinstance(size[1], int) and n_columns % size[1]:
            _put(place, SectorMeans(n_columns, size[1]))


def simplify_encoder(normalizer: nn.Module, encoder: nn.Module) -> nn.Module:
    """Change an encoder in evaluation mode in place; layers that stay keep their names.

    Args:
        normalizer: what stands before it.
        encoder: changed where it is a sequence of layers that are known here; left as it is elsewhere.

    Returns:
        The normalizer to use from now on.
    """
    if not isinstance(encoder, nn.Sequential):
        return normalizer
    places = _places(encoder)
    _merge_norms(places)
    places = [place for place in places if not isinstance(_at(place), _PASSES)]
    return _without_scale(normalizer, places)


def _places(sequence: nn.Sequential) -> list[_Place]:
    """Layers in the order of computing, sequences inside taken apart."""
    places: list[_Place] = []
    for name, layer in sequence.named_children():
        places += _places(layer) if type(layer) is nn.Sequential else [(sequence, name)]
    return places


def _at(place: _Place) -> nn.Module:
    sequence, name = place
    return sequence.get_submodule(name)


def _put(place: _Place, layer: nn.Module) -> None:
    sequence, name = place
    sequence.set_submodule(name, layer)


def _merge_norms(places: Sequence[_Place]) -> None:
    known = [place for place in places if not isinstance(_at(place), _PASSES)]
    for index, place in enumerate(known):
        norm = _at(place)
        if not isinstance(norm, nn.BatchNorm2d) or norm.running_var is None or not norm.affine:
            continue
        before = [_at(one) for one in known[max(index - 3, 0) : index]]
        behind = [_at(one) for one in known[index + 1 : index + 4]]
        a, b = _factors(norm)
        if before and _is_plain_conv(before[-1]):
            _into_conv(before[-1], a, b)
            _put(place, nn.Identity())
        elif (reader := _flat_reader(behind)) is not None:
            _into_linear(reader, a, b)
            _put(place, nn.Identity())
        elif _is_block(before) and behind and _is_plain_conv(behind[0]):
            sign = torch.where(a < 0.0, -1.0, 1.0).to(a)
            _into_conv(before[0], a.abs(), sign * b)
            _times(_first(behind[0]).weight, sign[None, :, None, None])
            _put(known[index - 2], nn.Identity())
            _put(place, LowerBound((sign * b).to(_first(behind[0]).weight)[:, None, None]))


def _factors(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Factor a and shift b [channels] of a normalization, which is a x + b; float64."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    a = norm.weight.detach().double() / (norm.running_var.double() + norm.eps).sqrt()
    return a, norm.bias.detach().double() - a * norm.running_mean.double()


def _is_plain_conv(layer: nn.Module) -> bool:
    if isinstance(layer, FactoredConv2d):
        return layer.wide.bias is not None
    return type(layer) is nn.Conv2d and layer.groups == 1 and layer.bias is not None and layer.padding_mode == "zeros"


def _is_block(layers: Sequence[nn.Module]) -> bool:
    return len(layers) == 3 and _is_plain_conv(layers[0]) and list(map(type, layers[1:])) == [nn.ReLU, nn.MaxPool2d]


def _flat_reader(layers: Sequence[nn.Module]) -> nn.Linear | FactoredLinear | None:
    """The linear layer that reads the maps flattened, or averages of them; None: something else does."""
    if layers and isinstance(layers[0], nn.AdaptiveAvgPool2d):  # averages of a x + b are a times the averages, and b
        layers = layers[1:]
    if len(layers) < 2 or type(layers[0]) is not nn.Flatten or not isinstance(layers[1], nn.Linear | FactoredLinear):
        return None
    return layers[1] if _last(layers[1]).bias is not None else None


def _first(layer: nn.Module) -> nn.Linear | nn.Conv2d:
    """What has the inputs of a layer, which may be a chain of factors."""
    found = layer.narrow if isinstance(layer, FactoredLinear | FactoredConv2d) else layer
    assert isinstance(found, nn.Linear | nn.Conv2d)
    return found


def _last(layer: nn.Module) -> nn.Linear | nn.Conv2d:
    """What has the outputs of a layer, and its bias."""
    found = layer.wide if isinstance(layer, FactoredLinear | FactoredConv2d) else layer
    assert isinstance(found, nn.Linear | nn.Conv2d)
    return found


def _into_conv(layer: nn.Module, a: Tensor, b: Tensor) -> None:
    """conv(x) becomes a conv(x) + b."""
    conv = _last(layer)
    assert conv.bias is not None
    _times(conv.weight, a[:, None, None, None])
    with torch.no_grad():
        conv.bias.copy_(a * conv.bias.double() + b)


def _into_linear(layer: nn.Linear | FactoredLinear, a: Tensor, b: Tensor) -> None:
    """linear(flat x) becomes linear(flat (a x + b)); channels come one after the other in flat maps."""
    first, last = _first(layer), _last(layer)
    assert last.bias is not None
    weight = torch.unflatten(first.weight.detach().double(), 1, (len(a), -1))  # [out or rank, channels, places]
    moved = (weight * b[:, None]).sum(dim=(1, 2))
    with torch.no_grad():
        last.bias.add_(moved if first is last else last.weight.double() @ moved)
        first.weight.copy_((weight * a[:, None]).flatten(1))


def _times(weight: Tensor, factor: Tensor) -> None:
    with torch.no_grad():
        weight.copy_(weight.double() * factor)


def _without_scale(normalizer: nn.Module, places: Sequence[_Place]) -> nn.Module:
    """The normalizer without its division, which the first weights take over, where it divides all by one number.

    Numbers of several scales stay divided: 8 bits share one scale among all inputs of a layer.
    """
    layers = [layer for layer in map(_at, places) if not isinstance(layer, nn.Flatten)]
    if not layers or type(layers[0]) not in {nn.Conv2d, nn.Linear, FactoredConv2d, FactoredLinear}:
        return normalizer
    if isinstance(normalizer, CameraScale):
        mean, scale = normalizer.mean, normalizer.std
    elif isinstance(normalizer, StandardizePower):
        mean, scale = normalizer.mean_db, normalizer.std_db
    elif isinstance(normalizer, RelativePower):
        mean, scale = None, normalizer.std_db
    else:
        return normalizer
    _times(_first(layers[0]).weight, 1.0 / scale.double())
    return Centered(mean)

"""Layers that compute with factors: chains of small operators whose outputs are those of the dense layer.

A device that runs these neither stores nor multiplies by the weight that the factors make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn

from .canonical import Factors


class FactoredLinear(nn.Module):
    """y = A1 (A2^T x) + b for a weight [out, in] = A1 A2^T: two linear layers with `rank` numbers between them.

    Args:
        layer: dense layer, whose sizes and bias it has.
        rank: R.

    Attributes:
        out_features: as of the layer.
    """

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.out_features = layer.out_features
        self.narrow = nn.Linear(layer.in_features, rank, bias=False)
        self.wide = nn.Linear(rank, layer.out_features, bias=layer.bias is not None)
        _take_bias(self.wide.bias, layer.bias)

    def take(self, factors: Factors) -> None:
        """Have these factors [out, R] and [in, R]."""
        outputs, inputs = factors
        self.narrow.weight.data.copy_(inputs.mT)
        self.wide.weight.data.copy_(outputs)

    def forward(self, rows: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        answer: Tensor = self.wide(self.narrow(rows))
        return answer


class FactoredConv2d(nn.Module):
    """Four convolutions for a kernel [out, in, height, width]: pointwise, along the width, along the height, pointwise.

    Args:
        layer: dense layer without groups, whose sizes, stride, padding, dilation and bias it has.
        rank: R, the channels in between.

    Source: Lebedev et al. 2015, *Speeding-up Convolutional Neural Networks Using Fine-tuned CP-Decomposition*; Wang et
    al., equations (9) to (12).
    """

    def __init__(self, layer: nn.Conv2d, rank: int) -> None:
        super().__init__()
        height, width = layer.kernel_size
        (rows, columns), (down, across) = cast(tuple[int, int], layer.padding), layer.stride
        tall, wide = layer.dilation

        def along(kernel: tuple[int, int], **options: tuple[int, int]) -> nn.Conv2d:
            return nn.Conv2d(rank, rank, kernel, groups=rank, bias=False, **options)  # type: ignore[arg-type]  # pairs

        self.narrow = nn.Conv2d(layer.in_channels, rank, 1, bias=False)
        self.across = along((1, width), stride=(1, across), padding=(0, columns), dilation=(1, wide))
        self.down = along((height, 1), stride=(down, 1), padding=(rows, 0), dilation=(tall, 1))
        self.wide = nn.Conv2d(rank, layer.out_channels, 1, bias=layer.bias is not None)
        _take_bias(self.wide.bias, layer.bias)

    def take(self, factors: Factors) -> None:
        """Have these factors [out, R], [in, R], [height, R] and [width, R]."""
        outputs, inputs, height, width = factors
        self.narrow.weight.data.copy_(inputs.mT[:, :, None, None])
        self.across.weight.data.copy_(width.mT[:, None, None, :])
        self.down.weight.data.copy_(height.mT[:, None, :, None])
        self.wide.weight.data.copy_(outputs[:, :, None, None])

    def forward(self, maps: Tensor) -> Tensor:
        """[batch, in, height, width] -> [batch, out, ...]."""
        answer: Tensor = self.wide(self.down(self.across(self.narrow(maps))))
        return answer


Factored = FactoredLinear | FactoredConv2d


def factored_layer(layer: nn.Module, rank: int) -> Factored | None:
    """A layer of the same sizes that computes with factors of this rank; None where there is no such chain."""
    if isinstance(layer, nn.Linear):
        return FactoredLinear(layer, rank)
    if isinstance(layer, nn.Conv2d) and layer.groups == 1 and layer.padding_mode == "zeros":
        return None if isinstance(layer.padding, str) else FactoredConv2d(layer, rank)
    return None


def put_factored_layers(module: nn.Module, rank_of: Callable[[str], int | None]) -> Mapping[str, Factored]:
    """Replace layers of a module by those that compute with factors.

    Args:
        module: is changed.
        rank_of: gives the rank of a layer by its name; None: it stays.

    Returns:
        Name -> layer that was put in its place.
    """
    put: dict[str, Factored] = {}
    for name, layer in list(module.named_modules()):
        rank = rank_of(name)
        made = None if rank is None else factored_layer(layer, rank)
        if made is not None:
            above, _, last = name.rpartition(".")
            setattr(module.get_submodule(above), last, made)
            put[name] = made
    return put


def _take_bias(own: Tensor | None, bias: Tensor | None) -> None:
    if own is not None and bias is not None:
        with torch.no_grad():
            own.copy_(bias)

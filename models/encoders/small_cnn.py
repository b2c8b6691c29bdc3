"""Small convolutional networks of images, with the layer sizes of the Sheaf-FMTL experiments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from .conv_block import AsMap, ChannelsLast, SampleSizeError


@dataclass(frozen=True, slots=True)
class CnnSizes:
    """Layers of a network.

    Attributes:
        channels: filters of every 3 x 3 convolution without padding, each followed by ReLU and 2 x 2 pooling; computed
            in the other order, which gives the same values with a quarter of the comparisons.
        hidden_dim: units of a linear layer behind them, followed by ReLU; None: the embedding is the flattened maps.
    """

    channels: Sequence[int]
    hidden_dim: int | None = None


#: Name -> layers. With a linear head of 10 classes on 28 x 28 images they have 34,826, 27,210, 22,666 and 212,146
#: parameters.
#: Source: Ben Issaid, Vepakomma and Bennis, "Tackling Feature and Sample Heterogeneity in Decentralized Multi-Task
#: Learning: A Sheaf-Theoretic Approach" , by its numbers of filters; the totals printed there do not fit these.
CNN_SIZES: Mapping[str, CnnSizes] = {
    "cnn_fmtl": CnnSizes((32, 64)),
    "cnn_fmtl_small": CnnSizes((16,)),
    "cnn_fmtl_medium": CnnSizes((24, 48)),
    "cnn_fmtl_large": CnnSizes((32, 64), 120),
}


class SmallCnn(nn.Module):
    """Convolutions and pooling, then flat maps or a linear layer.

    Args:
        shape: (height, width) or (channels, height, width) of one image.
        sizes: its layers.

    Attributes:
        embedding_dim: size of what the head reads.

    Raises:
        SampleSizeError: the images are too small for the layers.
    """

    def __init__(self, shape: tuple[int, ...], sizes: CnnSizes) -> None:
        super().__init__()
        (before, *place) = (1, *shape) if len(shape) == 2 else shape
        self._shape = (before, *place) if before > 1 else tuple(place)
        self._order: nn.Module = ChannelsLast() if before > 1 else AsMap()
        layers: list[nn.Module] = []
        for channels in sizes.channels:
            layers += [nn.Conv2d(before, channels, 3), nn.MaxPool2d(2), nn.ReLU()]
            before, place = channels, [(side - 2) // 2 for side in place]
        if min(place) < 1:
            raise SampleSizeError(
                f"inputs of shape {shape} are too small for {len(sizes.channels)} convolutions without padding; give"
                " larger images, or take encoder = 'mlp' or 'cnn_fmtl_small' in clients.groups"
            )
        self.embedding_dim = before * math.prod(place)
        layers.append(nn.Flatten())
        if sizes.hidden_dim is not None:
            layers += [nn.Linear(self.embedding_dim, sizes.hidden_dim), nn.ReLU()]
            self.embedding_dim = sizes.hidden_dim
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        """[batch, *shape] -> [batch, embedding_dim]."""
        embedding: Tensor = self.layers(self._order(images.reshape(-1, *self._shape)))
        return embedding

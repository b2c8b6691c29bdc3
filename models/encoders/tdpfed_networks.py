"""The two networks of the TDPFed experiments, without their last layer, which is the head."""

from __future__ import annotations

import math

from torch import Tensor, nn

from .conv_block import AsMap, ChannelsLast, SampleSizeError

#: Units of the perceptron's only hidden layer.
HIDDEN_UNITS = 100
#: Filters of the convolutions, and units of the linear layers behind them.
CHANNELS, UNITS = (32, 64, 128, 256, 256), (256, 256)


class HiddenLayer(nn.Sequential):
    """A linear layer of 100 units and ReLU over the flattened input; with a head of 10 classes 784-100-10.

    Attributes:
        embedding_dim: size of what the head reads.

    Source: the "DNN" of Wang et al., *Tensor Decomposition based Personalized Federated Learning*.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(nn.Flatten(), nn.Linear(math.prod(shape), HIDDEN_UNITS), nn.ReLU())
        self.embedding_dim = HIDDEN_UNITS


class Vgg8(nn.Module):
    """Five 3 x 3 convolutions with padding, each with ReLU and 2 x 2 pooling, then two linear layers of 256 units.

    Args:
        shape: (height, width) or (channels, height, width) of one image; 32 x 32 leaves a single place.

    Attributes:
        embedding_dim: size of what the head reads.

    Raises:
        SampleSizeError: pooling leaves nothing of the images.

    Source: the "VGG8" of Wang et al., whose printed sizes ask for padding and a pooling per convolution.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        (before, *place) = (1, *shape) if len(shape) == 2 else shape
        self._shape = (before, *place) if before > 1 else tuple(place)
        left = [side // 2 ** len(CHANNELS) for side in place]
        if min(left) < 1:
            raise SampleSizeError(
                f"inputs of shape {shape} are too small for {len(CHANNELS)} poolings; give images of at least 32 x 32"
                " pixels, or take encoder = 'cnn_fmtl' in clients.groups"
            )
        self._order: nn.Module = ChannelsLast() if before > 1 else AsMap()
        layers: list[nn.Module] = []
        for channels in CHANNELS:
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            before = channels
        layers.append(nn.Flatten())
        width = before * math.prod(left)
        for units in UNITS:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        self.embedding_dim = width
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        """[batch, *shape] -> [batch, embedding_dim]."""
        embedding: Tensor = self.layers(self._order(images.reshape(-1, *self._shape)))
        return embedding

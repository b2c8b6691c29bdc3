"""Encoders of maps: blocks of convolutions, then linear layers over what is left; one value of `MapEncoder` each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from .conv_block import AsMap, ChannelsLast, MapShape, conv_blocks
from .dropout import SeededDropout


@dataclass(frozen=True, slots=True)
class MapEncoder:
    """What an encoder of maps consists of; a call makes one.

    Attributes:
        shape: usual shape of a sample: (channels, height, width), or (height, width) where there is one channel.
        channels: of every block at full width.
        pools: height and width by which every block shrinks the map.
        dropout: default share of the flattened maps dropped in training.
        sectors: rows and columns of averages behind the blocks; None: maps stay as they are.
        hidden_dim: layer between the maps and the embedding, at full width; None: there is none.
    """

    shape: tuple[int, ...]
    channels: Sequence[int]
    pools: Sequence[tuple[int, int]]
    dropout: float = 0.2
    sectors: tuple[int, int] | None = None
    hidden_dim: int | None = None

    def __call__(
        self,
        shape: tuple[int, ...],
        embedding_dim: int,
        generator: torch.Generator,
        *,
        dropout: float | None = None,
        width: float = 1.0,
        channels_last: bool = True,
        norm_first: bool = False,
    ) -> nn.Sequential:
        """An encoder with first weights of torch's global generator.

        Args:
            shape: of one sample, with as many axes as `self.shape`.
            embedding_dim: size of the embedding, l in the paper.
            generator: random stream of the dropout.
            dropout: share of the flattened maps dropped in training; None: the default.
            width: multiplies the channels and the hidden layer.
            channels_last: memory order of the maps; changes speed, not values.
            norm_first: order of the layers of a block, see `conv_block`.

        Raises:
            ConfigError: the samples are too small, or a dropout outside [0, 1).
        """
        maps = _map_shape(shape)
        blocks, left = conv_blocks(maps, self.channels, self.pools, width, norm_first=norm_first)
        averages = [] if self.sectors is None else [nn.AdaptiveAvgPool2d(self.sectors)]
        n_features = math.prod(left if self.sectors is None else (left[0], *self.sectors))
        return nn.Sequential(
            _first_layer(shape, channels_last=channels_last),
            blocks,
            *averages,
            nn.Flatten(),
            SeededDropout(self.dropout if dropout is None else dropout, generator),
            *self._linear_layers(n_features, embedding_dim, width),
        )

    def _linear_layers(self, n_features: int, embedding_dim: int, width: float) -> list[nn.Module]:
        if self.hidden_dim is None:
            return [nn.Linear(n_features, embedding_dim)]
        hidden_dim = max(round(self.hidden_dim * width), 1)
        return [nn.Linear(n_features, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, embedding_dim)]


def _map_shape(shape: tuple[int, ...]) -> MapShape:
    n_channels, high, wide = shape if len(shape) == 3 else (1, *shape)
    return n_channels, high, wide


def _first_layer(shape: tuple[int, ...], *, channels_last: bool) -> nn.Module:
    if len(shape) == 3:
        return ChannelsLast() if channels_last else nn.Identity()
    # one channel has both memory orders at once; only an explicit view makes torch choose channels-last
    return AsMap() if channels_last else nn.Unflatten(1, (1, shape[0]))


#: Window of LiDAR sweeps in polar coordinates, scaled: (range and angle, length, n_rays); averages over eight sectors.
#: Source: Ghalkha et al. 2025, scenario I; channels, sectors and rates are our choice where the paper is silent.
lidar_encoder = MapEncoder((2, 16, 216), (16, 32, 64), ((2, 2),) * 3, sectors=(1, 8))
#: Window of grey images, (length, height, width): they are the channels.
#: Source: Ghalkha et al. 2025, scenario I; hidden layer and rate are our choice where the paper is silent.
camera_encoder = MapEncoder((16, 64, 64), (32, 64, 128), ((2, 2),) * 3, dropout=0.3, hidden_dim=256)
#: Window of beam sweeps, (length, n_beams) of standardized powers in dB, seen as an image. The first two blocks shrink
#: the beams only, so that the sweeps stay apart for longer.
#: Source: Ghalkha et al. 2025, scenario I; channels and rate are our choice where the paper is silent.
beam_map_encoder = MapEncoder((16, 64), (16, 32, 64, 128), ((1, 2), (1, 2), (2, 2), (2, 2)))
#: One small color image with a drone somewhere in it; no averages, because the place of the drone decides the beam.
#: Source: our choice for 64 x 64 images; Ghalkha et al. 2025 use a pretrained ResNet-50, see `resnet`.
drone_camera_encoder = MapEncoder((3, 64, 64), (16, 32, 64, 128), ((2, 2),) * 4)
#: Window of range-angle maps, (length, n_ranges, n_angles): they are the channels. The first block shrinks ranges more
#: than angles, of which four antennas tell few apart.
#: Source: blocks of Ghalkha et al. 2025; input and pooling are our choice.
radar_encoder = MapEncoder((16, 128, 64), (16, 32, 64), ((4, 2), (2, 2), (2, 2)))

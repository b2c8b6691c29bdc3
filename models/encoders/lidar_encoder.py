"""Encoder of a window of LiDAR sweeps in polar coordinates."""

from __future__ import annotations

import torch
from torch import nn

from .conv_block import ChannelsLast, MapShape, conv_blocks
from .dropout import SeededDropout

SHAPE: MapShape = (2, 16, 216)
CHANNELS, POOLS = (16, 32, 64), ((2, 2),) * 3
POOLED = (1, 8)


def lidar_encoder(
    shape: MapShape,
    embedding_dim: int,
    generator: torch.Generator,
    *,
    dropout: float = 0.2,
    width: float = 1.0,
    channels_last: bool = True,
    norm_first: bool = False,
) -> nn.Sequential:
    """Three blocks over time and angle, averages over eight sectors, one linear layer.

    Args:
        shape: (2, length, n_rays) of one sample: scaled range and angle; the paper's is `SHAPE`.
        embedding_dim: size of the embedding, l in the paper.
        generator: random stream of the dropout.
        dropout: share of the pooled features dropped in training.
        width: multiplies the channels.
        channels_last: memory order of the maps; changes speed, not values.
        norm_first: order of the layers of a block, see `conv_block`.

    Raises:
        ConfigError: the samples are too small, or a dropout outside [0, 1).

    Source: Ghalkha et al. 2025, scenario I; channels, sectors and rates are our choice where the paper is silent.
    """
    blocks, (n_channels, _, _) = conv_blocks(shape, CHANNELS, POOLS, width, norm_first=norm_first)
    return nn.Sequential(
        ChannelsLast() if channels_last else nn.Identity(),
        blocks,
        nn.AdaptiveAvgPool2d(POOLED),
        nn.Flatten(),
        SeededDropout(dropout, generator),
        nn.Linear(n_channels * POOLED[0] * POOLED[1], embedding_dim),
    )

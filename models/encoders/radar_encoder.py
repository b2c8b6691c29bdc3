"""Encoder of a window of range-angle maps."""

from __future__ import annotations

import math

import torch
from torch import nn

from .conv_block import ChannelsLast, MapShape, conv_blocks
from .dropout import SeededDropout

SHAPE: MapShape = (16, 128, 64)
#: The first block shrinks ranges more than angles, of which four antennas tell few apart.
CHANNELS, POOLS = (16, 32, 64), ((4, 2), (2, 2), (2, 2))


def radar_encoder(
    shape: MapShape,
    embedding_dim: int,
    generator: torch.Generator,
    *,
    dropout: float = 0.2,
    width: float = 1.0,
    channels_last: bool = True,
    norm_first: bool = False,
) -> nn.Sequential:
    """Three blocks over range and angle with the maps of the window as channels, then one linear layer.

    Args:
        shape: (length, n_ranges, n_angles) of one sample, usually `SHAPE`.
        embedding_dim: size of the embedding, l in the paper.
        generator: random stream of the dropout.
        dropout: share of the flattened maps dropped in training.
        width: multiplies the channels.
        channels_last: memory order of the maps; changes speed, not values.
        norm_first: order of the layers of a block, see `conv_block`.

    Raises:
        ConfigError: the samples are too small, or a dropout outside [0, 1).

    Source: blocks of Ghalkha et al. 2025; input and pooling are our choice.
    """
    blocks, left = conv_blocks(shape, CHANNELS, POOLS, width, norm_first=norm_first)
    return nn.Sequential(
        ChannelsLast() if channels_last else nn.Identity(),
        blocks,
        nn.Flatten(),
        SeededDropout(dropout, generator),
        nn.Linear(math.prod(left), embedding_dim),
    )

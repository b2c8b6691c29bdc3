"""Encoder of one small color image with a drone somewhere in it."""

from __future__ import annotations

import math

import torch
from torch import nn

from .conv_block import ChannelsLast, MapShape, conv_blocks
from .dropout import SeededDropout

SHAPE: MapShape = (3, 64, 64)
CHANNELS, POOLS = (16, 32, 64, 128), ((2, 2),) * 4


def drone_camera_encoder(
    shape: MapShape,
    embedding_dim: int,
    generator: torch.Generator,
    *,
    dropout: float = 0.2,
    width: float = 1.0,
    channels_last: bool = True,
    norm_first: bool = False,
) -> nn.Sequential:
    """Four blocks and one linear layer, without averages: the place of the drone in the image decides the beam.

    Args:
        shape: (3, height, width) of one sample.
        embedding_dim: size of the embedding, l in the paper.
        generator: random stream of the dropout.
        dropout: share of the flattened maps dropped in training.
        width: multiplies the channels.
        channels_last: memory order of the maps; changes speed, not values.
        norm_first: order of the layers of a block, see `conv_block`.

    Raises:
        ConfigError: the samples are too small, or a dropout outside [0, 1).

    Source: our choice for 64 x 64 images; Ghalkha et al. 2025 use a pretrained ResNet-50, see `resnet`.
    """
    blocks, left = conv_blocks(shape, CHANNELS, POOLS, width, norm_first=norm_first)
    return nn.Sequential(
        ChannelsLast() if channels_last else nn.Identity(),
        blocks,
        nn.Flatten(),
        SeededDropout(dropout, generator),
        nn.Linear(math.prod(left), embedding_dim),
    )

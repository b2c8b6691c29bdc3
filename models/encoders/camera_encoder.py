"""Encoder of a window of grey images."""

from __future__ import annotations

import math

import torch
from torch import nn

from .conv_block import ChannelsLast, MapShape, conv_blocks
from .dropout import SeededDropout

SHAPE: MapShape = (16, 64, 64)
CHANNELS, POOLS = (32, 64, 128), ((2, 2),) * 3
HIDDEN_DIM = 256


def camera_encoder(
    shape: MapShape,
    embedding_dim: int,
    generator: torch.Generator,
    *,
    dropout: float = 0.3,
    width: float = 1.0,
    channels_last: bool = True,
    norm_first: bool = False,
) -> nn.Sequential:
    """Three blocks with the images of the window as channels, then a two-layer perceptron.

    Args:
        shape: (length, height, width) of one sample; the paper's is `SHAPE`.
        embedding_dim: size of the embedding, l in the paper.
        generator: random stream of the dropout.
        dropout: share of the flattened maps dropped in training.
        width: multiplies the channels and the hidden layer.
        channels_last: memory order of the maps; changes speed, not values.
        norm_first: order of the layers of a block, see `conv_block`.

    Raises:
        ConfigError: the samples are too small, or a dropout outside [0, 1).

    Source: Ghalkha et al. 2025, scenario I; hidden layer and rate are our choice where the paper is silent.
    """
    blocks, left = conv_blocks(shape, CHANNELS, POOLS, width, norm_first=norm_first)
    hidden_dim = max(round(HIDDEN_DIM * width), 1)
    return nn.Sequential(
        ChannelsLast() if channels_last else nn.Identity(),
        blocks,
        nn.Flatten(),
        SeededDropout(dropout, generator),
        nn.Linear(math.prod(left), hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, embedding_dim),
    )

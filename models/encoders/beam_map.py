"""Encoder of a window of beam sweeps: power over time and beam, seen as an image."""

from __future__ import annotations

import math

import torch
from torch import nn

from .conv_block import AsMap, MapShape, conv_blocks
from .dropout import SeededDropout

SHAPE: tuple[int, int] = (16, 64)
CHANNELS = (16, 32, 64, 128)
#: The first two blocks shrink the beams only, so that the sweeps stay apart for longer.
POOLS = ((1, 2), (1, 2), (2, 2), (2, 2))


def beam_map_encoder(
    shape: tuple[int, int],
    embedding_dim: int,
    generator: torch.Generator,
    *,
    dropout: float = 0.2,
    width: float = 1.0,
    channels_last: bool = True,
    norm_first: bool = False,
) -> nn.Sequential:
    """Four blocks over time and beam, one linear layer.

    Args:
        shape: (length, n_beams) of one sample of standardised powers in dB; the paper's is `SHAPE`.
        embedding_dim: size of the embedding, l in the paper.
        generator: random stream of the dropout.
        dropout: share of the flattened maps dropped in training.
        width: multiplies the channels.
        channels_last: memory order of the maps; changes speed, not values.
        norm_first: order of the layers of a block, see `conv_block`.

    Raises:
        ConfigError: the samples are too small, or a dropout outside [0, 1).

    Source: Ghalkha et al. 2025, scenario I; channels and rate are our choice where the paper is silent.
    """
    one_channel: MapShape = (1, *shape)
    blocks, left = conv_blocks(one_channel, CHANNELS, POOLS, width, norm_first=norm_first)
    return nn.Sequential(
        # one channel has both memory orders at once; only an explicit view makes torch choose channels-last
        AsMap() if channels_last else nn.Unflatten(1, (1, shape[0])),
        blocks,
        nn.Flatten(),
        SeededDropout(dropout, generator),
        nn.Linear(math.prod(left), embedding_dim),
    )

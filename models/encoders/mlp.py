"""Encoders of short windows of vectors (positions and beam powers) and of single position reports."""

from __future__ import annotations

import math

from torch import nn


def window_mlp(shape: tuple[int, ...], hidden_dim: int, embedding_dim: int) -> nn.Sequential:
    """Two-layer perceptron over the flattened window.

    Args:
        shape: shape of one sample, such as (length, 2) or (length, n_beams).
        hidden_dim: width of the hidden layer.
        embedding_dim: size of the embedding, l in the paper.

    Source: the GPS encoder of Ghalkha et al. 2025, scenario II; sizes are our choice where the paper is silent.
    """
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, embedding_dim),
    )


def position_mlp(embedding_dim: int, *, n_inputs: int = 4, hidden_dim: int = 128) -> nn.Sequential:
    """Two-layer perceptron over one position report: latitude, longitude, distance and height, standardised.

    Source: Ghalkha et al. 2025, scenario II; the hidden width is our choice where the paper is silent.
    """
    return window_mlp((n_inputs,), hidden_dim, embedding_dim)

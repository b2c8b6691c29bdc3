"""Small convolutional networks: layer sizes, and images that are too small."""

from __future__ import annotations

import pytest
import torch
from sheafedge.models.encoders.conv_block import SampleSizeError
from sheafedge.models.encoders.small_cnn import CNN_SIZES, SmallCnn

#: Parameters with a linear head of 10 classes: by hand from the numbers of filters.
ON_MNIST = {"cnn_fmtl": 34_826, "cnn_fmtl_small": 27_210, "cnn_fmtl_medium": 22_666, "cnn_fmtl_large": 212_146}


def n_parameters(encoder: SmallCnn) -> int:
    head = 10 * encoder.embedding_dim + 10
    return head + sum(parameter.numel() for parameter in encoder.parameters())


@pytest.mark.parametrize("name", ON_MNIST)
def test_a_network_with_a_linear_head_has_so_many_parameters(name: str) -> None:
    assert n_parameters(SmallCnn((28, 28), CNN_SIZES[name])) == ON_MNIST[name]


def test_three_channels_of_32_pixels_make_42442() -> None:
    assert n_parameters(SmallCnn((3, 32, 32), CNN_SIZES["cnn_fmtl"])) == 42_442


@pytest.mark.parametrize(("shape", "batch"), [((28, 28), 1), ((10, 10), 3), ((3, 11, 14), 2)])
@pytest.mark.parametrize("name", CNN_SIZES)
def test_images_become_embeddings_of_the_size_that_it_says(name: str, shape: tuple[int, ...], batch: int) -> None:
    encoder = SmallCnn(shape, CNN_SIZES[name])
    assert encoder(torch.zeros(batch, *shape)).shape == (batch, encoder.embedding_dim)


def test_images_too_small_for_two_convolutions_are_refused_with_a_remedy() -> None:
    with pytest.raises(SampleSizeError, match=r"\(9, 9\) are too small .* 'mlp' or 'cnn_fmtl_small'"):
        SmallCnn((9, 9), CNN_SIZES["cnn_fmtl"])

"""The networks of the TDPFed experiments have the printed numbers of weights."""

from __future__ import annotations

import pytest
import torch
from sheafedge.models.encoders.conv_block import SampleSizeError
from sheafedge.models.encoders.tdpfed_networks import HiddenLayer, Vgg8
from sheafedge.models.factors.ranks import exchanged_bytes
from torch import nn

N_CLASSES = 10


def shapes_of(encoder: nn.Module, width: int) -> list[tuple[int, ...]]:
    """Of all parameters, those of a linear head of 10 classes included."""
    return [*(tuple(one.shape) for one in encoder.parameters()), (N_CLASSES, width), (N_CLASSES,)]


def test_the_perceptron_is_784_100_10() -> None:
    encoder = HiddenLayer((28, 28))
    shapes = shapes_of(encoder, encoder.embedding_dim)
    assert shapes == [(100, 784), (100,), (10, 100), (10,)]
    assert [exchanged_bytes(shapes, ratio) for ratio in (None, 1.5, 2.0)] == [318_040, 211_704, 158_224]
    assert encoder(torch.randn(3, 28, 28)).min() == 0.0


def test_the_convolutional_network_has_the_printed_weights() -> None:
    encoder = Vgg8((3, 32, 32))
    shapes = shapes_of(encoder, encoder.embedding_dim)
    assert exchanged_bytes([shape for shape in shapes if len(shape) > 1]) == 4 * 1_111_392
    assert [exchanged_bytes(shapes, ratio) for ratio in (None, 1.5, 2.0)] == [4_450_600, 2_966_136, 2_226_980]


@pytest.mark.parametrize(("shape", "width"), [((3, 32, 32), 256), ((33, 64), 256), ((1, 64, 40), 256)])
def test_images_become_embeddings_of_the_size_that_it_says(shape: tuple[int, ...], width: int) -> None:
    encoder = Vgg8(shape)
    assert encoder(torch.zeros(2, *shape)).shape == (2, encoder.embedding_dim) == (2, width)


def test_images_too_small_for_five_poolings_are_refused_with_a_remedy() -> None:
    with pytest.raises(SampleSizeError, match=r"\(28, 28\) are too small .* 'cnn_fmtl'"):
        Vgg8((28, 28))

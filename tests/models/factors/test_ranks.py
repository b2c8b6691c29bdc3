"""Ranks, numbers and bytes of the two printed networks, entry by entry."""

from __future__ import annotations

import pytest
from sheafedge.models.factors.ranks import exchanged_bytes, factorizes, n_factor_values, rank_for

#: Layer -> shape, then rank and numbers at a ratio of 1.5 and of 2: the table of Wang et al. and what follows from it.
PRINTED = {
    "DNN fc1": ((784, 100), (59, 52_156), (44, 38_896)),
    "DNN fc2": ((100, 10), (6, 660), (5, 550)),
    "VGG conv1": ((3, 32, 3, 3), (14, 574), (11, 451)),
    "VGG conv2": ((32, 64, 3, 3), (120, 12_240), (90, 9_180)),
    "VGG conv3": ((64, 128, 3, 3), (248, 49_104), (186, 36_828)),
    "VGG conv4": ((128, 256, 3, 3), (504, 196_560), (378, 147_420)),
    "VGG conv5": ((256, 256, 3, 3), (759, 393_162), (569, 294_742)),
    "VGG fc1": ((256, 256), (85, 43_520), (64, 32_768)),
    "VGG fc2": ((256, 256), (85, 43_520), (64, 32_768)),
    "VGG fc3": ((256, 10), (6, 1_596), (5, 1_330)),
}
#: Network -> bytes of weights and biases one way: dense, at 1.5, at 2.
BYTES = {"DNN": (318_040, 211_704, 158_224), "VGG": (4_450_600, 2_966_136, 2_226_980)}
#: Network -> numbers of its weights: dense, at 1.5, at 2.
WEIGHTS = {"DNN": (79_400, 52_816, 39_446), "VGG": (1_111_392, 740_276, 555_487)}


@pytest.mark.parametrize("layer", PRINTED)
def test_ranks_and_numbers_are_the_printed_ones(layer: str) -> None:
    dims, *printed = PRINTED[layer]
    for ratio, (rank, count) in zip((1.5, 2.0), printed, strict=True):
        assert rank_for(dims, ratio) == rank_for(dims[::-1], ratio) == rank
        assert n_factor_values(dims, ratio) == count == rank * sum(dims)


@pytest.mark.parametrize("network", BYTES)
def test_networks_have_the_printed_numbers_and_bytes(network: str) -> None:
    weights = [dims for layer, (dims, *_) in PRINTED.items() if layer.startswith(network)]
    biases = [(dims[1],) for dims in weights]
    for ratio, n_bytes, n_weights in zip((None, 1.5, 2.0), BYTES[network], WEIGHTS[network], strict=True):
        assert exchanged_bytes(weights, ratio) == 4 * n_weights
        assert exchanged_bytes([*weights, *biases], ratio) == n_bytes


def test_what_one_rank_one_term_does_not_make_smaller_stays_dense() -> None:
    assert not any(factorizes(dims) for dims in ((7,), (1, 5), (2, 2), (1, 1, 1, 3)))
    assert factorizes((2, 3))
    assert n_factor_values((1, 5), 2.0) == 5
    assert rank_for((2, 3), 100.0) == 1

"""Chains of small operators compute what the dense layer does whose weight their factors make."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from sheafedge.models.factors.canonical import initial, to_dense
from sheafedge.models.factors.factored_layers import (
    FactoredConv2d,
    FactoredLinear,
    factored_layer,
    put_factored_layers,
)
from torch import nn

EXACT = 1e-12  # float64


def factors_of(layer: nn.Linear | nn.Conv2d, rank: int) -> list[torch.Tensor]:
    return initial(tuple(layer.weight.shape), rank, 1.0, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dilation", [1, (2, 1)])
@pytest.mark.parametrize("padding", [0, 1, (2, 0)])
@pytest.mark.parametrize("stride", [1, 2, (1, 3)])
@pytest.mark.parametrize("kernel", [3, (2, 3), 1])
def test_four_convolutions_are_the_dense_one(kernel: Any, stride: Any, padding: Any, dilation: Any, bias: bool) -> None:
    dense = nn.Conv2d(4, 5, kernel, stride=stride, padding=padding, dilation=dilation, bias=bias).double()
    chain, factors = FactoredConv2d(dense, 6).double(), factors_of(dense, 6)
    chain.take(factors)
    dense.weight.data.copy_(to_dense(factors))
    maps = torch.randn(2, 4, 9, 11, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert float((chain(maps) - dense(maps)).detach().abs().max()) < EXACT
    assert chain(maps).shape == dense(maps).shape


@pytest.mark.parametrize("bias", [True, False])
def test_two_linear_layers_are_the_dense_one(bias: bool) -> None:
    dense = nn.Linear(7, 4, bias=bias).double()
    chain, factors = FactoredLinear(dense, 3).double(), factors_of(dense, 3)
    chain.take(factors)
    dense.weight.data.copy_(to_dense(factors))
    rows = torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert float((chain(rows) - dense(rows)).detach().abs().max()) < EXACT
    assert chain.out_features == dense.out_features == 4


def test_a_chain_has_the_numbers_of_the_factors_and_of_the_bias() -> None:
    dense = nn.Conv2d(64, 128, 3, padding=1)
    chain = FactoredConv2d(dense, 186)  # the rank of a ratio of 2
    assert sum(one.numel() for one in chain.parameters()) == 36_828 + 128
    operators = [one for one in chain.modules() if isinstance(one, nn.Conv2d)]
    products = [one.weight.numel() for one in operators]
    assert [one.groups for one in operators] == [1, 186, 186, 1]
    assert sum(products) == 36_828  # multiplications and additions per pixel, in place of 73,728


def test_layers_without_such_a_chain_stay_dense() -> None:
    others = [nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(1, 1, 3, padding="same"), nn.Conv1d(2, 3, 3), nn.ReLU()]
    assert [factored_layer(one, 2) for one in others] == [None] * len(others)


def test_only_named_layers_are_replaced_and_they_stand_in_their_place() -> None:
    module = nn.Sequential(nn.Sequential(nn.Linear(4, 5), nn.ReLU()), nn.Linear(5, 6), nn.Linear(6, 2))
    put = put_factored_layers(module, {"0.0": 2, "2": 1}.get)
    assert list(put) == ["0.0", "2"]
    assert isinstance(module[0][0], FactoredLinear)
    assert isinstance(module[1], nn.Linear)
    assert module[2] is put["2"]
    assert module(torch.zeros(3, 4)).shape == (3, 2)


def test_more_terms_fit_a_layer_better() -> None:
    """Property 3: below the full rank a chain is another function."""
    dense = nn.Linear(8, 6).double()
    rows = torch.eye(8, dtype=torch.float64)
    errors = []
    for rank in (1, 3, 5, 6):
        chain = FactoredLinear(dense, rank).double()
        left, values, right = torch.linalg.svd(dense.weight.detach(), full_matrices=False)
        chain.take([left[:, :rank] * values[:rank], right[:rank].mT])
        errors.append(float((chain(rows) - dense(rows)).detach().norm()))
    assert all(later < earlier for earlier, later in pairwise(errors))
    assert errors[-1] < EXACT

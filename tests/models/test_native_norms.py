"""Normalizations that leave cuDNN compute what torch's classes compute, and are taken only where cuDNN would fail."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from sheafedge.models.flat import FlatModule
from sheafedge.models.native_norms import (
    NativeBatchNorm1d,
    NativeBatchNorm2d,
    NativeBatchNorm3d,
    leave_cudnn_where_unaligned,
)
from torch import Tensor, nn

CLASSES = {
    nn.BatchNorm1d: (NativeBatchNorm1d, (6, 3)),
    nn.BatchNorm2d: (NativeBatchNorm2d, (6, 3, 4, 5)),
    nn.BatchNorm3d: (NativeBatchNorm3d, (6, 3, 2, 4, 5)),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "without factors": {"affine": False},
    "without statistics": {"track_running_stats": False},
    "mean over all batches": {"momentum": None},
}


def trained(layer: nn.Module, batches: list[Tensor]) -> list[Tensor]:
    """Outputs and gradients of some batches in training and of one in evaluation, then all values."""
    found = []
    for batch in batches:
        maps = batch.clone().requires_grad_(True)
        out = layer(maps)
        out.square().sum().backward()
        assert maps.grad is not None
        found += [out.detach(), maps.grad]
    layer.eval()
    return [*found, layer(batches[0]).detach(), *layer.state_dict().values(), *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("plain", CLASSES, ids=lambda found: found.__name__)
def test_it_computes_what_torch_s_class_computes(plain: type[nn.Module], options: dict[str, Any]) -> None:
    native, shape = CLASSES[plain]
    one = plain(shape[1], **options)
    other = copy.deepcopy(one)
    other.__class__ = native
    draws = torch.Generator().manual_seed(0)
    batches = [torch.randn(shape, generator=draws) * 3.0 + 1.0 for _ in range(3)]
    expected, found = trained(one, batches), trained(other, batches)
    assert len(found) == len(expected) > 7
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_maps_of_another_shape_are_refused_as_by_torch() -> None:
    with pytest.raises(ValueError, match="expected 4D input"):
        NativeBatchNorm2d(3)(torch.zeros(2, 3, 4))


def test_on_a_cpu_every_layer_keeps_its_class() -> None:
    module = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten())
    FlatModule(module)
    assert type(module[1]) is nn.BatchNorm2d


class OwnNorm(nn.BatchNorm2d):
    """Of somebody else, who may compute something else."""


@pytest.mark.parametrize(("before", "native"), [(3, True), (4, False)])
def test_a_layer_changes_its_class_where_its_values_begin_between_two_places(
    monkeypatch: pytest.MonkeyPatch, before: int, native: bool
) -> None:
    """As if the CPU were a GPU: so many float32 values lie before the layer's."""
    monkeypatch.setattr(Tensor, "is_cuda", True)
    own = OwnNorm(4)
    module = nn.Sequential(nn.Linear(before, 1, bias=False), nn.BatchNorm2d(4), own)
    vector = torch.zeros(before + 8)
    assert vector.data_ptr() % 16 == 0
    module[1].weight.data = vector[before : before + 4]
    leave_cudnn_where_unaligned(module)
    assert type(module[1]) is (NativeBatchNorm2d if native else nn.BatchNorm2d)
    assert type(own) is OwnNorm

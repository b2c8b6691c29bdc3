"""A deployed model in fewer steps: the same answers, without normalizations, and with one mean over the rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders import map_encoder
from sheafedge.models.encoders.normalize import (
    CameraScale,
    LidarScale,
    RelativePower,
    StandardizeColumns,
    StandardizePower,
)
from sheafedge.models.export.onnx_export import OnnxExporter
from sheafedge.models.export.quantize import int8_model
from sheafedge.models.export.simplified_model import LowerBound, SectorMeans, simplify_encoder
from torch import nn

EXACT = 1e-9  # float64, of sums of a few hundred terms
RUNTIMES = 1e-4  # the project's promise for float32
RNG = np.random.default_rng(0)

#: Encoder -> its maker, the shape of a sample, a normalizer. Small shapes: the layers are those of the full size.
MADE: dict[str, tuple[Callable[..., nn.Module], tuple[int, ...], nn.Module]] = {
    "lidar": (map_encoder.lidar_encoder, (2, 16, 216), LidarScale()),
    "even lidar": (map_encoder.lidar_encoder, (2, 8, 64), LidarScale()),
    "camera": (map_encoder.camera_encoder, (4, 16, 24), CameraScale(RNG.integers(0, 255, (5, 4, 16, 24)))),
    "drone": (map_encoder.drone_camera_encoder, (3, 32, 32), CameraScale(RNG.integers(0, 255, (5, 3, 32, 32)))),
    "sweeps": (map_encoder.beam_map_encoder, (8, 32), StandardizePower(RNG.normal(-60.0, 8.0, (20, 8, 32)))),
    "radar": (map_encoder.radar_encoder, (4, 32, 16), StandardizePower(RNG.normal(20.0, 9.0, (20, 4, 32, 16)))),
}


def as_trained(encoder: nn.Module, seed: int = 0) -> nn.Module:
    """Values as no training would leave them, so that every sign and every term is met; some factors are negative."""
    draws = torch.Generator().manual_seed(seed)
    for layer in encoder.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            layer.weight.data.normal_(generator=draws)
            layer.weight.data[0] = 0.0
            layer.bias.data.normal_(generator=draws)
            layer.running_mean.normal_(generator=draws)
            layer.running_var.uniform_(0.2, 3.0, generator=draws)
        elif isinstance(layer, nn.Linear | nn.Conv2d):
            layer.weight.data.normal_(std=layer.weight[0].numel() ** -0.5, generator=draws)
            if layer.bias is not None:
                layer.bias.data.normal_(generator=draws)
    return encoder.eval()


def made(name: str, **options: Any) -> tuple[nn.Module, nn.Module, torch.Tensor]:
    """Normalizer, encoder, and samples in physical units."""
    maker, shape, normalizer = MADE[name]
    encoder = as_trained(maker(shape, 6, torch.Generator(), width=0.5, **options))
    draws = np.random.default_rng(1)
    # each sample of a level of its own: averages over noise alone would hardly differ
    levels = draws.normal(20.0, 30.0, (3, *(1 for _ in shape)))
    rows = torch.from_numpy((levels + draws.normal(0.0, 30.0, (3, *shape))).astype(np.float32))
    return copy.deepcopy(normalizer), encoder, rows


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_fewer_steps_give_the_same_embedding(name: str, norm_first: bool) -> None:
    """Also at the borders, where convolutions pad with zeros, and where a normalization turns the sign around."""
    normalizer, encoder, rows = (one.double() for one in made(name, norm_first=norm_first))
    with torch.no_grad():
        expected = encoder(normalizer(rows))
        found = encoder(simplify_encoder(normalizer, encoder)(rows))
    assert expected.std(dim=0).max() > 1e-3, "the samples must give different embeddings"
    assert_allclose(found, expected, rtol=EXACT, atol=EXACT)
    left = {type(layer) for layer in encoder.modules()}
    assert nn.BatchNorm2d not in left
    assert (LowerBound in left) is not norm_first


def test_a_lower_bound_of_the_wrong_sign_would_be_seen() -> None:
    """The control of the test above."""
    normalizer, encoder, rows = made("camera")
    with torch.no_grad():
        expected = encoder(normalizer(rows))
        normalizer = simplify_encoder(normalizer, encoder)
        bound = next(layer for layer in encoder.modules() if isinstance(layer, LowerBound))
        bound.lowest.neg_()
        assert float((encoder(normalizer(rows)) - expected).abs().max()) > RUNTIMES


def model_of(name: str, seed: int = 0, **options: Any) -> tuple[ClientModel, Modality, tuple[int, ...]]:
    normalizer, encoder, _ = made(name, **options)
    modality: Modality = "lidar" if "lidar" in name else "camera"
    model = ClientModel(
        {modality: normalizer}, {modality: as_trained(encoder, seed)}, fusion="attention", embedding_dim=6, n_outputs=3
    )
    model.head.data.normal_()
    return model.eval(), modality, MADE[name][1]


@pytest.mark.parametrize(("name", "norm_first"), [("lidar", False), ("drone", True)])
def test_a_file_holds_neither_normalizations_nor_an_operator_per_column(
    name: str, norm_first: bool, tmp_path: Path
) -> None:
    exporter = OnnxExporter()
    for seed in range(2):  # the second client has other signs, and the same graph
        model, modality, shape = model_of(name, seed, norm_first=norm_first)
        exporter.export(model, {modality: shape}, tmp_path / "model.onnx", {})
        rows = {str(modality): np.random.default_rng(2).normal(20.0, 9.0, (5, *shape)).astype(np.float32)}
        with torch.no_grad():
            expected = model({modality: torch.from_numpy(rows[modality])})
        assert_allclose(OnnxSession(tmp_path / "model.onnx").run(rows), expected, rtol=RUNTIMES, atol=RUNTIMES)
    kinds = [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node]
    assert "BatchNormalization" not in kinds
    assert kinds.count("Max") == (0 if norm_first else 2)
    assert kinds.count("ReduceMean") == int(name == "lidar")
    assert not {"Gather", "GatherND", "Where"}.intersection(kinds)


def test_averages_stay_float32_in_8_bits(tmp_path: Path) -> None:
    """The product with the weights of the columns is pooling, and no layer."""
    model, modality, shape = model_of("lidar")
    OnnxExporter().export(model, {modality: shape}, tmp_path / "model.onnx", {})
    rows = {str(modality): np.random.default_rng(2).normal(20.0, 9.0, (5, *shape)).astype(np.float32)}
    small = int8_model(onnx.load(tmp_path / "model.onnx"), rows)
    (product,) = [node for node in small.graph.node if node.op_type == "MatMul"]
    makers = {output: node.op_type for node in small.graph.node for output in node.output}
    assert makers[product.input[0]] == "ReduceMean"
    assert product.input[1] not in makers, "its weights are a plain constant"


def test_sectors_are_those_of_adaptive_pooling() -> None:
    for n_columns, n_sectors in ((27, 8), (9, 2), (5, 4)):
        maps = torch.randn(2, 3, 4, n_columns)
        expected = nn.functional.adaptive_avg_pool2d(maps, (1, n_sectors))[:, :, 0]
        assert_allclose(SectorMeans(n_columns, n_sectors)(maps), expected, atol=1e-6)


def test_layers_that_are_not_known_stay_as_they_are() -> None:
    apart = nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(4), nn.Sigmoid())
    columns = StandardizeColumns(RNG.normal(size=(9, 4)))
    for normalizer, encoder in ((nn.Identity(), as_trained(apart)), (columns, nn.Linear(4, 2)), (columns, nn.Tanh())):
        before = str(encoder), copy.deepcopy(encoder.state_dict())
        assert simplify_encoder(normalizer, encoder) is normalizer
        assert str(encoder) == before[0]
        assert all(torch.equal(value, before[1][name]) for name, value in encoder.state_dict().items())


def test_a_power_relative_to_its_own_sweep_is_divided_by_the_first_weights() -> None:
    rows = RNG.normal(-60.0, 8.0, (9, 4, 8)).astype(np.float32)
    normalizer, encoder = RelativePower(rows), nn.Sequential(nn.Flatten(), nn.Linear(32, 5))
    with torch.no_grad():
        expected = encoder(normalizer(torch.from_numpy(rows)))
        simple = simplify_encoder(normalizer, encoder)
        assert_allclose(encoder(simple(torch.from_numpy(rows))), expected, atol=1e-5)
    assert not list(simple.buffers())

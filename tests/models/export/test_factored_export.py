"""Models of factors are handed out as chains of small operators that answer as the dense models do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.conv_block import conv_block
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.export.deployed_model import DeployedModel
from sheafedge.models.export.onnx_export import OnnxExporter
from sheafedge.models.export.onnx_facts import answer_flops, n_parameters
from sheafedge.models.factor_settings import FactorSettings
from sheafedge.models.factors.factored_model import FactoredModel
from sheafedge.models.factors.ranks import n_factor_values
from torch import nn

RUNTIMES = 1e-4  # the project's promise for float32
SHAPES: dict[Modality, tuple[int, ...]] = {"rf": (6, 30), "camera": (3, 16, 12)}
RATIO = 2.0
#: Operators of the chain of a linear layer and of a convolution.
OF_LINEAR, OF_CONVOLUTION = 2, 4


def network() -> ClientModel:
    encoders: dict[Modality, nn.Module] = {
        "rf": window_mlp(SHAPES["rf"], 40, 20),
        "camera": nn.Sequential(conv_block(3, 24, (2, 2)), nn.Flatten(), nn.Linear(24 * 48, 20)),
    }
    parts: dict[Modality, nn.Module] = {m: nn.Identity() for m in SHAPES}
    return ClientModel(parts, encoders, fusion="attention", embedding_dim=20, n_outputs=8)


@pytest.fixture(scope="module")
def models() -> list[ClientModel]:
    """A dense model, and one of the same architecture that factors make."""
    dense, trained, received = network(), network(), network()
    draws = torch.Generator().manual_seed(0)
    for model in (dense, trained):
        for parameter in model.parameters():
            parameter.data.normal_(generator=draws).mul_(0.2)
    FactoredModel(
        trained, received, FactorSettings(ratio=RATIO), lambda _: np.random.default_rng(0), share_buffers=True
    )
    return [dense.eval(), trained.eval()]


@pytest.fixture(scope="module")
def files(models: list[ClientModel], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, exporter = tmp_path_factory.mktemp("factored"), OnnxExporter()
    paths = [folder / name for name in ("dense.onnx", "factored.onnx")]
    for model, path in zip(models, paths, strict=True):
        exporter.export(model, SHAPES, path, {})
    return paths


def rows(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {str(m): rng.normal(size=(n, *shape)).astype(np.float32) for m, shape in SHAPES.items()}


@pytest.mark.parametrize("n_rows", [1, 7])
def test_a_file_of_factors_answers_as_the_dense_weights_do(
    models: list[ClientModel], files: list[Path], n_rows: int
) -> None:
    inputs = rows(n_rows)
    with torch.no_grad():
        dense = models[1](models[1].tensors(inputs)).numpy()  # type: ignore[arg-type]  # modalities are texts
        other = models[0](models[0].tensors(inputs)).numpy()  # type: ignore[arg-type]  # the same
    found = OnnxSession(files[1]).run(inputs)
    assert_allclose(found, dense, atol=RUNTIMES)
    assert float(np.abs(found - other).max()) > 0.01


def test_it_holds_the_factors_and_no_weight_that_they_make(models: list[ClientModel], files: list[Path]) -> None:
    dense, factored = map(onnx.load, files)
    products = [sum(node.op_type in ("Conv", "Gemm", "MatMul") for node in one.graph.node) for one in (dense, factored)]
    assert products[0] == 5  # three linear layers, a convolution, the head
    assert products[1] == 4 * OF_LINEAR + OF_CONVOLUTION
    weights = {tuple(values.shape) for values in models[1].encoders.parameters() if values.dim() > 1} | {(8, 20)}
    assert all(tuple(tensor.dims) not in weights for tensor in factored.graph.initializer)
    saved = sum(int(np.prod(shape)) - n_factor_values(shape, RATIO) for shape in weights)
    assert n_parameters(dense) - n_parameters(factored) == saved
    assert answer_flops(factored) < 0.6 * answer_flops(dense)


def test_the_client_keeps_its_dense_layers(models: list[ClientModel]) -> None:
    deployed = DeployedModel(models[1])
    assert any("narrow" in name for name in deployed.state_dict())
    assert not any("narrow" in name for name in models[1].state_dict())
    assert not any("narrow" in name for name in DeployedModel(models[0]).state_dict())

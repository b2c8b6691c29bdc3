"""Models of graphs as ONNX files: any number of nodes and edges, the answers of torch, and nothing of the client's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.graph_convolution import GraphConvolutions, LocalGraph, NodeFeatures
from sheafedge.models.export.onnx_export import OnnxExporter

FLOAT32 = 1e-5
N_FEATURES, N_OUTPUTS = 6, 3


def graph_of(seed: int, n: int, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    upper = np.triu(draws.random((n, n)) < share, 1)
    return draws.normal(2.0, 3.0, (n, N_FEATURES)).astype(np.float32), np.array(np.nonzero(upper | upper.T))


def model_of(features: np.ndarray, edges: np.ndarray, fusion: str = "attention") -> ClientModel:
    normalizer = NodeFeatures(np.full(N_FEATURES, 1.5), np.linspace(0.5, 2.0, N_FEATURES))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        graph = LocalGraph(normalizer.scaled(features), edges)
        encoder = GraphConvolutions(graph, 8, 5, 0.5, torch.Generator())
    for layer in (encoder.first, encoder.second):
        torch.nn.init.normal_(layer.bias, generator=torch.Generator().manual_seed(1))
    model = ClientModel({"graph": normalizer}, {"graph": encoder}, fusion=fusion, embedding_dim=5, n_outputs=N_OUTPUTS)
    model.head.data.normal_(generator=torch.Generator().manual_seed(2))
    return model.eval()


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    OnnxExporter().export(model_of(*graph_of(0, 12)), {"graph": (1,)}, path, {"task": "node_classification"})
    return path


@pytest.mark.parametrize(("n", "share"), [(12, 0.3), (1, 0.0), (7, 0.0), (40, 0.1), (40, 1.0)])
def test_a_file_answers_for_any_graph_as_torch_does(n: int, share: float, exported: Path) -> None:
    features, edges = graph_of(n, n, share)
    with torch.no_grad():
        expected = model_of(features, edges)({"graph": torch.arange(float(n))[:, None]}).numpy()
    found = OnnxSession(exported).run({"features": features, "edge_index": edges})
    assert found.shape == (n, N_OUTPUTS)
    np.testing.assert_allclose(found, expected, rtol=FLOAT32, atol=FLOAT32)
    assert n < 12 or share in {0.0, 1.0} or np.abs(found - np.roll(found, 1, axis=0)).max() > 0.1


@pytest.mark.parametrize("fusion", ["attention", "attention_mlp", "concat", "mean"])
def test_every_fusion_of_one_input_is_nothing(fusion: str, tmp_path: Path) -> None:
    features, edges = graph_of(1, 9)
    model = model_of(features, edges, fusion)
    OnnxExporter().export(model, {"graph": (1,)}, tmp_path / "model.onnx", {})
    with torch.no_grad():
        expected = model({"graph": torch.arange(9.0)[:, None]}).numpy()
    found = OnnxSession(tmp_path / "model.onnx").run({"features": features, "edge_index": edges})
    np.testing.assert_allclose(found, expected, rtol=FLOAT32, atol=FLOAT32)


def test_a_file_holds_weights_and_nothing_of_the_graph(exported: Path) -> None:
    model = onnx.load(exported)
    sizes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    kept = {name: size for name, size in sizes.items() if len(size) > 1}
    assert kept == {"first.weight": (8, 6), "second.weight": (5, 8), "head.weight": (3, 5)}
    assert all(12 not in size for size in sizes.values())
    assert [value.name for value in model.graph.input] == ["features", "edge_index"]
    assert OnnxSession(exported).metadata == {"task": "node_classification"}

"""Parts of models as graphs: traced together as alone, without a word about the machine that traced them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import sheafedge
import torch
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.export import traced_parts as tracing
from sheafedge.models.export.deployed_model import Part, deployed_model, parts_of
from sheafedge.models.export.onnx_export import OnnxExporter
from sheafedge.models.export.traced_parts import TracedPart, traced_parts
from sheafedge.models.model_pair import ModelPair
from torch import nn

RUNTIMES = 1e-4  # the project's promise for float32; one summation order against another
SHAPES: dict[Modality, tuple[int, ...]] = {"gps": (4, 2), "rf": (4, 8)}


class Shift(nn.Module):
    """A normalizer with a value of its own."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = nn.Buffer(torch.tensor(by))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows - self.by


def client(seed: int, modalities: Sequence[Modality], fusion: str = "attention") -> ClientModel:
    model = ClientModel(
        {m: Shift(float(seed)) for m in modalities},
        {m: window_mlp(SHAPES[m], hidden_dim=6, embedding_dim=5) for m in modalities},
        fusion=fusion,
        embedding_dim=5,
        n_outputs=3,
    )
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for values in model.parameters():
            values.copy_(torch.randn(values.shape, generator=draws))
    return model


def parts(model: ClientModel | ModelPair) -> list[Part]:
    return parts_of(deployed_model(model), SHAPES)


def content(traced: TracedPart) -> list[bytes]:
    return [one.SerializeToString() for one in (*traced.nodes, *traced.constants)]


def test_a_part_has_the_same_graph_whatever_is_traced_beside_it() -> None:
    """Else the bytes of a client's file would depend on who else is in the run."""
    both = parts(client(0, ("rf", "gps")))
    together = traced_parts(both)
    for index in (1, 2):
        (alone,) = traced_parts([both[index]])
        assert content(alone) == content(together[index])
        assert alone.state == together[index].state


def test_models_of_one_run_are_traced_together_and_what_they_share_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    traced = tracing._traced

    def counted(wanted: Sequence[Part], *, optimize: bool) -> list[TracedPart]:
        calls.append(len(wanted))
        return traced(wanted, optimize=optimize)

    monkeypatch.setattr(tracing, "_traced", counted)
    models = [client(0, ("gps",)), client(1, ("rf", "gps")), client(2, ("rf",)), client(3, ("rf", "gps"))]
    pair = ModelPair(client(4, ("rf", "gps")), client(5, ("rf", "gps")))
    exporter = OnnxExporter()
    exporter.trace((model, SHAPES) for model in (*models, pair))
    assert calls == [5]  # two encoders, what reads the embeddings of one modality and of both, and the mean of a pair
    rows = {m: np.random.default_rng(0).normal(size=(6, *SHAPES[m])).astype(np.float32) for m in ("rf", "gps")}
    for index, model in enumerate((*models, pair)):
        path = tmp_path / f"{index}.onnx"
        exporter.export(model, SHAPES, path, {})
        inputs = {m: rows[m] for m in model.modalities}
        model.eval()
        with torch.no_grad():
            expected = model({m: torch.from_numpy(values) for m, values in inputs.items()})
        assert_allclose(OnnxSession(path).run(inputs), expected, atol=RUNTIMES, rtol=0.0)
    assert calls == [5]


def test_a_file_says_nothing_of_the_folders_that_it_was_made_in(tmp_path: Path) -> None:
    """Torch writes down every line of every file that a node comes from, and bundles go to strangers."""
    OnnxExporter().export(client(0, ("gps",)), SHAPES, tmp_path / "0.onnx", {})
    held = (tmp_path / "0.onnx").read_bytes()
    for folder in (Path(sheafedge.__file__).parent, Path(torch.__file__).parent, Path(sys.prefix)):
        assert str(folder).encode() not in held
    assert b".py" not in held


def test_a_part_that_takes_its_size_from_another_is_refused() -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["0.gps", "1.rf"], ["0.out"])],
        "two parts",
        [onnx.helper.make_tensor_value_info(name, 1, [1]) for name in ("0.gps", "1.rf")],
        [onnx.helper.make_tensor_value_info("0.out", 1, [1])],
    )
    with pytest.raises(RuntimeError, match=r"reads '1\.rf', an input of another part"):
        tracing._cut_out(onnx.helper.make_model(graph), "parts.0.", set(), ["0.gps"], ["0.out"])

"""What a client computes of its own rows for a server that generates models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.dropout import SeededDropout
from sheafedge.models.hyper import hyper_client
from sheafedge.models.hyper.backbone import Backbone, backbone_parts
from sheafedge.models.hyper.hyper_client import mean_embedding
from sheafedge.models.training.training_rows import RowsInMemory
from torch import nn


def model_of() -> ClientModel:
    parts: dict[Any, nn.Module] = {m: nn.Identity() for m in ("rf", "gps")}
    encoders: dict[Any, nn.Module] = {
        "rf": nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), SeededDropout(0.5, torch.Generator().manual_seed(0))),
        "gps": nn.Linear(2, 4),
    }
    return ClientModel(parts, encoders, fusion="attention", embedding_dim=4, n_outputs=2)


def rows_of(n_rows: int) -> RowsInMemory:
    draws = np.random.default_rng(0)
    inputs: Any = {"rf": draws.normal(size=(n_rows, 3)), "gps": draws.normal(size=(n_rows, 2))}
    return RowsInMemory({m: x.astype(np.float32) for m, x in inputs.items()}, np.zeros(n_rows, dtype=np.int64))


def test_an_embedding_is_the_mean_of_what_the_head_reads_and_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In evaluation mode, in pieces: neither dropouts nor running statistics take note."""
    model, rows = model_of(), rows_of(11)
    before = model.state()
    monkeypatch.setattr(hyper_client, "EMBEDDED_AT_ONCE", 4)
    found = mean_embedding(model, rows)
    after = model.state()
    assert repr(after) == repr(before)
    assert model.training
    model.eval()
    with torch.no_grad():
        whole = model.fusion(model.embeddings(model.tensors(rows.inputs(np.arange(11))))).mean(dim=0)
    assert_allclose(found, whole, atol=1e-6)


def test_a_backbone_is_all_parameters_but_the_head_and_goes_out_and_in_as_one_vector() -> None:
    model = model_of()
    backbone = Backbone(model, ())
    own = sum(values.numel() for name, values in model.named_parameters() if name != "head")
    assert backbone.size == own == len(backbone.vector())
    head, statistics = model.head.detach().clone(), [buffer.clone() for buffer in model.buffers()]
    values = torch.arange(own, dtype=torch.float32)
    backbone.assign(values)
    assert torch.equal(backbone.vector(), values)
    assert torch.equal(model.head, head)
    assert all(torch.equal(one, other) for one, other in zip(model.buffers(), statistics, strict=True))
    assert torch.equal(next(model.encoders["rf"].parameters()).detach().flatten(), values[:12])


def test_parts_are_named_by_what_they_mean_and_by_their_shapes() -> None:
    model = model_of()
    assert [part.name for part in backbone_parts(model, ())] == [
        "encoder rf 4x3, 4, 4, 4",
        "encoder gps 4x2, 4",
        "fusion rf+gps 2x4",
    ]
    assert [part.name for part in backbone_parts(model, ("rf",))] == ["encoder gps 4x2, 4", "fusion rf+gps 2x4"]

"""Gradients over all training samples, against one pass of torch over all of them, and against the curvature itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sheafedge.models.client_model import ClientModel
from sheafedge.models.objectives import OBJECTIVES, balanced_weights
from sheafedge.models.training.training_rows import RowsInMemory
from sheafedge.scenarios.theory import client_gradient as module
from sheafedge.scenarios.theory.client_gradient import client_gradient

#: Outputs of each objective.
N_OUTPUTS = {"cross_entropy": 3, "binary_cross_entropy": 1, "several_binary_cross_entropy": 2, "squared_error": 1}
WIDTH = 4


def model_of(n_outputs: int) -> ClientModel:
    torch_draws = torch.Generator().manual_seed(3)
    encoders = {name: torch.nn.Sequential(torch.nn.Linear(2, WIDTH), torch.nn.Tanh()) for name in ("gps", "rf")}
    normalizers = {name: torch.nn.Identity() for name in encoders}
    model = ClientModel(normalizers, encoders, fusion="attention", embedding_dim=WIDTH, n_outputs=n_outputs).double()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=torch_draws, dtype=torch.float64)
    return model


def rows_of(objective: str, n: int = 23) -> RowsInMemory:
    draws = np.random.default_rng(5)
    arrays = {name: draws.normal(size=(n, 2)).astype(np.float32) for name in ("gps", "rf")}
    label = {
        "cross_entropy": draws.integers(0, 3, size=n),
        "binary_cross_entropy": draws.integers(0, 2, size=n),
        "several_binary_cross_entropy": draws.integers(0, 2, size=(n, 2)),
        "squared_error": draws.normal(size=n).astype(np.float32),
    }[objective]
    return RowsInMemory(arrays, label)  # type: ignore[arg-type]  # names of modalities


def loss_at_once(model: ClientModel, rows: RowsInMemory, objective: str, *, balanced: bool) -> torch.Tensor:
    weights = None
    if balanced:
        n_classes = max(2, model.layout.n_outputs)
        weights = torch.from_numpy(balanced_weights(rows.label, n_classes)).double()
    logits = model(model.tensors(rows.arrays))
    return OBJECTIVES[objective](logits, torch.from_numpy(rows.label), weights)


@pytest.mark.parametrize(
    ("objective", "balanced"),
    [*((one, False) for one in N_OUTPUTS), ("cross_entropy", True), ("binary_cross_entropy", True)],
)
def test_pieces_give_the_loss_and_gradient_of_all_samples(
    objective: str, balanced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 5)  # the last piece is a part of one
    model, rows = model_of(N_OUTPUTS[objective]), rows_of(objective)
    found = client_gradient(model, rows, objective, balanced=balanced)
    loss = loss_at_once(model, rows, objective, balanced=balanced)
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert found.loss == pytest.approx(float(loss.detach()))
    torch.testing.assert_close(found.head, model.head.grad)
    for modality, gradient in found.encoders.items():
        wanted = torch.cat([p.grad.reshape(-1) for p in model.encoders[modality].parameters() if p.grad is not None])
        torch.testing.assert_close(gradient, wanted)
    assert len(found.whole) == sum(map(len, found.encoders.values())) + len(found.fusion) + len(found.head)


@pytest.mark.parametrize("objective", list(N_OUTPUTS))
def test_no_curvature_in_the_head_is_above_its_smoothness(objective: str) -> None:
    """And the bound is no more than a few times too large, at a head of zeros, where probabilities are even."""
    model, rows = model_of(N_OUTPUTS[objective]), rows_of(objective)
    model.head.data.zero_()
    smoothness = client_gradient(model, rows, objective, balanced=False).head_smoothness

    def loss(head: torch.Tensor) -> torch.Tensor:
        logits = torch.func.functional_call(model, {"head": head}, (model.tensors(rows.arrays),))
        return OBJECTIVES[objective](logits, torch.from_numpy(rows.label), None)

    hessian = torch.autograd.functional.hessian(loss, model.head.data)  # type: ignore[no-untyped-call]
    largest = float(torch.linalg.eigvalsh(hessian)[-1])
    assert largest <= smoothness * (1.0 + 1e-9) <= 4.0 * largest


def test_the_objective_of_a_plugin_has_gradients_and_no_known_smoothness(monkeypatch: pytest.MonkeyPatch) -> None:
    def huber(outputs: torch.Tensor, labels: torch.Tensor, class_weights: torch.Tensor | None) -> torch.Tensor:
        return torch.nn.functional.huber_loss(outputs[:, 0], labels.to(outputs.dtype))

    monkeypatch.setitem(OBJECTIVES, "huber", huber)
    model, rows = model_of(1), rows_of("squared_error")
    found = client_gradient(model, rows, "huber", balanced=False)
    assert found.loss == pytest.approx(float(loss_at_once(model, rows, "huber", balanced=False).detach()))
    assert math.isnan(found.head_smoothness)


def test_the_model_stays_as_it_is() -> None:
    model, rows = model_of(3), rows_of("cross_entropy")
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    client_gradient(model, rows, "cross_entropy", balanced=False)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())

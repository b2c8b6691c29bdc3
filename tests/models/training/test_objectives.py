"""What training minimizes: two classes with one logit, and classes that are rare."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.models.client_model import ClientModel
from sheafedge.models.objectives import (
    MAX_CLASS_WEIGHT,
    balanced_weights,
    binary_cross_entropy,
    cross_entropy,
    squared_error,
)
from sheafedge.models.settings import TrainingSettings
from sheafedge.models.training.local_training import LocalTraining
from sheafedge.models.training.training_rows import RowsInMemory
from torch import nn

ROUNDING = 1e-6  # float32, a handful of operations on numbers around 1


@given(
    logits=st.lists(st.floats(-8, 8), min_size=1, max_size=12),
    weights=st.sampled_from([None, (1.0, 1.0), (0.6, 3.0)]),
    data=st.data(),
)
def test_one_logit_costs_what_two_logits_with_this_difference_cost(
    logits: list[float], weights: tuple[float, float] | None, data: st.DataObject
) -> None:
    labels = torch.tensor(data.draw(st.lists(st.integers(0, 1), min_size=len(logits), max_size=len(logits))))
    one = torch.tensor(logits)[:, None]
    two = torch.cat([torch.zeros_like(one), one], dim=1)
    class_weights = None if weights is None else torch.tensor(weights)
    loss = float(binary_cross_entropy(one, labels, class_weights))
    scale = 1.0 if class_weights is None else float(class_weights[labels].mean())  # torch divides by the weights' sum
    assert loss == pytest.approx(scale * float(cross_entropy(two, labels, class_weights)), rel=1e-5, abs=ROUNDING)


@given(counts=st.lists(st.integers(0, 40), min_size=2, max_size=6).filter(any))
def test_balanced_classes_weigh_the_same_unless_one_is_very_rare(counts: list[int]) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    weights = balanced_weights(labels, len(counts))
    say = weights * counts
    present = np.array(counts) > 0
    capped = weights == MAX_CLASS_WEIGHT
    assert np.allclose(say[present & ~capped], len(labels) / len(counts))
    assert (weights <= MAX_CLASS_WEIGHT).all()
    assert (weights[~present] == 1.0).all()


def warned_share(class_weights: str) -> float:
    """Of rows that tell nothing, after training with one blocked row in ten: how sure is the model of a blockage?"""
    model = ClientModel({"rf": nn.Identity()}, {"rf": nn.Linear(1, 1)}, fusion="mean", embedding_dim=1, n_outputs=1)
    rows = RowsInMemory({"rf": np.zeros((40, 1), dtype=np.float32)}, np.arange(40) % 10 // 9)
    settings = TrainingSettings(class_weights=class_weights, batch_size=40, head_step_size=1.0)  # type: ignore[arg-type]
    training = LocalTraining(0, model, rows, binary_cross_entropy, settings, np.random.default_rng(0))
    for _ in range(200):
        training.backward()
        training.set_head(training.head - training.head_gradient)
    return float(torch.sigmoid(torch.from_numpy(training.predict(rows.inputs(np.arange(1))))))


def test_balanced_training_is_undecided_where_nothing_is_known_and_plain_training_says_the_base_rate() -> None:
    assert warned_share("balanced") == pytest.approx(0.5, abs=0.01)
    assert warned_share("none") == pytest.approx(0.1, abs=0.01)


def test_the_squared_error_is_the_mean_over_rows_of_one_output() -> None:
    outputs, values = torch.tensor([[1.0], [4.0]], dtype=torch.float64), torch.tensor([0.0, 2.0])
    assert float(squared_error(outputs, values, None)) == pytest.approx((1.0 + 4.0) / 2.0)

"""Two classifiers that answer together: the exact mean of their probabilities."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.model_pair import ModelPair, mean_answer
from torch import Tensor, nn

EXACT = 1e-10  # float64; logits of order 10 go through exponentials and back


def believed(logits: Tensor) -> Tensor:
    """Probabilities [n, n_classes]; one logit is that of yes."""
    if logits.shape[1] > 1:
        return torch.softmax(logits, dim=1)
    yes = torch.sigmoid(logits)
    return torch.cat([1.0 - yes, yes], dim=1)


def drawn(n_outputs: int, seed: int, scale: float = 3.0) -> Tensor:
    return torch.randn(7, n_outputs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


@given(n_outputs=st.sampled_from([1, 2, 5]), seed=st.integers(0, 100))
def test_probabilities_are_averaged(n_outputs: int, seed: int) -> None:
    first, second = drawn(n_outputs, seed), drawn(n_outputs, seed + 1000)
    found = mean_answer(first, second)
    assert found.shape == (7, n_outputs)
    assert_allclose(believed(found), (believed(first) + believed(second)) / 2.0, atol=EXACT)


def test_averaging_logits_would_be_something_else() -> None:
    """The negative control."""
    first, second = drawn(5, 0), drawn(5, 1)
    found = believed(mean_answer(first, second))
    assert float((found - believed(0.5 * (first + second))).abs().max()) > 0.05


def test_logits_of_certain_models_stay_finite() -> None:
    """As float32 has them after long training."""
    sure = torch.tensor([[200.0], [-200.0]])
    assert bool(torch.isfinite(mean_answer(sure, -sure)).all())


@pytest.mark.parametrize("n_outputs", [1, 5])
def test_the_pair_answers_as_its_models_together(n_outputs: int) -> None:
    first, second = (
        ClientModel(
            {"gps": nn.Identity()},
            {"gps": window_mlp((2, 2), 3, 4)},
            fusion="mean",
            embedding_dim=4,
            n_outputs=n_outputs,
        ).double()
        for _ in range(2)
    )
    for model in (first, second):
        nn.init.normal_(model.head)
    pair = ModelPair(first, second)
    inputs = {"gps": torch.randn(6, 2, 2, dtype=torch.float64)}
    expected = (believed(first(inputs)) + believed(second(inputs))) / 2.0
    assert_allclose(believed(pair(inputs)).detach(), expected.detach(), atol=EXACT)
    assert (pair.head is first.head, pair.modalities, pair.layout) == (True, ("gps",), first.layout)

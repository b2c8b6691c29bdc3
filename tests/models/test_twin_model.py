"""Two classifiers that answer together: the exact mixture of what they believe, in the share that rows show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.objectives import Objective, binary_cross_entropy, cross_entropy
from sheafedge.models.twin_model import SHARES, TEMPERATURES, TwinModel, blended
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


@given(
    n_outputs=st.sampled_from([1, 2, 5]),
    share=st.floats(0.01, 0.99),
    temperatures=st.tuples(st.floats(0.5, 4.0), st.floats(0.5, 4.0)),
    seed=st.integers(0, 100),
)
def test_probabilities_are_mixed(n_outputs: int, share: float, temperatures: tuple[float, float], seed: int) -> None:
    shared, own = drawn(n_outputs, seed), drawn(n_outputs, seed + 1000)
    found = blended(
        shared, own, torch.tensor(share, dtype=torch.float64), torch.tensor(temperatures, dtype=torch.float64)
    )
    assert found.shape == (7, n_outputs)
    expected = share * believed(shared / temperatures[0]) + (1.0 - share) * believed(own / temperatures[1])
    assert_allclose(believed(found), expected, atol=EXACT)


def test_mixing_logits_would_be_something_else() -> None:
    """The negative control."""
    shared, own = drawn(5, 0), drawn(5, 1)
    half = torch.tensor(0.5, dtype=torch.float64)
    found = believed(blended(shared, own, half, torch.ones(2, dtype=torch.float64)))
    assert float((found - believed(0.5 * (shared + own))).abs().max()) > 0.05


def test_logits_of_certain_twins_stay_finite() -> None:
    """As float32 has them after long training."""
    sure = torch.tensor([[200.0], [-200.0]])
    assert bool(torch.isfinite(blended(sure, -sure, torch.tensor(0.02), torch.ones(2))).all())


# --- the share --------------------------------------------------------------------------------------------------------


def a_model(n_outputs: int) -> ClientModel:
    return ClientModel(
        {"gps": nn.Identity()}, {"gps": window_mlp((2, 2), 3, 4)}, fusion="mean", embedding_dim=4, n_outputs=n_outputs
    ).double()


def surprise_of(objective: Objective, labels: Tensor) -> Callable[[Tensor], Tensor]:
    return partial(objective, labels=labels, class_weights=None)  # type: ignore[call-arg]  # both name them so


@pytest.mark.parametrize(("n_outputs", "objective"), [(5, cross_entropy), (1, binary_cross_entropy)])
@pytest.mark.parametrize("shared_knows", [True, False])
def test_the_twin_that_is_right_gets_most_of_the_weight(
    n_outputs: int, objective: Objective, shared_knows: bool
) -> None:
    labels = torch.arange(40) % max(n_outputs, 2)
    right = torch.nn.functional.one_hot(labels, max(n_outputs, 2)).double() * 6.0
    right = right if n_outputs > 1 else right[:, 1:] - right[:, :1]
    wrong = torch.roll(right, 1, dims=0)
    twin = TwinModel(a_model(n_outputs), a_model(n_outputs))
    twin.choose_share(*((right, wrong) if shared_knows else (wrong, right)), surprise_of(objective, labels))
    assert float(twin.share) == pytest.approx(max(SHARES) if shared_knows else min(SHARES))
    answer = blended(*((right, wrong) if shared_knows else (wrong, right)), twin.share, twin.temperatures)
    assert (believed(answer).argmax(dim=1) == labels).all()


def test_a_twin_that_is_too_sure_of_itself_is_cooled_down() -> None:
    """Right three times in four, and certain each time."""
    labels = torch.zeros(40, dtype=torch.int64)
    sure = torch.full((40, 1), -8.0, dtype=torch.float64)
    sure[::4] = 8.0
    modest = torch.full((40, 1), 3.0, dtype=torch.float64)  # always wrong
    twin = TwinModel(a_model(1), a_model(1))
    twin.choose_share(sure, modest, surprise_of(binary_cross_entropy, labels))
    assert float(twin.temperatures[0]) == max(TEMPERATURES)


def test_the_choice_is_the_best_of_all_that_are_tried() -> None:
    labels = torch.arange(7) % 5
    shared, own = drawn(5, 3), drawn(5, 4)
    twin = TwinModel(a_model(5), a_model(5))
    surprise = surprise_of(cross_entropy, labels)
    twin.choose_share(shared, own, surprise)
    tried = [
        float(surprise(blended(shared, own, shared.new_tensor(s), shared.new_tensor([a, b]))))
        for s in SHARES
        for a in TEMPERATURES
        for b in TEMPERATURES
    ]
    assert float(surprise(blended(shared, own, twin.share, twin.temperatures))) == pytest.approx(min(tried), abs=EXACT)


def test_the_model_answers_as_its_twins_together() -> None:
    first, second = a_model(5), a_model(5)
    for model in (first, second):
        nn.init.normal_(model.head)
    twin = TwinModel(first, second)
    twin.share.fill_(0.3)
    twin.temperatures.copy_(torch.tensor([2.0, 4.0]))
    inputs = {"gps": torch.randn(6, 2, 2, dtype=torch.float64)}
    expected = 0.3 * believed(first(inputs) / 2.0) + 0.7 * believed(second(inputs) / 4.0)
    assert_allclose(believed(twin(inputs)).detach(), expected.detach(), atol=EXACT)
    assert (twin.head is first.head, twin.modalities, twin.layout) == (True, ("gps",), first.layout)

"""The network that answers with models: sizes, starts, equivariance, and gradients of its answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.models.hyper.client_graph import nearest_neighbors
from sheafedge.models.hyper.generated_parts import GeneratedPart
from sheafedge.models.hyper.hypernetwork import ClientAttention, ModelGenerator
from sheafedge.models.hyper_settings import HyperSettings
from torch import Tensor, nn

EQUATION = 1e-10  # float64, numbers of order 1
SMALL = HyperSettings(stalk_dim=2, channels=2, hidden=4, dropout=0.0, knn=2)
KNOWN = torch.ones(4, dtype=torch.bool)


def parts(*sizes: int, n_clients: int = 4) -> list[GeneratedPart]:
    start = [torch.linspace(-1.0, 1.0, size, dtype=torch.float64) for size in sizes]
    return [GeneratedPart(str(number), one, frozenset(range(n_clients))) for number, one in enumerate(start)]


def generator(settings: HyperSettings = SMALL, width: int = 3, seed: int = 5) -> ModelGenerator:
    return ModelGenerator(width, parts(6, 2), settings, seed).double()


def normal(*shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(shape).normal(size=shape))


def n_parameters(network: nn.Module) -> int:
    return sum(values.numel() for values in network.parameters())


ROWS = [torch.arange(4)] * 2
CORA, CITESEER, PUBMED = 200_064, 490_624, 80_640
COMPUTER, PHOTO, ARXIV = 114_816, 112_000, 33_024


@pytest.mark.parametrize(
    ("size", "millions"),
    [(CORA, 25.9), (CITESEER, 63.4), (PUBMED, 10.5), (COMPUTER, 14.9), (PHOTO, 14.5), (ARXIV, 4.33)],
)
def test_parameters_are_those_of_the_printed_tables(size: int, millions: float) -> None:
    """129 P of the last layer, attention, and the first layer; whatever the number of clients."""
    with torch.device("meta"):
        settings = HyperSettings(diffusion="none")
        network = ModelGenerator(128, [GeneratedPart("all", torch.empty(size), frozenset())], settings, 0)
    found = n_parameters(network)
    assert found == 129 * size + 3 * 128**2 + 128**2 + 128
    assert round(found / 1e6, 2 if millions < 10 else 1) == millions


def test_answers_begin_as_the_common_start_and_a_little_that_depends_on_the_client() -> None:
    network = generator()
    with torch.no_grad():
        answers = network(normal(4, 3), KNOWN, torch.tensor([[0, 1], [1, 2]]), ROWS)
    for part, answer in zip(parts(6, 2), answers, strict=True):
        away = (answer - part.start).abs()
        assert 0.0 < away.max() < 0.1
    assert float((answers[0][0] - answers[0][1]).abs().max()) > 0.0


def test_one_seed_is_one_network_and_nothing_else_is_drawn() -> None:
    before = torch.default_generator.get_state()
    one, other = generator(), generator()
    assert torch.equal(torch.default_generator.get_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert not torch.equal(generator(seed=6).hypernetwork.hidden.weight, one.hypernetwork.hidden.weight)


def test_parameters_do_not_grow_with_the_clients() -> None:
    few, many = (ModelGenerator(3, parts(6, n_clients=n), SMALL, 0) for n in (2, 50))
    assert n_parameters(few) == n_parameters(many)


@pytest.mark.parametrize("scaled", [False, True])
def test_attention_is_the_printed_one_with_or_without_the_root(scaled: bool) -> None:
    attention, x = ClientAttention(3, scaled=scaled).double(), normal(4, 3)
    query, key, value = (x @ layer.weight.T for layer in (attention.query, attention.key, attention.value))
    expected = torch.softmax(query @ key.T / (3**0.5 if scaled else 1.0), dim=1) @ value
    assert_allclose(attention(x, KNOWN).detach(), expected.detach(), atol=EQUATION)


def test_clients_attend_to_those_that_are_known_and_to_themselves() -> None:
    attention, x = ClientAttention(3, scaled=False).double(), normal(4, 3)
    known = torch.tensor([True, True, False, False])
    with torch.no_grad():
        before = attention(x, known)
        x[3] += 1.0
        after = attention(x, known)
        assert torch.equal(before[:3], after[:3])
        assert not torch.equal(before[3], after[3])
        alone = attention(x, torch.zeros(4, dtype=torch.bool))
        assert_allclose(alone, attention.value(x), atol=EQUATION)


def test_clients_in_another_order_get_their_models_in_that_order() -> None:
    """KNN, diffusion, attention and answers; a free N x N matrix in place of attention does not do that."""
    network, x, order = generator(), normal(4, 3), torch.tensor([3, 1, 0, 2])

    def models(vectors: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat(network(vectors, KNOWN, nearest_neighbors(vectors, KNOWN, 2), ROWS), dim=1)

    assert_allclose(models(x[order]), models(x)[order], atol=EQUATION)
    mixing = normal(4, 4)
    assert not torch.allclose(mixing @ x[order], (mixing @ x)[order], atol=1e-2)


def test_one_backward_pass_is_the_gradient_of_minus_the_product_with_changes() -> None:
    """Jacobian products (12) to (15) by finite differences, for every parameter of both networks."""
    network, x = generator(), normal(4, 3)
    ends, changes = torch.tensor([[0, 1, 0], [1, 2, 3]]), [normal(4, 6), normal(4, 2)]

    def objective() -> Tensor:
        answers = network(x, KNOWN, ends, ROWS)
        return -sum((c * a).sum() for c, a in zip(changes, answers, strict=True))  # type: ignore[return-value]

    torch.autograd.backward(network(x, KNOWN, ends, ROWS), [-change for change in changes])
    step = 1e-6
    for name, parameter in network.named_parameters():
        flat, gradient = parameter.data.reshape(-1), parameter.grad
        assert gradient is not None, name
        for at in range(0, len(flat), max(1, len(flat) // 5)):
            value = float(flat[at])
            sides = []
            for side in (value + step, value - step):
                flat[at] = side
                sides.append(float(objective().detach()))
            flat[at] = value
            assert float(gradient.reshape(-1)[at]) == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-7), name


@pytest.mark.parametrize(("sign", "converges"), [(-1.0, True), (1.0, False)])
def test_the_corrected_sign_converges_and_the_printed_one_diverges(sign: float, converges: bool) -> None:
    """Clients with quadratic losses: the change of one step is g (optimum - w)."""
    settings = HyperSettings(diffusion="none", hidden=16, dropout=0.0)
    network = ModelGenerator(3, [GeneratedPart("all", torch.zeros(2), frozenset(range(4)))], settings, 1)
    x, optima = normal(4, 3).float(), normal(4, 2).float()
    optimizer, errors = torch.optim.SGD(network.parameters(), lr=0.05), []
    for _ in range(400):
        (answer,) = network(x, KNOWN, torch.zeros(2, 0, dtype=torch.int64), [torch.arange(4)])
        change = 0.5 * (optima - answer.detach())
        errors.append(float((optima - answer.detach()).norm()))
        if not np.isfinite(errors[-1]) or errors[-1] > 100.0:
            break
        optimizer.zero_grad()
        answer.backward(gradient=sign * change)
        optimizer.step()
    assert errors[-1] < 0.05 * errors[0] if converges else errors[-1] > 10.0 * errors[0]


def test_nothing_flows_into_the_vectors_of_clients() -> None:
    x: Any = normal(4, 3)
    answers = generator()(x, KNOWN, torch.tensor([[0], [1]]), ROWS)
    assert not x.requires_grad
    assert all(answer.requires_grad for answer in answers)

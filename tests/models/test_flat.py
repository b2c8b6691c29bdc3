"""One vector for a whole module: what changes in one shows in the other, without copies."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from sheafedge.models.flat import FlatModule
from torch import Tensor, nn

OPTIMIZER_ROUNDING = 1e-12  # float64; the same element-wise arithmetic, in another grouping


def encoder(seed: int = 0) -> nn.Module:
    """Parameters, floating buffers (running statistics) and an integer buffer (batches tracked), in float64."""
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).double()


def rows(seed: int = 1) -> Tensor:
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def pair() -> tuple[nn.Module, nn.Module, FlatModule]:
    """A plain module, its twin, and the flat view of the twin."""
    plain = encoder()
    twin = copy.deepcopy(plain)
    return plain, twin, FlatModule(twin)


def test_the_vector_lists_parameters_first_then_floating_buffers(pair: tuple[nn.Module, nn.Module, FlatModule]) -> None:
    plain, _, flat = pair
    parameters = [p.detach().reshape(-1) for p in plain.parameters()]
    buffers = [b.reshape(-1) for b in plain.buffers() if b.is_floating_point()]
    assert len(buffers) == 2  # running mean and variance, or the test says nothing about buffers
    assert torch.equal(flat.vector, torch.cat([*parameters, *buffers]))
    assert torch.equal(flat.trainable, torch.cat(parameters))
    assert flat.gradient.shape == flat.trainable.shape


def test_the_module_computes_as_before(pair: tuple[nn.Module, nn.Module, FlatModule]) -> None:
    plain, twin, _ = pair
    assert torch.equal(plain(rows()), twin(rows()))
    assert list(plain.state_dict()) == list(twin.state_dict())


def test_nothing_is_copied(pair: tuple[nn.Module, nn.Module, FlatModule]) -> None:
    _, twin, flat = pair
    whole = flat.vector.untyped_storage().data_ptr()
    floating = [*twin.parameters(), *(b for b in twin.buffers() if b.is_floating_point())]
    assert {tensor.untyped_storage().data_ptr() for tensor in floating} == {whole}
    assert flat.trainable.untyped_storage().data_ptr() == whole


@pytest.mark.parametrize("change", [lambda v: v.mul_(0.5), lambda v: v.copy_(torch.linspace(0.1, 1, len(v)))])
def test_changing_the_vector_in_place_changes_what_the_module_computes(
    pair: tuple[nn.Module, nn.Module, FlatModule], change: Callable[[Tensor], Tensor]
) -> None:
    plain, twin, flat = pair
    other = encoder(seed=5)  # the change, made on a module tensor by tensor
    values = change(flat.vector.clone())
    at = 0
    for tensor in [*other.parameters(), *(b for b in other.buffers() if b.is_floating_point())]:
        tensor.data.copy_(values[at : at + tensor.numel()].view_as(tensor))
        at += tensor.numel()
    change(flat.vector)
    for module in (plain, twin, other):
        module.eval()  # reads the running statistics, so that buffers count too
    assert torch.equal(twin(rows()), other(rows()))
    assert not torch.equal(twin(rows()), plain(rows()))


def test_running_statistics_that_the_module_updates_show_in_the_vector(
    pair: tuple[nn.Module, nn.Module, FlatModule],
) -> None:
    plain, twin, flat = pair
    before = flat.vector.clone()
    plain(rows())
    twin(rows())
    n_parameters = len(flat.trainable)
    assert torch.equal(flat.vector[:n_parameters], before[:n_parameters])
    assert torch.equal(flat.vector[n_parameters:], torch.cat([plain[1].running_mean, plain[1].running_var]))
    assert not torch.equal(flat.vector, before)


def test_gradients_land_in_the_flat_gradient_and_add_up(pair: tuple[nn.Module, nn.Module, FlatModule]) -> None:
    plain, twin, flat = pair
    for n_backwards in (1, 2):
        plain(rows()).square().sum().backward()
        twin(rows()).square().sum().backward()
        expected = torch.cat([p.grad.reshape(-1) for p in plain.parameters()])
        assert torch.equal(flat.gradient, expected)
        assert flat.gradient.abs().max() > 0.0, n_backwards
    flat.gradient.zero_()
    assert all((p.grad == 0.0).all() for p in twin.parameters())
    twin(rows()).square().sum().backward()
    assert flat.gradient.abs().max() > 0.0  # still the same views


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_one_optimizer_call_on_the_vector_trains_all_parameters(
    pair: tuple[nn.Module, nn.Module, FlatModule], kind: type[torch.optim.Optimizer]
) -> None:
    plain, twin, flat = pair
    start = flat.trainable.clone()
    each, whole = kind(plain.parameters(), lr=0.01), kind([flat.trainable], lr=0.01)
    for step in range(3):
        for module, optimizer in ((plain, each), (twin, whole)):
            module(rows(step)).square().sum().backward()
            optimizer.step()
        each.zero_grad()
        flat.gradient.zero_()
    expected = torch.cat([p.detach().reshape(-1) for p in plain.parameters()])
    assert torch.allclose(flat.trainable, expected, atol=OPTIMIZER_ROUNDING, rtol=0.0)
    assert not torch.allclose(flat.trainable, start, atol=1e-3)


def test_loading_a_checkpoint_writes_into_the_vector(pair: tuple[nn.Module, nn.Module, FlatModule]) -> None:
    _, twin, flat = pair
    other = encoder(seed=9)
    twin.load_state_dict(other.state_dict())
    assert torch.equal(flat.trainable, torch.cat([p.detach().reshape(-1) for p in other.parameters()]))


def test_a_module_without_buffers_is_all_trainable() -> None:
    flat = FlatModule(nn.Linear(2, 3))
    assert flat.vector.shape == flat.trainable.shape == (9,)


def test_a_module_without_parameters_has_an_empty_vector() -> None:
    flat = FlatModule(nn.Flatten())
    assert flat.vector.shape == flat.trainable.shape == flat.gradient.shape == (0,)

"""Answers of a server as parameters and as factors: starts, ways there and back, and how many numbers they take."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.models.factors.ranks import n_factor_values
from sheafedge.models.hyper.backbone import BackbonePart
from sheafedge.models.hyper.part_answer import PartAnswer
from sheafedge.models.hyper_settings import HyperSettings
from torch import Tensor, nn

EQUATION = 1e-10  # float64, numbers of order 1
SHAPES = ((7, 9), (7,), (4, 3, 3, 3), (4,))
FACTORS = HyperSettings(output="factors", rank_ratio=2.0)


def normal(*shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(shape).normal(size=shape))


def part() -> BackbonePart:
    return BackbonePart("encoder image", [nn.Parameter(normal(*shape)) for shape in SHAPES])


def values_of(one: BackbonePart) -> Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in one.parameters])


@pytest.mark.parametrize("settings", [HyperSettings(), FACTORS])
def test_an_answer_starts_at_the_common_start(settings: HyperSettings) -> None:
    answer = PartAnswer(part(), settings, 3)
    assert_allclose(answer.parameters(answer.start), values_of(part()), atol=EQUATION)


def test_factors_take_the_numbers_that_their_ranks_say_and_server_and_client_draw_the_same() -> None:
    one, other = PartAnswer(part(), FACTORS, 3), PartAnswer(part(), FACTORS, 3)
    assert one.size == sum(n_factor_values(shape, 2.0) for shape in SHAPES) < len(values_of(part()))
    assert torch.equal(one.start, other.start)
    assert not torch.equal(one.start, PartAnswer(part(), FACTORS, 4).start)


def test_dense_answers_are_the_parameters_and_their_changes() -> None:
    answer, values = PartAnswer(part(), HyperSettings(), 3), normal(len(values_of(part())))
    assert torch.equal(answer.parameters(values), values)
    assert torch.equal(answer.change(values, 2.0 * values), 2.0 * values)
    assert answer.change_flops == 0.0


def test_a_change_is_the_jacobian_of_the_parameters_transposed_times_theirs() -> None:
    answer = PartAnswer(part(), FACTORS, 3)
    values, change = normal(answer.size).requires_grad_(), normal(len(values_of(part())))
    (expected,) = torch.autograd.grad((answer.parameters(values) * change).sum(), values)
    assert_allclose(answer.change(values.detach(), change), expected, atol=EQUATION)


def test_a_part_does_not_follow_its_model() -> None:
    of_model = part()
    answer = PartAnswer(of_model, FACTORS, 3)
    for parameter in of_model.parameters:
        parameter.data.zero_()
    assert_allclose(answer.parameters(answer.start), values_of(part()), atol=EQUATION)


def test_a_step_along_the_change_leads_towards_what_local_steps_have_found() -> None:
    """Factors can follow a change of low rank: repeated steps by J^T dW arrive at it."""
    answer = PartAnswer(BackbonePart("weight", [nn.Parameter(normal(6, 5))]), HyperSettings(output="factors"), 0)
    goal = values_of(BackbonePart("", [nn.Parameter(normal(6, 5))])) + 0.3 * torch.outer(normal(6), normal(5)).reshape(
        -1
    )
    values = answer.start.clone()
    before = float((goal - answer.parameters(values)).norm())
    for _ in range(2000):
        values += 0.1 * answer.change(values, goal - answer.parameters(values))
    assert float((goal - answer.parameters(values)).norm()) < 0.01 * before

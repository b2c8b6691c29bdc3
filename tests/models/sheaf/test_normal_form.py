"""P^T T P as one operator on heads is what a projection, weighed and pulled, is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from doubles.wide_maps import WIDE_HEAD, WIDE_ROWS, walk_of_heads, wide_maps
from numpy.testing import assert_allclose
from reference.sheaves import normal
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.sheaf.restriction_maps import MOST_TERMS, FactoredMaps
from torch import Tensor


def weights_with_losses(n_lost: int, rng: np.random.Generator) -> Tensor:
    """Rows that came, rows that did not, and one that counts half."""
    weights = torch.ones(WIDE_ROWS, dtype=torch.float64)
    weights[torch.from_numpy(rng.choice(WIDE_ROWS, n_lost, replace=False))] = 0.0
    if n_lost:
        weights[weights.nonzero()[0]] = 0.5
    return weights


@pytest.mark.parametrize("n_steps", [0, 1, 20, MOST_TERMS + 7])
@pytest.mark.parametrize("n_lost", [0, 1, WIDE_ROWS // 3])
def test_the_normal_form_is_a_projection_weighed_and_pulled(n_steps: int, n_lost: int) -> None:
    maps, _ = wide_maps()
    rng = np.random.default_rng(61)
    for at, step in enumerate(walk_of_heads(n_steps, noise=0.02)):
        if at in (0, 7):  # it grows with the maps
            assert maps.normal_form(weights_with_losses(0, rng)) is not None
        maps.step(*step)
    weights, head = weights_with_losses(n_lost, rng), normal(rng, WIDE_HEAD)
    form = maps.normal_form(weights)
    assert form is not None
    wanted = maps.pull(weights * maps.project(head))
    assert_allclose(form.product(head), wanted, rtol=0.0, atol=1e-12 * float(wanted.norm()))


def test_maps_of_a_state_have_the_normal_form_of_those_that_grew_bit_for_bit() -> None:
    maps, resumed = wide_maps(torch.float32)[0], wide_maps(torch.float32)[0]
    ones = torch.ones(WIDE_ROWS)
    for residual, head in walk_of_heads(40, noise=0.02):
        maps.step(residual.float(), head.float())
        maps.normal_form(ones)
    resumed.restore(SavedState(maps.state()))
    forms = [one.normal_form(ones) for one in (maps, resumed)]
    for mine, other in zip(*(form for form in forms if form is not None), strict=True):
        assert torch.equal(mine, other)


def test_there_is_a_normal_form_only_where_it_is_the_cheaper() -> None:
    maps, dense = wide_maps()
    assert maps.normal_form(torch.zeros(WIDE_ROWS, dtype=torch.float64)) is None  # nothing came
    assert dense.normal_form(torch.ones(WIDE_ROWS, dtype=torch.float64)) is None
    narrow = FactoredMaps({0: torch.arange(WIDE_HEAD)}, WIDE_HEAD)
    assert narrow.normal_form(torch.ones(WIDE_HEAD)) is None
    matrix = FactoredMaps(dict.fromkeys((0, 1), torch.eye(WIDE_HEAD)), WIDE_HEAD)
    assert matrix.normal_form(torch.ones(2 * WIDE_HEAD)) is None

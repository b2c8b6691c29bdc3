"""Maps of the form I_C x R against the same operator as a dense matrix, for any sizes, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference.sheaves import any_case, normal
from sheafedge.emulator.contracts import ConfigError, Message
from sheafedge.models.head import HeadLayout, shared_coordinates
from sheafedge.models.settings import SheafSettings
from sheafedge.models.sheaf.equations import kronecker_starts, map_step_sizes
from sheafedge.models.sheaf.kronecker_maps import KroneckerMaps
from sheafedge.models.sheaf.restriction_maps import DenseMaps
from sheafedge.models.sheaf.vector_coupling import VectorCoupling
from torch import Tensor

EQUATION = 1e-12  # float64, sums of at most a hundred products of order 1
STEP, COUPLING = 0.05, 0.7


def as_columns(layout: HeadLayout) -> Tensor:
    """[dim] where the entries of [weights | biases], row by row, are in the flat head."""
    n_weights = layout.n_outputs * layout.width
    weights = torch.arange(n_weights).view(layout.n_outputs, layout.width)
    biases = torch.arange(n_weights, layout.dim).unsqueeze(1)
    return torch.cat([weights, biases], dim=1).flatten()


@st.composite
def clients(draw: Any) -> tuple[HeadLayout, dict[int, Tensor]]:
    """A head of any size with any neighbors (also none), each with as many columns as it likes."""
    layout = HeadLayout(draw(st.integers(1, 4)), (("fused", draw(st.integers(1, 5))),))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    neighbors = draw(st.sets(st.integers(0, 30), max_size=4))
    shares = {neighbor: draw(st.integers(1, 100)) / 100 for neighbor in neighbors}
    return layout, {neighbor: kronecker_starts(layout, layout, share, rng)[0] for neighbor, share in shares.items()}


def maps_of(layout: HeadLayout, starts: dict[int, Tensor]) -> KroneckerMaps:
    return KroneckerMaps(starts, layout.dim, layout.n_outputs, dtype=torch.float64)


def small_matrix(maps: KroneckerMaps, layout: HeadLayout, neighbor: int) -> Tensor:
    """R [m, width + 1], read off the first output's rows of the whole map."""
    whole = maps.dense(neighbor)[:, as_columns(layout)]
    return whole[: len(whole) // layout.n_outputs, : layout.width + 1]


# --- the operator -----------------------------------------------------------------------------------------------------


@given(client=clients(), n_steps=st.integers(0, 6), seed=st.integers(0, 99))
@any_case
def test_every_map_is_the_identity_times_one_small_matrix_and_acts_like_it(
    client: tuple[HeadLayout, dict[int, Tensor]], n_steps: int, seed: int
) -> None:
    layout, starts = client
    maps, rng = maps_of(layout, starts), np.random.default_rng(seed)
    for _ in range(n_steps):
        maps.step(0.3 * normal(rng, maps.n_rows), normal(rng, layout.dim))
    head, residual = normal(rng, layout.dim), normal(rng, maps.n_rows)
    pulled = torch.zeros_like(head)
    for neighbor, rows in maps.rows.items():
        matrix, small = maps.dense(neighbor), small_matrix(maps, layout, neighbor)
        outputs = torch.eye(layout.n_outputs, dtype=torch.float64)
        assert_allclose(matrix[:, as_columns(layout)], torch.kron(outputs, small), atol=0.0)
        assert_allclose(maps.project(head)[rows], matrix @ head, atol=EQUATION)
        pulled += matrix.T @ residual[rows]
    assert_allclose(maps.pull(residual), pulled, atol=EQUATION)
    assert maps.project(head).shape == (maps.n_rows,)


@given(client=clients())
@any_case
def test_they_start_as_the_rows_of_the_identity_that_any_storage_would_hold(
    client: tuple[HeadLayout, dict[int, Tensor]],
) -> None:
    layout, starts = client
    maps, plain = maps_of(layout, starts), DenseMaps(starts, layout.dim, dtype=torch.float64)
    assert maps.rows == plain.rows
    for neighbor in starts:
        assert torch.equal(maps.dense(neighbor), plain.dense(neighbor))


@given(client=clients(), seed=st.integers(0, 99))
@any_case
def test_a_step_is_the_sum_of_the_rank_one_terms_of_all_outputs(
    client: tuple[HeadLayout, dict[int, Tensor]], seed: int
) -> None:
    """R <- R - sum_c s_c h_c^T, written out."""
    layout, starts = client
    maps, rng = maps_of(layout, starts), np.random.default_rng(seed)
    head, scaled = normal(rng, layout.dim), normal(rng, maps.n_rows)
    wanted = {}
    for neighbor, rows in maps.rows.items():
        rows_of_head = head[as_columns(layout)].view(layout.n_outputs, layout.width + 1)
        of_outputs = scaled[rows].view(layout.n_outputs, -1)
        terms = [torch.outer(s, h) for s, h in zip(of_outputs, rows_of_head, strict=True)]
        wanted[neighbor] = small_matrix(maps, layout, neighbor) - sum(terms)
    maps.step(scaled, head)
    for neighbor, small in wanted.items():
        assert_allclose(small_matrix(maps, layout, neighbor), small, atol=EQUATION)


@given(client=clients(), seed=st.integers(0, 99))
@any_case
def test_pull_and_step_are_the_gradient_of_half_the_energy(
    client: tuple[HeadLayout, dict[int, Tensor]], seed: int
) -> None:
    """Of the head and of R, where both maps and the neighbor's images are what they are."""
    layout, starts = client
    maps, rng = maps_of(layout, starts), np.random.default_rng(seed)
    maps.step(0.3 * normal(rng, maps.n_rows), normal(rng, layout.dim))
    head, peers = normal(rng, layout.dim).requires_grad_(), normal(rng, maps.n_rows)
    smalls = {j: small_matrix(maps, layout, j).clone().requires_grad_() for j in starts}
    columns = head[as_columns(layout)].view(layout.n_outputs, layout.width + 1)
    energy = sum(((columns @ smalls[j].T).flatten() - peers[rows]).square().sum() for j, rows in maps.rows.items())
    torch.autograd.backward(0.5 * energy + 0.0 * head.sum())
    residual = maps.project(head.detach()) - peers
    assert head.grad is not None
    assert_allclose(maps.pull(residual), head.grad, atol=EQUATION)
    maps.step(residual, head.detach())
    for j, small in smalls.items():
        assert small.grad is not None
        assert_allclose(small_matrix(maps, layout, j), small.detach() - small.grad, atol=10 * EQUATION)


# --- what learning does to a residual ---------------------------------------------------------------------------------


def learned_once(storage: str, heads: tuple[Tensor, Tensor], layout: HeadLayout, eta: float) -> tuple[Tensor, Tensor]:
    """Residual of one edge before and after one step of (12) at both ends."""
    starts = kronecker_starts(layout, layout, 1.0, np.random.default_rng(0))
    settings = SheafSettings(map_storage=storage, coupling=COUPLING, map_step_size=eta, clamp_map_step=True)  # type: ignore[arg-type]
    sides = [VectorCoupling(i, {1 - i: starts[i]}, heads[i], settings, n_outputs=layout.n_outputs) for i in range(2)]
    first = sides[0].maps.project(heads[0]) - sides[1].maps.project(heads[1])
    sent: list[Message] = [m for i in range(2) for m in sides[i].reprojections("reproject", 0, heads[i])]
    for i in range(2):
        sides[i].step_maps([m for m in sent if m.receiver == i], heads[i])
    return first, sides[0].maps.project(heads[0]) - sides[1].maps.project(heads[1])


def test_one_step_cannot_absorb_a_residual_as_a_rank_one_term_of_a_full_matrix_does() -> None:
    layout, rng = HeadLayout(6, (("fused", 5),)), np.random.default_rng(7)
    heads = normal(rng, layout.dim), normal(rng, layout.dim)
    size = float(heads[0] @ heads[0] + heads[1] @ heads[1])
    full_step = 1.0 / (COUPLING * size)  # where the clamp ends
    before, after = learned_once("dense", heads, layout, full_step)
    assert_allclose(after, torch.zeros_like(before), atol=EQUATION)  # control: absorbed whole
    before, after = learned_once("kronecker", heads, layout, full_step)
    grams = sum(h @ h.T for h in (head[as_columns(layout)].view(6, 6) for head in heads))
    by_hand = before.view(6, 6) - full_step * COUPLING * grams @ before.view(6, 6)
    assert_allclose(after.view(6, 6), by_hand, atol=EQUATION)
    assert float(after.norm() / before.norm()) > 0.5


@given(seed=st.integers(0, 99), n_outputs=st.integers(1, 5), width=st.integers(1, 5))
@any_case
def test_the_clamp_keeps_a_step_from_overshooting(seed: int, n_outputs: int, width: int) -> None:
    """No part of a residual changes its sign: the factor's eigenvalues stay in [0, 1]."""
    layout, rng = HeadLayout(n_outputs, (("fused", width),)), np.random.default_rng(seed)
    heads = normal(rng, layout.dim), normal(rng, layout.dim)
    grams = sum(h @ h.T for h in (head[as_columns(layout)].view(n_outputs, width + 1) for head in heads))
    eta = map_step_sizes(100.0, COUPLING, heads[0] @ heads[0], (heads[1] @ heads[1]).reshape(1))
    factors = 1.0 - float(eta) * COUPLING * torch.linalg.eigvalsh(grams)
    assert float(factors.min()) >= -EQUATION
    assert float(factors.max()) <= 1.0 + EQUATION
    before, after = learned_once("kronecker", heads, layout, 100.0)
    assert float(after.norm()) <= float(before.norm()) + EQUATION


# --- starts -----------------------------------------------------------------------------------------------------------


@given(percent=st.integers(1, 100), n_outputs=st.integers(1, 5), width=st.integers(1, 9), seed=st.integers(0, 99))
@any_case
def test_a_start_takes_the_same_columns_of_every_output(percent: int, n_outputs: int, width: int, seed: int) -> None:
    layout = HeadLayout(n_outputs, (("fused", width),))
    own, peer = kronecker_starts(layout, layout, percent / 100, np.random.default_rng(seed))
    assert torch.equal(own, peer)
    n_columns = max(1, math.floor(percent * (width + 1) / 100 + 1e-9))
    of_output = torch.argsort(as_columns(layout))[own].view(n_outputs, n_columns)  # places in [weights | biases]
    outputs = torch.arange(n_outputs).unsqueeze(1) * (width + 1)
    assert torch.equal(of_output - outputs, (of_output - outputs)[:1].expand(n_outputs, -1))
    assert len(set(own.tolist())) == len(own)


def test_heads_of_other_blocks_are_compared_on_the_columns_that_both_have() -> None:
    one, other = HeadLayout(3, (("rf", 2), ("gps", 2))), HeadLayout(3, (("gps", 2),))
    own, peer = kronecker_starts(one, other, 1.0, np.random.default_rng(0))
    meant = set(zip(*(at.tolist() for at in shared_coordinates(one, other)), strict=True))
    assert set(zip(own.tolist(), peer.tolist(), strict=True)) == meant  # all that they have in common: gps and bias


def test_different_numbers_of_outputs_cannot_be_compared_column_by_column() -> None:
    layouts = (HeadLayout(n, (("fused", 3),)) for n in (4, 8))
    with pytest.raises(ConfigError, match=r"neighbors have 4 and 8 outputs; use 'factored'") as caught:
        kronecker_starts(*layouts, 0.5, np.random.default_rng(0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "needed"), [("map_start", "aligned", "structured"), ("exchange", "single", "double")]
)
def test_kronecker_maps_say_what_they_do_not_go_with(field: str, value: str, needed: str) -> None:
    wrong: Any = {"map_storage": "kronecker", field: value}
    with pytest.raises(ConfigError, match=rf"sheaf\.{field} must be '{needed}' with .* got '{value}'"):
        SheafSettings(**wrong)


def test_they_need_a_fraction_of_the_memory_of_dense_maps() -> None:
    layout = HeadLayout(16, (("fused", 32),))
    starts = {0: kronecker_starts(layout, layout, 0.5, np.random.default_rng(0))[0]}
    maps, plain = KroneckerMaps(starts, layout.dim, 16), DenseMaps(starts, layout.dim)
    assert maps.n_bytes < plain.n_bytes / 100
    assert maps.product_flops < plain.product_flops / 10

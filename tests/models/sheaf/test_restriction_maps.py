"""Restriction maps: the factored form is equal to the dense one, that of equations (11) and (12), in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from doubles.wide_maps import WIDE_HEAD, WIDE_ROWS, walk_of_heads, wide_maps
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference.sheaves import any_case, normal
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.sheaf.restriction_maps import KEPT_TERMS, MOST_TERMS, DenseMaps, FactoredMaps
from torch import Tensor

EQUATION = 1e-10  # float64, entries of order 1 after at most tens of rank-one steps
SINGLE = 1e-4  # float32, the same steps


# --- factored = dense -------------------------------------------------------------------------------------------------


@st.composite
def starts_of_a_client(draw: Any) -> tuple[dict[int, Tensor], int]:
    """Any head size, any neighbors (also none), each with an index list or a matrix of its own height."""
    head_dim = draw(st.integers(1, 12))
    neighbors = draw(st.sets(st.integers(0, 30), max_size=4))
    structured = draw(st.sampled_from(["all", "some", "none"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    starts = {}
    for neighbor in neighbors:  # a set: in no particular order
        stalk = draw(st.integers(1, head_dim))
        if structured == "all" or (structured == "some" and draw(st.booleans())):
            starts[neighbor] = torch.from_numpy(rng.choice(head_dim, size=stalk, replace=False))
        else:
            starts[neighbor] = normal(rng, stalk, head_dim)
    return starts, head_dim


def assert_same_operator(factored: FactoredMaps, dense: DenseMaps, rng: np.random.Generator, head_dim: int) -> None:
    """Both ways through the operator, and entry by entry."""
    head, residual = normal(rng, head_dim), normal(rng, dense.n_rows)
    assert_allclose(factored.project(head), dense.project(head), atol=EQUATION)
    assert_allclose(factored.pull(residual), dense.pull(residual), atol=EQUATION)
    for neighbor in dense.rows:
        assert_allclose(factored.dense(neighbor), dense.dense(neighbor), atol=EQUATION)


@given(client=starts_of_a_client(), n_steps=st.integers(0, 25), fold_at=st.integers(0, 25), seed=st.integers(0, 99))
@any_case
def test_factored_maps_are_the_dense_maps_after_any_steps_folded_or_not(
    client: tuple[dict[int, Tensor], int], n_steps: int, fold_at: int, seed: int
) -> None:
    starts, head_dim = client
    factored = FactoredMaps(starts, head_dim, dtype=torch.float64)
    dense = DenseMaps(starts, head_dim, dtype=torch.float64)
    assert factored.rows == dense.rows
    assert factored.n_rows == dense.n_rows == sum(len(start) for start in starts.values())
    rng = np.random.default_rng(seed)
    assert_same_operator(factored, dense, rng, head_dim)
    for step in range(n_steps):
        scaled_residual, head = 0.3 * normal(rng, dense.n_rows), normal(rng, head_dim)
        factored.step(scaled_residual, head)
        dense.step(scaled_residual, head)
        if step == fold_at:
            factored.fold()
        assert_same_operator(factored, dense, rng, head_dim)


@pytest.mark.parametrize("structured", [True, False])
def test_long_histories_stay_exact_across_growth_and_the_fold_that_ends_them(structured: bool) -> None:
    head_dim, stalk, rng = 40, 15, np.random.default_rng(23)
    starts = {
        j: torch.from_numpy(rng.choice(head_dim, stalk, replace=False)) if structured else normal(rng, stalk, head_dim)
        for j in (4, 2, 9)
    }
    factored = FactoredMaps(starts, head_dim, dtype=torch.float64)
    dense = DenseMaps(starts, head_dim, dtype=torch.float64)
    history_lengths = []
    for _ in range(60):
        scaled_residual, head = 0.1 * normal(rng, dense.n_rows), normal(rng, head_dim)
        factored.step(scaled_residual, head)
        dense.step(scaled_residual, head)
        history_lengths.append(factored.n_terms)
        assert_same_operator(factored, dense, rng, head_dim)
    assert max(history_lengths) > 16  # grew more than once
    assert 0 in history_lengths  # folded by itself when the history outgrew 45 x 40


def test_single_precision_maps_agree_to_rounding() -> None:
    head_dim, rng = 64, np.random.default_rng(29)
    starts = {j: torch.from_numpy(rng.choice(head_dim, 20, replace=False)) for j in (0, 1)}
    factored, dense = FactoredMaps(starts, head_dim), DenseMaps(starts, head_dim)
    for _ in range(15):
        scaled_residual, head = 0.1 * normal(rng, 40).float(), normal(rng, head_dim).float()
        factored.step(scaled_residual, head)
        dense.step(scaled_residual, head)
    head, residual = normal(rng, head_dim).float(), normal(rng, 40).float()
    assert factored.project(head).dtype == factored.pull(residual).dtype == torch.float32
    assert_allclose(factored.project(head), dense.project(head), atol=SINGLE)
    assert_allclose(factored.pull(residual), dense.pull(residual), atol=SINGLE)


@pytest.mark.parametrize("kind", [DenseMaps, FactoredMaps])
def test_maps_keep_nothing_of_the_tensors_they_are_given(kind: type[DenseMaps] | type[FactoredMaps]) -> None:
    """Heads are updated in place elsewhere; a history that aliases them would change with them."""
    rng = np.random.default_rng(31)
    for start in (torch.tensor([0, 3]), normal(rng, 2, 6)):
        maps = kind({5: start}, 6, dtype=torch.float64)
        head, scaled_residual = normal(rng, 6), normal(rng, 2)
        maps.step(scaled_residual, head)
        before = maps.dense(5).clone()
        for given_tensor in (start, head, scaled_residual, maps.dense(5)):
            given_tensor.zero_()
        assert torch.equal(maps.dense(5), before)


@pytest.mark.parametrize("kind", [DenseMaps, FactoredMaps])
def test_rows_of_the_neighbors_tile_the_stack(kind: type[DenseMaps] | type[FactoredMaps]) -> None:
    rng = np.random.default_rng(37)
    starts = {7: normal(rng, 3, 5), 1: normal(rng, 2, 5), 4: normal(rng, 1, 5)}
    maps = kind(starts, 5, dtype=torch.float64)
    assert sorted(at for rows in maps.rows.values() for at in range(rows.start, rows.stop)) == list(range(6))
    head = normal(rng, 5)
    for neighbor, start in starts.items():
        assert_allclose(maps.project(head)[maps.rows[neighbor]], start @ head, atol=EQUATION)


# --- bounded memory ---------------------------------------------------------------------------------------------------


def relative_error(factored: FactoredMaps, dense: DenseMaps) -> float:
    """Distance of both operators as a share of how far the steps have moved the maps."""
    moved = torch.cat([dense.dense(j) for j in dense.rows]) - torch.eye(WIDE_HEAD, dtype=torch.float64).repeat(2, 1)
    found = torch.cat([factored.dense(j) for j in factored.rows]).to(torch.float64)
    return float((found - torch.cat([dense.dense(j) for j in dense.rows])).norm() / moved.norm())


def test_heads_in_few_directions_are_held_exactly_however_many_steps() -> None:
    factored, dense = wide_maps()
    for step in walk_of_heads(1000, noise=0.0):
        factored.step(*step)
        dense.step(*step)
        assert factored.n_terms <= MOST_TERMS
    assert_same_operator(factored, dense, np.random.default_rng(1), WIDE_HEAD)
    assert factored.truncation is not None
    assert factored.truncation < EQUATION
    # the last truncation left six directions, every later step adds a term
    assert factored.n_terms == 6 + (1000 - MOST_TERMS) % (MOST_TERMS - 6)


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
def test_of_noisy_heads_no_more_is_lost_than_the_truncation_says(dtype: torch.dtype, rounding: float) -> None:
    """The bound holds for maps, projections, pulls and energies; and it is no idle one."""
    factored, dense = wide_maps(dtype)
    for residual, head in walk_of_heads(1000, noise=0.02):
        # the same numbers for both: float32 rounds them once, before
        step = residual.to(dtype), head.to(dtype)
        factored.step(*step)
        dense.step(*(part.to(torch.float64) for part in step))
        assert factored.n_terms <= MOST_TERMS
    bound, error = factored.truncation, relative_error(factored, dense)
    assert bound is not None
    assert bound / 30.0 < error <= bound + rounding
    moved = float((dense.matrix - torch.eye(WIDE_HEAD, dtype=torch.float64).repeat(2, 1)).norm())
    rng = np.random.default_rng(47)
    head, residual = normal(rng, WIDE_HEAD), normal(rng, WIDE_ROWS)
    # rows of the identity are projected too, so rounding counts on the scale of the vectors
    allowed, of_vectors = (bound + rounding) * moved, rounding
    image, wanted = factored.project(head.to(dtype)).to(torch.float64), dense.project(head)
    assert float((image - wanted).norm()) <= (allowed + of_vectors) * float(head.norm())
    pulled = factored.pull(residual.to(dtype)).to(torch.float64)
    assert float((pulled - dense.pull(residual)).norm()) <= (allowed + 2 * of_vectors) * float(residual.norm())
    gap = (allowed + of_vectors) * float(head.norm())
    energies = [float((p - residual).square().sum()) for p in (image, wanted)]
    assert abs(energies[0] - energies[1]) <= gap * (gap + 2.0 * float((wanted - residual).norm()))


def test_the_maps_of_short_runs_keep_every_step() -> None:
    """Shipped scenarios have 60 rounds at most; from the first truncation on a trace may differ in its last bits."""
    factored, _ = wide_maps()
    steps = list(walk_of_heads(MOST_TERMS, noise=0.02))
    for residual, head in steps[:-1]:
        factored.step(residual, head)
    assert factored.truncation is None
    assert_array_equal(factored.state()["heads"], torch.stack([head for _, head in steps[:-1]]))
    factored.step(*steps[-1])
    assert factored.n_terms == KEPT_TERMS
    assert factored.truncation is not None


def test_maps_that_start_as_a_matrix_are_folded_and_lose_nothing() -> None:
    rng = np.random.default_rng(53)
    starts = {j: normal(rng, WIDE_ROWS // 2, WIDE_HEAD) for j in (0, 1)}
    factored = FactoredMaps(starts, WIDE_HEAD, dtype=torch.float64)
    dense = DenseMaps(starts, WIDE_HEAD, dtype=torch.float64)
    for step in walk_of_heads(3 * MOST_TERMS + 5, noise=0.02):
        factored.step(*step)
        dense.step(*step)
        assert factored.n_terms < MOST_TERMS
    assert factored.n_terms == 5
    assert factored.truncation is None
    assert_same_operator(factored, dense, rng, WIDE_HEAD)


@pytest.mark.parametrize("n_steps", [MOST_TERMS - 1, MOST_TERMS, 3 * MOST_TERMS + 7])
def test_maps_go_on_from_a_state_bit_for_bit_across_truncations(n_steps: int) -> None:
    """Truncation follows from the state alone, so that it does not matter where or when a run was resumed."""
    maps, resumed = wide_maps(torch.float32)[0], wide_maps(torch.float32)[0]
    steps = [(s.float(), w.float()) for s, w in walk_of_heads(n_steps + 60, noise=0.02)]
    for step in steps[:n_steps]:
        maps.step(*step)
    resumed.restore(SavedState(maps.state()))
    assert (resumed.truncation, resumed.n_bytes) == (maps.truncation, maps.n_bytes)
    for step in steps[n_steps:]:
        maps.step(*step)
        resumed.step(*step)
    assert resumed.truncation == maps.truncation
    for name in ("heads", "residuals"):
        assert_array_equal(resumed.state()[name], maps.state()[name])


def test_a_state_from_before_truncation_is_read_with_its_whole_history() -> None:
    factored, dense = wide_maps()
    steps = list(walk_of_heads(131, noise=0.0))
    residuals, heads = (torch.stack(part).numpy() for part in zip(*steps[:-1], strict=True))
    index = np.tile(np.arange(WIDE_ROWS // 2), 2)
    factored.restore(SavedState({"index": index, "matrix": None, "heads": heads, "residuals": residuals}))
    assert (factored.n_terms, factored.truncation) == (130, None)
    factored.step(*steps[-1])
    for step in steps:
        dense.step(*step)
    assert factored.n_terms < MOST_TERMS
    assert factored.n_bytes < 8 * (MOST_TERMS + 1) * (WIDE_HEAD + WIDE_ROWS)
    assert_same_operator(factored, dense, np.random.default_rng(1), WIDE_HEAD)


def test_a_diverging_history_is_left_to_the_training_step_that_stops_the_run() -> None:
    factored, _ = wide_maps()
    for residual, head in walk_of_heads(MOST_TERMS + 1, noise=0.0):
        factored.step(residual * np.inf, head)
    assert factored.n_terms == MOST_TERMS + 1
    assert factored.truncation is None


def test_factored_maps_hold_a_fraction_of_the_dense_memory_until_they_fold() -> None:
    head_dim, rng = 400, np.random.default_rng(41)
    starts = {j: torch.from_numpy(rng.choice(head_dim, 40, replace=False)) for j in range(4)}
    factored, dense = FactoredMaps(starts, head_dim), DenseMaps(starts, head_dim)
    assert dense.n_bytes == 4 * 160 * head_dim
    for _ in range(10):
        factored.step(normal(rng, 160).float(), normal(rng, head_dim).float())
    assert factored.n_bytes < dense.n_bytes / 4
    factored.fold()
    assert factored.n_bytes == dense.n_bytes

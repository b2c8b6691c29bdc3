"""Restriction maps: sizes and starts by the paper's formulas, and the factored form equal to the dense one.

Source: Ghalkha et al. 2025, edge-stalk dimension, initial maps and (12); where the paper leaves the choice of rows
open, the two heads of an edge are compared coordinate by coordinate on what both have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from doubles.random_maps import random_starts
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference.sheaves import any_case, normal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.head import HeadLayout, chosen_outputs, shared_coordinates
from sheafedge.models.sheaf.equations import aligned_starts, edge_stalk_dim, structured_starts
from sheafedge.models.sheaf.restriction_maps import KEPT_TERMS, MOST_TERMS, DenseMaps, FactoredMaps
from torch import Tensor

EQUATION = 1e-10  # float64, entries of order 1 after at most tens of rank-one steps
SINGLE = 1e-4  # float32, the same steps
FAR = 1e-6  # float64 entries of order 1 that are not the same
STANDARD_ERRORS = 4.0  # 1 in 16 000 for a correct sampler, and the seeds are fixed


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head_dim", "at_a_tenth", "at_23_percent"),
    [(65, 6, 14), (2112, 211, 485), (4160, 416, 956), (8256, 825, 1898), (131136, 13113, 30161)],
)
def test_stalks_between_equal_heads_have_the_printed_dimensions(
    head_dim: int, at_a_tenth: int, at_23_percent: int
) -> None:
    assert edge_stalk_dim(0.1, head_dim, head_dim) == at_a_tenth
    assert edge_stalk_dim(0.23, head_dim, head_dim) == at_23_percent


@given(
    percent=st.integers(1, 100),
    own=st.integers(1, 9000),
    peer=st.integers(1, 9000),
    n_shared=st.none() | st.integers(1, 9000),
)
@example(percent=29, own=100, peer=100, n_shared=None)  # 0.29 * 100 is 28.999999999999996 in binary
@any_case
def test_the_stalk_dimension_is_the_floor_of_the_compressed_mean_within_its_limits(
    percent: int, own: int, peer: int, n_shared: int | None
) -> None:
    wanted = math.floor(Fraction(percent, 100) * Fraction(own + peer, 2))
    limit = min(own, peer) if n_shared is None else min(own, peer, n_shared)
    found = edge_stalk_dim(percent / 100, own, peer, n_shared)
    assert found == max(1, min(wanted, limit))
    assert found == edge_stalk_dim(percent / 100, peer, own, n_shared)


# --- structured starts ------------------------------------------------------------------------------------------------

BLOCKS = st.sets(st.sampled_from(["lidar", "camera", "rf", "gps"]), min_size=1)


@st.composite
def layouts(draw: Any, *, n_outputs: int) -> HeadLayout:
    """Head of a concatenation of any modalities in canonical order, or of an attention fusion."""
    width = 3
    if draw(st.booleans()):
        return HeadLayout(n_outputs, (("fused", width),))
    owned = draw(BLOCKS)
    return HeadLayout(n_outputs, tuple((k, width) for k in ("lidar", "camera", "rf", "gps") if k in owned))


def meanings(layout: HeadLayout) -> list[tuple[str, int, int]]:
    """(block, class, feature) of every coordinate: the weight matrix row by row, then the biases."""
    columns = [(name, feature) for name, width in layout.blocks for feature in range(width)]
    weights = [(name, output, feature) for output in range(layout.n_outputs) for name, feature in columns]
    return weights + [("bias", output, 0) for output in range(layout.n_outputs)]


@given(own=layouts(n_outputs=3), peer=layouts(n_outputs=3))
@any_case
def test_shared_coordinates_are_all_those_that_mean_the_same_at_both_ends(own: HeadLayout, peer: HeadLayout) -> None:
    own_means, peer_means = meanings(own), meanings(peer)
    assert len(own_means) == own.dim
    own_at, peer_at = shared_coordinates(own, peer)
    assert [own_means[at] for at in own_at] == [peer_means[at] for at in peer_at]
    assert {own_means[at] for at in own_at} == set(own_means) & set(peer_means)
    assert len(own_at) == len(set(own_at.tolist()))


@given(own=layouts(n_outputs=3), peer=layouts(n_outputs=3), percent=st.integers(1, 100), seed=st.integers(0, 99))
@any_case
def test_structured_starts_pick_distinct_rows_of_the_identity_that_mean_the_same(
    own: HeadLayout, peer: HeadLayout, percent: int, seed: int
) -> None:
    at_own, at_peer = structured_starts(own, peer, percent / 100, np.random.default_rng(seed))
    n_shared = len(shared_coordinates(own, peer)[0])
    assert at_own.shape == at_peer.shape == (edge_stalk_dim(percent / 100, own.dim, peer.dim, n_shared),)
    for layout, chosen in ((own, at_own), (peer, at_peer)):
        dense = DenseMaps({0: chosen}, layout.dim, dtype=torch.float64).dense(0)
        assert dense.shape == (len(chosen), layout.dim)
        assert torch.equal(dense @ dense.T, torch.eye(len(chosen), dtype=torch.float64))
    own_means, peer_means = meanings(own), meanings(peer)
    assert [own_means[at] for at in at_own.tolist()] == [peer_means[at] for at in at_peer.tolist()]
    if own == peer:
        assert torch.equal(at_own, at_peer)


def test_the_first_coordinates_of_different_heads_would_compare_unrelated_weights() -> None:
    """Negative control: why the index is matched by meaning."""
    own, peer = HeadLayout(2, (("rf", 2), ("gps", 2))), HeadLayout(2, (("gps", 2),))
    assert meanings(own)[0] != meanings(peer)[0]


def test_structured_rows_depend_on_the_edges_draws() -> None:
    layout = HeadLayout(8, (("fused", 16),))
    first, again, other = (structured_starts(layout, layout, 0.2, np.random.default_rng(s))[0] for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


# --- aligned starts ---------------------------------------------------------------------------------------------------

N_OUTPUTS = 6
output_orders = st.permutations(range(N_OUTPUTS))


def images(
    starts: tuple[Tensor, Tensor], own: HeadLayout, peer: HeadLayout, own_head: Tensor, peer_head: Tensor
) -> tuple[Tensor, Tensor]:
    """P_ij w_i and P_ji w_j."""
    ends = ((starts[0], own, own_head), (starts[1], peer, peer_head))
    first, second = (DenseMaps({0: at}, layout.dim, dtype=torch.float64).project(head) for at, layout, head in ends)
    return first, second


@given(own=output_orders, peer=output_orders, percent=st.integers(1, 100), seed=st.integers(0, 99))
@any_case
def test_aligned_maps_agree_exactly_where_heads_differ_by_the_order_of_their_outputs(
    own: list[int], peer: list[int], percent: int, seed: int
) -> None:
    """P_ij w_i = P_ji w_j for one head in two orders, and not once it is changed in what the edge compares."""
    layout = HeadLayout(N_OUTPUTS, (("fused", 3),))
    head = normal(np.random.default_rng(seed), layout.dim)
    own_head, peer_head = chosen_outputs(head, layout, own), chosen_outputs(head, layout, peer)
    starts = aligned_starts(layout, layout, own, peer, percent / 100, np.random.default_rng(seed))
    seen, theirs = images(starts, layout, layout, own_head, peer_head)
    assert len(seen) == edge_stalk_dim(percent / 100, layout.dim, layout.dim)
    assert torch.equal(seen, theirs)
    peer_head[starts[1][0]] += 1.0
    assert not torch.equal(seen, images(starts, layout, layout, own_head, peer_head)[1])


@given(peer=output_orders.filter(lambda order: order != sorted(order)), seed=st.integers(0, 99))
@any_case
def test_structured_maps_compare_different_outputs_where_orders_differ(peer: list[int], seed: int) -> None:
    """Negative control: matched by number, heads that say the same disagree."""
    layout = HeadLayout(N_OUTPUTS, (("fused", 3),))
    head = normal(np.random.default_rng(seed), layout.dim)
    starts = structured_starts(layout, layout, 1.0, np.random.default_rng(seed))
    seen, theirs = images(starts, layout, layout, head, chosen_outputs(head, layout, peer))
    assert (seen - theirs).abs().max() > FAR


@given(
    own=layouts(n_outputs=3), peer=layouts(n_outputs=3), order=st.permutations(range(3)), percent=st.integers(1, 100)
)
@any_case
def test_with_the_same_order_at_both_ends_aligned_maps_are_the_structured_ones(
    own: HeadLayout, peer: HeadLayout, order: list[int], percent: int
) -> None:
    aligned = aligned_starts(own, peer, order, order, percent / 100, np.random.default_rng(percent))
    structured = structured_starts(own, peer, percent / 100, np.random.default_rng(percent))
    assert all(torch.equal(one, other) for one, other in zip(aligned, structured, strict=True))


@given(
    own=layouts(n_outputs=4),
    peer=layouts(n_outputs=6),
    own_outputs=st.permutations(range(0, 8, 2)),
    peer_outputs=st.permutations([0, 1, 2, 3, 4, 9]),
)
@any_case
def test_heads_of_different_size_are_compared_on_what_both_are_about(
    own: HeadLayout, peer: HeadLayout, own_outputs: list[int], peer_outputs: list[int]
) -> None:
    own_at, peer_at = shared_coordinates(own, peer, own_outputs, peer_outputs)
    own_means = [(name, own_outputs[output], feature) for name, output, feature in meanings(own)]
    peer_means = [(name, peer_outputs[output], feature) for name, output, feature in meanings(peer)]
    assert [own_means[at] for at in own_at] == [peer_means[at] for at in peer_at]
    assert {own_means[at] for at in own_at} == set(own_means) & set(peer_means)


def test_neighbors_that_are_asked_about_nothing_in_common_cannot_be_aligned() -> None:
    """Biases are no way out: that of one beam says nothing about that of another."""
    layout = HeadLayout(2, (("fused", 3),))
    with pytest.raises(ConfigError, match=r"none in common \(0, 2, \.\.\. and 1, 3, \.\.\.\); use 'random'"):
        aligned_starts(layout, layout, (0, 2), (1, 3), 1.0, np.random.default_rng(0))


# --- random starts ----------------------------------------------------------------------------------------------------


def test_random_starts_have_mean_0_and_variance_1_over_the_head_size() -> None:
    own, peer = HeadLayout(8, (("rf", 12), ("gps", 12))), HeadLayout(8, (("gps", 12),))
    starts = random_starts(own, peer, 0.5, np.random.default_rng(17))
    n_rows = edge_stalk_dim(0.5, own.dim, peer.dim)
    for layout, start in zip((own, peer), starts, strict=True):
        assert start.shape == (n_rows, layout.dim)
        n_entries, sigma = start.numel(), layout.dim**-0.5
        assert abs(float(start.mean())) < STANDARD_ERRORS * sigma / math.sqrt(n_entries)
        assert abs(float(start.std()) - sigma) < STANDARD_ERRORS * sigma / math.sqrt(2 * n_entries)
        assert abs(float(start.std()) - 1.0) > STANDARD_ERRORS / math.sqrt(2 * n_entries)  # unit variance is told apart


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

#: Sizes at which a dense matrix needs more memory than the longest history: 200 * 400 / 600 > 96.
WIDE_HEAD, WIDE_ROWS = 200, 400


def wide_maps(dtype: torch.dtype = torch.float64) -> tuple[FactoredMaps, DenseMaps]:
    starts = {j: torch.arange(WIDE_ROWS // 2) for j in (0, 1)}
    return FactoredMaps(starts, WIDE_HEAD, dtype=dtype), DenseMaps(starts, WIDE_HEAD, dtype=torch.float64)


def walk_of_heads(n_steps: int, noise: float, seed: int = 43) -> Iterator[tuple[Tensor, Tensor]]:
    """Scaled residuals and heads as rounds of training leave them: a slow path in a few directions, and noise."""
    rng = np.random.default_rng(seed)
    paths = normal(rng, 6, WIDE_HEAD), normal(rng, 6, WIDE_ROWS)
    for step in range(n_steps):
        at = torch.from_numpy(np.cos(np.arange(6) * (1.0 + step / 300.0)))
        head, residual = (at @ path + noise * normal(rng, path.shape[1]) for path in paths)
        yield 1e-3 * residual, head


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


# --- P^T T P as one operator ------------------------------------------------------------------------------------------


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

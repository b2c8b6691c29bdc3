"""Sizes of edge stalks, and the maps that clients start from, by the paper's formulas.

Source: Ghalkha et al. 2025, edge-stalk dimension and initial maps; where the paper leaves the choice of rows open, the
two heads of an edge are compared coordinate by coordinate on what both have.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from doubles.random_maps import random_starts
from hypothesis import example, given
from hypothesis import strategies as st
from reference.sheaves import any_case, normal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.models.head import HeadLayout, chosen_outputs, mean_outputs, shared_coordinates
from sheafedge.models.sheaf.equations import aligned_starts, edge_stalk_dim, resampled_starts, structured_starts
from sheafedge.models.sheaf.map_starts import MapStart, dense_start
from sheafedge.models.sheaf.restriction_maps import DenseMaps
from torch import Tensor

EQUATION = 1e-12
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
    starts: tuple[MapStart, MapStart], own: HeadLayout, peer: HeadLayout, own_head: Tensor, peer_head: Tensor
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


# --- resampled starts -------------------------------------------------------------------------------------------------


@given(own=output_orders, peer=output_orders)
@any_case
def test_codebooks_of_one_size_are_resampled_by_the_aligned_maps(own: list[int], peer: list[int]) -> None:
    layout = HeadLayout(N_OUTPUTS, (("fused", 3),))
    resampled = resampled_starts(layout, layout, own, peer)
    aligned = aligned_starts(layout, layout, own, peer, 1.0, np.random.default_rng(0))
    assert all(
        isinstance(one, Tensor) and torch.equal(one, other) for one, other in zip(resampled, aligned, strict=True)
    )


@given(fine=output_orders, coarse=st.permutations(range(2)), seed=st.integers(0, 99), is_mirrored=st.booleans())
@any_case
def test_a_finer_codebook_is_seen_at_the_resolution_of_the_coarser_one(
    fine: list[int], coarse: list[int], seed: int, is_mirrored: bool
) -> None:
    """Where every coarse row is the mean of the three fine ones of its sector, nobody pulls; from either end."""
    layout, small = (HeadLayout(n, (("fused", 3),)) for n in (N_OUTPUTS, 2))
    head = normal(np.random.default_rng(seed), layout.dim)  # by place
    sectors = mean_outputs(head, layout, [[0, 1, 2], [3, 4, 5]])
    fine_head, coarse_head = chosen_outputs(head, layout, fine), chosen_outputs(sectors, small, coarse)
    if is_mirrored:
        fine, coarse = [N_OUTPUTS - 1 - place for place in fine], [1 - place for place in coarse]
    starts = resampled_starts(layout, small, fine, coarse)
    seen, theirs = images(starts, layout, small, fine_head, coarse_head)
    assert len(seen) == small.dim
    assert torch.allclose(seen, theirs, atol=EQUATION)
    swapped = resampled_starts(small, layout, coarse, fine)
    assert all(
        torch.equal(dense_start(a, n, torch.float64), dense_start(b, n, torch.float64))
        for a, b, n in zip(starts, swapped[::-1], (layout.dim, small.dim), strict=True)
    )
    # the pair: one end counted from the other side
    turned = resampled_starts(layout, small, fine, [1 - place for place in coarse])
    seen, theirs = images(turned, layout, small, fine_head, coarse_head)
    assert (seen - theirs).abs().max() > FAR


def test_codebooks_that_do_not_divide_each_other_are_refused() -> None:
    small, large = (HeadLayout(n, (("fused", 3),)) for n in (4, 6))
    with pytest.raises(ConfigError, match="have 4 and 6; change n_beams of one"):
        resampled_starts(large, small, range(6), range(4))

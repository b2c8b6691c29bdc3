"""Fusion of modalities: (4), (5) and the bounds that the tanh puts on attention.

Source: Ghalkha et al. 2025, (4), (5) and the score e = tanh(beta . h).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference.sheaf_dmfl import MODALITY_ORDER, fuse, logits_of
from reference.sheaves import any_case, normal
from sheafedge.emulator.contracts import MODALITIES, Modality
from sheafedge.models.fusion import FUSIONS, AttentionFusion, AttentionMlpFusion, ConcatFusion, MeanFusion, head_layout
from sheafedge.models.head import HeadLayout, apply_head, initial_head
from torch import Tensor

EQUATION = 1e-10
REACHED = 1e-6  # how near a saturated score comes to its bound

owned_modalities = st.sets(st.sampled_from(MODALITIES), min_size=1).map(
    lambda owned: tuple(k for k in MODALITIES if k in owned)
)


@st.composite
def fusion_cases(draw: Any) -> tuple[tuple[Modality, ...], Tensor, Tensor]:
    """Modalities, embeddings [batch, n_modalities, embedding_dim] and scoring vectors, from tame to saturated."""
    owned = draw(owned_modalities)
    batch, width = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.1, 1.0, 30.0]))
    return owned, normal(rng, batch, len(owned), width), scale * normal(rng, len(owned), width)


def attention_with(owned: tuple[Modality, ...], scoring: Tensor) -> AttentionFusion:
    """Attention fusion in float64 with these scoring vectors."""
    fusion = AttentionFusion(owned, scoring.shape[1]).double()
    with torch.no_grad():
        fusion.scoring.copy_(scoring)
    return fusion


def bounds(n_modalities: int) -> tuple[float, float]:
    """Least and greatest weight when every score lies in [-1, 1]."""
    others = n_modalities - 1
    return 1.0 / (1.0 + others * math.e**2), 1.0 / (1.0 + others * math.e**-2)


def by_name(owned: tuple[Modality, ...], rows: Tensor) -> dict[str, Tensor]:
    """The reference's form: one entry per modality instead of a stacked axis."""
    return {str(k): rows[..., at, :] for at, k in enumerate(owned)}


def test_the_canonical_order_is_the_papers_reference_order() -> None:
    assert MODALITIES == MODALITY_ORDER


@pytest.mark.parametrize(("n_modalities", "low", "high"), [(2, 0.1192, 0.8808), (3, 0.0634, 0.7870)])
def test_the_bounds_are_those_worked_out_for_two_and_three_modalities(
    n_modalities: int, low: float, high: float
) -> None:
    assert_allclose(bounds(n_modalities), (low, high), atol=5e-5)  # printed to four digits


@given(case=fusion_cases())
@any_case
def test_attention_weights_sum_to_1_inside_the_bounds_of_the_tanh(
    case: tuple[tuple[Modality, ...], Tensor, Tensor],
) -> None:
    owned, embeddings, scoring = case
    weights = attention_with(owned, scoring).weights(embeddings).detach()
    low, high = bounds(len(owned))
    assert weights.shape == embeddings.shape[:2]
    assert_allclose(weights.sum(dim=1), 1.0, atol=EQUATION)
    assert float(weights.min()) >= low - EQUATION
    assert float(weights.max()) <= high + EQUATION


@pytest.mark.parametrize("n_modalities", [2, 3, 4])
def test_the_bounds_are_reached_by_saturated_scores_and_broken_without_the_tanh(n_modalities: int) -> None:
    """Negative control: tighter bounds, or raw scores, would fail."""
    owned = MODALITIES[:n_modalities]
    embeddings = torch.ones(1, n_modalities, 1, dtype=torch.float64)
    low, high = bounds(n_modalities)
    for favored, bound in ((50.0, high), (-50.0, low)):
        scoring = torch.full((n_modalities, 1), -favored, dtype=torch.float64)
        scoring[0] = favored
        weights = attention_with(owned, scoring).weights(embeddings).detach()
        assert abs(float(weights[0, 0]) - bound) < REACHED
        raw = torch.softmax(scoring.T, dim=1)[0, 0]
        assert not low <= float(raw) <= high


@given(case=fusion_cases())
@any_case
def test_attention_equals_the_weighted_sum_of_the_reference(
    case: tuple[tuple[Modality, ...], Tensor, Tensor],
) -> None:
    owned, embeddings, scoring = case
    fused = attention_with(owned, scoring)(embeddings)
    expected = fuse(by_name(owned, embeddings), by_name(owned, scoring), "attention")
    assert_allclose(fused.detach(), expected, atol=EQUATION)


@given(case=fusion_cases())
@any_case
def test_zero_scoring_vectors_are_the_plain_mean(case: tuple[tuple[Modality, ...], Tensor, Tensor]) -> None:
    owned, embeddings, _ = case
    fresh = AttentionFusion(owned, embeddings.shape[2]).double()
    assert_allclose(fresh.weights(embeddings).detach(), 1.0 / len(owned), atol=EQUATION)
    mean = MeanFusion(owned, embeddings.shape[2])(embeddings)
    assert_allclose(fresh(embeddings).detach(), mean, atol=EQUATION)
    assert_allclose(mean, embeddings.numpy().mean(axis=1), atol=EQUATION)


@given(case=fusion_cases())
@any_case
def test_a_client_with_one_modality_uses_all_of_it_and_its_attention_never_learns(
    case: tuple[tuple[Modality, ...], Tensor, Tensor],
) -> None:
    owned, embeddings, scoring = case
    fusion = attention_with(owned[:1], scoring[:1])
    fused = fusion(embeddings[:, :1])
    torch.autograd.backward(fused.square().sum())
    assert torch.equal(fused.detach(), embeddings[:, 0])
    assert fusion.scoring.grad is not None
    assert float(fusion.scoring.grad.abs().max()) == 0.0


def test_with_two_modalities_attention_does_learn() -> None:
    """Negative control of the zero gradient above."""
    rng = np.random.default_rng(3)
    fusion = attention_with(("rf", "gps"), normal(rng, 2, 4))
    torch.autograd.backward(fusion(normal(rng, 5, 2, 4)).square().sum())
    assert fusion.scoring.grad is not None
    assert float(fusion.scoring.grad.abs().max()) > 1e-3


@given(case=fusion_cases(), seed=st.integers(0, 99))
@any_case
def test_the_order_of_the_modalities_does_not_matter_to_attention(
    case: tuple[tuple[Modality, ...], Tensor, Tensor], seed: int
) -> None:
    owned, embeddings, scoring = case
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(owned)))
    shuffled = attention_with(tuple(owned[at] for at in order), scoring[order])
    straight = attention_with(owned, scoring)
    assert_allclose(shuffled(embeddings[:, order]).detach(), straight(embeddings).detach(), atol=EQUATION)
    assert_allclose(
        shuffled.weights(embeddings[:, order]).detach(), straight.weights(embeddings)[:, order].detach(), atol=EQUATION
    )


@given(case=fusion_cases())
@any_case
def test_concatenation_puts_embeddings_side_by_side_in_canonical_order(
    case: tuple[tuple[Modality, ...], Tensor, Tensor],
) -> None:
    owned, embeddings, _ = case
    fused = ConcatFusion(owned, embeddings.shape[2])(embeddings)
    assert torch.equal(fused, fuse(by_name(owned, embeddings), {}, "concat"))


# --- attention of two layers ------------------------------------------------------------------------------------------


def two_layers_with(owned: tuple[Modality, ...], scoring: Tensor, hidden: Tensor) -> AttentionMlpFusion:
    """Fusion in float64 with these v [n_modalities, l] and U [n_modalities, l, l]."""
    fusion = AttentionMlpFusion(owned, scoring.shape[1]).double()
    with torch.no_grad():
        fusion.scoring.copy_(scoring)
        fusion.hidden.copy_(hidden)
    return fusion


@given(case=fusion_cases(), seed=st.integers(0, 99))
@any_case
def test_two_layers_weigh_by_the_softmax_of_v_times_tanh_of_u_times_h(
    case: tuple[tuple[Modality, ...], Tensor, Tensor], seed: int
) -> None:
    owned, embeddings, scoring = case
    width = scoring.shape[1]
    hidden = normal(np.random.default_rng(seed), len(owned), width, width)
    fusion = two_layers_with(owned, scoring, hidden)
    for row, found, fused in zip(embeddings, fusion.weights(embeddings), fusion(embeddings), strict=True):
        scores = torch.stack([scoring[k] @ torch.tanh(hidden[k] @ row[k]) for k in range(len(owned))])
        wanted = torch.softmax(scores, dim=0)
        assert_allclose(found.detach(), wanted, atol=EQUATION)
        assert_allclose(fused.detach(), wanted @ row, atol=EQUATION)


@given(case=fusion_cases())
@any_case
def test_two_layers_start_as_the_plain_mean(case: tuple[tuple[Modality, ...], Tensor, Tensor]) -> None:
    owned, embeddings, _ = case
    fresh = AttentionMlpFusion(owned, embeddings.shape[2]).double()
    assert_allclose(fresh.weights(embeddings).detach(), 1.0 / len(owned), atol=EQUATION)
    assert_allclose(fresh(embeddings).detach(), embeddings.numpy().mean(axis=1), atol=EQUATION)


def gradients(fusion: AttentionMlpFusion, embeddings: Tensor) -> tuple[float, float]:
    """Largest entries of the gradients of v and of U."""
    fusion.zero_grad()
    torch.autograd.backward(fusion(embeddings).square().sum())
    assert fusion.scoring.grad is not None
    assert fusion.hidden.grad is not None
    return float(fusion.scoring.grad.abs().max()), float(fusion.hidden.grad.abs().max())


def test_two_layers_learn_from_their_start_on_and_would_not_from_zeros() -> None:
    embeddings = normal(np.random.default_rng(3), 5, 2, 4)
    fusion = AttentionMlpFusion(("rf", "gps"), 4).double()
    of_v, of_u = gradients(fusion, embeddings)
    assert of_v > 1e-3
    assert of_u == 0.0  # until v has moved
    assert fusion.scoring.grad is not None
    with torch.no_grad():
        fusion.scoring.sub_(0.1 * fusion.scoring.grad)
    assert min(gradients(fusion, embeddings)) > 1e-3
    zeros = two_layers_with(("rf", "gps"), torch.zeros(2, 4), torch.zeros(2, 4, 4))  # control
    assert gradients(zeros, embeddings) == (0.0, 0.0)


def test_two_layers_can_turn_a_modality_off() -> None:
    """What the outer tanh of (5) forbids."""
    owned: tuple[Modality, ...] = ("rf", "gps")
    embeddings, scoring = torch.ones(1, 2, 3, dtype=torch.float64), torch.tensor([[9.0] * 3, [-9.0] * 3])
    off = two_layers_with(owned, scoring, torch.eye(3).repeat(2, 1, 1)).weights(embeddings).detach()
    bounded = attention_with(owned, scoring).weights(embeddings).detach()
    assert float(off[0, 1]) < 1e-6
    assert float(bounded[0, 1]) >= bounds(2)[0] - EQUATION


# --- the head that reads the fusion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(FUSIONS))
@given(case=fusion_cases(), n_outputs=st.integers(1, 4), seed=st.integers(0, 99))
@any_case
def test_the_head_of_a_fusion_has_the_papers_size_and_gives_its_logits(
    name: str, case: tuple[tuple[Modality, ...], Tensor, Tensor], n_outputs: int, seed: int
) -> None:
    owned, embeddings, _ = case
    width = embeddings.shape[2]
    fusion = FUSIONS[name](owned, width).double()
    layout = head_layout(fusion, n_outputs)
    read = width * (len(owned) if name == "concat" else 1)
    assert layout.dim == n_outputs * (read + 1)
    fused, head = fusion(embeddings).detach(), normal(np.random.default_rng(seed), layout.dim)
    assert_allclose(apply_head(head, fused, n_outputs), logits_of(head, fused, n_outputs), atol=EQUATION)


@given(owned=owned_modalities, width=st.integers(1, 4), n_outputs=st.integers(1, 4), seed=st.integers(0, 99))
@any_case
def test_head_coordinates_name_the_columns_that_read_a_modality(
    owned: tuple[Modality, ...], width: int, n_outputs: int, seed: int
) -> None:
    """Silencing every other coordinate leaves exactly what that modality's embedding contributes."""
    layout = head_layout(ConcatFusion(owned, width), n_outputs)
    rng = np.random.default_rng(seed)
    head, embeddings = normal(rng, layout.dim), normal(rng, 3, len(owned), width)
    coordinates = layout.coordinates()
    assert sorted(np.concatenate([at.ravel() for at in coordinates.values()])) == list(range(layout.dim))
    for place, k in enumerate(owned):
        alone = torch.zeros_like(head)
        alone[coordinates[str(k)]] = head[coordinates[str(k)]]
        block = head[coordinates[str(k)]]  # [n_outputs, width]
        logits = apply_head(alone, embeddings.flatten(start_dim=1), n_outputs)
        assert_allclose(logits, embeddings[:, place] @ block.T, atol=EQUATION)


@pytest.mark.parametrize("name", FUSIONS)
def test_a_modality_that_is_missing_has_no_share_and_no_influence(name: str) -> None:
    owned: tuple[Modality, ...] = ("lidar", "camera", "rf")
    fusion = FUSIONS[name](owned, 4).double()
    embeddings, present = normal(np.random.default_rng(0), 2, 3, 4), torch.tensor([[1.0, 0.0, 1.0]])
    other = embeddings.clone()
    other[:, 1] += 5.0
    fused, shares = fusion.masked(embeddings, present)
    assert_allclose(fused.detach(), fusion.masked(other, present)[0].detach(), atol=EQUATION)
    assert_allclose(fusion.masked(other, torch.ones(1, 3))[0].detach(), fusion(other).detach(), atol=EQUATION)
    if shares is not None:  # they start equal
        assert_allclose(shares.detach(), [[0.5, 0.0, 0.5]] * 2, atol=EQUATION)
        assert_allclose(fused.detach(), embeddings[:, [0, 2]].mean(dim=1), atol=EQUATION)


def test_initial_heads_repeat_with_their_draws_and_stay_inside_the_bound() -> None:
    layout = HeadLayout(6, (("fused", 16),))
    first, again, other = (initial_head(layout, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert float(first.abs().max()) <= 0.25  # 1 / sqrt(16)
    assert float(first.abs().max()) > 0.2  # and the bound is used

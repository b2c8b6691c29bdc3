"""Trust in an edge: the same at both ends, whole in agreement, gone for an outlier, and no mean is moved by it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference.sheaves import Sheaf, any_case, normal, sheaves
from sheafedge.emulator.contracts import Message
from sheafedge.models.algorithms.sheaf_diffusion import HeadDiffusion
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.objectives import cross_entropy
from sheafedge.models.settings import SheafSettings, TrainingSettings
from sheafedge.models.sheaf.equations import edge_trust
from sheafedge.models.sheaf.vector_coupling import VectorCoupling
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.training_rows import RowsInMemory
from torch import Tensor, nn

EQUATION = 1e-10  # float64, dozens of operations on numbers around 1
KAPPA = 0.2


# --- the number -------------------------------------------------------------------------------------------------------


@given(n=st.integers(1, 9), seed=st.integers(0, 999), scale=st.floats(1e-3, 10.0))
@any_case
def test_both_ends_of_an_edge_find_the_same_trust_to_the_bit(n: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    one, other = normal(rng, n), normal(rng, n)
    assert torch.equal(edge_trust(one, other, scale), edge_trust(other, one, scale))
    assert 0.0 < float(edge_trust(one, other, scale)) < 1.0


@given(n=st.integers(1, 9), seed=st.integers(0, 999))
@any_case
def test_trust_is_whole_in_agreement_and_falls_with_the_relative_residual(n: int, seed: int) -> None:
    own = normal(np.random.default_rng(seed), n)
    assert edge_trust(own, own, KAPPA) == 1.0
    falling = [float(edge_trust(own, (1.0 - gap) * own, KAPPA)) for gap in (0.0, 0.1, 0.3, 1.0, 2.0)]
    assert falling == sorted(falling, reverse=True)
    assert len(set(falling)) == len(falling)
    assert falling[-1] == pytest.approx((1.0 + 2.0 / KAPPA) ** -2)  # opposition


def test_a_quarter_is_left_where_the_relative_residual_is_kappa() -> None:
    own, peer = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])  # unrelated: relative residual 1
    assert edge_trust(own, peer, 1.0) == pytest.approx(0.25)
    assert edge_trust(own, peer, 0.0) == 1.0  # switched off
    assert edge_trust(torch.zeros(2), torch.zeros(2), 1.0) == 1.0


# --- pulls ------------------------------------------------------------------------------------------------------------


def coupled(sheaf: Sheaf, kappa: float) -> dict[int, VectorCoupling]:
    """All clients after their first exchange."""
    settings = SheafSettings(edge_trust=kappa)
    sides = {
        i: VectorCoupling(i, {j: sheaf.maps[i, j] for j in sheaf.graph.neighbors(i)}, head, settings)
        for i, head in sheaf.heads.items()
    }
    sent: list[Message] = [m for i, side in sides.items() for m in side.projections("project", 0, sheaf.heads[i])]
    for i, side in sides.items():
        side.hold([m for m in sent if m.receiver == i])
    return sides


def trusted_pull(sheaf: Sheaf, i: int, head: Tensor, kappa: float) -> Tensor:
    """Written out edge by edge; trust is that of the heads that were exchanged."""
    pull = torch.zeros_like(head)
    for j in sheaf.graph.neighbors(i):
        u, v = sheaf.maps[i, j] @ sheaf.heads[i], sheaf.maps[j, i] @ sheaf.heads[j]
        rho = float((u - v).square().sum() / (u.square().sum() + v.square().sum()))
        pull = pull + sheaf.maps[i, j].T @ (sheaf.maps[i, j] @ head - v) / (1.0 + rho / kappa) ** 2
    return pull


@given(sheaf=sheaves(), seed=st.integers(0, 99))
@any_case
def test_every_edge_pulls_with_its_trust_which_is_held_while_the_head_moves(sheaf: Sheaf, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for i, side in coupled(sheaf, KAPPA).items():
        for head in (sheaf.heads[i], normal(rng, len(sheaf.heads[i]))):
            assert_allclose(side.pull(head), trusted_pull(sheaf, i, head, KAPPA), atol=EQUATION, rtol=EQUATION)


def pull_of_a_neighbor(away: float, kappa: float) -> float:
    """How hard a neighbor pulls whose head is that far away, with identity maps."""
    identity, head = torch.arange(3), torch.ones(3, dtype=torch.float64)
    heads = [head, head + away]
    sides = [VectorCoupling(i, {1 - i: identity}, heads[i], SheafSettings(edge_trust=kappa)) for i in range(2)]
    sent = [m for i in range(2) for m in sides[i].projections("project", 0, heads[i])]
    sides[0].hold([m for m in sent if m.receiver == 0])
    return float(sides[0].pull(heads[0]).norm())


def test_an_outlier_pulls_less_than_a_neighbor_nearby_and_without_trust_the_more() -> None:
    assert pull_of_a_neighbor(100.0, kappa=0.01) < 10.0 * pull_of_a_neighbor(0.1, kappa=0.01)
    assert pull_of_a_neighbor(100.0, kappa=0.01) < 1e-3 * pull_of_a_neighbor(100.0, kappa=0.0)
    assert pull_of_a_neighbor(100.0, kappa=0.0) > 900.0 * pull_of_a_neighbor(0.1, kappa=0.0)  # control
    assert pull_of_a_neighbor(0.001, kappa=0.01) == pytest.approx(pull_of_a_neighbor(0.001, kappa=0.0), rel=1e-3)


# --- diffusion --------------------------------------------------------------------------------------------------------

N_CLIENTS, WIDTH = 4, 5


def diffused(heads: list[Tensor], kappa: float, *, n_rounds: int, deaf: int | None = None) -> list[Tensor]:
    """Heads of a complete graph with identity maps; a deaf client sends but does not listen."""
    heads = [head.clone() for head in heads]
    sides = [HeadDiffusion(setup_of(i, len(heads[i]), kappa), heads[i]) for i in range(N_CLIENTS)]
    for round_index in range(n_rounds):
        sent = [m for side in sides for m in side.messages("mix", round_index)]
        for i, side in enumerate(sides):
            side.absorb([] if i == deaf else [m for m in sent if m.receiver == i])
    return heads


def setup_of(client: int, dim: int, kappa: float) -> ClientSetup:
    encoder = window_mlp((2,), hidden_dim=2, embedding_dim=dim - 1)
    model = ClientModel(
        {"gps": nn.Identity()}, {"gps": encoder}, fusion="mean", embedding_dim=dim - 1, n_outputs=1
    ).double()
    peers = [peer for peer in range(N_CLIENTS) if peer != client]
    return ClientSetup(
        client_id=client,
        group="all",
        models={"fused": model},
        rows=RowsInMemory({}, np.zeros(0, dtype=np.int64)),
        objective=cross_entropy,
        batch_draws={},
        training=TrainingSettings(),
        sheaf=SheafSettings(edge_trust=kappa),
        sheaf_mixing=dict.fromkeys(peers, 1.0 / N_CLIENTS),
        map_starts=dict.fromkeys(peers, torch.arange(dim)),
    )


def with_an_outlier() -> list[Tensor]:
    """Three heads near (1, 1, ...), and one far away, client 3."""
    rng = np.random.default_rng(5)
    near = [1.0 + 0.02 * normal(rng, WIDTH) for _ in range(N_CLIENTS - 1)]
    return [*near, -3.0 * torch.ones(WIDTH, dtype=torch.float64)]


@pytest.mark.parametrize("kappa", [0.0, 0.01, 1.0])
def test_trust_does_not_move_the_mean_of_the_heads(kappa: float) -> None:
    heads = with_an_outlier()
    mean = sum(heads) / N_CLIENTS
    after = diffused(heads, kappa, n_rounds=5)
    assert_allclose(sum(after) / N_CLIENTS, mean, atol=EQUATION)
    assert not torch.allclose(after[0], heads[0])
    lopsided = diffused(heads, kappa=1.0, n_rounds=5, deaf=3)  # control: an edge that works on one side only
    assert float((sum(lopsided) / N_CLIENTS - mean).abs().max()) > 1e-3


def test_an_outlier_does_not_drag_the_others_along() -> None:
    heads = with_an_outlier()
    agreed = sum(heads[:3]) / 3
    trusting, careful = (diffused(heads, kappa, n_rounds=1) for kappa in (0.0, 0.01))
    for i in range(3):
        assert float((careful[i] - agreed).abs().max()) < 0.03
        assert float((trusting[i] - agreed).abs().max()) > 0.5  # control
    assert float((careful[3] - heads[3]).abs().max()) < 0.01  # nor do they convert it
    spread = torch.stack(careful[:3]).std(dim=0).max() / torch.stack(heads[:3]).std(dim=0).max()
    assert float(spread) < 0.5  # while those who agree come together

"""One client's side of the sheaf coupling against (11) and (12) written out edge by edge, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference.sheaves import Graph, Sheaf, any_case, sheaves
from sheafedge.emulator.contracts import ConfigError, Message, MessageKind
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.settings import SheafSettings
from sheafedge.models.sheaf.vector_coupling import VectorCoupling
from sheafedge.scenarios.running.checkpoint import write_checkpoint
from torch import Tensor

EQUATION = 1e-10  # float64, dozens of operations on numbers around 1
TRAJECTORY = 1e-5  # of heads after hundreds of rounds, where maps have left out some thousandths of what they learned

Heads = dict[int, Tensor]


class Coupled:
    """All clients of a sheaf; every message arrives unless `lost` says otherwise."""

    def __init__(self, sheaf: Sheaf, lost: Callable[[Message], bool] = lambda _: False, **settings: Any) -> None:
        self.settings = SheafSettings(**settings)
        self.graph, self.lost = sheaf.graph, lost
        self.sides = {
            i: VectorCoupling(i, {j: sheaf.maps[i, j] for j in sheaf.graph.neighbors(i)}, head, self.settings)
            for i, head in sheaf.heads.items()
        }

    def _arrived(self, sent: list[Message], receiver: int) -> list[Message]:
        return [m for m in sent if m.receiver == receiver and not self.lost(m)]

    def project(self, heads: Heads, round_index: int = 0) -> list[Message]:
        sent = [m for i, side in self.sides.items() for m in side.projections("project", round_index, heads[i])]
        for i, side in self.sides.items():
            side.hold(self._arrived(sent, i))
        return sent

    def reproject(self, heads: Heads, round_index: int = 0) -> list[Message]:
        sent = [m for i, side in self.sides.items() for m in side.reprojections("reproject", round_index, heads[i])]
        for i, side in self.sides.items():
            side.step_maps(self._arrived(sent, i), heads[i])
        return sent

    def pulls(self, heads: Heads) -> Heads:
        return {i: side.pull(heads[i]) for i, side in self.sides.items()}

    def maps(self) -> dict[tuple[int, int], Tensor]:
        return {(i, j): side.maps.dense(j) for i, side in self.sides.items() for j in side.maps.rows}


def pull_by_hand(maps: Mapping[tuple[int, int], Tensor], heads: Heads, i: int, neighbors: list[int]) -> Tensor:
    """Sum over heard neighbors of P_ij^T (P_ij w_i - P_ji w_j)."""
    pull = torch.zeros_like(heads[i])
    for j in neighbors:
        pull = pull + maps[i, j].T @ (maps[i, j] @ heads[i] - maps[j, i] @ heads[j])
    return pull


def stepped_by_hand(
    maps: Mapping[tuple[int, int], Tensor], heads: Heads, eta: float, coupling: float, *, clamped: bool
) -> dict[tuple[int, int], Tensor]:
    """P_ij - eta lambda (P_ij w_i - P_ji w_j) w_i^T on both ends of every edge."""
    new = {}
    for (i, j), own in maps.items():
        own_norm, peer_norm = float(heads[i] @ heads[i]), float(heads[j] @ heads[j])
        step = min(eta, 1.0 / (coupling * (own_norm + peer_norm))) if clamped else eta
        new[i, j] = own - step * coupling * torch.outer(own @ heads[i] - maps[j, i] @ heads[j], heads[i])
    return new


def new_heads(sheaf: Sheaf, seed: int) -> Heads:
    rng = np.random.default_rng(seed)
    return {i: torch.from_numpy(rng.normal(size=len(head))) for i, head in sheaf.heads.items()}


def small_sheaf(edges: tuple[tuple[int, int], ...] = ((0, 1), (2, 1)), stalk_dim: int = 2) -> Sheaf:
    """Three clients with heads of 3, 4 and 5 coordinates, in a row unless told otherwise."""
    rng = np.random.default_rng(11)
    heads = {i: torch.from_numpy(rng.normal(size=3 + i)) for i in range(3)}
    ends = [end for i, j in edges for end in ((i, j), (j, i))]
    maps = {(i, j): torch.from_numpy(rng.normal(size=(stalk_dim, 3 + i))) for i, j in ends}
    return Sheaf(Graph(3, edges), heads, maps, heads)


# --- against the equations --------------------------------------------------------------------------------------------


@given(sheaf=sheaves(), storage=st.sampled_from(["dense", "factored"]), clamped=st.booleans())
@any_case
def test_pulls_and_map_steps_equal_the_equations_edge_by_edge(sheaf: Sheaf, storage: str, clamped: bool) -> None:
    # A step of 0.5 with coupling 0.7 is beyond the clamp for most edges and below it for some.
    coupled = Coupled(sheaf, map_storage=storage, clamp_map_step=clamped, coupling=0.7, map_step_size=0.5)
    maps, heads = dict(sheaf.maps), sheaf.heads
    for round_index in range(2):
        coupled.project(heads)
        for i, pull in coupled.pulls(heads).items():
            assert_allclose(pull, pull_by_hand(maps, heads, i, sheaf.graph.neighbors(i)), atol=EQUATION, rtol=EQUATION)
        heads = new_heads(sheaf, round_index)
        coupled.reproject(heads)
        maps = stepped_by_hand(maps, heads, 0.5, 0.7, clamped=clamped)
        for edge, found in coupled.maps().items():
            assert_allclose(found, maps[edge], atol=EQUATION, rtol=EQUATION)


def test_residuals_of_edges_are_those_of_the_last_exchange_and_make_up_the_energy() -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf, lost=lambda message: (message.sender, message.receiver) == (2, 1))
    for exchange in (coupled.project, coupled.reproject):
        before, heads = coupled.maps(), new_heads(sheaf, seed=3)
        exchange(heads)
        apart = float((before[0, 1] @ heads[0] - before[1, 0] @ heads[1]).norm())
        for client, neighbor in ((0, "1"), (1, "0")):  # client 1 has not heard client 2
            figures = coupled.sides[client].figures()
            assert figures["residuals"] == {neighbor: pytest.approx(apart, abs=EQUATION)}
            assert figures["sheaf_energy"] == pytest.approx(apart**2 / 2.0, abs=EQUATION)


def test_a_state_of_before_there_were_residuals_is_taken_over() -> None:
    side = Coupled(small_sheaf()).sides[1]
    of_before = {name: part for name, part in side.state().items() if name != "residuals"}
    side.restore(SavedState(of_before))
    assert side.figures()["residuals"] == {}
    with pytest.raises(ConfigError, match="have a part 'trust'"):
        side.restore(SavedState({name: part for name, part in of_before.items() if name != "trust"}))


def test_the_peers_projections_are_held_while_the_own_head_moves() -> None:
    """Several local steps against what was heard once."""
    sheaf = small_sheaf()
    coupled = Coupled(sheaf)
    coupled.project(sheaf.heads)
    moved = sheaf.heads | {1: sheaf.heads[1] * 2.0 + 1.0}
    found = coupled.sides[1].pull(moved[1])
    assert_allclose(found, pull_by_hand(sheaf.maps, moved, 1, [0, 2]), atol=EQUATION)
    assert not torch.allclose(found, pull_by_hand(sheaf.maps, sheaf.heads, 1, [0, 2]), atol=EQUATION)


# --- what crosses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clamp", "exchange", "n_extra"),
    [(False, "double", 0), (True, "double", 1), (False, "single", 1), (True, "single", 1)],
)
def test_only_reprojections_carry_the_norm_and_only_where_needed(clamp: bool, exchange: str, n_extra: int) -> None:
    sheaf = small_sheaf(stalk_dim=2)
    coupled = Coupled(sheaf, clamp_map_step=clamp, exchange=exchange)
    projections, reprojections = coupled.project(sheaf.heads, 4), coupled.reproject(sheaf.heads, 4)
    assert [len(m.payload) for m in projections] == [2] * 4
    assert [len(m.payload) for m in reprojections] == [2 + n_extra] * 4
    for projection, reprojection in zip(projections, reprojections, strict=True):
        i, j = projection.sender, projection.receiver
        image = (sheaf.maps[i, j] @ sheaf.heads[i]).numpy()  # the head has not moved, nor has the old map
        assert_allclose(projection.payload, image, atol=EQUATION)
        assert_allclose(reprojection.payload[:2], image, atol=EQUATION)
        assert reprojection.payload[2:] == pytest.approx([float(sheaf.heads[i] @ sheaf.heads[i])] * n_extra)
        assert projection.payload.dtype == reprojection.payload.dtype == np.float64


def test_every_client_expects_exactly_what_its_neighbors_send() -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf)
    for kind, phase, sent in [
        (MessageKind.PROJECTION, "project", coupled.project(sheaf.heads, 4)),
        (MessageKind.REPROJECTION, "reproject", coupled.reproject(sheaf.heads, 4)),
    ]:
        assert {(m.sender, m.receiver) for m in sent} == {(0, 1), (1, 0), (1, 2), (2, 1)}
        for i, side in coupled.sides.items():
            assert side.expected(kind, phase, 4) == {m.slot for m in sent if m.receiver == i}


def test_messages_are_snapshots() -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf)
    head = sheaf.heads[1].clone()
    side = coupled.sides[1]
    sent = side.projections("project", 0, head) + side.reprojections("reproject", 0, head)
    before = [m.payload.copy() for m in sent]
    head.mul_(3.0)
    side.step_maps([], head)
    for each, payload in zip(sent, before, strict=True):
        assert_array_equal(each.payload, payload)


# --- what is not heard ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["dense", "factored"])
@pytest.mark.parametrize("exchange", ["double", "single"])
def test_a_neighbor_that_was_not_heard_does_not_pull(storage: str, exchange: str) -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf, lambda m: m.sender == 2, map_storage=storage, exchange=exchange, map_step_size=0.1)
    coupled.project(sheaf.heads)
    assert_allclose(coupled.sides[1].pull(sheaf.heads[1]), pull_by_hand(sheaf.maps, sheaf.heads, 1, [0]), atol=EQUATION)
    assert not torch.allclose(coupled.sides[1].pull(sheaf.heads[1]), pull_by_hand(sheaf.maps, sheaf.heads, 1, [0, 2]))


def without(message: Message, *lost: int) -> Message:
    """The message after some of its coordinates were lost; what stands in their place must not be read."""
    received = np.ones(message.payload.size, dtype=np.bool_)
    received[list(lost)] = False
    return replace(message, payload=np.where(received, message.payload, np.nan), received=received)


@pytest.mark.parametrize("storage", ["dense", "factored"])
@pytest.mark.parametrize("clamp", [True, False])
def test_coordinates_that_were_not_heard_neither_pull_nor_change_their_rows(storage: str, clamp: bool) -> None:
    sheaf = small_sheaf(stalk_dim=3)
    coupled = Coupled(sheaf, map_storage=storage, clamp_map_step=clamp, coupling=0.7, map_step_size=0.1)
    kept = [0, 2]
    heard = {edge: found[kept] if edge in {(1, 2), (2, 1)} else found for edge, found in sheaf.maps.items()}
    sent = [m for i, side in coupled.sides.items() for m in side.projections("project", 0, sheaf.heads[i])]
    to_1 = {m.sender: m for m in sent if m.receiver == 1}
    coupled.sides[1].hold([to_1[0], without(to_1[2], 1)])
    assert_allclose(
        coupled.sides[1].pull(sheaf.heads[1]), pull_by_hand(heard, sheaf.heads, 1, [0, 2]), atol=EQUATION, rtol=EQUATION
    )
    sent = [m for i, side in coupled.sides.items() for m in side.reprojections("reproject", 0, sheaf.heads[i])]
    to_1 = {m.sender: m for m in sent if m.receiver == 1}
    coupled.sides[1].step_maps([to_1[0], without(to_1[2], 1)], sheaf.heads[1])
    stepped = stepped_by_hand(sheaf.maps, sheaf.heads, 0.1, 0.7, clamped=clamp)
    found = coupled.sides[1].maps.dense(2)
    assert_allclose(found[kept], stepped[1, 2][kept], atol=EQUATION, rtol=EQUATION)
    assert_array_equal(found[1], sheaf.maps[1, 2][1])
    assert not torch.allclose(found[kept], sheaf.maps[1, 2][kept])


def test_without_the_norm_behind_a_reprojection_its_edge_keeps_its_map() -> None:
    sheaf = small_sheaf(stalk_dim=3)
    coupled = Coupled(sheaf, clamp_map_step=True, map_step_size=0.1)
    sent = [m for i, side in coupled.sides.items() for m in side.reprojections("reproject", 0, sheaf.heads[i])]
    to_1 = {m.sender: m for m in sent if m.receiver == 1}
    coupled.sides[1].step_maps([to_1[0], without(to_1[2], 3)], sheaf.heads[1])
    assert torch.equal(coupled.sides[1].maps.dense(2), sheaf.maps[1, 2])
    assert not torch.equal(coupled.sides[1].maps.dense(0), sheaf.maps[1, 0])


@pytest.mark.parametrize("storage", ["dense", "factored"])
def test_an_edge_that_was_not_heard_keeps_its_map_exactly(storage: str) -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf, lambda m: m.sender == 2, map_storage=storage, map_step_size=0.1)
    coupled.reproject(sheaf.heads)
    changed = {edge: not torch.equal(found, sheaf.maps[edge]) for edge, found in coupled.maps().items()}
    assert changed == {(0, 1): True, (1, 0): True, (1, 2): False, (2, 1): True}


@pytest.mark.parametrize("exchange", ["double", "single"])
def test_a_client_that_hears_nobody_is_left_alone(exchange: str) -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf, lambda _: True, exchange=exchange, map_step_size=0.1)
    coupled.project(sheaf.heads)
    coupled.reproject(sheaf.heads)
    assert all((pull == 0.0).all() for pull in coupled.pulls(sheaf.heads).values())
    assert all(torch.equal(found, sheaf.maps[edge]) for edge, found in coupled.maps().items())
    assert all(side.relative_residual == 0.0 for side in coupled.sides.values())


def test_who_was_heard_is_forgotten_with_the_next_hearing() -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf)
    coupled.project(sheaf.heads)
    coupled.sides[1].hold([])
    assert (coupled.sides[1].pull(sheaf.heads[1]) == 0.0).all()


def test_an_isolated_client_projects_nothing_and_is_not_pulled() -> None:
    sheaf = small_sheaf(edges=((0, 1),))
    side = Coupled(sheaf).sides[2]
    assert side.projections("project", 0, sheaf.heads[2]) == side.reprojections("reproject", 0, sheaf.heads[2]) == []
    side.hold([])
    side.step_maps([], sheaf.heads[2])
    assert (side.pull(sheaf.heads[2]) == 0.0).all()


# --- single exchange --------------------------------------------------------------------------------------------------


@given(
    sheaf=sheaves(),
    storage=st.sampled_from(["dense", "factored"]),
    clamped=st.booleans(),
    trust=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 99),
)
@any_case
def test_the_single_exchange_makes_the_same_iterates_as_the_double_one(
    sheaf: Sheaf, storage: str, clamped: bool, trust: float, seed: int
) -> None:
    """Heads follow (11) from a random gradient of every round; maps follow (12); nothing is lost."""
    eta = 0.5 if clamped else 0.01  # without the clamp a long step diverges, and rounding with it
    common = {"map_storage": storage, "clamp_map_step": clamped, "coupling": 0.7, "map_step_size": eta}
    common["edge_trust"] = trust
    double, single = Coupled(sheaf, exchange="double", **common), Coupled(sheaf, exchange="single", **common)
    heads: dict[str, Heads] = {"double": sheaf.heads, "single": sheaf.heads}
    for round_index in range(5):
        gradients = new_heads(sheaf, seed + round_index)
        double.project(heads["double"])
        if round_index == 0:
            single.project(heads["single"])
        for name, coupled in (("double", double), ("single", single)):
            pulls = coupled.pulls(heads[name])
            heads[name] = {i: w - 0.05 * (gradients[i] + 0.7 * pulls[i]) for i, w in heads[name].items()}
            coupled.reproject(heads[name])
        for i in sheaf.heads:
            assert_allclose(heads["single"][i], heads["double"][i], atol=EQUATION, rtol=EQUATION)
        for edge, found in single.maps().items():
            assert_allclose(found, double.maps()[edge], atol=EQUATION, rtol=EQUATION)


def reprojection_of_2(message: Message) -> bool:
    return (message.sender, message.kind) == (2, MessageKind.REPROJECTION)


def single_and_double_pulls(lost: Callable[[Message], bool] = lambda _: False) -> list[bool]:
    """Whether the second round's pulls agree, client by client, with a single and a double exchange."""
    sheaf = small_sheaf()
    heads = new_heads(sheaf, 3)
    pulls = []
    for exchange in ("double", "single"):
        coupled = Coupled(sheaf, lost, exchange=exchange, map_step_size=0.5, coupling=0.7)
        coupled.project(sheaf.heads)
        coupled.reproject(heads)
        if exchange == "double":
            coupled.project(heads)
        pulls.append(coupled.pulls(heads))
    return [torch.allclose(pulls[0][i], pulls[1][i], atol=EQUATION) for i in sheaf.heads]


def test_the_single_exchange_needs_links_that_deliver() -> None:
    """Negative control: the ends of an edge must see the same residual."""
    assert single_and_double_pulls() == [True, True, True]
    lossy = single_and_double_pulls(reprojection_of_2)
    assert lossy == [True, False, False]


def test_with_the_single_exchange_a_lost_reprojection_does_not_pull_in_the_next_round() -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf, reprojection_of_2, exchange="single", map_step_size=0.5)
    coupled.project(sheaf.heads)
    coupled.reproject(sheaf.heads)
    pull = coupled.sides[1].pull(sheaf.heads[1])
    assert_allclose(pull, pull_by_hand(coupled.maps(), sheaf.heads, 1, [0]), atol=EQUATION)


def test_the_single_exchange_does_not_just_hold_the_first_projections() -> None:
    """Negative control: without the derivation, the second round would pull towards the first one's."""
    sheaf = small_sheaf()
    heads = new_heads(sheaf, 3)
    coupled = Coupled(sheaf, exchange="single", map_step_size=0.5)
    coupled.project(sheaf.heads)
    before = coupled.pulls(heads)
    coupled.reproject(heads)
    assert not any(torch.allclose(before[i], pull, atol=1e-3) for i, pull in coupled.pulls(heads).items())


# --- the clamp and the monitor ----------------------------------------------------------------------------------------


def residuals(coupled: Coupled, heads: Heads) -> dict[tuple[int, int], Tensor]:
    maps = coupled.maps()
    return {(i, j): maps[i, j] @ heads[i] - maps[j, i] @ heads[j] for i, j in coupled.graph.edges}


@pytest.mark.parametrize(("clamped", "grows"), [(True, False), (False, True)])
def test_the_clamp_keeps_any_map_step_from_overshooting(clamped: bool, grows: bool) -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf, clamp_map_step=clamped, coupling=1.0, map_step_size=100.0)
    before = residuals(coupled, sheaf.heads)
    coupled.reproject(sheaf.heads)
    for edge, residual in residuals(coupled, sheaf.heads).items():
        assert bool(residual.norm() > before[edge].norm()) is grows
        if clamped:  # the limit itself: the residual is gone
            assert_allclose(residual, 0.0, atol=EQUATION)


@given(sheaf=sheaves(min_nodes=2, min_edges=1))
@any_case
def test_the_relative_residual_lies_between_agreement_and_opposition(sheaf: Sheaf) -> None:
    coupled = Coupled(sheaf)
    coupled.reproject(sheaf.heads)
    for i, side in coupled.sides.items():
        images = [
            (sheaf.maps[i, j] @ sheaf.heads[i], sheaf.maps[j, i] @ sheaf.heads[j]) for j in sheaf.graph.neighbors(i)
        ]
        apart = sum(float((own - peer).square().sum()) for own, peer in images)
        size = sum(float(own.square().sum() + peer.square().sum()) for own, peer in images)
        assert side.relative_residual == pytest.approx(apart / size if images else 0.0)
        assert 0.0 <= side.relative_residual <= 2.0 + EQUATION


def test_the_relative_residual_is_zero_in_agreement_and_two_in_opposition() -> None:
    identity, head = torch.arange(2), torch.tensor([1.0, 2.0], dtype=torch.float64)
    for sign, expected in ((1.0, 0.0), (-1.0, 2.0)):
        sides = [VectorCoupling(i, {1 - i: identity}, head, SheafSettings()) for i in range(2)]
        heads = [head, sign * head]
        sent = [m for i in range(2) for m in sides[i].reprojections("reproject", 0, heads[i])]
        for i in range(2):
            sides[i].step_maps([m for m in sent if m.receiver == i], heads[i])
            assert sides[i].relative_residual == pytest.approx(expected, abs=EQUATION)


def test_both_ends_of_an_edge_step_by_the_same_size_in_single_precision() -> None:
    """The clamp is computed at both ends from the two norms; even a difference in the last bit would add up."""
    rng = np.random.default_rng(0)
    start = torch.arange(1, 40)  # no row of the maps reads coordinate 0 at first, so a step shows there unrounded
    for _ in range(50):
        heads = [torch.from_numpy(rng.normal(size=40).astype(np.float32)) for _ in range(2)]
        for head in heads:
            head[0] = 1.0
        sides = [VectorCoupling(i, {1 - i: start}, heads[i], SheafSettings(map_step_size=1e6)) for i in range(2)]
        sent = [m for i in range(2) for m in sides[i].reprojections("reproject", 0, heads[i])]
        assert {m.payload.dtype for m in sent} == {np.dtype(np.float32)}
        for i in range(2):
            sides[i].step_maps([m for m in sent if m.receiver == i], heads[i])
        steps = [sides[i].maps.dense(1 - i)[:, 0] for i in range(2)]
        assert steps[0].abs().max() > 0.0
        assert torch.equal(steps[0], -steps[1])


# --- health of the coupling -------------------------------------------------------------------------------------------


def figure(coupled: Coupled, name: str) -> dict[int, float]:
    return {i: side.health.figures()[name] for i, side in coupled.sides.items()}


def energy(maps: Mapping[tuple[int, int], Tensor], heads: Heads, edges: Iterable[tuple[int, int]]) -> float:
    return sum(float((maps[i, j] @ heads[i] - maps[j, i] @ heads[j]).square().sum()) for i, j in edges)


@given(sheaf=sheaves(), learned=st.booleans())
@any_case
def test_the_clients_halves_add_up_to_the_energy_of_the_sheaf(sheaf: Sheaf, learned: bool) -> None:
    """With learned maps that of the new heads under the old maps; with frozen ones that of the round's start."""
    coupled = Coupled(sheaf, map_step_size=0.01 if learned else 0.0)
    coupled.project(sheaf.heads)
    heads = new_heads(sheaf, 5) if learned else sheaf.heads
    if learned:
        coupled.reproject(heads)
    found = sum(figure(coupled, "sheaf_energy").values())
    assert found == pytest.approx(energy(sheaf.maps, heads, sheaf.graph.edges), rel=EQUATION)


def test_edges_that_were_not_heard_have_no_energy() -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf, lambda m: m.sender == 2)
    coupled.project(sheaf.heads)
    heard = energy(sheaf.maps, sheaf.heads, [(0, 1)])
    unheard = energy(sheaf.maps, sheaf.heads, [(2, 1)])
    assert figure(coupled, "sheaf_energy") == pytest.approx({0: heard / 2, 1: heard / 2, 2: unheard / 2})


@given(sheaf=sheaves(), storage=st.sampled_from(["dense", "factored"]), clamped=st.booleans())
@any_case
def test_norm_and_projection_share_are_those_of_the_maps_without_building_them(
    sheaf: Sheaf, storage: str, clamped: bool
) -> None:
    coupled = Coupled(sheaf, map_storage=storage, clamp_map_step=clamped, coupling=0.7, map_step_size=0.05)

    def shares(heads: Heads) -> dict[int, float]:
        maps = {
            i: torch.cat([torch.zeros(0, len(heads[i]), dtype=torch.float64), *own])
            for i, own in stacks(coupled).items()
        }
        return {i: float((m @ heads[i]).square().sum() / heads[i].square().sum()) for i, m in maps.items()}

    at_start = shares(sheaf.heads)
    for round_index in range(4):
        heads = new_heads(sheaf, round_index)
        coupled.project(heads)
        coupled.reproject(heads)
        norms = {i: sum(float(m.square().sum()) for m in own) ** 0.5 for i, own in stacks(coupled).items()}
        assert figure(coupled, "map_norm") == pytest.approx(norms, rel=EQUATION)
        expected = {i: share / at_start[i] if at_start[i] else 1.0 for i, share in shares(heads).items()}
        assert figure(coupled, "projection_share") == pytest.approx(expected, rel=1e-8)


def stacks(coupled: Coupled) -> dict[int, list[Tensor]]:
    """Of every client the maps that it holds, as matrices."""
    return {i: [side.maps.dense(j) for j in side.maps.rows] for i, side in coupled.sides.items()}


def test_maps_of_opposed_heads_collapse_and_the_projection_share_tells() -> None:
    """One step of the clamped size brings two opposite projections together, at zero."""
    identity, head = torch.arange(3), torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    for heads, left in (({0: head, 1: -head}, 0.0), ({0: head, 1: head}, 1.0)):
        sides = [VectorCoupling(i, {1 - i: identity}, heads[i], SheafSettings(map_step_size=1e6)) for i in range(2)]
        sent = [m for i in range(2) for m in sides[i].reprojections("reproject", 0, heads[i])]
        for i in range(2):
            sides[i].step_maps([m for m in sent if m.receiver == i], heads[i])
            assert sides[i].health.figures()["projection_share"] == pytest.approx(left, abs=EQUATION)


@pytest.mark.parametrize("exchange", ["double", "single"])
@pytest.mark.parametrize("clamped", [False, True])
def test_the_largest_map_step_is_the_one_that_was_used(exchange: str, clamped: bool) -> None:
    """Without norms on the wire it shows in the next projections; the heads of clients differ, so edges do."""
    sheaf, eta, coupling = small_sheaf(), 0.4, 0.7
    coupled = Coupled(sheaf, exchange=exchange, clamp_map_step=clamped, coupling=coupling, map_step_size=eta)
    coupled.project(sheaf.heads)
    coupled.reproject(sheaf.heads)
    if not clamped and exchange == "double":
        assert set(figure(coupled, "largest_map_step").values()) == {0.0}
        coupled.project(sheaf.heads)
    squares = {i: float(head @ head) for i, head in sheaf.heads.items()}
    used = {(i, j): eta * coupling * (squares[i] + squares[j]) for i, j in sheaf.graph.edges}
    if clamped:
        used = {edge: min(1.0, step) for edge, step in used.items()}
    expected = {i: max(step for edge, step in used.items() if i in edge) for i in sheaf.heads}
    assert figure(coupled, "largest_map_step") == pytest.approx(expected, rel=1e-8)


def test_a_step_beyond_2_is_remembered_as_the_first_that_overshot() -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf, clamp_map_step=False, exchange="single", coupling=1.0, map_step_size=1.0)
    side = coupled.sides[1]
    assert side.broken_bound(sheaf.heads[1], 1e-6) == ""
    coupled.project(sheaf.heads)
    coupled.reproject(sheaf.heads)
    first = figure(coupled, "largest_map_step")[1]
    coupled.reproject({i: 2.0 * head for i, head in sheaf.heads.items()})
    assert figure(coupled, "largest_map_step")[1] == pytest.approx(4.0 * first)
    assert f"after a map step of {first:.3g}" in side.broken_bound(sheaf.heads[1], 1e-6)
    assert "sheaf.clamp_map_step = true" in side.broken_bound(sheaf.heads[1], 1e-6)


def test_a_head_step_beyond_its_limit_is_named() -> None:
    sheaf = small_sheaf()
    side = Coupled(sheaf, coupling=0.5).sides[1]
    curvature = 0.5 * float(np.linalg.norm(torch.cat([sheaf.maps[1, 0], sheaf.maps[1, 2]]).numpy(), 2)) ** 2
    assert side.broken_bound(sheaf.heads[1], 1.95 / curvature) == ""
    found = side.broken_bound(sheaf.heads[1], 2.1 / curvature)
    assert "training.head_step_size * sheaf.coupling * squared norm of its maps = 2.1 (stable below 2)" in found


def test_figures_stay_finite_when_nothing_else_does() -> None:
    sheaf = small_sheaf()
    coupled = Coupled(sheaf, clamp_map_step=False, map_step_size=1.0)
    for scale in (1e200, math.nan):
        heads = {i: head * scale for i, head in sheaf.heads.items()}
        coupled.project(heads)
        coupled.reproject(heads)
        for side in coupled.sides.values():
            assert all(math.isfinite(value) for value in side.health.figures().values())


def test_a_client_without_neighbors_is_in_perfect_health() -> None:
    side = Coupled(small_sheaf(edges=((0, 1),))).sides[2]
    healthy = {"sheaf_energy": 0.0, "map_norm": 0.0, "projection_share": 1.0, "largest_map_step": 0.0}
    assert side.health.figures() == healthy


# --- long runs --------------------------------------------------------------------------------------------------------

#: Heads and rounds of a run that nobody wants to wait for; wide enough that a dense map is larger than a history.
LONG_HEAD, LONG_ROUNDS = 220, 5000
SEVERAL_ROUNDS = 100


def long_sheaf(**settings: Any) -> Coupled:
    """Two clients that compare all coordinates of their heads."""
    heads = {i: torch.ones(LONG_HEAD, dtype=torch.float64) for i in range(2)}
    start = torch.arange(LONG_HEAD)
    return Coupled(Sheaf(Graph(2, ((0, 1),)), heads, {(0, 1): start, (1, 0): start}, heads), **settings)


def test_a_run_of_5000_rounds_has_the_memory_and_the_checkpoint_of_one_of_100(tmp_path: Path) -> None:
    client, peer = long_sheaf().sides.values()
    rng = np.random.default_rng(59)
    walk = np.cumsum(rng.normal(size=(LONG_ROUNDS, LONG_HEAD), scale=0.02), axis=0)
    (said,) = peer.reprojections("reproject", 0, torch.ones(LONG_HEAD, dtype=torch.float64))
    memory, files = {}, {}
    for done, head in enumerate(torch.from_numpy(walk), 1):
        client.reprojections("reproject", done - 1, head)
        client.step_maps([said], head)
        if done in {SEVERAL_ROUNDS, LONG_ROUNDS}:
            memory[done] = client.maps.n_bytes
            files[done] = write_checkpoint(tmp_path / "checkpoint", done, client.state()).stat().st_size
    # both lie a few steps behind a truncation: 5000 = 96 + 102 * 48 + 8
    assert memory[LONG_ROUNDS] == memory[SEVERAL_ROUNDS]
    assert files[LONG_ROUNDS] <= 1.1 * files[SEVERAL_ROUNDS]


def long_walk(storage: str, map_step_size: float) -> tuple[Coupled, Heads]:
    """Coupled heads after noisy gradient steps towards different optima."""
    rng = np.random.default_rng(59)
    optima = {i: torch.from_numpy(rng.normal(size=LONG_HEAD)) for i in range(2)}
    heads = {i: torch.zeros(LONG_HEAD, dtype=torch.float64) for i in range(2)}
    coupled = long_sheaf(coupling=0.5, map_step_size=map_step_size, map_storage=storage)
    for index in range(300):
        coupled.project(heads, index)
        pulls = coupled.pulls(heads)
        for i in range(2):
            noise = torch.from_numpy(rng.normal(size=LONG_HEAD, scale=0.5))
            heads[i] = heads[i] - 0.05 * (heads[i] - optima[i] + noise + 0.5 * pulls[i])
        coupled.reproject(heads, index)
    return coupled, heads


def test_heads_of_a_long_run_are_those_of_maps_that_hold_every_step() -> None:
    """What truncation leaves out of the maps moves the heads by far less than learning the maps does."""
    (truncated, found), (whole, wanted) = (long_walk(storage, 1e-3) for storage in ("factored", "dense"))
    assert truncated.sides[0].figures()["map_truncation"] > 1e-3
    assert "map_truncation" not in whole.sides[0].figures()
    _, frozen = long_walk("dense", 0.0)
    for i in range(2):
        assert float((found[i] - wanted[i]).norm()) < TRAJECTORY * float(wanted[i].norm())
        assert float((frozen[i] - wanted[i]).norm()) > 100.0 * TRAJECTORY * float(wanted[i].norm())

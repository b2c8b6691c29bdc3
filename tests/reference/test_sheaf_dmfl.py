"""The reference itself: numbers worked out on paper, and what the equations imply."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.testing import assert_allclose
from reference.problems import FOUR_CLIENTS, FOUR_EDGES, INPUT_WIDTHS, random_problem
from reference.sheaf_dmfl import (
    Gradients,
    ReferenceProblem,
    ReferenceState,
    complete_edges,
    cross_entropy,
    embeddings_of,
    fuse,
    logits_of,
    metropolis_hastings,
    run_reference,
    sheaf_energy,
    starting_state,
    step_a_gradients,
    step_b_project,
    step_e_heads,
    step_f_reproject,
    step_g_maps,
)
from reference.sheaves import Sheaf, any_case, sheaves
from torch import Tensor
from torch.nn import functional

EXACT = 1e-12  # a handful of float64 operations on numbers near 1
EQUATION = 1e-10  # the same quantity by two formulas
DIFFERENCE_STEP = 1e-6
DIFFERENCE = 1e-7  # central differences: step^2 of truncation, 1e-16 / step of rounding


def two_clients_on_paper(**options: Any) -> ReferenceProblem:
    """One feature, two classes, one row per map; every number of the round fits on a page."""
    chosen: dict[str, Any] = {
        "head_step_size": 0.1, "map_step_size": 0.2, "encoder_step_size": 0.1, "attention_step_size": 0.1,
        "coupling": 0.5, "n_rounds": 1,
    } | options  # fmt: skip
    batch = {0: ({"rf": [[2.0]]}, [0]), 1: ({"rf": [[1.0]]}, [1])}
    return ReferenceProblem(
        modalities={0: ("rf",), 1: ("rf",)},
        edges=[(0, 1)],
        encoders={0: {"rf": [([[1.0]], [0.0])]}, 1: {"rf": [([[2.0]], [1.0])]}},
        attention={0: {"rf": [0.3]}, 1: {"rf": [-0.4]}},
        heads={0: [1.0, -1.0, -2.0, 2.0], 1: [1.0, 0.0, 0.0, 3.0]},  # equal logits at both: probabilities one half
        maps={(0, 1): [[1.0, 0.0, 0.0, 0.0]], (1, 0): [[0.0, 0.0, 0.0, 1.0]]},
        batches=[[batch] * chosen.get("local_steps", 1)] * chosen["n_rounds"],
        n_classes=2,
        **chosen,
    )


def flat(part: Any) -> Tensor:
    """All tensors of one part of a state, however nested, in one vector."""
    if isinstance(part, Tensor):
        return part.flatten()
    return torch.cat([flat(inner) for inner in (part.values() if isinstance(part, dict) else part)])


def test_one_round_of_two_clients_gives_the_numbers_worked_out_by_hand() -> None:
    trajectory = run_reference(two_clients_on_paper())
    after = trajectory.states[0]
    # head gradients (-1, 1, -.5, .5) and (1.5, -1.5, .5, -.5); projections 1 and 3, pulls -2 e_1 and +2 e_4
    assert_allclose(after.heads[0], [1.2, -1.1, -1.95, 1.95], atol=EXACT)
    assert_allclose(after.heads[1], [0.85, 0.15, -0.05, 2.95], atol=EXACT)
    # encoder gradients (-2, -1) and (.5, .5); local steps to (1.2, .1) and (1.95, .95), then their mean
    for client in (0, 1):
        weight, bias = after.encoders[client]["rf"][0]
        assert_allclose([weight.item(), bias.item()], [1.575, 0.525], atol=EXACT)
    # reprojections 1.2 and 2.95, residual -1.75, eta * lambda = .1
    assert_allclose(after.maps[0, 1], [[1.21, -0.1925, -0.34125, 0.34125]], atol=EXACT)
    assert_allclose(after.maps[1, 0], [[-0.14875, -0.02625, 0.00875, 0.48375]], atol=EXACT)
    assert [after.attention[i]["rf"].item() for i in (0, 1)] == [0.3, -0.4]  # nothing to choose between
    assert_allclose(list(trajectory.losses[0].values()), [np.log(2.0)] * 2, atol=EXACT)
    assert trajectory.floats[0] == {"projection": 2, "encoder": 4, "reprojection": 2}
    assert trajectory.bytes_by_kind == {"projection": 8, "encoder": 16, "reprojection": 8}


def test_later_local_steps_use_the_own_projection_of_now_and_the_peers_of_the_exchange() -> None:
    problem = two_clients_on_paper(local_steps=2)
    state, alpha, coupling = starting_state(problem), 0.1, 0.5
    head, encoder, peer_projection = state.heads[0], state.encoders[0], 3.0
    for _ in range(2):
        theta = replace(state, heads=state.heads | {0: head}, encoders=state.encoders | {0: encoder})
        _, gradient = step_a_gradients(problem, theta, 0, problem.batches[0][0][0])
        own_map = state.maps[0, 1]
        head = head - alpha * (gradient.head + coupling * own_map.T @ (own_map @ head - peer_projection))
        layers = zip(encoder["rf"], gradient.encoders["rf"], strict=True)
        encoder = {"rf": [(w - 0.1 * g_w, b - 0.1 * g_b) for (w, b), (g_w, g_b) in layers]}
    trajectory = run_reference(problem)
    assert_allclose(trajectory.states[0].heads[0], head, atol=EXACT)
    assert trajectory.floats[0] == {"projection": 2, "encoder": 4, "reprojection": 2}  # no more messages than with one


@pytest.mark.parametrize("fusion", ["attention", "concat"])
def test_the_backward_pass_equals_central_differences_of_the_loss(fusion: str) -> None:
    problem = random_problem({0: ("camera", "rf", "gps")}, [], fusion=fusion)
    state, batch = starting_state(problem), problem.batches[0][0][0]
    _, gradient = step_a_gradients(problem, state, 0, batch)

    def loss_at(changed: ReferenceState) -> float:
        return step_a_gradients(problem, changed, 0, batch)[0]

    pairs = [(state.heads[0], gradient.head)]
    pairs += [(state.attention[0][k], gradient.attention[k]) for k in state.attention[0]]
    for k, layers in state.encoders[0].items():
        for layer, slopes in zip(layers, gradient.encoders[k], strict=True):
            pairs += list(zip(layer, slopes, strict=True))
    assert len(pairs) == 1 + 3 * 4 + (3 if fusion == "attention" else 0)
    for parameter, slope in pairs:
        for index in np.ndindex(*parameter.shape):
            kept = parameter[index].item()
            parameter[index] = kept + DIFFERENCE_STEP
            above = loss_at(state)
            parameter[index] = kept - DIFFERENCE_STEP
            below = loss_at(state)
            parameter[index] = kept
            assert abs((above - below) / (2 * DIFFERENCE_STEP) - slope[index].item()) < DIFFERENCE


def test_the_loss_is_the_mean_cross_entropy() -> None:
    rng = np.random.default_rng(3)
    logits, labels = torch.from_numpy(rng.normal(size=(6, 4)) * 5), torch.tensor([0, 1, 2, 3, 3, 0])
    assert_allclose(cross_entropy(logits, labels), functional.cross_entropy(logits, labels), atol=EXACT)


def test_fusion_follows_the_canonical_order_and_the_bounded_softmax() -> None:
    embeddings = {"gps": torch.tensor([[1.0, 2.0]]).double(), "camera": torch.tensor([[3.0, 4.0]]).double()}
    assert fuse(embeddings, {}, "concat").tolist() == [[3.0, 4.0, 1.0, 2.0]]
    beta = {"gps": torch.tensor([0.0, 0.5]).double(), "camera": torch.tensor([0.0, 0.0]).double()}
    share = np.exp(np.tanh(1.0)) / (np.exp(np.tanh(1.0)) + 1.0)  # of gps
    expected = [[share * 1.0 + (1 - share) * 3.0, share * 2.0 + (1 - share) * 4.0]]
    assert_allclose(fuse(embeddings, beta, "attention"), expected, atol=EXACT)


def as_problem(sheaf: Sheaf, **options: Any) -> ReferenceProblem:
    """A problem whose structure is the sheaf's; only the steps on heads and maps are meant to be called."""
    chosen: dict[str, Any] = {
        "head_step_size": 1.0, "map_step_size": 1.0, "encoder_step_size": 0.0, "attention_step_size": 0.0,
        "coupling": 0.7, "n_rounds": 0,
    } | options  # fmt: skip
    owned = dict.fromkeys(sheaf.heads, ("rf",))
    empty: dict[int, Any] = {i: {} for i in sheaf.heads}
    return ReferenceProblem(owned, sheaf.graph.edges, empty, empty, sheaf.heads, sheaf.maps, [], n_classes=1, **chosen)


@given(sheaf=sheaves())
@any_case
def test_head_and_map_steps_descend_the_gradient_of_half_the_coupling_times_the_energy(sheaf: Sheaf) -> None:
    problem = as_problem(sheaf)
    heads = {i: head.clone().requires_grad_() for i, head in sheaf.heads.items()}
    maps = {ends: restriction.clone().requires_grad_() for ends, restriction in sheaf.maps.items()}
    energy = 0.5 * problem.coupling * sheaf_energy(sheaf.graph.edges, maps, heads)
    if not sheaf.graph.edges:
        assert energy == 0.0
        return
    torch.autograd.backward(energy)
    u = step_b_project(sheaf.maps, sheaf.heads)
    still = {i: Gradients(torch.zeros_like(head), {}, {}) for i, head in sheaf.heads.items()}
    stepped = step_e_heads(problem, sheaf.heads, sheaf.maps, still, u, {(j, i): p for (i, j), p in u.items()})
    for i, head in heads.items():
        slope = torch.zeros_like(head) if head.grad is None else head.grad
        assert_allclose(sheaf.heads[i] - stepped[i], slope, atol=EQUATION)
    new_maps = step_g_maps(problem, sheaf.maps, sheaf.heads, step_f_reproject(sheaf.maps, sheaf.heads))
    for ends, restriction in maps.items():
        assert restriction.grad is not None
        assert_allclose(sheaf.maps[ends] - new_maps[ends], restriction.grad, atol=EQUATION)


def test_without_coupling_one_client_is_ordinary_sgd() -> None:
    problem = random_problem({0: ("rf", "gps")}, [], coupling=0.0, n_rounds=4)
    state = starting_state(problem)
    head = state.heads[0].clone().requires_grad_()
    beta = {k: b.clone().requires_grad_() for k, b in state.attention[0].items()}
    encoders = {
        k: [(w.clone().requires_grad_(), b.clone().requires_grad_()) for w, b in layers]
        for k, layers in state.encoders[0].items()
    }
    parameters = [head, *beta.values(), *(part for layers in encoders.values() for pair in layers for part in pair)]
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    for round_batches in problem.batches:
        inputs, labels = round_batches[0][0]
        optimizer.zero_grad()
        fused = fuse(embeddings_of(encoders, inputs, ("rf", "gps")), beta, "attention")
        torch.autograd.backward(functional.cross_entropy(logits_of(head, fused, 3), torch.as_tensor(labels)))
        optimizer.step()
    end = run_reference(problem).states[-1]
    assert_allclose(end.heads[0], head.detach(), atol=EQUATION)
    for k, vector in beta.items():
        assert_allclose(end.attention[0][k], vector.detach(), atol=EQUATION)
    assert_allclose(end.encoders[0]["rf"][1][0], encoders["rf"][1][0].detach(), atol=EQUATION)


@pytest.mark.parametrize("fusion", ["attention", "concat"])
def test_without_coupling_and_mixing_every_client_walks_as_if_alone(fusion: str) -> None:
    options: dict[str, Any] = {"coupling": 0.0, "mixing": "identity", "fusion": fusion, "local_steps": 2}
    together = random_problem(**options)
    end = run_reference(together).states[-1]
    for i, owned in FOUR_CLIENTS.items():
        alone = replace(together, modalities={i: owned}, edges=[], heads={i: together.heads[i]}, maps={})
        by_itself = run_reference(alone).states[-1]
        assert torch.equal(end.heads[i], by_itself.heads[i])
        for k in owned:
            for layer, other in zip(end.encoders[i][k], by_itself.encoders[i][k], strict=True):
                assert all(torch.equal(a, b) for a, b in zip(layer, other, strict=True))
    coupled = run_reference(replace(together, coupling=0.1)).states[-1]
    assert not torch.equal(end.heads[0], coupled.heads[0])


def test_without_coupling_maps_never_move_and_heads_ignore_them() -> None:
    problem = random_problem(coupling=0.0)
    other_maps = {ends: np.asarray(restriction) * 3.0 for ends, restriction in problem.maps.items()}
    run, other = run_reference(problem), run_reference(replace(problem, maps=other_maps))
    assert all(torch.equal(run.states[-1].maps[ends], run.start.maps[ends]) for ends in run.start.maps)
    assert all(torch.equal(run.states[-1].heads[i], other.states[-1].heads[i]) for i in FOUR_CLIENTS)


@pytest.mark.parametrize(
    ("field", "frozen"),
    [("head_step_size", "heads"), ("map_step_size", "maps"), ("attention_step_size", "attention")],
)
def test_a_step_size_of_zero_freezes_its_own_part_and_nothing_else(field: str, frozen: str) -> None:
    stopped: dict[str, Any] = {field: 0.0}
    run = run_reference(random_problem(**stopped))
    for part in ("heads", "maps", "attention", "encoders"):
        assert torch.equal(flat(getattr(run.start, part)), flat(getattr(run.states[-1], part))) == (part == frozen)


@pytest.mark.parametrize("fusion", ["attention", "concat"])
def test_relabeled_clients_get_the_same_results_under_their_new_names(fusion: str) -> None:
    problem = random_problem(fusion=fusion, local_steps=2)
    new = {0: 12, 1: 3, 2: 7, 3: 5}
    relabeled = replace(
        problem,
        modalities={new[i]: owned for i, owned in problem.modalities.items()},
        edges=[(new[j], new[i]) for i, j in problem.edges],
        encoders={new[i]: value for i, value in problem.encoders.items()},
        attention={new[i]: value for i, value in problem.attention.items()},
        heads={new[i]: value for i, value in problem.heads.items()},
        maps={(new[i], new[j]): value for (i, j), value in problem.maps.items()},
        batches=[[{new[i]: b for i, b in step.items()} for step in steps] for steps in problem.batches],
    )
    end, end_relabeled = run_reference(problem).states[-1], run_reference(relabeled).states[-1]
    for i in FOUR_CLIENTS:
        assert_allclose(end_relabeled.heads[new[i]], end.heads[i], atol=EQUATION)
    for i, j in end.maps:
        assert_allclose(end_relabeled.maps[new[i], new[j]], end.maps[i, j], atol=EQUATION)


def test_traffic_follows_the_cost_formula_and_encoders_stay_inside_their_modality() -> None:
    run = run_reference(random_problem(stalk_dim=2, n_rounds=2))
    sizes = {k: 5 * INPUT_WIDTHS[k] + 5 + 4 * 5 + 4 for k in ("rf", "gps")}
    common = {(0, 1): ("gps",), (1, 2): ("rf",), (3, 1): ("rf", "gps"), (2, 3): ("rf",)}
    encoder = sum(2 * sizes[k] for owned in common.values() for k in owned)
    assert run.floats == ({"projection": 2 * 2 * 4, "encoder": encoder, "reprojection": 2 * 2 * 4},) * 2


def test_a_clamped_map_step_brings_the_next_residual_to_zero_and_never_past_it() -> None:
    problem = two_clients_on_paper(map_step_size=1e3, clamp_map_step=True, n_rounds=1)
    after = run_reference(problem).states[0]
    residual = after.maps[0, 1] @ after.heads[0] - after.maps[1, 0] @ after.heads[1]
    assert abs(residual.item()) < EXACT
    free = run_reference(two_clients_on_paper(map_step_size=0.05)).states[0]  # eta lambda s_e is 0.49 here
    idle = run_reference(two_clients_on_paper(map_step_size=0.05, clamp_map_step=True)).states[0]
    assert torch.equal(idle.maps[0, 1], free.maps[0, 1])


def test_encoders_agree_ever_more_when_they_no_longer_learn() -> None:
    problem = random_problem(encoder_step_size=0.0, n_rounds=4)
    rng = np.random.default_rng(11)
    apart = {
        i: {k: [(w + rng.normal(size=w.shape), b) for w, b in layers] for k, layers in of_client.items()}
        for i, of_client in problem.encoders.items()
    }
    run = run_reference(replace(problem, encoders=apart))
    gps = [
        torch.stack([state.encoders[i]["gps"][0][0] for i in (0, 1, 3)]).std(dim=0).sum().item()
        for state in (run.start, *run.states)
    ]
    assert all(later < earlier for earlier, later in pairwise(gps))


def test_a_modality_whose_owners_cannot_reach_each_other_is_refused() -> None:
    cut = [edge for edge in FOUR_EDGES if edge != (0, 1)]
    with pytest.raises(ValueError, match=r"gps over clients \[0, 1, 3\] is not connected"):
        run_reference(random_problem(edges=cut))


def test_mixing_weights_of_a_path_and_of_a_complete_graph() -> None:
    assert_allclose(
        metropolis_hastings([4, 5, 6], [(4, 5), (6, 5)]),
        [[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 3, 2 / 3]],
        atol=EXACT,
    )
    assert_allclose(metropolis_hastings(range(4), complete_edges(range(4))), np.full((4, 4), 0.25), atol=EXACT)

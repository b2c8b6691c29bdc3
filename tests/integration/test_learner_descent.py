"""The learners descend as Theorem 1 says, over real base stations and links: full batches, plain SGD, float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pytest
import torch
from integration.cases import Case, emulated, setup_of
from integration.played import Setting, State, maps_of, play, state_of_model
from reference.problems import random_problem
from reference.sheaf_dmfl import (
    Edge,
    ReferenceProblem,
    ReferenceState,
    logits_of,
    sheaf_energy,
    sheaf_laplacian,
    starting_state,
    step_a_gradients,
)
from sheafedge.emulator.contracts import Learner, NodeId
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.algorithms.sheaf_dmfl import sheaf_dmfl
from torch import Tensor
from torch.nn import functional

ROUNDING = 1e-12  # of Psi, relative to its first value

#: Every modality's subgraph is complete: encoders that start equal stay equal.
OWNED: dict[int, tuple[str, ...]] = {0: ("gps",), 1: ("rf", "gps"), 2: ("rf",), 3: ("rf", "gps")}
EDGES: tuple[Edge, ...] = ((0, 1), (0, 3), (1, 3), (1, 2), (2, 3))


def full_batches(problem: ReferenceProblem, n_rounds: int) -> ReferenceProblem:
    """The first round's batch in every round."""
    return replace(problem, batches=list(problem.batches[:1]) * n_rounds, n_rounds=n_rounds)


def case_of(problem: ReferenceProblem, exchange: Literal["double", "single"] = "double") -> Case:
    return Case(problem, {ends: torch.as_tensor(matrix) for ends, matrix in problem.maps.items()}, exchange=exchange)


def learned(state: Mapping[NodeId, State], owned: Mapping[int, tuple[str, ...]]) -> ReferenceState:
    """What the emulator's clients hold, as the reference calls it."""
    layers: Any = {
        i: {
            k: [(state[i][f"encoder {k} {at}.weight"], state[i][f"encoder {k} {at}.bias"]) for at in (1, 3)] for k in ks
        }
        for i, ks in owned.items()
    }
    attention = {
        i: {k: state[i][f"attention {k}"] for k in ks if f"attention {k}" in state[i]} for i, ks in owned.items()
    }
    maps = {
        (i, int(name.removeprefix("map to "))): matrix
        for i, parts in state.items()
        for name, matrix in parts.items()
        if name.startswith("map to ")
    }
    return ReferenceState({i: parts["head"] for i, parts in state.items()}, layers, attention, maps)


def lyapunov(problem: ReferenceProblem, state: ReferenceState) -> float:
    """Psi of (21); encoders are taken as they are, so they must agree."""
    batches = problem.batches[0][0]
    losses = sum(step_a_gradients(problem, state, i, batches[i])[0] for i in problem.modalities)
    return losses + 0.5 * problem.coupling * float(sheaf_energy(problem.edges, state.maps, state.heads))


def disagreement(state: ReferenceState) -> float:
    """Largest difference between two owners' encoders."""
    worst = 0.0
    for i, owned in state.encoders.items():
        for j, others in state.encoders.items():
            for k in owned.keys() & others.keys() if i < j else ():
                pairs = zip(sum(owned[k], ()), sum(others[k], ()), strict=True)
                worst = max(worst, *(float((one - other).abs().max()) for one, other in pairs))
    return worst


# --- any loss ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", ["attention", "concat"])
@pytest.mark.parametrize("exchange", ["double", "single"])
def test_with_small_steps_psi_falls_in_every_round(fusion: Any, exchange: Any) -> None:
    problem = full_batches(random_problem(OWNED, EDGES, fusion=fusion, coupling=0.5), 60)
    played = emulated(case_of(problem, exchange))
    states = [starting_state(problem), *(learned(state, OWNED) for state in played.states)]
    assert max(disagreement(state) for state in states) < ROUNDING
    values = [lyapunov(problem, state) for state in states]
    assert all(later < earlier for earlier, later in pairwise(values))
    assert values[-1] < 0.5 * values[0]


def test_with_large_steps_psi_does_not_fall_in_every_round() -> None:
    """The negative control: the losses above are not ones that any step would lower."""
    problem = full_batches(random_problem(OWNED, EDGES, coupling=0.5, head_step_size=2.0, encoder_step_size=0.5), 20)
    states = [starting_state(problem), *(learned(state, OWNED) for state in emulated(case_of(problem)).states)]
    values = [lyapunov(problem, state) for state in states]
    assert any(later > earlier for earlier, later in pairwise(values))


def first_order_decrease(problem: ReferenceProblem) -> float:
    """Sum over blocks of step * |grad Psi|^2 at the start; an encoder steps by 1/|V_k| of its summed gradient."""
    start, batches = starting_state(problem), problem.batches[0][0]
    heads = {i: head.clone().requires_grad_() for i, head in start.heads.items()}
    maps = {ends: matrix.clone().requires_grad_() for ends, matrix in start.maps.items()}
    torch.autograd.backward(0.5 * problem.coupling * sheaf_energy(problem.edges, maps, heads))
    gradients = {i: step_a_gradients(problem, start, i, batches[i])[1] for i in problem.modalities}
    decrease = problem.map_step_size * sum(square(slope(matrix)) for matrix in maps.values())
    for i, gradient in gradients.items():
        decrease += problem.head_step_size * square(gradient.head + slope(heads[i]))
        decrease += problem.attention_step_size * sum(square(g) for g in gradient.attention.values())
    for k in ("rf", "gps"):
        owners = [i for i, owned in problem.modalities.items() if k in owned]
        layers = zip(*(gradients[i].encoders[k] for i in owners), strict=True)
        parts = [part for layer in layers for part in zip(*layer, strict=True)]
        decrease += problem.encoder_step_size / len(owners) * sum(square(sum(part)) for part in parts)  # type: ignore[arg-type]
    return decrease


def slope(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad


def square(tensor: Tensor) -> float:
    return float(tensor.square().sum())


def shortfall(fusion: Any, scale: float, **mistaken: Any) -> float:
    """1 - decrease of one round / what first order predicts, with step sizes of this scale."""
    steps = {"head_step_size": 1.0, "map_step_size": 2.0, "encoder_step_size": 0.7, "attention_step_size": 60.0}
    options: dict[str, Any] = {name: scale * step for name, step in steps.items()}
    problem = full_batches(random_problem(OWNED, EDGES, fusion=fusion, coupling=0.5, **options), 1)
    after = learned(emulated(case_of(problem)).states[0], OWNED)
    decrease = lyapunov(problem, starting_state(problem)) - lyapunov(problem, after)
    return 1.0 - decrease / first_order_decrease(replace(problem, **mistaken))


@pytest.mark.parametrize("fusion", ["attention", "concat"])
def test_a_round_of_tiny_steps_descends_by_step_times_squared_gradient(fusion: str) -> None:
    """All of the round's equations at once: what is missing to first order shrinks with the steps."""
    coarse, fine = shortfall(fusion, 1e-4), shortfall(fusion, 1e-5)
    assert abs(fine) < 1e-3
    assert fine / coarse == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("mistaken", [{"coupling": 1.0}, {"map_step_size": 0.0}, {"attention_step_size": 0.0}], ids=str)
def test_a_prediction_from_other_equations_misses(mistaken: dict[str, float]) -> None:
    assert abs(shortfall("attention", 1e-5, **mistaken)) > 1e-2


# --- heads alone, with a loss of known smoothness ---------------------------------------------------------------------

N_CLASSES = 3
#: Rows [1, z] of a Hadamard matrix: their mean outer product is the identity, so half a squared error has L = 1.
HADAMARD = np.array([[1, 1, 1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]], dtype=np.float64)
SMOOTHNESS = 1.0
SHIFT = 10.0  # lifts inputs above the kink of ReLU, and is taken off again
HEADS_OWNED: dict[int, tuple[str, ...]] = dict.fromkeys(range(4), ("rf",))


def half_squared_error(logits: Tensor, labels: Tensor, class_weights: Tensor | None) -> Tensor:
    target = functional.one_hot(labels, N_CLASSES).to(logits.dtype)
    return 0.5 * (logits - target).square().sum(dim=1).mean()


def heads_problem(n_rounds: int, **options: Any) -> ReferenceProblem:
    """Encoders that hand on their input and stand still; every client has labels of its own."""
    rng = np.random.default_rng(2)
    identity = [(np.eye(3), np.full(3, SHIFT)), (np.eye(3), np.full(3, -SHIFT))]
    size = N_CLASSES * (HADAMARD.shape[1] + 1)
    ends = [end for i, j in EDGES for end in ((i, j), (j, i))]
    chosen: dict[str, Any] = {"coupling": 0.5, "head_step_size": 0.1, "map_step_size": 0.0} | options
    return ReferenceProblem(
        modalities=HEADS_OWNED,
        edges=EDGES,
        encoders={i: {"rf": identity} for i in HEADS_OWNED},
        attention={i: {"rf": np.zeros(3)} for i in HEADS_OWNED},
        heads={i: rng.normal(size=size) for i in HEADS_OWNED},
        maps={edge: rng.normal(size=(5, size)) * size**-0.5 for edge in ends},
        batches=[[{i: ({"rf": HADAMARD}, rng.integers(N_CLASSES, size=4)) for i in HEADS_OWNED}]] * n_rounds,
        n_classes=N_CLASSES,
        encoder_step_size=0.0,
        attention_step_size=0.0,
        n_rounds=n_rounds,
        **chosen,
    )


@dataclass(frozen=True)
class HeadsWalk:
    """[round] -> heads and maps, the start included, and Psi of each."""

    problem: ReferenceProblem
    states: list[ReferenceState]

    @property
    def values(self) -> list[float]:
        return [float(heads_lyapunov(self.problem, state.heads, state.maps)) for state in self.states]


def heads_lyapunov(problem: ReferenceProblem, heads: Mapping[int, Tensor], maps: Mapping[Edge, Tensor]) -> Tensor:
    """Psi, as a function of the heads."""
    psi = torch.zeros((), dtype=torch.float64)
    for i, (inputs, labels) in problem.batches[0][0].items():
        logits = logits_of(heads[i], torch.from_numpy(inputs["rf"]), N_CLASSES)
        psi = psi + half_squared_error(logits, torch.as_tensor(labels), None)
    return psi + 0.5 * problem.coupling * sheaf_energy(problem.edges, maps, heads)


def heads_walk(problem: ReferenceProblem) -> HeadsWalk:
    """Played by the learners that ship."""
    case, owned = case_of(problem), HEADS_OWNED
    setups = {i: replace(setup_of(case, i, torch.float64, "sgd"), objective=half_squared_error) for i in owned}
    learners = [sheaf_dmfl(setup) for setup in setups.values()]

    def state_of(learner: Learner) -> State:
        return state_of_model(setups[learner.client_id].models["fused"]) | maps_of(learner)

    kinds = ALGORITHMS["sheaf_dmfl_att"].kinds
    played = play(learners, problem.edges, kinds, problem.n_rounds, state_of, Setting())
    return HeadsWalk(problem, [starting_state(problem), *(learned(state, owned) for state in played.states)])


def laplacian_norm(problem: ReferenceProblem, maps: Mapping[Edge, Any]) -> float:
    sizes = {i: len(head) for i, head in problem.heads.items()}
    return float(np.linalg.eigvalsh(sheaf_laplacian(problem.edges, maps, sizes))[-1])


def alpha_at(share: float, problem: ReferenceProblem) -> float:
    """This share of the corrected limit of heads under the initial maps."""
    return share * 2.0 / (SMOOTHNESS + problem.coupling * laplacian_norm(problem, problem.maps))


@pytest.mark.parametrize(("share", "descends"), [(0.95, True), (1.05, False)])
def test_heads_of_learners_just_above_their_bound_climb_and_just_below_do_not(share: float, descends: bool) -> None:
    problem = heads_problem(80, head_step_size=alpha_at(share, heads_problem(1)))
    values = heads_walk(problem).values
    assert all(later < earlier for earlier, later in pairwise(values)) == descends
    assert (values[-1] < values[0]) == descends


def test_learners_diverge_at_a_head_step_that_the_paper_allows() -> None:
    """alpha < 2 / L forgets the curvature of the coupling."""
    values = heads_walk(heads_problem(8, head_step_size=0.9 * 2.0 / SMOOTHNESS)).values
    assert values[-1] > 1e6 * values[0]


def test_learners_descend_by_at_least_what_the_bounds_of_heads_and_maps_promise() -> None:
    problem = heads_problem(60, map_step_size=0.05)
    problem = replace(problem, head_step_size=alpha_at(0.9, problem))
    walked = heads_walk(problem)
    alpha, eta, coupling = problem.head_step_size, problem.map_step_size, problem.coupling
    for (before, after), (psi, next_psi) in zip(pairwise(walked.states), pairwise(walked.values), strict=True):
        heads = {i: head.clone().requires_grad_() for i, head in before.heads.items()}
        torch.autograd.backward(heads_lyapunov(problem, heads, before.maps))
        curvature = SMOOTHNESS + coupling * laplacian_norm(problem, before.maps)
        promised = alpha * (1.0 - curvature * alpha / 2.0) * sum(square(slope(head)) for head in heads.values())
        for i, j in problem.edges:
            s_e = square(after.heads[i]) + square(after.heads[j])
            residual = before.maps[i, j] @ after.heads[i] - before.maps[j, i] @ after.heads[j]
            assert eta * coupling * s_e < 2.0
            promised += eta * (1.0 - eta * coupling * s_e / 2.0) * coupling**2 * s_e * square(residual)
        assert psi - next_psi >= promised - ROUNDING * walked.values[0]
        assert promised >= 0.0


@pytest.mark.slow
def test_with_fixed_maps_learners_come_to_rest_at_an_energy_that_falls_with_the_coupling() -> None:
    energies = []
    for coupling in (0.0, 0.03, 0.1, 0.2, 0.5, 1.0):
        problem = heads_problem(90, coupling=coupling)
        walked = heads_walk(replace(problem, head_step_size=alpha_at(0.9, problem)))
        last, before = walked.states[-1].heads, walked.states[-2].heads
        assert max(float((last[i] - before[i]).abs().max()) for i in last) < 1e-7  # at rest
        energies.append(float(sheaf_energy(problem.edges, problem.maps, last)))
    assert all(stronger < weaker for weaker, stronger in pairwise(energies))
    assert energies[-1] < 0.4 * energies[0]

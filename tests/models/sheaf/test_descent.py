"""Theorem 1 with its corrected bounds: below them every round descends, just above them one does not.

The rounds are made of our equations, on quadratic losses whose smoothness L is known; the learners
themselves follow in `integration/test_learner_descent`.
The bounds of the paper are not safe (its head step forgets the curvature of the coupling, its encoder step gains a
factor |V_k|); where they fail is shown too.

Source: Ghalkha et al. 2025, (21), Lemma 1, Theorem 1; the corrected terms stand in `quadratic_walk`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from integration.quadratic_walk import (
    ROUNDING,
    MapsClass,
    Round,
    StepSizes,
    Walk,
    at_share,
    laplacian_norm,
    one_round,
    only,
    square,
    started_maps,
    walk,
)
from reference.quadratic import SMOOTHNESS, QuadraticProblem, consensus_distance, quadratic_problem
from reference.sheaf_dmfl import Edge, complete_edges, sheaf_energy
from sheafedge.models.sharing.gossip import metropolis_hastings_weights
from sheafedge.models.sheaf.restriction_maps import DenseMaps, FactoredMaps

SHARP = 0.9  # of every limit
GENTLE = 0.25  # of every limit: below a half, where the consensus error enters with a known factor

#: Every modality's subgraph is complete, the graph itself is not, and clients own one modality or both.
OWNED: dict[int, tuple[str, ...]] = {0: ("gps",), 1: ("rf", "gps"), 2: ("rf",), 3: ("rf", "gps")}
COMPLETE_IN_EVERY_MODALITY: tuple[Edge, ...] = ((0, 1), (0, 3), (1, 3), (1, 2), (2, 3))
#: A row of six: encoders take several rounds to meet.
ROW_OWNED: dict[int, tuple[str, ...]] = {
    0: ("gps",), 1: ("rf", "gps"), 2: ("rf", "gps"), 3: ("gps",), 4: ("gps",), 5: ("gps",)
}  # fmt: skip
ROW: tuple[Edge, ...] = tuple(pairwise(range(6)))

# --- common encoders: every round descends ----------------------------------------------------------------------------


@cache
def sharp_walk(maps_class: MapsClass, seed: int) -> Walk:
    problem = quadratic_problem(OWNED, COMPLETE_IN_EVERY_MODALITY, seed=seed)
    return walk(problem, at_share(SHARP), 400, maps_class=maps_class)


@pytest.mark.parametrize("maps_class", [DenseMaps, FactoredMaps])
@pytest.mark.parametrize("seed", range(3))
def test_below_the_corrected_bounds_every_round_descends_by_at_least_what_the_bounds_promise(
    maps_class: MapsClass, seed: int
) -> None:
    walked = sharp_walk(maps_class, seed)
    assert all(seen.decrease >= seen.guaranteed - walked.noise for seen in walked.rounds)
    assert all(seen.decrease >= -walked.noise for seen in walked.rounds)


def test_the_promise_is_not_empty() -> None:
    """Encoders stay common, all four terms count, and together they are a good part of the way to the optimum."""
    walked = sharp_walk(FactoredMaps, 0)
    first, way = walked.rounds[0], walked.rounds[0].before - walked.rounds[-1].after
    assert all(max(seen.distances.values()) < ROUNDING * 10 for seen in walked.rounds)
    assert len(first.terms) == 2 + 2 + len(walked.problem.edges)
    assert all(term.guaranteed > 1e-3 for term in first.terms)
    assert sum(seen.guaranteed for seen in walked.rounds) > 0.1 * way
    assert walked.rounds[-1].after - walked.problem.lowest_loss() < 1e-6 * way


def test_a_map_step_descends_by_exactly_what_the_bound_promises() -> None:
    """The energy is quadratic in each map, so that its term is no bound but an equality."""
    problem = quadratic_problem(OWNED, COMPLETE_IN_EVERY_MODALITY)
    coupling = problem.coupling
    walked = walk(problem, only(map_of=lambda s_e: SHARP * 2.0 / (coupling * s_e)), 5)
    for seen in walked.rounds:
        assert seen.decrease == pytest.approx(seen.guaranteed, abs=walked.noise)
        assert seen.guaranteed > 0.0


# --- beyond a bound: one does not -------------------------------------------------------------------------------------


def sharp_problem(**options: Any) -> QuadraticProblem:
    """Losses that curve by L in every direction: here the limits are limits to the last digit."""
    return quadratic_problem(OWNED, COMPLETE_IN_EVERY_MODALITY, flattest=1.0, **options)


def descended(walked: Walk) -> list[bool]:
    return [seen.decrease > 0.0 for seen in walked.rounds]


@pytest.mark.parametrize(("share", "descends"), [(0.98, True), (1.02, False)])
def test_heads_just_above_their_bound_climb_and_just_below_it_do_not(share: float, descends: bool) -> None:
    problem = sharp_problem()
    norm = laplacian_norm(problem, started_maps(problem, DenseMaps))
    walked = walk(problem, only(head=share * 2.0 / (SMOOTHNESS + problem.coupling * norm)), 300)
    assert descended(walked)[-1] == descends
    assert (walked.rounds[-1].after < walked.rounds[0].before) == descends


def test_heads_below_the_bound_of_the_paper_diverge() -> None:
    """alpha < 2 / L forgets the curvature of the coupling."""
    walked = walk(quadratic_problem(OWNED, COMPLETE_IN_EVERY_MODALITY), only(head=SHARP * 2.0 / SMOOTHNESS), 60)
    assert walked.rounds[-1].after > 1e6 * walked.rounds[0].before


@pytest.mark.parametrize(("share", "descends"), [(0.95, True), (1.05, False)])
def test_encoders_just_above_their_bound_climb_although_the_paper_allows_six_times_as_much(
    share: float, descends: bool
) -> None:
    clients = range(6)
    problem = quadratic_problem(dict.fromkeys(clients, ("gps",)), complete_edges(clients), flattest=1.0)
    encoder = share * 2.0 / SMOOTHNESS
    assert encoder < 2.0 * len(clients) / SMOOTHNESS  # the bound of the paper
    walked = walk(problem, only(encoder=encoder), 40)
    assert all(descended(walked)) == descends
    assert any(descended(walked)) == descends


@pytest.mark.parametrize(("share", "descends"), [(0.98, True), (1.02, False)])
def test_maps_just_above_the_bound_of_their_edge_climb_in_every_round(share: float, descends: bool) -> None:
    problem = sharp_problem()
    walked = walk(problem, only(map_of=lambda s_e: share * 2.0 / (problem.coupling * s_e)), 20)
    assert all(descended(walked)) == descends
    assert any(descended(walked)) == descends


def test_one_edge_beyond_its_bound_climbs_alone() -> None:
    """The bound is the edge's own: the largest s_e decides, not a mean."""
    problem = sharp_problem()
    largest = max(square(problem.start.heads[i], problem.start.heads[j]) for i, j in problem.edges)
    eta = 1.05 * 2.0 / (problem.coupling * largest)
    seen = walk(problem, only(map_of=lambda _: eta), 1).rounds[0]
    assert [term.guaranteed < 0.0 for term in seen.terms[-len(problem.edges) :]].count(True) == 1


# --- any connected graph: down to what disagreement costs -------------------------------------------------------------


@cache
def row_walk(share: float, n_rounds: int = 400) -> Walk:
    return walk(quadratic_problem(ROW_OWNED, ROW, seed=4), at_share(share), n_rounds)


def disagreement_cost(seen: Round) -> float:
    """1/2 max step L^2 distance^2: how much gradients taken at everybody's own encoders can cost at most.

    A step a along G + d changes Psi by at most -a/2 |G|^2 + a/2 |d|^2 while a is below half its limit, and d is at most
    L times the way from the own encoders to their mean.
    """
    return 0.5 * seen.largest_step * SMOOTHNESS**2 * sum(distance**2 for distance in seen.distances.values())


@pytest.mark.parametrize("share", [GENTLE, GENTLE / 2, GENTLE / 4])
def test_on_any_connected_graph_rounds_descend_but_for_the_square_of_the_disagreement(share: float) -> None:
    walked = row_walk(share)
    assert max(max(seen.distances.values()) for seen in walked.rounds) > 1e-2
    for seen in walked.rounds:
        promised = sum(0.5 * term.step * term.square for term in seen.terms)
        assert seen.decrease >= promised - disagreement_cost(seen) - walked.noise


def test_without_that_cost_the_promise_is_broken_on_a_row() -> None:
    """The negative control: clients that disagree do not descend as if they agreed."""
    walked = row_walk(GENTLE)
    broken = [seen.decrease < sum(0.5 * t.step * t.square for t in seen.terms) for seen in walked.rounds]
    assert any(broken)


def test_disagreement_stays_below_what_mixing_and_gradients_allow() -> None:
    """distance' <= |lambda_2| (distance + eta_phi |gradients|), from Lemma 1 and the contraction of W_k."""
    problem, n_rounds = quadratic_problem(ROW_OWNED, ROW, seed=4), 200
    step = GENTLE * 2.0 / SMOOTHNESS
    adjacency = np.array([[abs(i - j) == 1 for j in range(6)] for i in range(6)])
    second = np.sort(np.abs(np.linalg.eigvalsh(metropolis_hastings_weights(adjacency))))[-2]
    point, maps, bound = problem.start, started_maps(problem, FactoredMaps), 0.0
    for _ in range(n_rounds):
        gradients = problem.gradients(point)
        slope = float(torch.stack([gradients.encoders[i]["gps"] for i in range(6)]).norm())
        point, _ = one_round(problem, point, maps, at_share(GENTLE), 1.0)
        bound = second * (bound + step * slope)
        assert consensus_distance(point, "gps") <= bound * (1.0 + ROUNDING)
    assert second < 1.0


#: Of the exponents below; what is left of it are higher powers of the step.
EXPONENT = 0.15
#: All four own GPS, two neighbors RF as well; nobody hears everybody.
RING_OWNED: dict[int, tuple[str, ...]] = {0: ("rf", "gps"), 1: ("rf", "gps"), 2: ("gps",), 3: ("gps",)}
RING: tuple[Edge, ...] = ((0, 1), (1, 2), (2, 3), (3, 0))


@cache
def at_rest_on_a_ring(part: int) -> Walk:
    """Encoders step by one `part`th, for as many times the rounds, until nothing moves."""
    rule = at_share(GENTLE, of_encoders=0.04 / part)
    return walk(quadratic_problem(RING_OWNED, RING, seed=4), rule, 500 * part)


def exponents(value: Callable[[Walk], float]) -> list[float]:
    """How much less a value becomes with each halving of the encoder step, as powers of 2."""
    values = [value(at_rest_on_a_ring(part)) for part in (1, 2, 4)]
    return [float(np.log2(large / small)) for large, small in pairwise(values)]


@pytest.mark.slow
def test_disagreement_shrinks_with_the_encoder_step() -> None:
    assert exponents(lambda walked: sum(walked.rounds[-1].distances.values())) == pytest.approx([1, 1], abs=EXPONENT)


@pytest.mark.slow
def test_what_is_left_of_psi_shrinks_with_the_square_of_the_encoder_step() -> None:
    left = exponents(lambda walked: walked.rounds[-1].after - walked.problem.lowest_loss())
    assert left == pytest.approx([2, 2], abs=EXPONENT)


# --- Theorem 1 --------------------------------------------------------------------------------------------------------


def running_means(walked: Walk) -> np.ndarray:
    squares = [seen.gradient_square for seen in walked.rounds]
    return np.cumsum(squares) / np.arange(1, len(squares) + 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_squared_gradient_falls_as_theorem_1_says(seed: int) -> None:
    """(1/R) sum |grad Psi|^2 <= (Psi^0 - Psi^R) / (rho R), at every R, with rho from the corrected terms."""
    walked = sharp_walk(FactoredMaps, seed)
    rho = min(term.rate for seen in walked.rounds for term in seen.terms)
    assert rho > 0.0
    for n_rounds, mean in enumerate(running_means(walked), start=1):
        way = walked.rounds[0].before - walked.rounds[n_rounds - 1].after
        assert mean <= way / (rho * n_rounds) * (1.0 + ROUNDING)


def decay(walked: Walk) -> float:
    """Log-log slope of the running mean over the last three quarters of the rounds."""
    n_rounds = np.arange(1, len(walked.rounds) + 1)
    late = n_rounds > len(n_rounds) // 4
    return float(np.polyfit(np.log(n_rounds[late]), np.log(running_means(walked)[late]), 1)[0])


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_squared_gradient_falls_like_one_over_the_rounds(seed: int) -> None:
    assert decay(sharp_walk(FactoredMaps, seed)) <= -1.0 + 0.05


def test_beyond_the_bounds_the_mean_squared_gradient_does_not_fall() -> None:
    problem = sharp_problem()
    norm = laplacian_norm(problem, started_maps(problem, DenseMaps))
    assert decay(walk(problem, only(head=1.02 * 2.0 / (SMOOTHNESS + problem.coupling * norm)), 400)) > 0.0


# --- fixed maps: a stronger coupling brings heads together ------------------------------------------------------------

COUPLINGS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)


def final_energy(coupling: float, *, sign: float = 1.0) -> float:
    """w^T L_F w where a run with fixed maps comes to rest."""
    problem = quadratic_problem(OWNED, COMPLETE_IN_EVERY_MODALITY, coupling=coupling, map_scale=0.3)
    norm = laplacian_norm(problem, started_maps(problem, DenseMaps))
    smooth = 1.0 / SMOOTHNESS
    sizes = StepSizes(1.0 / (SMOOTHNESS + coupling * norm), smooth, smooth, lambda _: 0.0)
    walked = walk(problem, lambda *_: sizes, 300, maps_class=DenseMaps, sign=sign)
    if sign > 0.0:
        last = walked.rounds[-1]
        assert sum(term.square for term in last.terms[: -len(problem.edges)]) < 1e-12  # at rest
    return float(sheaf_energy(problem.edges, problem.maps, walked.end.heads))


@pytest.mark.slow
def test_with_fixed_maps_the_final_energy_falls_with_the_coupling() -> None:
    energies = [final_energy(coupling) for coupling in COUPLINGS]
    assert all(stronger < weaker for weaker, stronger in pairwise(energies))
    assert energies[-1] < 0.2 * energies[0]


def test_a_pull_of_the_wrong_sign_makes_the_energy_grow_with_the_coupling() -> None:
    energies = [final_energy(coupling, sign=-1.0) for coupling in COUPLINGS[:4]]
    assert all(stronger > weaker for weaker, stronger in pairwise(energies))

"""Rounds made of our equations on quadratic losses, and what Theorem 1 says about each of their steps.

Source: Ghalkha et al. 2025, (6), (11), (12), (15), (17) and the terms of Theorem 1, corrected:
    heads       alpha < 2 / (L + lambda |L_F|)     decrease alpha (1 - (L + lambda |L_F|) alpha / 2) |grad_w|^2
    encoders    eta_phi < 2 / L                    decrease eta_phi / |V_k| (1 - L eta_phi / 2) |sum_i grad_phi|^2
    scoring     eta_beta < 2 / L                   decrease eta_beta (1 - L eta_beta / 2) |grad_beta|^2
    maps        eta lambda s_e < 2 on every edge   decrease eta (1 - eta lambda s_e / 2) |grad_P|^2
with s_e = |w_i|^2 + |w_j|^2 of the new heads, which the maps follow; all others step from the start of the round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from reference.quadratic import SMOOTHNESS, Point, QuadraticProblem, at_mean_encoders, consensus_distance
from reference.sheaf_dmfl import Edge, sheaf_laplacian
from sheafedge.models.sharing.gossip import metropolis_hastings_weights, mix
from sheafedge.models.sheaf.equations import coupled_step
from sheafedge.models.sheaf.restriction_maps import DenseMaps, FactoredMaps, RestrictionMaps
from sheafedge.models.sheaf.stability import map_step_limit, step_limit
from torch import Tensor

ROUNDING = 1e-12
"""Of Psi, relative to its first value: a few hundred float64 operations."""

MapsClass = type[DenseMaps] | type[FactoredMaps]
MapsOfAll = dict[int, RestrictionMaps]


@dataclass(frozen=True)
class StepSizes:
    """alpha, eta_phi, eta_beta, and eta from s_e of an edge."""

    head: float
    encoder: float
    scoring: float
    map_of: Callable[[float], float]


@dataclass(frozen=True)
class Term:
    """What one block of parameters does to Psi in a round.

    Attributes:
        step: that the block's gradient of Psi is multiplied with.
        share: of the block's limit; 1 is the limit itself.
        square: squared norm of that gradient.
    """

    step: float
    share: float
    square: float

    @property
    def rate(self) -> float:
        """Decrease per squared gradient."""
        return self.step * (1.0 - self.share)

    @property
    def guaranteed(self) -> float:
        return self.rate * self.square


@dataclass(frozen=True)
class Round:
    """Psi before and after a round, its terms, and the encoders' distance before it, by modality."""

    before: float
    after: float
    terms: list[Term]
    distances: dict[str, float]
    largest_step: float

    @property
    def decrease(self) -> float:
        return self.before - self.after

    @property
    def guaranteed(self) -> float:
        return sum(term.guaranteed for term in self.terms)

    @property
    def gradient_square(self) -> float:
        return sum(term.square for term in self.terms)


Rule = Callable[[QuadraticProblem, float], StepSizes]


def at_share(share: float, *, of_encoders: float | None = None) -> Rule:
    """This share of every corrected limit; the limit of heads follows the maps of the round."""

    def rule(problem: QuadraticProblem, laplacian_norm: float) -> StepSizes:
        smooth = 2.0 / SMOOTHNESS
        head = share * step_limit(SMOOTHNESS, problem.coupling, laplacian_norm)
        encoder = smooth * (share if of_encoders is None else of_encoders)
        return StepSizes(head, encoder, share * smooth, lambda s_e: share * map_step_limit(problem.coupling, s_e))

    return rule


def only(head: float = 0.0, encoder: float = 0.0, map_of: Callable[[float], float] = lambda _: 0.0) -> Rule:
    """Fixed steps; blocks that are not named stand still."""
    return lambda problem, laplacian_norm: StepSizes(head, encoder, 0.0, map_of)


# --- a round of our equations -----------------------------------------------------------------------------------------


def started_maps(problem: QuadraticProblem, maps_class: MapsClass) -> MapsOfAll:
    return {
        i: maps_class({j: problem.maps[i, j] for j in problem.neighbors(i)}, len(head), dtype=torch.float64)
        for i, head in problem.start.heads.items()
    }


def matrices(maps: MapsOfAll) -> dict[Edge, Tensor]:
    return {(i, j): of_client.dense(j) for i, of_client in maps.items() for j in of_client.rows}


def residuals(maps: MapsOfAll, heads: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """Of every client, stacked over its edges: own projection less the peer's."""
    images = {i: maps[i].project(head) for i, head in heads.items()}
    apart = {i: image.clone() for i, image in images.items()}
    for i, of_client in maps.items():
        for j, rows in of_client.rows.items():
            apart[i][rows] -= images[j][maps[j].rows[i]]
    return apart


@cache
def mixing(edges: tuple[Edge, ...], owners: tuple[int, ...]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Adjacency and Metropolis-Hastings weights of the owners of a modality; the same in every round."""
    linked = {*edges, *((j, i) for i, j in edges)}
    adjacency = np.array([[(i, j) in linked for j in owners] for i in owners])
    return adjacency, metropolis_hastings_weights(adjacency)


def mixed(problem: QuadraticProblem, point: Point, k: str) -> dict[int, Tensor]:
    """Encoders of one modality after (6)."""
    owners = point.owners(k)
    adjacency, weights = mixing(problem.edges, tuple(owners))
    return {
        i: mix(
            point.encoders[i][k],
            [(point.encoders[j][k], None) for j, linked in zip(owners, adjacency[row], strict=True) if linked],
            weights[row][adjacency[row]].tolist(),
        )
        for row, i in enumerate(owners)
    }


def one_round(
    problem: QuadraticProblem, point: Point, maps: MapsOfAll, rule: Rule, sign: float, before: float | None = None
) -> tuple[Point, Round]:
    """A to G; the maps step in place. `sign` -1 is the mistake of pushing heads apart.

    Psi `before` the round is that after the one before, where that is known.
    """
    if before is None:
        before = problem.lyapunov(point, matrices(maps))
    norm = laplacian_norm(problem, maps)
    sizes = rule(problem, norm)
    gradients, apart = problem.gradients(point), residuals(maps, point.heads)
    terms = smooth_terms(problem, point, maps, sizes, norm)
    stepped = {
        i: {k: phi - sizes.encoder * gradients.encoders[i][k] for k, phi in owned.items()}
        for i, owned in point.encoders.items()
    }
    averaged = {k: mixed(problem, Point(stepped, {}, {}), k) for k in point.modalities}
    after = Point(
        {i: {k: averaged[k][i] for k in owned} for i, owned in point.encoders.items()},
        {i: beta - sizes.scoring * gradients.scoring[i] for i, beta in point.scoring.items()},
        {
            i: coupled_step(
                head, gradients.heads[i], maps[i].pull(apart[i]), step_size=sizes.head, coupling=sign * problem.coupling
            )
            for i, head in point.heads.items()
        },
    )
    terms += step_maps(problem, after.heads, maps, sizes)
    return after, Round(
        before,
        problem.lyapunov(after, matrices(maps)),
        terms,
        {k: consensus_distance(point, k) for k in point.modalities},
        max(sizes.head, sizes.encoder, sizes.scoring),
    )


def laplacian_norm(problem: QuadraticProblem, maps: MapsOfAll) -> float:
    """|L_F|, by dense eigenvalues."""
    sizes = {i: len(head) for i, head in problem.start.heads.items()}
    return float(np.linalg.eigvalsh(sheaf_laplacian(problem.edges, matrices(maps), sizes))[-1])


def smooth_terms(problem: QuadraticProblem, point: Point, maps: MapsOfAll, sizes: StepSizes, norm: float) -> list[Term]:
    """Heads, scoring vectors and every modality's encoder, with the gradient of Psi at the mean encoders."""
    gradients, apart = problem.gradients(at_mean_encoders(point)), residuals(maps, point.heads)
    heads = [gradients.heads[i] + problem.coupling * maps[i].pull(apart[i]) for i in sorted(maps)]
    terms = [
        Term(sizes.head, sizes.head * (SMOOTHNESS + problem.coupling * norm) / 2.0, square(*heads)),
        Term(sizes.scoring, sizes.scoring * SMOOTHNESS / 2.0, square(*gradients.scoring.values())),
    ]
    for k in point.modalities:
        owners = point.owners(k)
        summed = torch.stack([gradients.encoders[i][k] for i in owners]).sum(dim=0)
        terms.append(Term(sizes.encoder / len(owners), sizes.encoder * SMOOTHNESS / 2.0, square(summed)))
    return terms


def step_maps(problem: QuadraticProblem, heads: Mapping[int, Tensor], maps: MapsOfAll, sizes: StepSizes) -> list[Term]:
    """(12) with the new heads, both ends from the same residual; one term per edge."""
    apart, terms = residuals(maps, heads), []
    scaled = {i: torch.zeros_like(residual) for i, residual in apart.items()}
    for i, j in problem.edges:
        s_e = square(heads[i], heads[j])
        eta = sizes.map_of(s_e)
        of_edge = apart[i][maps[i].rows[j]]
        terms.append(Term(eta, eta * problem.coupling * s_e / 2.0, problem.coupling**2 * square(of_edge) * s_e))
        for end, other in ((i, j), (j, i)):
            rows = maps[end].rows[other]
            scaled[end][rows] = eta * problem.coupling * apart[end][rows]
    for i, head in heads.items():
        maps[i].step(scaled[i], head)
    return terms


def square(*vectors: Tensor) -> float:
    return sum(float(vector @ vector) for vector in vectors)


@dataclass(frozen=True)
class Walk:
    problem: QuadraticProblem
    rounds: list[Round]
    end: Point
    maps: MapsOfAll

    @property
    def noise(self) -> float:
        """What rounding may do to one Psi."""
        return ROUNDING * self.rounds[0].before


def walk(
    problem: QuadraticProblem,
    rule: Rule,
    n_rounds: int,
    *,
    maps_class: MapsClass = FactoredMaps,
    sign: float = 1.0,
) -> Walk:
    point, maps = problem.start, started_maps(problem, maps_class)
    rounds: list[Round] = []
    for _ in range(n_rounds):
        point, seen = one_round(problem, point, maps, rule, sign, rounds[-1].after if rounds else None)
        rounds.append(seen)
    return Walk(problem, rounds, point, maps)

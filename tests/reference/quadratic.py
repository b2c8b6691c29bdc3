"""Clients whose losses are quadratic, so that smoothness, gradients and optimum are known exactly.

The loss of a client is 1/2 (theta - c)^T A (theta - c) over theta = [encoders, scoring vector, head], with all cross
terms between the three, and with the largest eigenvalue of A equal to `SMOOTHNESS`. Imports none of sheafedge.

Source: the assumptions of Theorem 1 of Ghalkha et al. 2025, and its Lyapunov function (21).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from reference.sheaf_dmfl import Edge, sheaf_energy
from reference.sheaves import normal
from torch import Tensor

SMOOTHNESS = 1.7
"""L of every client's loss; not 1, so that a bound that forgets it is found out."""

ENCODER_DIM, SCORING_DIM, STALK_DIM = 3, 2, 3
HEAD_DIMS = (4, 5, 3, 4, 3, 5)  # heads of different sizes, as concatenated embeddings have


@dataclass(frozen=True)
class Point:
    """Parameters of all clients, or their gradients: [client][modality] or [client] -> vector."""

    encoders: dict[int, dict[str, Tensor]]
    scoring: dict[int, Tensor]
    heads: dict[int, Tensor]

    def of(self, client: int) -> Tensor:
        """theta_i: encoders in the client's order, scoring vector, head."""
        return torch.cat([*self.encoders[client].values(), self.scoring[client], self.heads[client]])

    def owners(self, modality: str) -> list[int]:
        """V_k, ascending."""
        return sorted(i for i, owned in self.encoders.items() if modality in owned)

    @property
    def modalities(self) -> list[str]:
        """All that anybody owns."""
        return sorted({k for owned in self.encoders.values() for k in owned})


@dataclass(frozen=True)
class QuadraticProblem:
    """Losses, graph and starting point.

    Attributes:
        curvature, center: [client] -> A [n, n] and c [n].
        maps: [(i, j)] -> P_ij at the start.
        start: encoders of one modality are equal.
        coupling: lambda.
    """

    edges: tuple[Edge, ...]
    curvature: dict[int, Tensor]
    center: dict[int, Tensor]
    maps: dict[Edge, Tensor]
    start: Point
    coupling: float

    def neighbors(self, client: int) -> list[int]:
        """Ascending."""
        return sorted({a if b == client else b for a, b in self.edges if client in (a, b)})

    def loss(self, point: Point) -> float:
        """Sum of all clients' losses."""
        away = {i: point.of(i) - center for i, center in self.center.items()}
        return sum(0.5 * float(away[i] @ self.curvature[i] @ away[i]) for i in away)

    def gradients(self, point: Point) -> Point:
        """Of every client's own loss at its own parameters."""
        found = Point({}, {}, {})
        for i, owned in point.encoders.items():
            flat = self.curvature[i] @ (point.of(i) - self.center[i])
            sizes = [ENCODER_DIM] * len(owned) + [SCORING_DIM, len(point.heads[i])]
            *encoders, found.scoring[i], found.heads[i] = torch.split(flat, sizes)
            found.encoders[i] = dict(zip(owned, encoders, strict=True))
        return found

    def lyapunov(self, point: Point, maps: Mapping[Edge, Any]) -> float:
        """Psi of (21), at the mean encoders."""
        energy = float(sheaf_energy(self.edges, maps, point.heads))
        return self.loss(at_mean_encoders(point)) + 0.5 * self.coupling * energy

    def lowest_loss(self) -> float:
        """Minimum of the sum of losses over common encoders, scoring vectors and heads: the infimum of Psi."""
        place = _common_coordinates(self.start)
        n_shared = 1 + max(int(index.max()) for index in place.values())
        hessian, right = np.zeros((n_shared, n_shared)), np.zeros(n_shared)
        for i, index in place.items():
            curvature = self.curvature[i].numpy()
            hessian[np.ix_(index, index)] += curvature
            right[index] += curvature @ self.center[i].numpy()
        lowest = np.linalg.solve(hessian, right)
        away = {i: lowest[index] - self.center[i].numpy() for i, index in place.items()}
        return sum(float(0.5 * away[i] @ self.curvature[i].numpy() @ away[i]) for i in away)


def at_mean_encoders(point: Point) -> Point:
    """thetatilde: everybody's encoders replaced by their mean over the owners."""
    means = {k: torch.stack([point.encoders[i][k] for i in point.owners(k)]).mean(dim=0) for k in point.modalities}
    return replace(point, encoders={i: {k: means[k] for k in owned} for i, owned in point.encoders.items()})


def consensus_distance(point: Point, modality: str) -> float:
    """Frobenius norm of the owners' encoders less their mean."""
    encoders = torch.stack([point.encoders[i][modality] for i in point.owners(modality)])
    return float((encoders - encoders.mean(dim=0)).norm())


def quadratic_problem(
    owned: Mapping[int, tuple[str, ...]],
    edges: Iterable[Edge],
    *,
    seed: int = 0,
    coupling: float = 0.4,
    flattest: float = 0.3,
    map_scale: float = 0.7,
) -> QuadraticProblem:
    """Random losses with eigenvalues between `flattest` times L and L; random Gaussian maps of that scale.

    With `flattest` = 1 every loss curves by L in all directions, and step-size limits are sharp.
    """
    rng = np.random.default_rng(seed)
    edges = tuple(edges)
    common = {k: normal(rng, ENCODER_DIM) for k in sorted({k for ks in owned.values() for k in ks})}
    start = Point(
        {i: {k: common[k].clone() for k in ks} for i, ks in owned.items()},
        {i: normal(rng, SCORING_DIM) for i in owned},
        {i: normal(rng, HEAD_DIMS[i]) for i in owned},
    )
    curvature, center = {}, {}
    for i in owned:
        size = len(start.of(i))
        turned, _ = torch.linalg.qr(normal(rng, size, size))
        eigenvalues = SMOOTHNESS * torch.linspace(flattest, 1.0, size, dtype=torch.float64)
        curvature[i], center[i] = turned @ torch.diag(eigenvalues) @ turned.T, normal(rng, size)
    ends = [end for i, j in edges for end in ((i, j), (j, i))]
    maps = {(i, j): map_scale * normal(rng, STALK_DIM, HEAD_DIMS[i]) for i, j in ends}
    return QuadraticProblem(edges, curvature, center, maps, start, coupling)


def _common_coordinates(point: Point) -> dict[int, np.ndarray]:
    """[client] -> place of every number of theta_i in one vector that holds each modality's encoder once."""
    first = {k: place * ENCODER_DIM for place, k in enumerate(point.modalities)}
    end = len(first) * ENCODER_DIM
    places = {}
    for i, owned in point.encoders.items():
        n_personal = SCORING_DIM + len(point.heads[i])
        shared = [np.arange(first[k], first[k] + ENCODER_DIM) for k in owned]
        places[i] = np.concatenate([*shared, np.arange(end, end + n_personal)])
        end += n_personal
    return places

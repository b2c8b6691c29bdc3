"""Sheaf-FMTL and dFedU in one process, written from the equations and importing none of sheafedge.

Everything random comes in with the problem; float64, dense maps, one loop per update. Losses are functions of a whole
model, so that linear models and networks are the same to it.

Source: Ben Issaid, Vepakomma, Bennis (Sheaf-FMTL), updates (U1) and (U2), each undirected edge counted once; Dinh et
al. 2022 (dFedU) with all a_ij = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

Edge = tuple[int, int]
#: (round, local step, model [d]) -> loss of the minibatch of that step.
Loss = Callable[[int, int, Tensor], Tensor]


@dataclass(frozen=True)
class FmtlProblem:
    """Losses, graph, starts and step sizes.

    Attributes:
        losses: client -> its loss.
        start: client -> its first model [d_i].
        edges: undirected, each once.
        maps: (i, j) -> P_ij [d_ij, d_i]; none for dFedU.
        alpha, eta, coupling: step sizes of models and maps, lambda.
        weight_decay: of all clients.
    """

    losses: Mapping[int, Loss]
    start: Mapping[int, Tensor]
    edges: tuple[Edge, ...]
    alpha: float
    coupling: float
    maps: Mapping[Edge, Tensor] = field(default_factory=dict)
    eta: float = 0.0
    weight_decay: float = 0.0
    local_steps: int = 1
    n_rounds: int = 3

    def neighbors(self, client: int) -> list[int]:
        """Ascending."""
        return sorted({a if b == client else b for a, b in self.edges if client in (a, b)})

    def gradient(self, client: int, round_index: int, step: int, model: Tensor) -> Tensor:
        """Of the local loss with its weight decay, at this model."""
        theta = model.clone().requires_grad_()
        loss = self.losses[client](round_index, step, theta) + 0.5 * self.weight_decay * theta @ theta
        (found,) = torch.autograd.grad(loss, theta)
        return found


@dataclass(frozen=True)
class FmtlState:
    """Models and maps after a round."""

    models: dict[int, Tensor]
    maps: dict[Edge, Tensor]


def run_sheaf_fmtl(problem: FmtlProblem) -> list[FmtlState]:
    """States after every round; with several local steps the neighbors' projections are held."""
    theta, maps = dict(problem.start), dict(problem.maps)
    states = []
    for k in range(problem.n_rounds):
        z = {(i, j): maps[i, j] @ theta[i] for i, j in maps}  # exchange 1
        new = {}
        for i, old in theta.items():
            model = old
            for s in range(problem.local_steps):
                pull = torch.zeros_like(model)
                for j in problem.neighbors(i):
                    pull = pull + maps[i, j].T @ (maps[i, j] @ model - z[j, i])
                model = model - problem.alpha * (problem.gradient(i, k, s, model) + problem.coupling * pull)  # (U1)
            new[i] = model
        theta = new
        w = {(i, j): maps[i, j] @ theta[i] for i, j in maps}  # exchange 2
        scale = problem.eta * problem.coupling
        maps = {(i, j): maps[i, j] - scale * torch.outer(w[i, j] - w[j, i], theta[i]) for i, j in maps}  # (U2)
        states.append(FmtlState(dict(theta), dict(maps)))
    return states


def run_dfedu(problem: FmtlProblem) -> list[FmtlState]:
    """States after every round; with several local steps the neighbors' models are held."""
    theta = dict(problem.start)
    states = []
    for k in range(problem.n_rounds):
        sent, new = dict(theta), {}
        for i, old in theta.items():
            model = old
            for s in range(problem.local_steps):
                pull = torch.zeros_like(model)
                for j in problem.neighbors(i):
                    pull = pull + (model - sent[j])
                model = model - problem.alpha * (problem.gradient(i, k, s, model) + problem.coupling * pull)
            new[i] = model
        theta = new
        states.append(FmtlState(dict(theta), {}))
    return states


def objective(problem: FmtlProblem, models: Mapping[int, Tensor], maps: Mapping[Edge, Tensor]) -> Tensor:
    """Psi = sum of losses + lambda / 2 * sum over undirected edges of |P_ij theta_i - P_ji theta_j|^2."""
    losses = sum(loss(0, 0, models[i]) for i, loss in problem.losses.items())
    gaps = [maps[i, j] @ models[i] - maps[j, i] @ models[j] for i, j in problem.edges]
    return torch.as_tensor(losses + 0.5 * problem.coupling * sum(gap @ gap for gap in gaps))

"""Federated averaging in one process, written from the equations and importing none of sheafedge.

Everything random comes in with the problem: who takes part, what gets lost, and the minibatches inside the losses.
Models are vectors by name, because clients with other sensors have other parts; the server has each part once.

Source: McMahan et al. 2017, algorithm 1 (FedAvg), for minibatch steps of constant size. Where packets are lost, element
by element: new[e] = sum_k w_k m_k[e] u_k[e] / sum_k w_k m_k[e], and the old value where nobody was heard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

#: Name of a part -> its values [n].
Parts = dict[str, Tensor]
#: (number of rounds in which the client has trained, local step, model) -> loss of the minibatch of that step.
Loss = Callable[[int, int, Parts], Tensor]
#: (round, client, part, its size) -> [n] what of it gets through.
Mask = Callable[[int, int, str, int], Tensor]


def everything(_round: int, _client: int, _part: str, n_values: int) -> Tensor:
    """No losses."""
    return torch.ones(n_values, dtype=torch.bool)


@dataclass(frozen=True)
class FedAvgProblem:
    """Losses, starts, weights and step sizes.

    Attributes:
        losses: client -> its loss.
        start: client -> its first model; a part starts at the server as its first client has it.
        rows: client -> w_k.
        step_sizes: first word of a part's name -> step size.
        members: round -> clients that take part in it.
        down, up: what gets through.
    """

    losses: Mapping[int, Loss]
    start: Mapping[int, Parts]
    rows: Mapping[int, float]
    step_sizes: Mapping[str, float]
    members: Callable[[int], Collection[int]]
    down: Mask = everything
    up: Mask = everything
    local_steps: int = 1
    n_rounds: int = 3


@dataclass(frozen=True)
class FedAvgState:
    """Models after a round."""

    server: Parts
    clients: dict[int, Parts]


def run_fedavg(problem: FedAvgProblem) -> list[FedAvgState]:
    """States after every round."""
    clients = {k: dict(parts) for k, parts in problem.start.items()}
    server: Parts = {}
    for k in sorted(clients):
        for name, values in clients[k].items():
            server.setdefault(name, values)
    trained, states = dict.fromkeys(clients, 0), []
    for t in range(problem.n_rounds):
        members = sorted(problem.members(t))
        for k in members:
            model = clients[k]
            for name in model:
                arrived = problem.down(t, k, name, len(model[name]))
                model[name] = torch.where(arrived, server[name], model[name])
            for s in range(problem.local_steps):
                model = _step(problem, k, trained[k], s, model)
            clients[k] = model
            trained[k] += 1
        server = {name: _average(problem, t, members, clients, name, old) for name, old in server.items()}
        states.append(FedAvgState(dict(server), {k: dict(parts) for k, parts in clients.items()}))
    return states


def _step(problem: FedAvgProblem, client: int, n_trained: int, step: int, model: Parts) -> Parts:
    free = {name: values.clone().requires_grad_() for name, values in model.items()}
    gradients = torch.autograd.grad(problem.losses[client](n_trained, step, free), list(free.values()))
    sizes = [problem.step_sizes[name.split()[0]] for name in model]
    return {name: model[name] - size * gradient for name, size, gradient in zip(model, sizes, gradients, strict=True)}


def _average(
    problem: FedAvgProblem, t: int, members: list[int], clients: Mapping[int, Parts], name: str, old: Tensor
) -> Tensor:
    new = old.clone()
    masks = {k: problem.up(t, k, name, len(old)) for k in members if name in clients[k]}
    for e in range(len(old)):
        heard = [k for k, mask in masks.items() if mask[e]]
        if heard:
            total = sum(problem.rows[k] for k in heard)
            new[e] = sum(problem.rows[k] * clients[k][name][e] for k in heard) / total
    return new

"""Local rules of federated learning in one process, written from the equations and importing none of sheafedge.

Float64, one loop per update, no views. A model is one vector theta [d]; losses are functions of rows and a whole model,
so that linear models and networks are the same to it. Minibatches are whole ones of a permutation, then of the next
permutation: the rows that are left over wait for the next epoch.

Sources: Li et al. 2020 (FedProx), Li et al. 2021 (Ditto), Dinh et al. 2020 (pFedMe), Fallah et al. 2020 (Per-FedAvg,
first order), Deng et al. 2020 (APFL), each with its algorithm 1 (FedProx: 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: (rows of the minibatch, model [d]) -> its mean loss.
Loss = Callable[[NDArray[np.int64], Tensor], Tensor]


@dataclass(frozen=True)
class RulesProblem:
    """Losses, starts, mixing and settings.

    Attributes:
        losses, n_rows, start: client -> loss, number of rows, first model [d].
        seeds: client -> name of a stream -> seed of the numpy generator that its permutations come from.
        mixing: [n, n] rows sum to 1: an exchange makes w <- mixing @ w.
        step_size, local_steps, batch_size, n_rounds: of training.
        every: rounds from one exchange to the next.
        exchanges_first: rounds begin with the exchange, which finds all models at their start in the first round.
        mu, lam, n_personal, alpha, eta, mix, eta_mix: settings of the rules.
    """

    losses: Mapping[int, Loss]
    n_rows: Mapping[int, int]
    start: Mapping[int, Tensor]
    seeds: Mapping[int, Mapping[str, int]]
    mixing: Tensor
    step_size: float
    local_steps: int
    batch_size: int
    n_rounds: int
    every: int = 1
    exchanges_first: bool = False
    mu: float = 0.0
    lam: float = 0.0
    n_personal: int = 1
    alpha: float = 0.0
    eta: float = 0.0
    mix: float = 0.5
    eta_mix: float = 0.0

    def gradient(self, client: int, rows: NDArray[np.int64], model: Tensor) -> Tensor:
        """Of the loss on these rows at this model."""
        theta = model.clone().requires_grad_()
        (found,) = torch.autograd.grad(self.losses[client](rows, theta), theta)
        return found

    def batches(self, client: int, stream: str) -> Iterator[NDArray[np.int64]]:
        """Endless minibatches of one stream."""
        draws, n, size = np.random.default_rng(self.seeds[client][stream]), self.n_rows[client], self.batch_size
        while True:
            order = draws.permutation(n)
            for at in range(0, n - size + 1, size):
                yield order[at : at + size]


@dataclass
class Client:
    """What one client holds.

    Attributes:
        shared: w, received: w after the last exchange, personal: what it answers with, own: v of APFL, mix: alpha.
    """

    shared: Tensor
    received: Tensor
    personal: Tensor
    own: Tensor
    mix: float


#: One round of local work of a client, on its minibatches by name of stream.
Round = Callable[[RulesProblem, int, Client, Mapping[str, Iterator[NDArray[np.int64]]]], None]
Batches = Mapping[str, Iterator[NDArray[np.int64]]]


def prox(p: RulesProblem, i: int, c: Client, batches: Batches) -> None:
    """FedProx."""
    for _ in range(p.local_steps):
        g = p.gradient(i, next(batches["global"]), c.shared)
        c.shared = c.shared - p.step_size * (g + p.mu * (c.shared - c.received))
    c.personal = c.shared


def ditto(p: RulesProblem, i: int, c: Client, batches: Batches) -> None:
    """Ditto: v on its own batches."""
    for _ in range(p.local_steps):
        c.shared = c.shared - p.step_size * p.gradient(i, next(batches["global"]), c.shared)
    for _ in range(p.n_personal):
        g = p.gradient(i, next(batches["personal"]), c.personal)
        c.personal = c.personal - p.step_size * (g + p.lam * (c.personal - c.received))


def pfedme(p: RulesProblem, i: int, c: Client, batches: Batches) -> None:
    """PFedMe: K steps on one minibatch, then a step of w."""
    theta = c.shared
    for _ in range(p.local_steps):
        rows = next(batches["personal"])
        for _ in range(p.n_personal):
            theta = theta - p.step_size * (p.gradient(i, rows, theta) + p.lam * (theta - c.shared))
        c.shared = c.shared - p.eta * p.lam * (c.shared - theta)
    c.personal = theta


def per_fedavg(p: RulesProblem, i: int, c: Client, batches: Batches) -> None:
    """Per-FedAvg, first order."""
    for _ in range(p.local_steps):
        ahead = c.shared - p.alpha * p.gradient(i, next(batches["global"]), c.shared)
        c.shared = c.shared - p.step_size * p.gradient(i, next(batches["global"]), ahead)


def apfl(p: RulesProblem, i: int, c: Client, batches: Batches) -> None:
    """APFL, alpha stepped in every local step."""
    for _ in range(p.local_steps):
        rows = next(batches["global"])
        g, of_mixture = p.gradient(i, rows, c.shared), p.gradient(i, rows, c.personal)
        along = float((c.own - c.shared) @ of_mixture)
        c.shared, c.own = c.shared - p.step_size * g, c.own - p.step_size * c.mix * of_mixture
        c.mix = min(1.0, max(0.0, c.mix - p.eta_mix * along))
        c.personal = c.mix * c.own + (1.0 - c.mix) * c.shared


ROUNDS: Mapping[str, Round] = {
    "prox": prox, "ditto": ditto, "pfedme": pfedme, "per_fedavg": per_fedavg, "apfl": apfl
}  # fmt: skip


def run_rule(rule: str, problem: RulesProblem) -> list[dict[int, dict[str, Tensor]]]:
    """Round -> client -> "shared", "personal" and "global" at the end of that round."""
    clients = {i: Client(w, w, w, w, problem.mix) for i, w in problem.start.items()}
    streams = {i: {name: problem.batches(i, name) for name in names} for i, names in problem.seeds.items()}
    states = []
    for k in range(problem.n_rounds):
        if problem.exchanges_first and k % problem.every == 0:
            _exchange(rule, problem, clients, streams)
        for i, client in clients.items():
            ROUNDS[rule](problem, i, client, streams[i])
        if not problem.exchanges_first and (k + 1) % problem.every == 0:
            _exchange(rule, problem, clients, streams)
        states.append(
            {i: {"shared": c.shared, "personal": c.personal, "global": c.received} for i, c in clients.items()}
        )
    return states


def _exchange(rule: str, p: RulesProblem, clients: Mapping[int, Client], streams: Mapping[int, Batches]) -> None:
    sent = torch.stack([client.shared for client in clients.values()])
    for row, (i, client) in enumerate(clients.items()):
        client.shared = client.received = p.mixing[row] @ sent
        if rule == "prox":
            client.personal = client.shared
        if rule == "per_fedavg":
            rows = next(streams[i]["global"])
            client.personal = client.received - p.alpha * p.gradient(i, rows, client.received)
        if rule == "apfl":
            client.personal = client.mix * client.own + (1.0 - client.mix) * client.shared

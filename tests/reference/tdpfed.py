"""TDPFed in one process, written from the equations and importing none of sheafedge.

Float64, one loop per update, no views. A model is a list of tensors, one per parameter; the shared one is a list of
`Factored` weights and dense biases. Gradients of the factors are those that autograd finds of the distance itself.

Source: Wang et al., *Tensor Decomposition based Personalized Federated Learning*, equations (4), (14), (20) to (22) and
algorithm 1. Nesterov's momentum .9 and Adam start every round at zero. Open there, and chosen as the docstrings say.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MOMENTUM, BETA_1, BETA_2, EPSILON = 0.9, 0.9, 0.999, 1e-8
#: Of alternating least squares.
SWEEPS, DAMPING = 10, 1e-8

#: A parameter of the shared model: the factor matrices [I_n, R] of a weight, or itself.
Parameter = list[Tensor] | Tensor
#: (rows of the minibatch, parameters) -> its mean loss.
Loss = Callable[[NDArray[np.int64], Sequence[Tensor]], Tensor]


@dataclass(frozen=True)
class TdpProblem:
    """Losses, the common start, and settings with the paper's letters.

    Attributes:
        losses, n_rows, seeds: client -> loss, number of rows (its weight at the server), seed of its permutations.
        start: of the server.
        tau, s, s_factors, lam, beta, lr_personal, lr_factors: of algorithm 1.
        act: the server averages tensors, and factorizes their mean.
        keep: theta goes on from the last round.
    """

    losses: Mapping[int, Loss]
    n_rows: Mapping[int, int]
    seeds: Mapping[int, int]
    start: Sequence[Parameter]
    tau: int
    s: int
    s_factors: int
    lam: float
    lr_personal: float
    lr_factors: float
    batch_size: int
    n_rounds: int
    beta: float = 1.0
    act: bool = False
    keep: bool = False


@dataclass(frozen=True)
class TdpState:
    """After a round: theta and [[A]] of every client, [[A]] of the server, all as lists of dense tensors."""

    personal: dict[int, list[Tensor]]
    local: dict[int, list[Tensor]]
    server: list[Tensor]


def compose(parameter: Parameter) -> Tensor:
    """Sum of outer products of the columns."""
    if isinstance(parameter, Tensor):
        return parameter
    modes = string.ascii_lowercase[: len(parameter)]
    return torch.einsum(",".join(f"{mode}z" for mode in modes) + f"->{modes}", *parameter)


def run_tdpfed(problem: TdpProblem) -> list[TdpState]:
    """States after every round."""
    server, states = list(problem.start), []
    thetas = {k: [compose(one) for one in server] for k in problem.losses}
    batches = {k: _batches(problem, k) for k in problem.losses}
    for _ in range(problem.n_rounds):
        trained: dict[int, list[Parameter]] = {}
        for k in problem.losses:
            if not problem.keep:
                thetas[k] = [compose(one) for one in server]
            trained[k], thetas[k] = _client_round(problem, k, server, thetas[k], batches[k])
        server = [
            _averaged(problem, old, {k: own[place] for k, own in trained.items()}) for place, old in enumerate(server)
        ]
        states.append(
            TdpState(
                {k: list(theta) for k, theta in thetas.items()},
                {k: [compose(one) for one in own] for k, own in trained.items()},
                [compose(one) for one in server],
            )
        )
    return states


def _client_round(
    p: TdpProblem, k: int, server: Sequence[Parameter], theta: list[Tensor], batches: Iterator[NDArray[np.int64]]
) -> tuple[list[Parameter], list[Tensor]]:
    shared: list[Parameter] = list(server)
    velocity = [torch.zeros_like(one) for one in theta]
    adam = _Adam(p.lr_factors)
    for _ in range(p.tau):
        rows = next(batches)
        for _ in range(p.s):
            free = [one.clone().requires_grad_() for one in theta]
            gradients = torch.autograd.grad(p.losses[k](rows, free), free)
            for i, gradient in enumerate(gradients):
                slope = gradient + p.lam * (theta[i] - compose(shared[i]))
                velocity[i] = MOMENTUM * velocity[i] + slope
                theta[i] = theta[i] - p.lr_personal * (slope + MOMENTUM * velocity[i])
        for _ in range(p.s_factors):
            shared = adam.stepped(shared, lambda own, i: 0.5 * p.lam * (theta[i] - compose(own)).square().sum())
    return shared, theta


class _Adam:
    """Adam on a list of parameters whose losses add up, all gradients at the same values."""

    def __init__(self, step_size: float) -> None:
        self._step_size, self._n = step_size, 0
        self._moments: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def stepped(self, shared: Sequence[Parameter], loss: Callable[[Parameter, int], Tensor]) -> list[Parameter]:
        self._n += 1
        new: list[Parameter] = []
        for i, own in enumerate(shared):
            if isinstance(own, Tensor):
                free = own.clone().requires_grad_()
                (gradient,) = torch.autograd.grad(loss(free, i), free)
                new.append(self._step((i, 0), own, gradient))
            else:
                matrices = [matrix.clone().requires_grad_() for matrix in own]
                gradients = torch.autograd.grad(loss(matrices, i), matrices)
                new.append([self._step((i, n), a, g) for n, (a, g) in enumerate(zip(own, gradients, strict=True))])
        return new

    def _step(self, name: tuple[int, int], value: Tensor, gradient: Tensor) -> Tensor:
        first, second = self._moments.get(name, (torch.zeros_like(value), torch.zeros_like(value)))
        first = BETA_1 * first + (1.0 - BETA_1) * gradient
        second = BETA_2 * second + (1.0 - BETA_2) * gradient**2
        self._moments[name] = first, second
        whole_first, whole_second = first / (1.0 - BETA_1**self._n), second / (1.0 - BETA_2**self._n)
        return value - self._step_size * whole_first / (whole_second.sqrt() + EPSILON)


def _averaged(p: TdpProblem, old: Parameter, clients: Mapping[int, Parameter]) -> Parameter:
    total = sum(p.n_rows[k] for k in clients)
    share = {k: p.n_rows[k] / total for k in clients}
    if isinstance(old, Tensor):
        return (1.0 - p.beta) * old + p.beta * sum(share[k] * own for k, own in clients.items())
    if not p.act:
        return [
            (1.0 - p.beta) * matrix + p.beta * sum(share[k] * own[n] for k, own in clients.items())
            for n, matrix in enumerate(old)
        ]
    mean = (1.0 - p.beta) * compose(old) + p.beta * sum(share[k] * compose(own) for k, own in clients.items())
    rank = old[0].shape[1]
    return best_matrix(mean, rank) if mean.dim() == 2 else least_squares(mean, old)


def best_matrix(matrix: Tensor, rank: int) -> list[Tensor]:
    """Truncated singular value decomposition, its values shared out evenly."""
    u, s, vt = np.linalg.svd(matrix.numpy(), full_matrices=False)
    return [torch.as_tensor(u[:, :rank] * np.sqrt(s[:rank])), torch.as_tensor(vt[:rank].T * np.sqrt(s[:rank]))]


def least_squares(tensor: Tensor, start: Sequence[Tensor]) -> list[Tensor]:
    """Sweeps of damped alternating least squares; normal equations written index by index."""
    factors, modes = list(start), string.ascii_lowercase[: tensor.dim()]
    for _ in range(SWEEPS):
        for n in range(len(factors)):
            others = [m for m in range(len(factors)) if m != n]
            gram = torch.ones(1)
            for m in others:
                gram = gram * (factors[m].T @ factors[m])
            gram = gram + DAMPING * torch.trace(gram) / len(gram) * torch.eye(len(gram), dtype=gram.dtype)
            names = ",".join([modes, *(f"{modes[m]}z" for m in others)])
            right = torch.einsum(f"{names}->{modes[n]}z", tensor, *(factors[m] for m in others))
            factors[n] = torch.linalg.solve(gram, right.T).T
        norms = torch.stack([matrix.norm(dim=0) for matrix in factors])
        common = norms.prod(dim=0) ** (1.0 / len(factors))
        factors = [matrix * common / norm for matrix, norm in zip(factors, norms, strict=True)]
    return factors


def _batches(p: TdpProblem, k: int) -> Iterator[NDArray[np.int64]]:
    draws, n, size = np.random.default_rng(p.seeds[k]), p.n_rows[k], p.batch_size
    while True:
        order = draws.permutation(n)
        for at in range(0, n - size + 1, size):
            yield order[at : at + size]

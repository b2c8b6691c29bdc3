"""Class means exchanged with neighbors in one process, written from the equations and importing none of sheafedge.

Local loss = loss + pull * |f(x) - mean of its class|^2 / n_features, mean over rows. Class means are those of all rows
that a client and its neighbors trained on in the last round, each at the model of that step; a class that nobody has
met keeps its mean, and before anybody has met it there is none.

Source: Tan et al. 2022 (FedProto), with neighbors in the place of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: (rows, model [d]) -> mean loss [] and features [batch, n_features].
Passed = Callable[[NDArray[np.int64], Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class ProtoProblem:
    """Models, labels, graph and step sizes; models may have any sizes.

    Attributes:
        passed, labels, start, seeds: client -> loss and features, classes of its rows, first model, seed of the numpy
            generator that its permutations come from.
        edges: undirected, each once.
    """

    passed: Mapping[int, Passed]
    labels: Mapping[int, NDArray[np.int64]]
    start: Mapping[int, Tensor]
    seeds: Mapping[int, int]
    edges: tuple[tuple[int, int], ...]
    n_classes: int
    n_features: int
    pull: float
    step_size: float
    local_steps: int
    batch_size: int
    n_rounds: int


def run_fedproto(p: ProtoProblem) -> list[dict[int, Tensor]]:
    """Models after every round."""
    models = dict(p.start)
    means: dict[int, dict[int, Tensor]] = {i: {} for i in models}
    streams = {i: _batches(len(p.labels[i]), p.batch_size, seed) for i, seed in p.seeds.items()}
    states = []
    for _ in range(p.n_rounds):
        met: dict[int, dict[int, list[Tensor]]] = {i: {k: [] for k in range(p.n_classes)} for i in models}
        for i in p.start:
            for _ in range(p.local_steps):
                rows = next(streams[i])
                theta = models[i].clone().requires_grad_()
                loss, features = p.passed[i](rows, theta)
                far = torch.zeros((), dtype=theta.dtype)
                for row, label in enumerate(p.labels[i][rows].tolist()):
                    met[i][label].append(features[row].detach())
                    if label in means[i]:
                        far = far + (features[row] - means[i][label]).square().sum()
                whole = loss + p.pull * far / (p.n_features * len(rows))
                models[i] = models[i] - p.step_size * torch.autograd.grad(whole, theta)[0]
        for i in models:
            around = [i, *(a if b == i else b for a, b in p.edges if i in (a, b))]
            for k in range(p.n_classes):
                if all_met := [one for j in around for one in met[j][k]]:
                    means[i][k] = torch.stack(all_met).mean(dim=0)
        states.append(dict(models))
    return states


def _batches(n: int, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    draws = np.random.default_rng(seed)
    while True:
        order = draws.permutation(n)
        for at in range(0, n - size + 1, size):
            yield order[at : at + size]

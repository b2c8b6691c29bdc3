"""FedSheafHN in one process, written from the equations and importing none of sheafedge.

Loops over clients and edges, dense Laplacians, printed Adam; gradients by autograd of the one scalar -<dW, W>. Dropout
is left out. Models are vectors by name of their parts; the head is the part "head", and all others are generated.

Source: Liang et al. 2025, (3) to (15), with the sign of the server's step corrected, the augmented normalization and
the projections of the public code, diagonal maps, and losses as follows. A number that does not arrive at a client
keeps the value that arrived last, and its change is 0; a change that does not arrive at the server is 0 there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Parts = dict[str, Tensor]
#: (number of rounds in which the client has trained, local step, model) -> loss of the minibatch of that step.
Loss = Callable[[int, int, Parts], Tensor]
#: (round, client, way "down" or "up", size) -> [n] what of it gets through.
Mask = Callable[[int, int, str, int], Tensor]
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class HyperProblem:
    """Losses, starts, step sizes, and the server's first weights.

    Attributes:
        losses: client -> its loss.
        embeddings: client -> mean of what its head reads, of its model.
        start: client -> its first model, heads under "head".
        weights: of the server by name: "in", "out", "hidden" with ".weight" and ".bias", "layer 0 left", "layer 0
            right", "layer 0 maps", "query", "key", "value", "answer PART.weight", "answer PART.bias".
        step_sizes: first word of a part's name -> step size.
        adam: first words of the parts that clients step by Adam.
        shape: (d, f).
        members: round -> clients that take part in it.
        through: what gets through of models and changes.
        embedding_arrives: (round, client) -> whether an embedding does.
    """

    losses: Mapping[int, Loss]
    embeddings: Mapping[int, Callable[[Parts], Tensor]]
    start: Mapping[int, Parts]
    weights: Weights
    step_sizes: Mapping[str, float]
    shape: tuple[int, int]
    members: Callable[[int], Collection[int]]
    through: Mask = lambda _round, _client, _way, size: torch.ones(size, dtype=torch.bool)
    embedding_arrives: Callable[[int, int], bool] = lambda _round, _client: True
    adam: Collection[str] = ()
    maps: str = "learned"
    knn: int = 2
    refresh_every: int = 2
    scaled: bool = False
    normalized: bool = False
    sheaf_step_size: float = 0.01
    sheaf_decay: float = 5e-4
    hyper_step_size: float = 0.01
    local_steps: int = 1
    n_rounds: int = 4


@dataclass
class HyperState:
    """Everything after a round."""

    weights: Weights
    clients: dict[int, Parts]
    edges: list[tuple[int, int]]


@dataclass
class Adam:
    """Moments by name; written out as printed by Kingma and Ba."""

    first: Weights = field(default_factory=dict)
    second: Weights = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def stepped(self, name: str, value: Tensor, gradient: Tensor, step_size: float, decay: float = 0.0) -> Tensor:
        gradient = gradient + decay * value
        t = self.steps[name] = self.steps.get(name, 0) + 1
        m = self.first[name] = 0.9 * self.first.get(name, torch.zeros_like(value)) + 0.1 * gradient
        v = self.second[name] = 0.999 * self.second.get(name, torch.zeros_like(value)) + 0.001 * gradient**2
        return value - step_size * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)


def run_hyper(problem: HyperProblem) -> list[HyperState]:
    """States after every round."""
    clients = {k: dict(parts) for k, parts in problem.start.items()}
    received = {k: {name: one for name, one in parts.items() if name != "head"} for k, parts in clients.items()}
    weights, adam = dict(problem.weights), Adam()
    newest: dict[int, Tensor] = {}
    used: dict[int, Tensor] = {}
    edges: list[tuple[int, int]] = []
    trained, states = dict.fromkeys(clients, 0), []
    for t in range(problem.n_rounds):
        if t >= 1 and (t - 1) % problem.refresh_every == 0:
            used, edges = dict(newest), nearest(newest, problem.knn)
        members = sorted(problem.members(t))
        free = {name: one.clone().requires_grad_() for name, one in weights.items()}
        generated = generate(problem, free, used, edges, len(clients))
        objective = torch.zeros((), dtype=torch.float64)
        heard = False
        for k in members:
            names = list(received[k])
            sizes = [len(received[k][name]) for name in names]
            down = dict(zip(names, torch.split(problem.through(t, k, "down", sum(sizes)), sizes), strict=True))
            for name in names:
                received[k][name] = torch.where(down[name], generated[k][name].detach(), received[k][name])
            model, own = {**received[k], "head": clients[k]["head"]}, Adam()
            for s in range(problem.local_steps):
                model = _step(problem, k, trained[k], s, model, own)
            clients[k] = model
            trained[k] += 1
            up = dict(zip(names, torch.split(problem.through(t, k, "up", sum(sizes)), sizes), strict=True))
            for name in names:
                arrives = up[name] & down[name]
                heard = heard or bool(up[name].any())
                change = torch.where(arrives, model[name] - received[k][name], 0.0)
                objective = objective - (change * generated[k][name]).sum()
            if _embeds(problem, t, k) and problem.embedding_arrives(t, k):
                newest[k] = problem.embeddings[k](model)
        if heard:
            weights = _server_step(problem, free, objective, adam)
        states.append(HyperState(dict(weights), {k: dict(parts) for k, parts in clients.items()}, list(edges)))
    return states


def _server_step(problem: HyperProblem, free: Weights, objective: Tensor, adam: Adam) -> Weights:
    new = {}
    for name, gradient in zip(free, _gradients(objective, free), strict=True):
        of_sheaf = name.split()[0].split(".")[0] in {"in", "out", "layer"}
        size = problem.sheaf_step_size if of_sheaf else problem.hyper_step_size
        decay = problem.sheaf_decay if of_sheaf else 0.0
        new[name] = adam.stepped(name, free[name].detach(), gradient, size, decay)
    return new


def _gradients(objective: Tensor, free: Weights) -> list[Tensor]:
    """Of every weight; 0 where the objective does not depend on it."""
    found = torch.autograd.grad(objective, list(free.values()), allow_unused=True)
    return [torch.zeros_like(one) if g is None else g for g, one in zip(found, free.values(), strict=True)]


def _embeds(problem: HyperProblem, t: int, k: int) -> bool:
    """Whether this is the first round of its period that the client takes part in."""
    period = range(t - t % problem.refresh_every, t)
    return all(k not in problem.members(before) for before in period)


def _step(problem: HyperProblem, client: int, n_trained: int, step: int, model: Parts, adam: Adam) -> Parts:
    free = {name: values.clone().requires_grad_() for name, values in model.items()}
    gradients = _gradients(problem.losses[client](n_trained, step, free), free)
    new = {}
    for name, gradient in zip(model, gradients, strict=True):
        kind = name.split()[0]
        size, by_adam = problem.step_sizes[kind], kind in problem.adam
        new[name] = adam.stepped(name, model[name], gradient, size) if by_adam else model[name] - size * gradient
    return new


def nearest(embeddings: Mapping[int, Tensor], n_neighbors: int) -> list[tuple[int, int]]:
    """Pairs of which either is among the other's nearest by cosine distance."""
    edges = set()
    for i, own in embeddings.items():
        others = sorted((1.0 - float(own @ x / (own.norm() * x.norm())), j) for j, x in embeddings.items() if j != i)
        edges |= {(min(i, j), max(i, j)) for _, j in others[:n_neighbors]}
    return sorted(edges)


def laplacian(maps: Mapping[tuple[int, int, int], Tensor], edges: list[tuple[int, int]], n: int, d: int) -> Tensor:
    """[N d, N d] (D + I)^-1/2 L (D + I)^-1/2, block by block; `maps` has F of (edge number, end, d x d)."""
    blocks: dict[tuple[int, int], Any] = {}
    for e, (i, j) in enumerate(edges):
        f_i, f_j = maps[e, 0, 0], maps[e, 1, 0]
        for a, b, block in (
            (i, i, f_i.T @ f_i),
            (j, j, f_j.T @ f_j),
            (i, j, -f_i.T @ f_j),
            (j, i, -f_j.T @ f_i),
        ):
            blocks[a, b] = blocks.get((a, b), 0.0) + block
    zero = torch.zeros(d, d, dtype=torch.float64)
    scale = []
    for i in range(n):
        augmented = blocks.get((i, i), zero) + torch.eye(d, dtype=torch.float64)
        scale.append(torch.diag(torch.diagonal(augmented) ** -0.5))  # maps are diagonal, so D is
    rows = [torch.cat([scale[i] @ blocks.get((i, j), zero) @ scale[j] for j in range(n)], dim=1) for i in range(n)]
    return torch.cat(rows)


def generate(
    problem: HyperProblem, w: Weights, used: Mapping[int, Tensor], edges: list[tuple[int, int]], n: int
) -> dict[int, Parts]:
    """W of every client, by part."""
    width = len(w["hidden.weight"][0])
    d, f = problem.shape
    x0 = torch.stack([used.get(k, torch.zeros(width, dtype=torch.float64)) for k in range(n)])
    if problem.normalized:
        x0 = torch.stack([x / (x**2).mean().sqrt() if k in used else x for k, x in enumerate(x0)])
    hidden = torch.nn.functional.elu(x0 @ w["in.weight"].T + w["in.bias"])
    x = hidden.reshape(n * d, f)
    number = 0
    while problem.maps != "none" and f"layer {number} left" in w:
        delta = laplacian(_maps(problem, w, number, x.reshape(n, d * f), edges, d), edges, n, d)
        left = torch.block_diag(*[w[f"layer {number} left"]] * n)
        x = x - torch.nn.functional.elu(delta @ left @ x @ w[f"layer {number} right"])
        number += 1
    vectors = x.reshape(n, d * f) @ w["out.weight"].T + w["out.bias"]
    found: dict[int, Parts] = {}
    for k in range(n):
        keys = [j for j in range(n) if j == k or j in used]
        scores = torch.stack([(vectors[k] @ w["query"].T) @ (vectors[j] @ w["key"].T) for j in keys])
        shares = torch.softmax(scores / width**0.5 if problem.scaled else scores, dim=0)
        attended = sum(share * (vectors[j] @ w["value"].T) for share, j in zip(shares, keys, strict=True))
        z = torch.relu(w["hidden.weight"] @ attended + w["hidden.bias"])
        own = [name for name in problem.start[k] if name != "head"]
        found[k] = {name: w[f"answer {name}.weight"] @ z + w[f"answer {name}.bias"] for name in own}
    return found


def _maps(
    problem: HyperProblem, w: Weights, number: int, x: Tensor, edges: list[tuple[int, int]], d: int
) -> dict[tuple[int, int, int], Tensor]:
    maps = {}
    for e, (i, j) in enumerate(edges):
        for end, (own, other) in enumerate(((i, j), (j, i))):
            diagonal = torch.ones(d, dtype=torch.float64)
            if problem.maps == "learned":
                diagonal = torch.tanh(w[f"layer {number} maps"] @ torch.cat([x[own], x[other]]))
            maps[e, end, 0] = torch.diag(diagonal)
    return maps

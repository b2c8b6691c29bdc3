"""Sheaf-DMFL and Sheaf-DMFL-Att in one process, written from the paper and importing none of sheafedge.

Everything random comes in with the `ReferenceProblem`; everything else is one function per lettered step of a round, in
float64, with dense restriction maps and dense mixing matrices. Slow and plain on purpose: the algorithms that ship are
compared with it.

Source: Ghalkha et al. 2025, equations (1) to (17), as corrected where the text contradicts itself: each undirected edge
counts once, all gradients of a round are taken at the parameters it starts from, mixing includes the client itself.

Legend: i, j clients; k modality; C classes; l, l_k embedding width; d_i length of head i; d_ij edge-stalk dimension;
u projection P_ij w_i before the head step, v reprojection P_ij w_i after it, both keyed (i, j) = "of i, on its edge
to j".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Layer = tuple[Any, Any]  # W [n_out, n_in], b [n_out]; arrays or tensors on the way in, float64 tensors inside
Edge = tuple[int, int]
Batch = tuple[Mapping[str, Any], Any]  # {modality: [n_samples, ...]}, labels [n_samples]

MODALITY_ORDER = ("lidar", "camera", "rf", "gps", "radar", "signal", "table", "image", "graph")
BYTES_PER_FLOAT = 4  # the paper counts float32 on the wire, whatever this file computes in


@dataclass(frozen=True)
class ReferenceProblem:
    """A whole run: structure, starting point, data and step sizes; nothing is drawn later.

    Attributes:
        modalities: of each client, in canonical order.
        edges: each undirected edge once, in either orientation.
        encoders: [client][modality] -> layers of an MLP with ReLU between, on flattened input.
        attention: [client][modality] -> beta [l]; not read by the concat fusion.
        heads: [client] -> weight [C, width] row-major, then bias [C]; width is l (attention) or sum of l_k (concat).
        maps: [(i, j)] -> P_ij [d_ij, d_i], what client i holds for its edge to j; both (i, j) and (j, i) are given.
        batches: [round][local_step][client] -> (inputs, labels).
        n_classes: C.
        clamp_map_step: limit eta on each edge to 1 / (lambda (|w_i|^2 + |w_j|^2)).
        mixing: "identity" keeps encoders at home and sends none.
    """

    modalities: Mapping[int, tuple[str, ...]]
    edges: Sequence[Edge]
    encoders: Mapping[int, Mapping[str, Sequence[Layer]]]
    attention: Mapping[int, Mapping[str, Any]]
    heads: Mapping[int, Any]
    maps: Mapping[Edge, Any]
    batches: Sequence[Sequence[Mapping[int, Batch]]]
    n_classes: int
    head_step_size: float
    map_step_size: float
    encoder_step_size: float
    attention_step_size: float
    coupling: float
    n_rounds: int
    fusion: Literal["attention", "concat"] = "attention"
    local_steps: int = 1
    clamp_map_step: bool = False
    mixing: Literal["metropolis_hastings", "identity"] = "metropolis_hastings"

    def __post_init__(self) -> None:
        for client, owned in self.modalities.items():
            if not owned or owned != tuple(k for k in MODALITY_ORDER if k in owned):
                raise ValueError(f"modalities of client {client} must follow {MODALITY_ORDER}, got {owned}")
        if len({frozenset(edge) for edge in self.edges}) != len(self.edges) or any(i == j for i, j in self.edges):
            raise ValueError("edges must join two clients and appear once each")


@dataclass(frozen=True)
class ReferenceState:
    """Everything that learning changes, [client], [client][modality] and [(i, j)] as in the problem, float64."""

    heads: dict[int, Tensor]
    encoders: dict[int, dict[str, list[tuple[Tensor, Tensor]]]]
    attention: dict[int, dict[str, Tensor]]
    maps: dict[Edge, Tensor]


@dataclass(frozen=True)
class Gradients:
    """Gradient of one client's loss at the parameters of this local step."""

    head: Tensor
    encoders: dict[str, list[tuple[Tensor, Tensor]]]
    attention: dict[str, Tensor]


@dataclass(frozen=True)
class Trajectory:
    """What a run leaves: entry r is after round r; `start` is before the first.

    Attributes:
        losses: [round][client] mean cross-entropy at the round's first backward pass.
        floats: [round][kind] numbers that crossed links, all directions; kinds projection, encoder, reprojection.
    """

    start: ReferenceState
    states: tuple[ReferenceState, ...]
    losses: tuple[dict[int, float], ...]
    floats: tuple[dict[str, int], ...]

    @property
    def bytes_by_kind(self) -> dict[str, int]:
        """Bytes over the whole run."""
        kinds = ("projection", "encoder", "reprojection")
        return {kind: BYTES_PER_FLOAT * sum(count[kind] for count in self.floats) for kind in kinds}


def run_reference(problem: ReferenceProblem) -> Trajectory:
    """All rounds of the plain protocol."""
    start = state = starting_state(problem)
    mixing_matrices = mixing_matrices_of(problem)
    states, losses = [], []
    for round_index in range(problem.n_rounds):
        state, round_losses = one_round(problem, state, mixing_matrices, round_index)
        states.append(state)
        losses.append(round_losses)
    floats = floats_of_one_round(problem, start)
    return Trajectory(start, tuple(states), tuple(losses), tuple(dict(floats) for _ in states))


def one_round(
    problem: ReferenceProblem, state: ReferenceState, mixing_matrices: Mapping[str, Tensor], round_index: int
) -> tuple[ReferenceState, dict[int, float]]:
    """A to G, all clients at once; returns the losses of the first backward pass too."""
    clients, losses = sorted(problem.modalities), {}
    heads, encoders, attention = state.heads, state.encoders, state.attention
    received = {(j, i): u for (i, j), u in step_b_project(state.maps, heads).items()}  # [i, j]: what i has from j
    for local_step in range(problem.local_steps):
        theta = replace(state, heads=heads, encoders=encoders, attention=attention)
        batches = problem.batches[round_index][local_step]
        step_a = {i: step_a_gradients(problem, theta, i, batches[i]) for i in clients}
        if local_step == 0:
            losses = {i: loss for i, (loss, _) in step_a.items()}
        gradients = {i: gradient for i, (_, gradient) in step_a.items()}
        own = step_b_project(state.maps, heads)  # (11) with the head as it is now, the peer's as it was when it sent
        encoders, attention = step_c_local(problem, encoders, attention, gradients)
        heads = step_e_heads(problem, heads, state.maps, gradients, own, received)
    encoders = step_d_mix(encoders, mixing_matrices)
    reprojections = step_f_reproject(state.maps, heads)
    maps = step_g_maps(problem, state.maps, heads, reprojections)
    return ReferenceState(heads, encoders, attention, maps), losses


# --- the lettered steps ---------------------------------------------------------------------------------------------


def step_a_gradients(
    problem: ReferenceProblem, state: ReferenceState, client: int, batch: Batch
) -> tuple[float, Gradients]:
    """A: forward (4)/(5), mean cross-entropy, ONE backward pass for encoders, attention and head together."""
    owned = problem.modalities[client]
    head = _leaf(state.heads[client])
    encoders = {k: [(_leaf(w), _leaf(b)) for w, b in state.encoders[client][k]] for k in owned}
    attention = {k: _leaf(beta) for k, beta in state.attention[client].items()}
    inputs, labels = batch
    fused = fuse(embeddings_of(encoders, inputs, owned), attention, problem.fusion)
    loss = cross_entropy(logits_of(head, fused, problem.n_classes), torch.as_tensor(labels, dtype=torch.int64))
    torch.autograd.backward(loss)
    return float(loss.detach()), Gradients(
        head=_gradient(head),
        encoders={k: [(_gradient(w), _gradient(b)) for w, b in layers] for k, layers in encoders.items()},
        attention={k: _gradient(beta) for k, beta in attention.items()},
    )


def step_b_project(maps: Mapping[Edge, Tensor], heads: Mapping[int, Tensor]) -> dict[Edge, Tensor]:
    """B, and F with a newer head: P_ij w_i for both ends of every edge, [d_ij]."""
    return {(i, j): restriction @ heads[i] for (i, j), restriction in maps.items()}


def step_c_local(
    problem: ReferenceProblem,
    encoders: Mapping[int, Mapping[str, list[tuple[Tensor, Tensor]]]],
    attention: Mapping[int, Mapping[str, Tensor]],
    gradients: Mapping[int, Gradients],
) -> tuple[dict[int, dict[str, list[tuple[Tensor, Tensor]]]], dict[int, dict[str, Tensor]]]:
    """C: encoders (15) and attention vectors (17) go down their own gradient."""
    eta_phi, eta_beta = problem.encoder_step_size, problem.attention_step_size
    stepped_encoders = {
        i: {
            k: [
                (w - eta_phi * g_w, b - eta_phi * g_b)
                for (w, b), (g_w, g_b) in zip(layers, gradients[i].encoders[k], strict=True)
            ]
            for k, layers in of_client.items()
        }
        for i, of_client in encoders.items()
    }
    stepped_attention = {
        i: {k: beta - eta_beta * gradients[i].attention[k] for k, beta in of_client.items()}
        for i, of_client in attention.items()
    }
    return stepped_encoders, stepped_attention


def step_d_mix(
    encoders: Mapping[int, Mapping[str, list[tuple[Tensor, Tensor]]]], mixing_matrices: Mapping[str, Tensor]
) -> dict[int, dict[str, list[tuple[Tensor, Tensor]]]]:
    """D: phi_ik <- sum over j in N_i^k of w_ij^k phi_jk, self included (6); encoder k only among its owners V_k."""
    mixed: dict[int, dict[str, list[tuple[Tensor, Tensor]]]] = {i: {} for i in encoders}
    for k, mixing in mixing_matrices.items():
        owners = sorted(i for i in encoders if k in encoders[i])
        for layer in zip(*(encoders[j][k] for j in owners), strict=True):  # the same layer at all owners
            weights = torch.stack([w for w, _ in layer])  # [|V_k|, n_out, n_in]
            biases = torch.stack([b for _, b in layer])  # [|V_k|, n_out]
            for row, i in zip(mixing, owners, strict=True):
                averaged = torch.einsum("j,jab->ab", row, weights), torch.einsum("j,ja->a", row, biases)
                mixed[i].setdefault(k, []).append(averaged)
    return mixed


def step_e_heads(
    problem: ReferenceProblem,
    heads: Mapping[int, Tensor],
    maps: Mapping[Edge, Tensor],
    gradients: Mapping[int, Gradients],
    own: Mapping[Edge, Tensor],
    received: Mapping[Edge, Tensor],
) -> dict[int, Tensor]:
    """E: w_i <- w_i - alpha (g_w + lambda sum_j P_ij^T (u_ij - u_ji)), (11). received[i, j] is u_ji."""
    stepped = {}
    for i, head in heads.items():
        pull = torch.zeros_like(head)
        for (holder, j), restriction in maps.items():
            if holder == i:
                pull = pull + restriction.T @ (own[i, j] - received[i, j])
        stepped[i] = head - problem.head_step_size * (gradients[i].head + problem.coupling * pull)
    return stepped


def step_f_reproject(maps: Mapping[Edge, Tensor], heads: Mapping[int, Tensor]) -> dict[Edge, Tensor]:
    """F: v_ij = P_ij^r w_i^(r+1), the old map and the new head, [d_ij]."""
    return step_b_project(maps, heads)


def step_g_maps(
    problem: ReferenceProblem,
    maps: Mapping[Edge, Tensor],
    heads: Mapping[int, Tensor],
    reprojections: Mapping[Edge, Tensor],
) -> dict[Edge, Tensor]:
    """G: P_ij <- P_ij - eta lambda (v_ij - v_ji) w_i^T at both ends from the same residual (12)."""
    stepped = {}
    for (i, j), restriction in maps.items():
        residual = reprojections[i, j] - reprojections[j, i]  # [d_ij]
        eta = edge_step_size(problem, float(heads[i] @ heads[i]) + float(heads[j] @ heads[j]))
        stepped[i, j] = restriction - eta * problem.coupling * torch.outer(residual, heads[i])
    return stepped


def edge_step_size(problem: ReferenceProblem, squared_norms: float) -> float:
    """eta, or at most 1 / (lambda s_e): there the residual of the edge vanishes, beyond twice that it grows."""
    if not problem.clamp_map_step or problem.coupling * squared_norms == 0.0:
        return problem.map_step_size
    return min(problem.map_step_size, 1.0 / (problem.coupling * squared_norms))


# --- the model (4) and (5) ------------------------------------------------------------------------------------------


def embeddings_of(
    encoders: Mapping[str, Sequence[tuple[Tensor, Tensor]]], inputs: Mapping[str, Any], owned: Iterable[str]
) -> dict[str, Tensor]:
    """h_k = psi_k(x_k), [n_samples, l_k]: an MLP with ReLU between its layers and none after the last."""
    embeddings = {}
    for k in owned:
        hidden = _tensor(inputs[k]).flatten(start_dim=1)
        for index, (w, b) in enumerate(encoders[k]):
            hidden = (torch.relu(hidden) if index else hidden) @ w.T + b
        embeddings[k] = hidden
    return embeddings


def attention_weights(embeddings: Mapping[str, Tensor], attention: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """a_k = exp(e_k) / sum_m exp(e_m), e_k = tanh(beta_k^T h_k); one weight per sample, [n_samples]."""
    scores = {k: torch.exp(torch.tanh(h @ attention[k])) for k, h in embeddings.items()}
    total = torch.stack(list(scores.values())).sum(dim=0)
    return {k: score / total for k, score in scores.items()}


def fuse(embeddings: Mapping[str, Tensor], attention: Mapping[str, Tensor], fusion: str) -> Tensor:
    """z = concat_k h_k (4), or sum_k a_k h_k (5); [n_samples, width]."""
    if fusion == "concat":
        return torch.cat([embeddings[k] for k in MODALITY_ORDER if k in embeddings], dim=1)
    weights = attention_weights(embeddings, attention)
    return torch.stack([weights[k][:, None] * h for k, h in embeddings.items()]).sum(dim=0)


def logits_of(head: Tensor, fused: Tensor, n_classes: int) -> Tensor:
    """yhat = W z + b with the head w = flatten(W, b); [n_samples, C]."""
    width = fused.shape[1]
    weight, bias = head[: n_classes * width].reshape(n_classes, width), head[n_classes * width :]
    return fused @ weight.T + bias


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over samples of -log softmax(logits)[label]."""
    log_probabilities = logits - torch.logsumexp(logits, dim=1, keepdim=True)
    return -log_probabilities[torch.arange(len(labels)), labels].mean()


# --- the graphs of the modalities -----------------------------------------------------------------------------------


def modality_graph(problem: ReferenceProblem, modality: str) -> tuple[list[int], list[Edge]]:
    """Owners V_k, ascending, and the edges E_k among them."""
    owners = sorted(i for i, owned in problem.modalities.items() if modality in owned)
    return owners, [(i, j) for i, j in problem.edges if i in owners and j in owners]


def metropolis_hastings(nodes: Sequence[int], edges: Iterable[Edge]) -> NDArray[np.float64]:
    """w_ij = 1 / (1 + max(deg_i, deg_j)) on edges, w_ii the rest to 1; rows and columns follow `nodes`."""
    edges = list(edges)
    degree = {i: sum(i in edge for edge in edges) for i in nodes}
    place = {i: row for row, i in enumerate(nodes)}
    mixing = np.zeros((len(nodes), len(nodes)))
    for i, j in edges:
        mixing[place[i], place[j]] = mixing[place[j], place[i]] = 1.0 / (1.0 + max(degree[i], degree[j]))
    mixing[np.diag_indices_from(mixing)] = 1.0 - mixing.sum(axis=1)
    return mixing


def is_connected(nodes: Sequence[int], edges: Iterable[Edge]) -> bool:
    """Whether everybody can be reached from the first node."""
    edges, reached = list(edges), set(nodes[:1])
    for _ in nodes:
        reached |= {b for i, j in edges for a, b in ((i, j), (j, i)) if a in reached}
    return reached == set(nodes)


def mixing_matrices_of(problem: ReferenceProblem) -> dict[str, Tensor]:
    """W_k [|V_k|, |V_k|] of every modality that somebody owns.

    Raises:
        ValueError: a modality's subgraph is not connected (Assumption 2).
    """
    matrices = {}
    for k in sorted({k for owned in problem.modalities.values() for k in owned}):
        owners, edges = modality_graph(problem, k)
        if problem.mixing == "identity":
            matrices[k] = torch.eye(len(owners), dtype=torch.float64)
            continue
        if not is_connected(owners, edges):
            raise ValueError(f"subgraph of {k} over clients {owners} is not connected")
        matrices[k] = _tensor(metropolis_hastings(owners, edges))
    return matrices


# --- the sheaf (1), (2), (8) ----------------------------------------------------------------------------------------


def sheaf_energy(edges: Iterable[Edge], maps: Mapping[Edge, Any], heads: Mapping[int, Any]) -> Tensor:
    """(2): sum over undirected edges, each once, of |P_ij w_i - P_ji w_j|^2."""
    energy = torch.zeros((), dtype=torch.float64)
    for i, j in edges:
        residual = _tensor(maps[i, j]) @ _tensor(heads[i]) - _tensor(maps[j, i]) @ _tensor(heads[j])
        energy = energy + (residual * residual).sum()
    return energy


def coboundary(edges: Sequence[Edge], maps: Mapping[Edge, Any], sizes: Mapping[int, int]) -> NDArray[np.float64]:
    """B of (8): the rows of edge (i, j) hold +P_ij in block i and -P_ji in block j; blocks ascend by client."""
    first, total = {}, 0
    for i in sorted(sizes):
        first[i], total = total, total + sizes[i]
    blocks = []
    for i, j in edges:
        block = np.zeros((len(maps[i, j]), total))
        block[:, first[i] : first[i] + sizes[i]] = np.asarray(maps[i, j])
        block[:, first[j] : first[j] + sizes[j]] = -np.asarray(maps[j, i])
        blocks.append(block)
    return np.concatenate(blocks) if blocks else np.zeros((0, total))


def sheaf_laplacian(edges: Sequence[Edge], maps: Mapping[Edge, Any], sizes: Mapping[int, int]) -> NDArray[np.float64]:
    """L_F = B^T B, dense [sum of d_i, sum of d_i]."""
    b = coboundary(edges, maps, sizes)
    return b.T @ b


def complete_edges(clients: Iterable[int]) -> list[Edge]:
    """Every pair once."""
    return list(combinations(sorted(clients), 2))


# --- cost and bookkeeping -------------------------------------------------------------------------------------------


def floats_of_one_round(problem: ReferenceProblem, state: ReferenceState) -> dict[str, int]:
    """Per edge and round: 2 d_ij before and 2 d_ij after the head step, 2 |phi_k| for each common modality."""
    stalks = sum(len(state.maps[edge]) for edge in problem.edges)
    encoder_floats = 0
    if problem.mixing != "identity":
        for i, j in problem.edges:
            for k in set(problem.modalities[i]) & set(problem.modalities[j]):
                encoder_floats += 2 * sum(w.numel() + b.numel() for w, b in state.encoders[i][k])
    return {"projection": 2 * stalks, "encoder": encoder_floats, "reprojection": 2 * stalks}


def starting_state(problem: ReferenceProblem) -> ReferenceState:
    """The problem's arrays as float64 tensors of their own."""
    uses_attention = problem.fusion == "attention"
    return ReferenceState(
        heads={i: _tensor(head) for i, head in sorted(problem.heads.items())},
        encoders={
            i: {k: [(_tensor(w), _tensor(b)) for w, b in problem.encoders[i][k]] for k in owned}
            for i, owned in sorted(problem.modalities.items())
        },
        attention={
            i: {k: _tensor(problem.attention[i][k]) for k in owned} if uses_attention else {}
            for i, owned in sorted(problem.modalities.items())
        },
        maps={ends: _tensor(problem.maps[ends]) for i, j in problem.edges for ends in ((i, j), (j, i))},
    )


def _tensor(values: Any) -> Tensor:
    """Float64 copy of an array or tensor; a tensor keeps its place in the autograd graph."""
    if isinstance(values, Tensor):
        return values.to(torch.float64, copy=True)
    return torch.tensor(np.asarray(values), dtype=torch.float64)


def _leaf(values: Tensor) -> Tensor:
    return values.detach().clone().requires_grad_()


def _gradient(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad

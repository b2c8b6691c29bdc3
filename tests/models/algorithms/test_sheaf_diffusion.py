"""Diffusion of heads along the sheaf: averaging where all is comparable, and never away from agreement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from doubles.hand_played import NO_STEPS, mixing_matrix, play_phase, play_round, scattered, vectors_of
from doubles.random_maps import random_starts
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import Message, MessageKind, NodeId
from sheafedge.models.algorithms.sheaf_diffusion import HeadDiffusion
from sheafedge.models.head import HeadLayout
from sheafedge.models.settings import SheafSettings
from sheafedge.models.sheaf.equations import aligned_starts, structured_starts
from sheafedge.models.training.client_setup import ClientSetup
from torch import Tensor

EXACT = 1e-12  # float64, sums of a handful of terms of order 1
DIFFERENT = 1e-3  # the same numbers, and a mistake

Heads = dict[NodeId, Tensor]

# --- wired as for a user ----------------------------------------------------------------------------------------------

THREE_GROUPS: dict[str, Any] = {
    "clients.n_clients": 6,
    "clients.groups": [
        {"name": "both", "modalities": ["rf", "gps"], "share": 0.5},
        {"name": "gps", "modalities": ["gps"], "share": 0.17},
        {"name": "rf", "modalities": ["rf"], "share": 0.33},
    ],
    "topology.edge_probability": 0.4,
    "sheaf.compression": 1.0,
}


def after_rounds(algorithm: str, **edits: Any) -> dict[NodeId, dict[str, Any]]:
    walk = scattered({**THREE_GROUPS, "algorithm": algorithm, **edits})
    for round_index in range(3):
        play_round(walk, round_index)
    return vectors_of(walk)


def largest_gap(one: Mapping[NodeId, Any], other: Mapping[NodeId, Any]) -> float:
    return max(float(np.abs(one[i][part] - other[i][part]).max()) for i in one for part in one[i])


@pytest.mark.parametrize("storage", ["factored", "dense"])
def test_with_whole_heads_of_one_size_it_is_head_averaging(storage: str) -> None:
    diffused = after_rounds("sheaf_diffusion", **{"sheaf.map_storage": storage})
    assert largest_gap(diffused, after_rounds("head_averaging")) < EXACT


@pytest.mark.parametrize("edits", [{"sheaf.compression": 0.5}, {"sheaf.diffusion": 0.5}], ids=str)
def test_with_less_than_that_it_is_not(edits: dict[str, float]) -> None:
    """The negative control."""
    assert largest_gap(after_rounds("sheaf_diffusion", **edits), after_rounds("head_averaging")) > DIFFERENT


def test_heads_of_several_sizes_are_averaged_where_they_mean_the_same() -> None:
    """Concatenation: weights of a modality with its owners, biases with everybody; coordinate by coordinate."""
    walk = scattered({**THREE_GROUPS, **NO_STEPS, "algorithm": "sheaf_diffusion", "model.fusion": "concat"})
    graph, models = walk.emulation.graph, {c.client_id: c.models["fused"] for c in walk.emulation.clients}
    names: dict[NodeId, list[tuple[Any, ...]]] = {}
    for i, model in models.items():
        columns = [(str(m), f) for m in model.modalities for f in range(4)]
        names[i] = [(c, *column) for c in range(8) for column in columns] + [(c, "bias") for c in range(8)]
    assert len({len(meant) for meant in names.values()}) == 2
    before = {i: dict(zip(names[i], parts["head"], strict=True)) for i, parts in vectors_of(walk).items()}
    play_round(walk)
    weights = mixing_matrix(graph, graph)
    n_lonely = 0
    for i, parts in vectors_of(walk).items():
        for name, found in zip(names[i], parts["head"], strict=True):
            sharers = [j for j in graph[i] if name in before[j]]
            expected = before[i][name] + sum(weights[i][j] * (before[j][name] - before[i][name]) for j in sharers)
            assert found == pytest.approx(expected, abs=EXACT)
            n_lonely += not sharers
            assert (abs(found - before[i][name]) > EXACT) == bool(sharers)
    assert sum(len(meant) for meant in names.values()) > 2 * n_lonely


@pytest.mark.parametrize("algorithm", ["sheaf_diffusion", "sheaf_dmfl_att"])
def test_heads_can_be_compared_among_clients_with_the_same_sensors_alone(algorithm: str) -> None:
    """Encoders go on as before; a client whose sensors no neighbor has keeps its head to itself."""
    edits = {**THREE_GROUPS, **NO_STEPS, "algorithm": algorithm, "sheaf.edges": "same_sensors"}
    walk = scattered(edits)
    groups = {client.client_id: client.group for client in walk.emulation.clients}
    sent = [
        message
        for phase in walk.emulation.learners[0].phases(0)
        for message in play_phase(walk, phase.name)
        if message.kind in (MessageKind.PROJECTION, MessageKind.REPROJECTION)
    ]
    compared = {(message.sender, message.receiver) for message in sent}
    graph = walk.emulation.graph
    assert compared == {(i, j) for i in graph for j in graph[i] if groups[i] == groups[j]}
    assert {"gps"} == {groups[i] for i in graph} - {groups[i] for i, _ in compared}  # one client is alone
    everywhere = scattered({**edits, "sheaf.edges": "all"})
    play_round(everywhere)
    of_all = vectors_of(everywhere)
    for i, parts in vectors_of(walk).items():
        for name, vector in parts.items():
            assert (np.abs(vector - of_all[i][name]).max() < EXACT) == (
                name != "head" or algorithm != "sheaf_diffusion"
            )


def test_among_clients_with_the_same_sensors_weights_are_of_their_own_graph() -> None:
    """Mean of the heads of each set of sensors stays, with Metropolis-Hastings weights along the edges inside."""
    walk = scattered({**THREE_GROUPS, **NO_STEPS, "algorithm": "sheaf_diffusion", "sheaf.edges": "same_sensors"})
    before = vectors_of(walk)
    play_round(walk)
    after = vectors_of(walk)
    n_moved = 0
    for group in {client.group for client in walk.emulation.clients}:
        members = [client.client_id for client in walk.emulation.clients if client.group == group]
        weights = mixing_matrix(walk.emulation.graph, members)
        for i in members:
            expected = sum(weight * before[j]["head"] for j, weight in weights[i].items())
            assert_allclose(after[i]["head"], expected, atol=EXACT)
            n_moved += bool(np.abs(after[i]["head"] - before[i]["head"]).max() > DIFFERENT)
    assert n_moved >= 4


# --- any graph and any maps -------------------------------------------------------------------------------------------


@dataclass
class Town:
    """Heads on a graph with fixed maps, stepping together."""

    graph: nx.Graph[NodeId]
    heads: Heads
    clients: dict[NodeId, HeadDiffusion]
    weights: dict[NodeId, dict[NodeId, float]]

    def step(self) -> None:
        messages: list[Message] = [m for client in self.clients.values() for m in client.messages("mix", 0)]
        for i, client in self.clients.items():
            client.absorb([message for message in messages if message.receiver == i])

    def energy(self) -> float:
        """Sum over edges of m_ij |P_ij w_i - P_ji w_j|^2: what a step is a gradient step of."""
        maps = {i: client.maps for i, client in self.clients.items()}
        return sum(
            self.weights[i][j]
            * float((maps[i].dense(j) @ self.heads[i] - maps[j].dense(i) @ self.heads[j]).square().sum())
            for i, j in self.graph.edges
        )


STARTS: dict[str, Any] = {"structured": structured_starts, "random": random_starts}


def town(graph: nx.Graph[NodeId], kind: str, rng: np.random.Generator, *, equal: bool = False, **sheaf: Any) -> Town:
    """Layouts of several sizes, outputs in several orders, heads of order 1."""
    settings = SheafSettings(map_start=kind, **sheaf)  # type: ignore[arg-type]  # a test's word
    n_all = 4
    blocks = [(("rf", 2),), (("gps", 3),), (("rf", 2), ("gps", 3))]
    outputs = {
        i: list(range(n_all)) if equal else rng.permutation(n_all)[: rng.integers(3, n_all + 1)].tolist() for i in graph
    }
    layouts = {i: HeadLayout(len(outputs[i]), blocks[2] if equal else blocks[rng.integers(3)]) for i in graph}
    starts: dict[NodeId, dict[NodeId, Tensor]] = {i: {} for i in graph}
    for i, j in graph.edges:
        if kind == "aligned":
            drawn = aligned_starts(layouts[i], layouts[j], outputs[i], outputs[j], settings.compression, rng)
        else:
            drawn = STARTS[kind](layouts[i], layouts[j], settings.compression, rng)
        starts[i][j], starts[j][i] = drawn
    weights = mixing_matrix(graph, graph)
    heads = {i: torch.from_numpy(rng.normal(size=layouts[i].dim)) for i in graph}
    nothing: Any = None
    models: dict[NodeId, Any] = {i: {"fused": SimpleNamespace(layout=layout)} for i, layout in layouts.items()}
    clients = {
        i: HeadDiffusion(
            ClientSetup(
                i, "", models[i], nothing, nothing, {}, nothing, settings,
                sheaf_mixing={j: weights[i][j] for j in graph[i]}, map_starts=starts[i],
            ),
            heads[i],
        )
        for i in graph
    }  # fmt: skip
    return Town(graph, heads, clients, weights)


@st.composite
def connected_graphs(draw: st.DrawFn) -> nx.Graph[NodeId]:
    """A random tree of 2 to 7 nodes with some more edges."""
    n = draw(st.integers(2, 7))
    graph: nx.Graph[NodeId] = nx.Graph([(draw(st.integers(0, i - 1)), i) for i in range(1, n)])
    graph.add_edges_from((i, j) for i in range(n) for j in range(i) if draw(st.booleans()))
    return graph


@given(
    graph=connected_graphs(),
    kind=st.sampled_from(["structured", "aligned"]),
    seed=st.integers(0, 1000),
    compression=st.floats(0.05, 1.0),
    diffusion=st.floats(0.05, 1.0),
)
def test_a_step_never_raises_the_energy(
    graph: nx.Graph[NodeId], kind: str, seed: int, compression: float, diffusion: float
) -> None:
    here = town(graph, kind, np.random.default_rng(seed), compression=compression, diffusion=diffusion)
    for _ in range(3):
        before = here.energy()
        here.step()
        assert here.energy() <= before * (1.0 + EXACT)


@given(graph=connected_graphs(), seed=st.integers(0, 1000))
def test_identity_maps_keep_the_mean_head(graph: nx.Graph[NodeId], seed: int) -> None:
    here = town(graph, "structured", np.random.default_rng(seed), equal=True)
    before, start = torch.stack(list(here.heads.values())).mean(dim=0), here.heads[0].clone()
    here.step()
    assert_allclose(torch.stack(list(here.heads.values())).mean(dim=0), before, atol=EXACT)
    assert float((here.heads[0] - start).abs().max()) > DIFFERENT


def test_along_random_maps_heads_would_diverge() -> None:
    """The negative control, and why a scenario cannot have them: such maps are longer than 1."""
    here = town(nx.complete_graph(6), "random", np.random.default_rng(0), equal=True)
    before = here.energy()
    for _ in range(100):
        here.step()
    assert here.energy() > 1e3 * before


def test_a_neighbor_that_is_not_heard_does_not_pull() -> None:
    here = town(nx.path_graph(3), "structured", np.random.default_rng(1), equal=True)
    before = {i: head.clone() for i, head in here.heads.items()}
    messages = {(m.sender, m.receiver): m for client in here.clients.values() for m in client.messages("mix", 0)}
    here.clients[1].absorb([messages[0, 1]])
    here.clients[2].absorb([])
    assert_allclose(here.heads[1], before[1] + here.weights[1][0] * (before[0] - before[1]), atol=EXACT)
    assert_array_equal(here.heads[2], before[2])


def test_coordinates_that_are_not_heard_do_not_pull() -> None:
    here = town(nx.path_graph(2), "structured", np.random.default_rng(1), equal=True)
    before = {i: head.clone() for i, head in here.heads.items()}
    messages = {m.sender: m for client in here.clients.values() for m in client.messages("mix", 0)}
    received = np.arange(len(messages[0].payload)) % 2 == 0
    payload = np.where(received, messages[0].payload, np.nan)
    here.clients[1].absorb([replace(messages[0], payload=payload, received=received)])
    whole_step = here.weights[1][0] * (before[0] - before[1])
    rows = here.clients[1].maps.rows[0]
    at = here.clients[1].maps.dense(0).argmax(dim=1)[torch.from_numpy(received)]
    assert rows.stop - rows.start == len(received)
    expected = before[1].clone()
    expected[at] += whole_step[at]
    assert_allclose(here.heads[1], expected, atol=EXACT)
    assert not torch.allclose(here.heads[1], before[1])

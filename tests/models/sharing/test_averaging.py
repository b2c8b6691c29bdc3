"""Averaging of heads, and of whole groups: what is averaged with whom, against dense matrices."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from doubles.hand_played import (
    NO_STEPS,
    Vectors,
    averaged,
    members,
    mixing_matrix,
    owners,
    play_phase,
    play_round,
    scattered,
    vectors_of,
)
from integration.tiny import Walk
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sheafedge.emulator.contracts import MessageKind, NodeId

EXACT = 1e-12  # float64, sums of a handful of terms of order 1
DIFFERENT = 1e-3  # the same numbers, and a mistake

THREE_GROUPS: dict[str, Any] = {
    "clients.n_clients": 6,
    "clients.groups": [
        {"name": "both", "modalities": ["rf", "gps"], "share": 0.5},
        {"name": "gps", "modalities": ["gps"], "share": 0.17},
        {"name": "rf", "modalities": ["rf"], "share": 0.33},
    ],
    "topology.edge_probability": 0.4,
}


def of(values: dict[NodeId, Vectors], part: str) -> dict[NodeId, NDArray[np.float64]]:
    return {i: parts[part] for i, parts in values.items() if part in parts}


def assert_mixed(
    before: dict[NodeId, Vectors], after: dict[NodeId, Vectors], part: str, walk: Walk, nodes: list[NodeId]
) -> None:
    expected = averaged(mixing_matrix(walk.emulation.graph, nodes), of(before, part))
    for i in nodes:
        assert_allclose(after[i][part], expected[i], atol=EXACT)
        assert np.abs(after[i][part] - before[i][part]).max() > DIFFERENT


def mean(values: dict[NodeId, NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.mean(list(values.values()), axis=0)


# --- heads ------------------------------------------------------------------------------------------------------------


def mixed_alone(algorithm: str, **edits: Any) -> tuple[Walk, dict[NodeId, Vectors], dict[NodeId, Vectors]]:
    """A round in which nobody learns."""
    walk = scattered({"algorithm": algorithm, **THREE_GROUPS, **NO_STEPS, **edits})
    before = vectors_of(walk)
    play_round(walk)
    return walk, before, vectors_of(walk)


def test_heads_are_averaged_over_the_whole_graph_and_encoders_inside_their_modality() -> None:
    walk, before, after = mixed_alone("head_averaging")
    assert_mixed(before, after, "head", walk, sorted(before))
    for modality in ("rf", "gps"):
        assert_mixed(before, after, modality, walk, owners(walk, modality))


def test_averaging_alone_leaves_the_mean_head_where_it_is() -> None:
    walk, before, after = mixed_alone("head_averaging")
    assert_allclose(mean(of(after, "head")), mean(of(before, "head")), atol=EXACT)
    graph = walk.emulation.graph
    plain = {i: dict.fromkeys([i, *graph[i]], 1.0 / (1 + graph.degree[i])) for i in before}
    drifted = mean(averaged(plain, of(before, "head"))) - mean(of(before, "head"))
    assert np.abs(drifted).max() > DIFFERENT  # the negative control: rows that sum to 1 are not enough


def test_attention_stays_personal() -> None:
    _, before, after = mixed_alone("head_averaging")
    for i, parts in before.items():
        assert_array_equal(after[i]["attention"], parts["attention"])


def test_local_steps_come_before_averaging() -> None:
    edits = {"algorithm": "head_averaging", **THREE_GROUPS}
    walk, alone = scattered(edits), scattered({**edits, "algorithm": "local"})
    play_round(walk)
    play_round(alone)
    expected = averaged(mixing_matrix(walk.emulation.graph, walk.emulation.graph), of(vectors_of(alone), "head"))
    for i, head in of(vectors_of(walk), "head").items():
        assert_allclose(head, expected[i], atol=EXACT)


@pytest.mark.parametrize("modality", ["rf", "gps"])
def test_unimodal_heads_are_averaged_inside_their_modality(modality: str) -> None:
    walk = scattered({"algorithm": "dsgd_heads", **THREE_GROUPS, **NO_STEPS})
    before = vectors_of(walk, modality)
    assert sorted(before) == owners(walk, modality) != sorted(walk.emulation.graph)
    sent = play_round(walk)
    after = vectors_of(walk, modality)
    assert_mixed(before, after, "head", walk, sorted(before))
    assert_mixed(before, after, modality, walk, sorted(before))
    assert {message.modality for message in sent if message.kind is MessageKind.HEAD} == {"rf", "gps"}


def test_dsgd_leaves_heads_at_home() -> None:
    """The negative control of the test above."""
    walk = scattered({"algorithm": "dsgd", **THREE_GROUPS, **NO_STEPS})
    before = vectors_of(walk, "gps")
    sent = play_round(walk)
    after = vectors_of(walk, "gps")
    assert all(np.array_equal(after[i]["head"], before[i]["head"]) for i in before)
    assert {message.kind for message in sent} == {MessageKind.ENCODER}


# --- groups -----------------------------------------------------------------------------------------------------------


def test_members_of_a_group_hold_the_mean_of_their_trained_models_after_its_phase() -> None:
    edits = {"algorithm": "group_averaging", **THREE_GROUPS}
    walk, alone = scattered(edits), scattered({**edits, "algorithm": "local"})
    play_round(alone)
    play_phase(walk, "group")
    trained, together = vectors_of(alone), vectors_of(walk)
    for group, clients in walk.emulation.groups.items():
        parts = trained[clients[0].client_id].keys() - ({"attention"} if group != "both" else set())
        for part in parts:  # a single modality is not weighed, and its scores never change
            expected = mean({i: trained[i][part] for i in members(walk, group)})
            for i in members(walk, group):
                assert_allclose(together[i][part], expected, atol=EXACT)
    gaps = [np.abs(trained[i]["head"] - together[i]["head"]).max() for i in members(walk, "both")]
    assert min(gaps) > DIFFERENT


def test_encoders_then_mix_along_the_graph_of_the_scenario_only() -> None:
    edits = {"algorithm": "group_averaging", **THREE_GROUPS, "topology.kind": "ring"}
    walk = scattered(edits)
    graph = scattered({**edits, "algorithm": "local"}).emulation.graph
    play_phase(walk, "group")
    before = vectors_of(walk)
    sent = play_phase(walk, "mix")
    after = vectors_of(walk)
    assert all(graph.has_edge(message.sender, message.receiver) for message in sent)
    assert {message.kind for message in sent} == {MessageKind.ENCODER}
    gaps = []
    for modality in ("rf", "gps"):
        nodes = owners(walk, modality)
        expected = averaged(mixing_matrix(graph, nodes), of(before, modality))
        linked = averaged(mixing_matrix(walk.emulation.graph, nodes), of(before, modality))
        for i in nodes:
            assert_allclose(after[i][modality], expected[i], atol=EXACT)
        gaps += [np.abs(expected[i] - linked[i]).max() for i in nodes]
    assert max(gaps) > DIFFERENT  # added links would show
    for i in before:
        assert_array_equal(after[i]["head"], before[i]["head"])
        assert_array_equal(after[i]["attention"], before[i]["attention"])


def test_links_are_added_inside_groups_only_and_all_of_them() -> None:
    edits = {"algorithm": "group_averaging", **THREE_GROUPS}
    walk = scattered(edits)
    graph = scattered({**edits, "algorithm": "local"}).emulation.graph
    inside = {frozenset(pair) for group in walk.emulation.groups for pair in combinations(members(walk, group), 2)}
    assert {frozenset(e) for e in walk.emulation.graph.edges} == {frozenset(e) for e in graph.edges} | inside
    assert inside - {frozenset(e) for e in graph.edges}
    for message in play_phase(walk, "group"):
        assert frozenset((message.sender, message.receiver)) in inside

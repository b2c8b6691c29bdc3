"""The vote on signs: neighbors agree with their evidence, groups turn as a whole, and who cannot tell knows it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.sharing.sign_vote import STEPS, SignVote, Step

Edge = tuple[int, int]


def votes_on(evidence: Mapping[Edge, float], lost: frozenset[tuple[int, Edge]] = frozenset()) -> list[SignVote]:
    """All votes after the last step.

    Args:
        evidence: edge -> its evidence, the same at both ends.
        lost: (number of the step, (sender, receiver)) of messages that do not arrive.
    """
    n_clients = 1 + max(max(edge) for edge in evidence)
    votes = [SignVote(client, needs_to_listen=False) for client in range(n_clients)]
    for (one, other), weight in evidence.items():
        votes[one].weights[other] = votes[other].weights[one] = weight
    for number, step in enumerate(STEPS):
        said = [vote.say(step) for vote in votes]
        for me, vote in enumerate(votes):
            vote.hear(step, {j: said[j] for j in vote.weights if (number, (j, me)) not in lost})
    return votes


def disagreements(evidence: Mapping[Edge, float], votes: list[SignVote]) -> list[Edge]:
    return [(i, j) for (i, j), weight in evidence.items() if weight * votes[i].sign * votes[j].sign < 0.0]


def consistent(graph: nx.Graph[int], seed: int) -> dict[Edge, float]:
    """Evidence of clients with a sign each, of any strength."""
    draws = np.random.default_rng(seed)
    signs = draws.choice([-1.0, 1.0], size=len(graph))
    return {(i, j): float(signs[i] * signs[j] * draws.uniform(0.1, 5.0)) for i, j in graph.edges}


@settings(max_examples=30, deadline=None)
@given(n_clients=st.integers(2, 12), seed=st.integers(0, 10_000))
def test_consistent_evidence_is_agreed_with_on_every_edge(n_clients: int, seed: int) -> None:
    tree = nx.random_labeled_tree(n_clients, seed=seed)
    graph = nx.compose(tree, nx.gnp_random_graph(n_clients, 0.2, seed=seed))
    evidence = consistent(graph, seed)
    assert disagreements(evidence, votes_on(evidence)) == []


def test_two_camps_that_one_edge_joins_become_one() -> None:
    """Members of a camp agree among themselves: no single flip helps, all five have to turn."""
    camps = nx.disjoint_union(nx.complete_graph(5), nx.complete_graph(5))
    evidence = dict.fromkeys(camps.edges, 3.0) | {(4, 5): -0.5}
    votes = votes_on(evidence)
    assert [vote.sign for vote in votes] == [1.0] * 5 + [-1.0] * 5


def test_a_client_that_the_first_signs_put_wrong_flips() -> None:
    """Weak evidence comes first along the graph, strong evidence later: the sum of both decides."""
    # 3 is next to the source by a wrong edge, and tied to 1 and 2 by right ones
    evidence = {(0, 1): 5.0, (1, 2): 5.0, (0, 3): -1.0, (1, 3): 2.0, (2, 3): 2.0}
    assert [vote.sign for vote in votes_on(evidence)] == [1.0] * 4


def test_who_gets_little_evidence_listens_and_its_neighbors_know() -> None:
    evidence = {(0, 1): 40.0, (1, 2): 50.0, (0, 2): 45.0, (2, 3): 0.4, (1, 3): -0.2}
    votes = votes_on(evidence)
    assert [vote.listens for vote in votes] == [False, False, False, True]
    assert [sorted(vote.listeners) for vote in votes] == [[], [3], [3], []]
    assert votes[3].margin == pytest.approx(2.0 * 0.2)
    assert votes[0].margin == pytest.approx(2.0 * 85.0)


def test_whoever_has_to_listen_does_so_with_any_margin() -> None:
    vote = SignVote(0, needs_to_listen=True)
    assert vote.say(Step.ANNOUNCE).value == 1.0
    assert SignVote(0, needs_to_listen=False).say(Step.ANNOUNCE).value == 0.0


def test_without_any_evidence_everybody_listens() -> None:
    assert all(vote.listens for vote in votes_on({(0, 1): 0.0, (1, 2): 0.0}))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_lost_messages_leave_neighbors_out_and_stop_nobody(seed: int) -> None:
    evidence = consistent(nx.connected_watts_strogatz_graph(8, 4, 0.3, seed=seed), seed)
    draws = np.random.default_rng(seed)
    ends = [*evidence, *((j, i) for i, j in evidence)]
    lost = frozenset((k, edge) for k in range(len(STEPS)) for edge in ends if draws.random() < 0.2)
    votes = votes_on(evidence, lost)
    assert disagreements(evidence, votes) == []


def test_signs_reach_twelve_edges_far_and_no_farther() -> None:
    """The bound of the steps, and what is beyond it."""
    line = {(i, i + 1): -1.0 for i in range(13)}
    votes = votes_on(line)
    assert [vote.sign for vote in votes[:13]] == [(-1.0) ** i for i in range(13)]
    assert disagreements({(i, i + 1): -1.0 for i in range(12)}, votes) == []


def test_a_vote_goes_on_from_any_step() -> None:
    evidence = {(0, 1): -2.0, (1, 2): 1.0, (0, 2): 0.5}
    wanted, votes = votes_on(evidence), [SignVote(client, needs_to_listen=False) for client in range(3)]
    for (one, other), weight in evidence.items():
        votes[one].weights[other] = votes[other].weights[one] = weight
    for step in STEPS:
        said = [vote.say(step) for vote in votes]
        for vote in votes:
            vote.hear(step, {j: said[j] for j in vote.weights})
        states = [json.loads(json.dumps(vote.state())) for vote in votes]
        votes = [SignVote(client, needs_to_listen=False) for client in range(3)]
        for vote, state in zip(votes, states, strict=True):
            vote.restore(SavedState(state))
    assert [vote.state() for vote in votes] == [vote.state() for vote in wanted]

"""Maps that are drawn anew every round: both ends agree without a word, and in time everything is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from integration.tiny import Walk, tiny, walk, wired
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.edge_maps import EdgeMaps
from torch import Tensor

#: Heads that nothing but their neighbors moves.
ONLY_COUPLED: dict[str, Any] = {
    "algorithm": "sheaf_diffusion",
    "model.head_start": "independent",
    "training.head_step_size": 0.0,
    "sheaf.compression": 0.3,
    "rounds": 30,
}
ROTATED: dict[str, Any] = {"sheaf.rotate_index": True, "sheaf.map_step_size": 0.0}
PARTLY = 0.3  # share of its first size below which disagreement cannot fall while most coordinates are left alone


def maps_of(scenario: Scenario, clients: Sequence[Client]) -> EdgeMaps:
    return EdgeMaps(scenario.sheaf, scenario.seed, clients, whole_models=False)


def edges_of(walked: Walk) -> list[tuple[int, int]]:
    return sorted(walked.emulation.graph.edges)


@pytest.mark.parametrize("map_start", ["structured", "aligned"])
def test_both_ends_of_an_edge_draw_the_same_rows_in_every_round(map_start: str) -> None:
    scenario = tiny({**ROTATED, "sheaf.map_start": map_start})
    emulation = wired(scenario).emulation
    maps = maps_of(scenario, emulation.clients)
    for a, b in emulation.graph.edges:
        drawn = [maps.of_edge(a, b, round_index) for round_index in range(6)]
        for round_index, (first, second) in enumerate(drawn):
            back, forth = maps.of_edge(b, a, round_index)
            assert torch.equal(first, forth)
            assert torch.equal(second, back)
            assert torch.equal(first, second)  # equal heads: the same coordinates
            assert len(first) == len(drawn[0][0])
        assert not any(torch.equal(drawn[0][0], later[0]) for later in drawn[1:])


def test_the_first_round_draws_what_it_always_drew() -> None:
    emulation = wired(tiny()).emulation
    both = (tiny(edits) for edits in ({}, ROTATED))
    still, rotated = (maps_of(one, emulation.clients).of_graph(emulation.graph) for one in both)
    for client, starts in still.items():
        assert all(torch.equal(start, rotated[client][peer]) for peer, start in starts.items())


@pytest.mark.parametrize("storage", ["factored", "dense"])
@pytest.mark.parametrize("algorithm", ["sheaf_dmfl_att", "sheaf_diffusion"])
def test_a_round_projects_with_the_maps_of_its_own(algorithm: str, storage: str) -> None:
    scenario = tiny({**ROTATED, "algorithm": algorithm, "sheaf.map_storage": storage})
    emulation = wired(scenario).emulation
    learner = emulation.learners[0]
    phase = learner.phases(0)[0].name
    for round_index in range(3):
        before = emulation.clients[0].models["fused"].head.detach().clone()
        messages = [m for m in learner.compute(phase, round_index) if m.kind == "projection"]
        after = emulation.clients[0].models["fused"].head.detach()
        seen = before if algorithm == "sheaf_dmfl_att" else after  # diffusion trains first
        assert messages
        for message in messages:
            rows, _ = maps_of(scenario, emulation.clients).of_edge(0, message.receiver, round_index)
            assert torch.equal(torch.from_numpy(message.payload), seen[rows])
        learner.absorb(phase, round_index, ())


def test_a_head_is_pulled_through_the_maps_that_its_neighbors_used() -> None:
    scenario = tiny({**ROTATED, "algorithm": "sheaf_dmfl_att", "model.head_start": "independent"})
    emulation = wired(scenario).emulation
    heads = {client.client_id: client.models["fused"].head.detach().clone() for client in emulation.clients}
    round_index = 4
    sent = [message for learner in emulation.learners for message in learner.compute("project", round_index)]
    for learner in emulation.learners:
        me: Any = learner
        me.absorb("project", round_index, [message for message in sent if message.receiver == me.client_id])
        wanted = torch.zeros_like(heads[me.client_id])
        for peer in emulation.graph[me.client_id]:
            own, its = maps_of(scenario, emulation.clients).of_edge(me.client_id, peer, round_index)
            wanted[own] += heads[me.client_id][own] - heads[peer][its]
        torch.testing.assert_close(me.parts["coupling"].pull(heads[me.client_id]), wanted)


def disagreement(walked: Walk) -> Tensor:
    """Squared difference of neighboring heads after the last round, coordinate by coordinate, over all edges."""
    last = walked.states[-1]
    return torch.stack([(last[a]["head"] - last[b]["head"]).square() for a, b in edges_of(walked)]).sum(dim=0)


def test_in_time_a_rotating_index_brings_whole_heads_together_and_a_fixed_one_does_not() -> None:
    start = disagreement(walk(tiny({**ONLY_COUPLED, "algorithm": "local", "rounds": 1})))
    rotated = disagreement(walk(tiny({**ONLY_COUPLED, **ROTATED})))
    fixed = disagreement(walk(tiny(ONLY_COUPLED)))
    assert float(rotated.sum() / start.sum()) < 0.1 * PARTLY
    assert float(fixed.sum() / start.sum()) > PARTLY


# --- what does not go together --------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "random maps": ({"sheaf.map_start": "random"}, r"use 'structured' or 'aligned'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_rotating_index_needs_rows_of_the_identity_and_fresh_projections(case: str) -> None:
    edits, remedy = REFUSED[case]
    with pytest.raises(ConfigError, match=rf"sheaf\.rotate_index .*{remedy}") as caught:
        load_scenario("beam_tracking").edited({**ROTATED, **edits})
    assert "\n" not in str(caught.value)

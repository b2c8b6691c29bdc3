"""`topology.kind = "mobile"`: neighbors and weights of every round, and what learners make of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from integration.played import digest
from integration.tiny import tiny, walk, wired
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError, MessageKind, NodeId
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.sharing.gossip import metropolis_hastings_weights
from sheafedge.scenarios.running.emulation_state import emulation_state, restore_emulation
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate
from sheafedge.scenarios.wiring.mixing import MixingWeights, MovingNeighbors

#: Across the area within a few of the tiny scenario's rounds, so that edges come and go.
MOVING = {
    "topology.kind": "mobile",
    "mobility.area_m": [100.0, 100.0],
    "mobility.range_m": 50.0,
    "mobility.speed_m_per_s": 500.0,
    "mobility.memory_s": 0.1,
    "mobility.step_s": 0.01,
    "rounds": 8,
    "clients.n_clients": 8,
}
OFF = {"faults": [{"kind": "node_off", "nodes": [0, 3, 5], "mean_up_s": 0.05, "mean_down_s": 0.03}]}
ROUNDING = 1e-12
INSTANTS_S = np.linspace(0.0, 2.0, 40).tolist()


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[tuple[NodeId, float, frozenset[NodeId], MixingWeights]]:
    """What every client was told when a round began."""
    told: list[tuple[NodeId, float, frozenset[NodeId], MixingWeights]] = []
    begin_round = MovingNeighbors.begin_round

    def watched(self: MovingNeighbors, client: NodeId, now_s: float) -> frozenset[NodeId]:
        neighbors = begin_round(self, client, now_s)
        mine = self.weights[client]
        copy = MixingWeights(
            {modality: dict(weights) for modality, weights in mine.encoders.items()},
            dict(mine.everything),
            dict(mine.sheaf),
            dict(mine.group),
        )
        told.append((client, now_s, neighbors, copy))
        return neighbors

    monkeypatch.setattr(MovingNeighbors, "begin_round", watched)
    return told


def matrix(weights: Mapping[NodeId, Mapping[NodeId, float]], n: int) -> np.ndarray:
    """[n, n] with what a client keeps on the diagonal."""
    mixing = np.zeros((n, n))
    for client, of_client in weights.items():
        for neighbor, weight in of_client.items():
            mixing[client, neighbor] = weight
        mixing[client, client] = 1.0 - sum(of_client.values())
    return mixing


def rounds_of(told: list[Any]) -> list[dict[NodeId, tuple[frozenset[NodeId], MixingWeights]]]:
    by_instant: dict[float, dict[NodeId, Any]] = {}
    for client, now_s, neighbors, weights in told:
        by_instant.setdefault(now_s, {})[client] = (neighbors, weights)
    return list(by_instant.values())


@pytest.mark.parametrize(("faults", "edges"), [({}, "all"), (OFF, "same_sensors")])
def test_mixing_stays_doubly_stochastic_while_edges_come_and_go(
    faults: dict[str, Any], edges: str, met: list[Any]
) -> None:
    """In every round and every modality: rows and columns sum to 1, and the weights are those of the round's graph."""
    walked = walk(tiny({**MOVING, **faults, "sheaf.edges": edges}))
    rounds = rounds_of(met)
    assert len(rounds) == 8
    graphs = set()
    for of_round in rounds:
        assert len(of_round) == 8
        adjacency = np.zeros((8, 8), dtype=bool)
        for client, (neighbors, _) in of_round.items():
            adjacency[client, list(neighbors)] = True
        graphs.add(adjacency.tobytes())
        everything = matrix({client: weights.everything for client, (_, weights) in of_round.items()}, 8)
        assert_allclose(everything, metropolis_hastings_weights(adjacency), atol=ROUNDING)
        owned = [frozenset(of_round[client][1].encoders) for client in range(8)]
        alike = np.array([[one == other for other in owned] for one in owned])
        compared = matrix({client: weights.sheaf for client, (_, weights) in of_round.items()}, 8)
        assert_allclose(compared, metropolis_hastings_weights(adjacency & (alike | (edges == "all"))), atol=ROUNDING)
        for modality in ("gps", "rf"):
            owners = {
                c: weights.encoders[modality] for c, (_, weights) in of_round.items() if modality in weights.encoders
            }
            mixing = matrix(owners, 8)[np.ix_(sorted(owners), sorted(owners))]
            assert_allclose(mixing, mixing.T, atol=ROUNDING)
            assert_allclose(mixing.sum(axis=0), 1.0, atol=ROUNDING)
            assert_allclose(mixing.sum(axis=1), 1.0, atol=ROUNDING)
            assert (mixing >= -ROUNDING).all()
            assert_allclose(
                mixing, metropolis_hastings_weights(adjacency[np.ix_(sorted(owners), sorted(owners))]), atol=ROUNDING
            )
    assert len(graphs) > 1  # or nothing would have moved
    assert (walked.emulation.recorder.traffic.dropped_by_faults > 0) == bool(faults)


def test_a_node_that_is_off_when_a_round_begins_has_no_neighbors_in_it(met: list[Any]) -> None:
    walk(tiny({**MOVING, "faults": [{"kind": "node_off", "nodes": [2], "at_s": 0.0, "for_s": 9.0}]}))
    for of_round in rounds_of(met):
        neighbors, weights = of_round[2]
        assert neighbors == frozenset()
        assert set(weights.everything.values()) == {0.0}
        assert all(2 not in others for others, _ in of_round.values())


def test_encoders_keep_their_mean_while_neighbors_change() -> None:
    """Lemma 1 from round to round: with steps of size nothing, gossip moves clients together and not their mean."""
    still = {"training.encoder_optimizer": "sgd", "training.encoder_step_size": 1e-300, "algorithm": "dsgd"}
    emulation = wired(tiny({**MOVING, **still}), dtype=torch.float64).emulation
    try:
        encoders = [client.models["rf"].encoders["rf"] for client in emulation.clients if "rf" in client.modalities]
        draws = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in (parameter for encoder in encoders for parameter in encoder.parameters()):
                parameter.normal_(generator=draws)  # in place: whoever averages them holds views
        before = torch.stack([torch.cat([one.detach().ravel() for one in e.parameters()]) for e in encoders])
        emulate(emulation, 8)
        after = torch.stack([torch.cat([one.detach().ravel() for one in e.parameters()]) for e in encoders])
    finally:
        emulation.close()
    assert_allclose(after.mean(dim=0), before.mean(dim=0), atol=ROUNDING)
    assert after.var(dim=0).mean() < 0.9 * before.var(dim=0).mean()


def test_messages_go_to_the_neighbors_of_the_round_and_to_nobody_else(met: list[Any]) -> None:
    walked = walk(tiny({**MOVING, "algorithm": "sheaf_diffusion"}))
    projections = walked.emulation.recorder.traffic.by_kind[MessageKind.PROJECTION].messages
    assert projections == sum(len(neighbors) for _, _, neighbors, _ in met)
    assert 0 < projections < 8 * 8 * 7


@pytest.mark.parametrize("algorithm", ["sheaf_dmfl_att", "sheaf_diffusion", "dmml_kd"])
def test_whoever_is_always_in_range_of_all_learns_as_on_a_complete_graph(algorithm: str) -> None:
    everywhere = {**MOVING, "mobility.range_m": 1e4, "algorithm": algorithm, "rounds": 3}
    moving, complete = walk(tiny(everywhere)), walk(tiny({**everywhere, "topology.kind": "complete"}))
    for of_round, as_usual in zip(moving.states, complete.states, strict=True):
        assert {client: digest(state) for client, state in of_round.items()} == {
            client: digest(state) for client, state in as_usual.items()
        }
    near = walk(tiny({**everywhere, "mobility.range_m": 50.0}))
    assert digest(near.states[-1][0]) != digest(complete.states[-1][0])


@pytest.mark.parametrize(
    "algorithm", ["sheaf_dmfl_att", pytest.param("diffused_and_tuned", marks=pytest.mark.slow), "dpsgd"]
)
def test_every_transport_and_pool_gives_the_same_run(algorithm: str) -> None:
    memory = walk(tiny({**MOVING, **OFF, "algorithm": algorithm}))
    zmq = walk(
        tiny({**MOVING, **OFF, "algorithm": algorithm, "network.transport": "zmq", "compute.executor": "threads"})
    )
    assert memory.trace_hash == zmq.trace_hash
    assert memory.trace_hash != walk(tiny({**MOVING, **OFF, "algorithm": algorithm, "seed": 1})).trace_hash


def test_a_run_on_the_move_goes_on_from_a_checkpoint_as_if_it_had_never_stopped() -> None:
    scenario = tiny({**MOVING, **OFF, "algorithm": "sheaf_diffusion"})
    data = load_data(scenario).clients

    def built(start_s: float | None = None) -> Emulation:
        return build(scenario, data, lambda learner, _: learner.health(), lambda *_: None, start_s=start_s)

    whole, first = built(), built()
    emulate(whole, 8)
    emulate(first, 3)
    state = emulation_state(first)
    second = built(state["clock"]["now_s"])
    restore_emulation(second, SavedState(state), 3)
    emulate(second, 8, 3)
    assert second.recorder.trace_hash == whole.recorder.trace_hash


# --- what makes no sense ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["mobility.range_m", "mobility.memory_s", "mobility.step_s"])
def test_a_way_to_move_that_cannot_be_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        tiny({**MOVING, field: 0.0})

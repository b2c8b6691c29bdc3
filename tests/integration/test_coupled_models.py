"""Sheaf-FMTL and dFedU on the emulator against their references, and what they send."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from integration.cases import GROUPS
from integration.coupled import (
    SAME,
    gap_between,
    largest_gap,
    networks,
    of_one_input,
    played,
    reference_of,
    vector_of,
    with_maps,
)
from integration.tiny import tiny, wired
from reference.sheaf_fmtl import run_dfedu, run_sheaf_fmtl
from sheafedge.emulator.contracts import Message
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.model_layout import model_layout
from sheafedge.models.settings import SheafSettings

STARTS: list[dict[str, Any]] = [
    {"map_start": "random", "map_scale": 1.0, "coupling": 0.01},
    {"map_start": "random", "map_storage": "dense"},
    {"map_start": "hadamard"},
    {"map_start": "hadamard", "map_scale": 0.5},
    {"map_start": "hadamard", "map_share": "edge"},
    {"map_start": "hadamard", "exchange": "single"},
    {"map_start": "random", "map_share": "edge"},
    {"map_start": "uniform", "map_share": "edge"},
    {"map_start": "orthonormal"},
    {"map_start": "identity_noise"},
    {"map_start": "structured"},
    {"map_start": "structured", "exchange": "single"},
    {"map_start": "random", "map_step_size": 0.0},
]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: " ".join(map(str, start.values())))
@pytest.mark.parametrize("steps", [1, 2])
def test_networks_of_three_sizes_walk_the_reference(start: dict[str, Any], steps: int) -> None:
    sheaf = SheafSettings(
        **{"coupling": 0.2, "compression": 0.2, "map_step_size": 0.05, "clamp_map_step": False, **start}
    )
    setups = with_maps(networks(local_steps=steps, weight_decay=0.02), sheaf)
    assert len({len(vector_of(setup.models["fused"])) for setup in setups.values()}) == len(GROUPS)
    expected = run_sheaf_fmtl(reference_of(setups))
    alone = run_sheaf_fmtl(reference_of(setups, coupling=0.0))[-1].models
    held = run_sheaf_fmtl(reference_of(setups, eta=0.0))[-1].models
    found = played("sheaf_fmtl", setups, missing="wait")
    assert largest_gap(found, [state.models for state in expected]) < SAME
    # neither the pull nor the steps of the maps are too small to be seen
    assert max(float((expected[-1].models[i] - alone[i]).abs().max()) for i in alone) > 1e6 * SAME
    assert (
        sheaf.map_step_size == 0.0
        or max(float((expected[-1].models[i] - held[i]).abs().max()) for i in held) > 1e4 * SAME
    )


def test_one_vector_per_round_gives_the_same_models_as_two_with_the_clamp_too() -> None:
    sheaf = SheafSettings(coupling=0.2, compression=0.2, map_step_size=50.0, map_start="hadamard")
    double = played("sheaf_fmtl", with_maps(networks(), sheaf))
    single = played("sheaf_fmtl", with_maps(networks(), replace(sheaf, exchange="single")), missing="wait")
    assert gap_between(single, double) < SAME


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
def test_dfedu_walks_the_reference(steps: int, network: bool) -> None:
    setups = of_one_input(network=network, model_step_size=0.3, weight_decay=0.05, local_steps=steps)
    problem = reference_of(setups)
    expected = run_dfedu(problem)
    assert largest_gap(played("dfedu", setups), [state.models for state in expected]) < SAME
    alone = run_dfedu(replace(problem, coupling=0.0))
    assert max(float((expected[-1].models[i] - alone[-1].models[i]).abs().max()) for i in setups) > 1e6 * SAME


@pytest.mark.parametrize("algorithm", ["sheaf_fmtl", "dfedu"])
def test_what_was_sent_does_not_change_with_the_model_of_its_sender(algorithm: str) -> None:
    """Else neighbors that compute later would see the next model, as sums in place of one shared array do."""
    setups = of_one_input(model_step_size=0.3)
    sheaf = SheafSettings(coupling=0.3, map_start="structured", map_step_size=0.1)
    first, *_ = ALGORITHMS[algorithm].learners(list(with_maps(setups, sheaf).values()))
    before = vector_of(setups[0].models["fused"])
    send, train, *_ = (phase.name for phase in first.phases(0))
    sent = first.compute(send, 0)
    payloads = [message.payload.copy() for message in sent]
    first.absorb(send, 0, [])
    first.compute(train, 0)
    assert not torch.equal(vector_of(setups[0].models["fused"]), before)
    assert all((message.payload == payload).all() for message, payload in zip(sent, payloads, strict=True))


def test_the_control_decays_weights_as_the_coupling_does_in_the_mean_and_sends_nothing() -> None:
    decay = {i: 0.1 * (i + 1) for i in range(4)}
    setups = {i: replace(setup, sheaf_decay=decay[i]) for i, setup in of_one_input(weight_decay="as_sheaf").items()}
    control = played("sheaf_fmtl", setups)
    assert control.recorder.traffic.messages == 0
    for i in range(4):
        alone = {
            j: replace(s, sheaf=SheafSettings(coupling=0.0)) for j, s in of_one_input(weight_decay=decay[i]).items()
        }
        wanted = played("sheaf_fmtl", alone)
        assert torch.equal(control.states[-1][i]["model"], wanted.states[-1][i]["model"])


BYTES: dict[str, dict[str, Any]] = {
    "two vectors": {"sheaf.clamp_map_step": False},
    "two vectors, clamped": {},
    "one vector": {"sheaf.exchange": "single", "network.missing": "wait"},
    "frozen": {"sheaf.map_step_size": 0.0},
    "models": {"algorithm": "dfedu"},
}


@pytest.mark.parametrize("name", BYTES)
def test_payloads_of_every_round_are_those_of_the_formulas(name: str) -> None:
    """Section 2.4: sum over directed edges of d_ij once or twice, of d_j; and one more float where norms travel."""
    scenario = tiny({"algorithm": "sheaf_fmtl", "sheaf.compression": 0.1, "sheaf.map_start": "hadamard", **BYTES[name]})
    emulation = wired(scenario).emulation
    dims = {client.client_id: model_layout(client.models["fused"]).dim for client in emulation.clients}
    groups = {client.client_id: client.group for client in emulation.clients}
    ends = [end for i, j in emulation.graph.edges for end in ((i, j), (j, i))]
    of_models = sum(dims[i] for i, j in ends if groups[i] == groups[j])
    stalks = sum(max(1, int(0.1 * min(dims[i], dims[j]))) for i, j in ends)
    floats = {
        "two vectors": (2 * stalks, 2 * stalks),
        "two vectors, clamped": (2 * stalks + len(ends), 2 * stalks + len(ends)),
        "one vector": (2 * stalks + len(ends), stalks + len(ends)),  # the first round needs the first projections
        "frozen": (stalks, stalks),
        "models": (of_models, of_models),
    }[name]
    for round_index, expected in enumerate(floats):
        sent: list[Message] = []
        for phase in emulation.learners[0].phases(round_index):
            now = [message for learner in emulation.learners for message in learner.compute(phase.name, round_index)]
            for learner in emulation.learners:
                mine = [message for message in now if message.receiver == learner.client_id]
                assert {message.slot for message in mine} == learner.expected(phase.name, round_index)
                learner.absorb(phase.name, round_index, mine)
            sent += now
        assert sum(message.payload.nbytes for message in sent) == 4 * expected

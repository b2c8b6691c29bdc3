"""All rows in one place: one model for those who can share it, one mean gradient, and no message."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from doubles.hand_played import play_round, scattered
from integration.tiny import tiny, walk, wired
from sheafedge.datasets.windows.samples import Samples
from sheafedge.emulator.random_streams import named_stream
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import build, emulate
from torch import Tensor
from torch.nn import functional

EXACT = 1e-12  # float64, sums of a handful of terms of order 1
DIFFERENT = 1e-4  # the same numbers, and a mistake

ONE_STEP: dict[str, Any] = {"algorithm": "centralized", "training.local_steps": 1}

THREE_GROUPS: dict[str, Any] = {
    "clients.n_clients": 6,
    "clients.groups": [
        {"name": "both", "modalities": ["rf", "gps"], "share": 0.5},
        {"name": "gps", "modalities": ["gps"], "share": 0.17},
        {"name": "rf", "modalities": ["rf"], "share": 0.33},
    ],
}


def test_owners_of_a_modality_share_its_encoder_and_members_of_a_group_their_head() -> None:
    clients = scattered({**ONE_STEP, **THREE_GROUPS}).emulation.clients
    encoders = {(m, id(client.models["fused"].encoders[m])) for client in clients for m in client.modalities}
    assert sorted(m for m, _ in encoders) == ["gps", "rf"]
    for part in ("head", "fusion"):
        parts = {(client.group, id(getattr(client.models["fused"], part))) for client in clients}
        assert sorted(group for group, _ in parts) == ["both", "gps", "rf"]
    normalizers = {id(client.models["fused"].normalizers) for client in clients}
    assert len(normalizers) == len(clients)  # what a client sees stays normalized by its own rows


def first_loss(client: Client, model: Any, seed: int = 0) -> Tensor:
    """Of the client's first minibatch."""
    rows = client.data.train
    order = named_stream(seed, "batches", client.client_id, "fused").permutation(len(rows))[:16]
    return functional.cross_entropy(model(model.tensors(rows.inputs(order))), torch.from_numpy(rows.label[order]))


def gradients_of(parameters: list[Any], losses: list[Tensor]) -> list[Tensor]:
    """Mean over these losses."""
    found = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
    return [torch.stack(of_one).mean(dim=0) for of_one in zip(*found, strict=True)]


@pytest.mark.parametrize(("all_share", "is_right"), [(False, True), (True, False)])
def test_a_step_follows_the_mean_gradient_of_those_who_share(all_share: bool, is_right: bool) -> None:
    """`all_share` divides by the number of all clients instead: the negative control."""
    here = scattered({**ONE_STEP, **THREE_GROUPS})
    clients = here.emulation.clients
    models = deepcopy({client.client_id: client.models["fused"] for client in clients})  # shares what these share
    losses = {client.client_id: first_loss(client, models[client.client_id]) for client in clients}
    play_round(here)
    gaps = []
    for client in clients:
        before, after = models[client.client_id], client.models["fused"]
        group = [c.client_id for c in clients if c.group == client.group]
        shared: list[tuple[Any, Any, list[int], float]] = [(before.head, after.head, group, 0.1)]
        pairs = zip(before.fusion.parameters(), after.fusion.parameters(), strict=True)
        shared += [(old, new, group, 0.3) for old, new in pairs]
        for m in client.modalities:
            owners = [c.client_id for c in clients if m in c.modalities]
            pairs = zip(before.encoders[m].parameters(), after.encoders[m].parameters(), strict=True)
            shared += [(old, new, owners, 0.05) for old, new in pairs]
        for old, new, sharers, step in shared:
            (gradient,) = gradients_of([old], [losses[i] for i in sharers])
            part = len(sharers) / len(clients) if all_share else 1.0
            gaps.append(float((new - (old - step * part * gradient)).abs().max().detach()))
    assert (max(gaps) < EXACT) == is_right
    assert is_right or max(gaps) > DIFFERENT


def test_nothing_is_ever_sent() -> None:
    here = scattered(ONE_STEP)
    assert [message for round_index in range(3) for message in play_round(here, round_index)] == []
    traffic = walk(tiny(ONE_STEP)).emulation.recorder.traffic
    assert traffic.messages == traffic.bytes == 0


def test_one_machine_does_the_work_of_all() -> None:
    pooled, alone = (wired(tiny({**THREE_GROUPS, "algorithm": name})) for name in ("centralized", "local"))
    costs = [sum(phase.flops for phase in learner.phases(0)) for learner in pooled.emulation.learners]
    assert costs[1:] == [0.0] * 5
    assert costs[0] == sum(phase.flops for learner in alone.emulation.learners for phase in learner.phases(0))


# --- threads ----------------------------------------------------------------------------------------------------------


def blockage(executor: str) -> Scenario:
    edits = {
        "algorithm": "centralized",
        "rounds": 3,
        "world.n_sites": 2,
        "world.duration_s": 30,
        "clients.n_clients": 4,
        "topology.kind": "complete",
        "model.width": 0.125,
        "model.embedding_dim": 8,
        "training.local_steps": 1,
        "training.batch_size": 4,
        "network.transport": "memory",
        "compute.device": "cpu",
        "compute.executor": executor,
        "compute.threads": 4,
    }
    return load_scenario("blockage").edited(edits)


def scored(executor: str) -> list[Any]:
    """What every member answers on held-out rows at the end of every round, asked in the pool."""
    scenario = blockage(executor)
    data = load_data(scenario).clients
    seen: list[Any] = []

    def observe(learner: Any, round_index: int) -> dict[str, float]:
        test: Samples = data[learner.client_id].test
        answer = learner.predict(test.inputs())["fused"]
        return {"sum": float(np.asarray(answer, dtype=np.float64).sum())}

    emulation = build(scenario, data, observe, lambda *row: seen.append(row))
    try:
        emulate(emulation, scenario.rounds)
    finally:
        emulation.close()
    return seen


def test_members_that_are_asked_at_once_answer_as_one_by_one() -> None:
    """They share modules: nobody may train them, or wake their dropout, while another one is asked."""
    assert scored("threads") == scored("serial")


def test_between_rounds_shared_modules_are_at_rest_whoever_is_asked() -> None:
    here = wired(tiny(ONE_STEP))
    clients, learners = here.emulation.clients, here.emulation.learners
    for round_index in range(2):
        for client, learner in zip(clients, learners, strict=True):
            assert not any(module.training for module in client.models["fused"].modules())
            learner.predict(client.data.test.inputs())
        play_round(here, round_index)
    assert not any(module.training for client in clients for module in client.models["fused"].modules())


def test_the_model_moves_only_after_a_phase_that_ends_when_all_were_asked() -> None:
    here = wired(tiny(ONE_STEP))
    learners, test = here.emulation.learners, here.emulation.clients[1].data.test.inputs()
    first, *others = [phase.name for phase in learners[0].phases(0)]
    ask = partial(learners[1].predict, test)
    before = ask()["fused"]
    learners[0].compute(first, 0)
    assert np.array_equal(ask()["fused"], before)
    for phase in others:
        learners[0].compute(phase, 0)
    assert not np.array_equal(ask()["fused"], before)

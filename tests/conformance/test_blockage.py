"""Every algorithm on LiDAR, images and beam sweeps: convolutions, running statistics, and dropout that is seeded.

What `test_algorithms` asks of learners is not asked again; here is what only these encoders can get wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from integration.audit import Frames, RecordingTransport, leaks, runs
from integration.played import State, largest_difference
from integration.tiny import Walk, state_of, walk, wired
from sheafedge.emulator.contracts import MessageKind, NodeId
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.dropout import SeededDropout
from sheafedge.models.factor_settings import FactorSettings
from sheafedge.models.factors.ranks import n_factor_values
from sheafedge.models.model_layout import model_layout
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario

TINY: dict[str, Any] = {
    "rounds": 2,
    "world.n_sites": 2,
    "world.duration_s": 30,
    "clients.n_clients": 4,
    "clients.groups": [
        {"name": "lidar+camera", "modalities": ["lidar", "camera"], "share": 0.5},
        {"name": "lidar+rf", "modalities": ["lidar", "rf"], "share": 0.25},
        {"name": "camera+rf", "modalities": ["camera", "rf"], "share": 0.25},
    ],
    "topology.kind": "ring",
    "model.width": 0.125,
    "model.embedding_dim": 32,
    "training.local_steps": 2,
    "training.batch_size": 8,
    "sheaf.compression": 0.3,
    "network.transport": "memory",
    "compute.device": "cpu",
    "compute.executor": "serial",
    "compute.threads": 3,
}
ELSEWHERE = {"network.transport": "zmq", "compute.executor": "threads"}

#: Size of what others than the sheaf send beside encoders. DMML-KD classifies half an embedding.
HALF_AN_EMBEDDING = TINY["model.embedding_dim"] // 2
MODEL_PARTS: dict[MessageKind, Callable[[ClientModel], int]] = {
    MessageKind.HEAD: lambda model: model.layout.dim,
    MessageKind.ATTENTION: lambda model: sum(scores.numel() for scores in model.fusion.parameters()),
    MessageKind.CLASSIFIER: lambda model: model.layout.n_outputs * (HALF_AN_EMBEDDING + 1),
    MessageKind.MODEL: lambda model: model_layout(model).dim,
}
#: What a baseline that averages whole models may show; nobody else may.
SHOWN = {
    MessageKind.HEAD: {"head"},
    MessageKind.ATTENTION: {"attention"},
    MessageKind.MODEL: {"head", "attention"},
    MessageKind.FACTORS: {"head"},  # its biases are not factored
}

#: One algorithm of every way in which models are held and trained; the others train as one of them does.
HELD = (
    "local",
    "sheaf_dmfl_att",
    "averaged_and_tuned",
    "dsgd",
    "dmml_kd",
    "fedavg",
    "centralized",
)
every_way_of_training = pytest.mark.parametrize(
    "algorithm", [name if name in HELD else pytest.param(name, marks=pytest.mark.slow) for name in ALGORITHMS]
)


def tiny(algorithm: str, **edits: Any) -> Scenario:
    """With maps that mix all of a head, where the algorithm allows it."""
    averages = algorithm in ("sheaf_diffusion", "diffused_and_tuned")  # along maps no longer than 1
    mixing_maps = {} if averages else {"sheaf.map_start": "random"}
    if ALGORITHMS[algorithm].couples_models:  # dense maps of a whole model have a thousand times the entries
        mixing_maps = {"sheaf.map_start": "hadamard", "sheaf.compression": 0.001}
    return load_scenario("blockage").edited({**TINY, "algorithm": algorithm, **mixing_maps, **edits})


@cache
def overheard(algorithm: str, *, local_statistics: bool = False) -> tuple[Walk, Frames]:
    """A run that several tests look at, and none changes; and every message of it.

    With `local_statistics` one round, in which everything is sent that is ever sent.
    """
    seen: Frames = []
    with pytest.MonkeyPatch.context() as patch:
        recording = partial(RecordingTransport, seen=seen)
        patch.setattr("sheafedge.scenarios.wiring.emulation.MemoryTransport", recording)
        edits = {"training.local_statistics": True, "rounds": 1} if local_statistics else {}
        return walk(tiny(algorithm, **edits)), seen


def walked(algorithm: str) -> Walk:
    return overheard(algorithm)[0]


# --- where it runs changes nothing ----------------------------------------------------------------------------------


@every_way_of_training
def test_pool_and_transport_leave_the_trace_as_it_is(algorithm: str) -> None:
    """Every bit of every state is in the trace, so dropout must not depend on who trains at the same time."""
    elsewhere = walk(tiny(algorithm, **ELSEWHERE))
    assert elsewhere.trace_hash == walked(algorithm).trace_hash
    assert largest_difference(elsewhere.states, walked(algorithm).states) == 0.0


@every_way_of_training
def test_the_trace_shows_the_dropout(algorithm: str) -> None:
    """Or the comparison above would compare constants."""
    assert walk(tiny(algorithm, **{"model.dropout": 0.0})).trace_hash != walked(algorithm).trace_hash


def trained_alone(scenario: Scenario, client: NodeId) -> State:
    """Where a client ends when no other client trains at all."""
    emulation = wired(scenario).emulation
    learner = emulation.learners[client]
    for round_index in range(scenario.rounds):
        for phase in learner.phases(round_index):
            learner.compute(phase.name, round_index)
            learner.absorb(phase.name, round_index, ())
    return state_of(emulation, learner)


def differs_alone() -> bool:
    """Whether the last client learns otherwise when those before it do not train."""
    scenario = tiny("local")
    last = scenario.clients.n_clients - 1
    together = walk(scenario).states[-1][last]
    alone = trained_alone(scenario, last)
    return not all(torch.equal(values, alone[name]) for name, values in together.items())


def test_a_client_drops_what_it_would_drop_alone() -> None:
    assert not differs_alone()


def test_one_stream_of_dropout_for_all_clients_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = torch.Generator().manual_seed(0)
    monkeypatch.setattr(SeededDropout, "_generator_on", lambda *_: shared)
    assert differs_alone()


# --- what crosses the links -----------------------------------------------------------------------------------------


def exchanged(models: Mapping[str, ClientModel], modality: str | None) -> ClientModel:
    """The model of a client that messages about a modality, or about none, are parts of."""
    return next(models[name] for name in (modality, "global", "compressed global", "fused") if name in models)


def n_values(walk: Walk, client: NodeId, modality: str, *, with_statistics: bool) -> int:
    """Size of an encoder, counted in its module."""
    models = walk.emulation.clients[client].models
    module = exchanged(models, modality).encoders[modality]
    statistics = [b for b in module.buffers() if b.is_floating_point()] if with_statistics else []
    return sum(values.numel() for values in (*module.parameters(), *statistics))


def n_backbone(model: ClientModel) -> int:
    """Size of all that is not the head; of one modality the fusion decides nothing."""
    parts = [model.encoders, model.fusion] if len(model.modalities) > 1 else [model.encoders]
    return sum(parameter.numel() for part in parts for parameter in part.parameters())


def n_factors(walk: Walk, client: NodeId, modality: str | None, *, with_statistics: bool) -> int:
    """Size of the factors of an encoder, or of the head: statistics come whole."""
    model, ratio = walk.emulation.clients[client].models["compressed local"], FactorSettings().ratio
    if modality is None:
        return n_factor_values((model.layout.n_outputs, model.layout.width), ratio) + model.layout.n_outputs
    dense = sum(one.numel() for one in model.encoders[modality].parameters())
    factors = sum(n_factor_values(one.shape, ratio) for one in model.encoders[modality].parameters())
    return n_values(walk, client, modality, with_statistics=with_statistics) - dense + factors


@every_way_of_training
@pytest.mark.parametrize("stay_at_home", [False, True], ids=["shared statistics", "local statistics"])
def test_only_declared_kinds_leave_and_each_is_as_large_as_it_may_be(algorithm: str, stay_at_home: bool) -> None:
    """Encoders of common modalities, with their running statistics or without, and what else the table declares."""
    audited, frames = overheard(algorithm, local_statistics=stay_at_home)
    clients = audited.emulation.clients
    assert {message.kind for message, _, _ in frames} == ALGORITHMS[algorithm].kinds
    for message, _, numbers in frames:
        assert numbers.dtype == np.float32
        ends = {message.sender, message.receiver} - {audited.emulation.server}
        if message.kind is MessageKind.ENCODER:
            modality = message.modality
            assert modality is not None
            assert all(modality in clients[end].modalities for end in ends)
            expected = n_values(audited, min(ends), modality, with_statistics=not stay_at_home)
            assert numbers.size == expected
        elif message.kind is MessageKind.FACTORS:
            assert numbers.size == n_factors(audited, min(ends), message.modality, with_statistics=not stay_at_home)
        elif message.kind is MessageKind.PROTOTYPES:
            n_features = HALF_AN_EMBEDDING if algorithm == "dmml_kd" else TINY["model.embedding_dim"]
            assert numbers.size == 2 * (n_features + 1)
        elif message.kind is MessageKind.EMBEDDING:
            assert numbers.size == clients[message.sender].models["fused"].layout.width
        elif ALGORITHMS[algorithm].generates:
            assert numbers.size == n_backbone(clients[min(ends)].models["fused"])
        elif message.kind in MODEL_PARTS:
            models = clients[min(ends)].models
            model = exchanged(models, message.modality)
            assert numbers.size == MODEL_PARTS[message.kind](model)
        else:
            stalk_dim = len(audited.states[-1][message.sender][f"map to {message.receiver}"])
            assert message.modality is None
            assert numbers.size in {stalk_dim, stalk_dim + 1}  # the last one is the squared norm of the head


def private(audited: Walk) -> dict[str, set[bytes]]:
    """Runs of sensor readings, labels, heads and scoring vectors of all clients, and of heads of personal models."""
    found: dict[str, set[bytes]] = {name: set() for name in ("inputs", "label", "head", "attention", "personal")}
    for client in audited.emulation.clients:
        train = client.data.train
        found["label"] |= runs(train.label)
        for modality, values in train.inputs(np.array([0, len(train) - 1])).items():
            latest = values[:, :, -1] if modality == "lidar" else values[:, -1]  # the last frame of a window
            found["inputs"] |= runs(latest)
    for of_round in audited.states:
        for state in of_round.values():
            for name, learned in state.items():
                model, _, part = name.rpartition(": ")  # unimodal models go by "lidar: head"
                if model == "personal":
                    found[model] |= runs(learned.numpy()) if part == "head" else set()
                elif part.split()[0] in found:
                    found[part.split()[0]] |= runs(learned.numpy())
    return found


@every_way_of_training
def test_no_message_holds_readings_labels_heads_or_attention(algorithm: str) -> None:
    audited, frames = overheard(algorithm)
    secrets = private(audited)
    assert secrets["inputs"]
    assert secrets["label"]
    # a common start has ones and zeros that look like labels
    if algorithm in {"dpsgd", "dfedu"} or ALGORITHMS[algorithm].server:
        frames = [frame for frame in frames if frame[0].round_index > 0]
    declared = {name for kind in ALGORITHMS[algorithm].kinds for name in SHOWN.get(kind, ())}
    if ALGORITHMS[algorithm].generates:  # models without their heads
        declared -= {"head"}
    secrets = {name: values for name, values in secrets.items() if name not in declared}
    assert leaks(secrets, frames) == set()
    for message, header, numbers in frames[:1]:  # the search finds what is slipped in
        for name, values in secrets.items():
            slipped_in = [np.frombuffer(run, np.float32) for run in sorted(values)[:1]]
            assert leaks(secrets, [(message, header, np.concatenate([numbers, *slipped_in]))]) == {
                (name, str(message.kind)) for _ in slipped_in
            }

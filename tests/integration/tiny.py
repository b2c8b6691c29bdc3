"""The shipped scenario made tiny, wired by `scenarios.build` as for a user, and what its clients learned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from integration.played import State, digest, maps_of, state_of_model, vectors_of_server
from reference.sheaf_dmfl import ReferenceProblem
from sheafedge.emulator.contracts import Learner, NodeId
from sheafedge.emulator.random_streams import named_stream
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.data import ClientData, load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate

TINY = {
    "rounds": 3,
    "clients.n_clients": 5,
    "world.n_sites": 1,
    "world.duration_s": 400,
    "data.n_beams": 8,
    "data.window": 2,
    "model.embedding_dim": 4,
    "model.hidden_dim": 6,
    "training.local_steps": 2,
    "training.batch_size": 16,
    "sheaf.compression": 0.3,
    "topology.edge_probability": 0.7,
    "link.loss_probability": 0.0,
    "link.packet_bytes": 128,
    "network.transport": "memory",
    "compute.device": "cpu",
    "compute.executor": "serial",
    "export.onnx": False,
    "export.pictures": 0,
    "export.report": False,
}
"""Small enough for milliseconds, large enough that every message but a projection takes several packets."""

PLAIN_SGD = {
    "training.encoder_optimizer": "sgd",
    "training.head_step_size": 0.1,
    "training.encoder_step_size": 0.05,
    "training.attention_step_size": 0.3,
    "sheaf.map_step_size": 0.05,
}
"""What the reference knows: no Adam."""


def tiny(edits: Mapping[str, Any] | None = None) -> Scenario:
    """The tiny scenario with some more edits."""
    return load_scenario("beam_tracking").edited({**TINY, **(edits or {})})


@dataclass(frozen=True)
class Walk:
    """A scenario that was run without a folder.

    Attributes:
        states: [round][client], the parts of every model under its name.
        losses: [round][client], of the round's last minibatch.
    """

    emulation: Emulation
    states: list[dict[NodeId, State]]
    losses: list[dict[NodeId, float]]

    @property
    def trace_hash(self) -> str:
        """Of the whole run, states included."""
        return self.emulation.recorder.trace_hash


def wired(scenario: Scenario, dtype: torch.dtype = torch.float32) -> Walk:
    """Everything built, nothing run; `states` fills when the emulation is played."""
    states: list[dict[NodeId, State]] = [{} for _ in range(scenario.rounds)]
    losses: list[dict[NodeId, float]] = [{} for _ in range(scenario.rounds)]

    def observe(learner: Learner, round_index: int) -> Mapping[str, Any]:
        states[round_index][learner.client_id] = state = state_of(emulation, learner)
        if learner.client_id != emulation.server:
            losses[round_index][learner.client_id] = learner.health()["loss"]
        return {**learner.health(), "state": digest(state)}

    emulation = build(scenario, rows_of(scenario), observe, lambda *_: None, dtype=dtype)
    return Walk(emulation, states, losses)


#: Parts of a scenario that say what is done with rows, not which they are.
LATER = (
    "name",
    "summary",
    "rounds",
    "algorithm",
    "training",
    "sheaf",
    "sharing",
    "link",
    "links",
    "network",
    "server",
    "compute",
)
_ROWS: dict[str, list[ClientData]] = {}


def rows_of(scenario: Scenario) -> list[ClientData]:
    """Rows of every client; nobody writes into them, so scenarios that differ only in what comes later share them."""
    if scenario.data.mode == "live":
        return load_data(scenario).clients  # they grow
    key = json.dumps({name: part for name, part in scenario.tables().items() if name not in LATER}, sort_keys=True)
    if key not in _ROWS:
        _ROWS[key] = load_data(scenario).clients
    return list(_ROWS[key])


def walk(scenario: Scenario, dtype: torch.dtype = torch.float32) -> Walk:
    """Build and run."""
    walked = wired(scenario, dtype)
    try:
        emulate(walked.emulation, scenario.rounds)
    finally:
        walked.emulation.close()
    return walked


def state_of(emulation: Emulation, learner: Learner) -> State:
    """All that one client learns, models by name; or what the server holds."""
    if learner.client_id == emulation.server:
        return vectors_of_server(learner)
    state = maps_of(learner)
    for name, model in emulation.clients[learner.client_id].models.items():
        prefix = "" if name == "fused" else f"{name}: "
        state |= {prefix + part: values for part, values in state_of_model(model).items()}
    pair = emulation.clients[learner.client_id].pair
    if pair is not None:
        state |= {f"kept: {part}": values for part, values in state_of_model(pair.kept).items()}
    return state


def problem_of(scenario: Scenario, walked: Walk) -> ReferenceProblem:
    """The same run for the reference: initial values and edges as wired, batches drawn again from their streams."""
    emulation, training, sheaf = walked.emulation, scenario.training, scenario.sheaf
    start: dict[int, State] = {learner.client_id: state_of(emulation, learner) for learner in emulation.learners}
    models = {client.client_id: client.models["fused"] for client in emulation.clients}
    batches: Any = [[{} for _ in range(training.local_steps)] for _ in range(scenario.rounds)]
    for client in emulation.clients:
        steps = iter(_batches_of(scenario, walked, client.client_id))
        for of_round in batches:
            for of_step in of_round:
                of_step[client.client_id] = next(steps)
    return ReferenceProblem(
        modalities={i: model.modalities for i, model in models.items()},
        edges=list(emulation.graph.edges),
        encoders={i: {k: _layers(start[i], k) for k in model.modalities} for i, model in models.items()},
        attention={i: {k: start[i].get(f"attention {k}") for k in model.modalities} for i, model in models.items()},
        heads={i: state["head"] for i, state in start.items()},
        maps={(i, j): start[i][f"map to {j}"] for a, b in emulation.graph.edges for i, j in ((a, b), (b, a))},
        batches=batches,
        n_classes=scenario.data.n_beams,
        head_step_size=training.head_step_size,
        map_step_size=sheaf.map_step_size,
        encoder_step_size=training.encoder_step_size,
        attention_step_size=training.attention_step_size,
        coupling=sheaf.coupling,
        n_rounds=scenario.rounds,
        fusion="attention" if "att" in scenario.algorithm else "concat",
        local_steps=training.local_steps,
        clamp_map_step=sheaf.clamp_map_step,
    )


def _layers(state: State, modality: str) -> list[tuple[Any, Any]]:
    return [(state[f"encoder {modality} {i}.weight"], state[f"encoder {modality} {i}.bias"]) for i in (1, 3)]


def _batches_of(scenario: Scenario, walked: Walk, client_id: NodeId) -> list[Any]:
    """A client's minibatches, normalized: whole ones of a permutation, then of the next permutation."""
    client = walked.emulation.clients[client_id]
    model, rows = client.models["fused"], client.data.train
    with torch.no_grad():
        raw = {k: torch.as_tensor(values, dtype=model.head.dtype) for k, values in rows.inputs().items()}
        inputs = {k: model.normalizers[k](values) for k, values in raw.items()}
    draws = named_stream(scenario.seed, "batches", client_id, "fused")
    size = min(scenario.training.batch_size, len(rows))
    n_batches = scenario.rounds * scenario.training.local_steps
    chosen: list[Any] = []
    while len(chosen) < n_batches:
        order = draws.permutation(len(rows))
        chosen += [order[at : at + size] for at in range(0, len(order) - size + 1, size)]
    return [({k: x[torch.from_numpy(at)] for k, x in inputs.items()}, rows.label[at]) for at in chosen]

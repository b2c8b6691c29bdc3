"""Sheaf-FMTL and dFedU on the emulator against their references, and the special cases in which they meet others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from integration.cases import GROUPS, InOrder, random_case, setup_of
from integration.played import Played, Setting, play
from integration.tiny import tiny, wired
from reference.sheaf_fmtl import Edge, FmtlProblem, run_dfedu, run_sheaf_fmtl
from sheafedge.emulator.contracts import Learner, NodeId
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.client_model import ClientModel
from sheafedge.models.head import initial_head
from sheafedge.models.model_layout import model_layout
from sheafedge.models.settings import SheafSettings, TrainingSettings
from sheafedge.models.sheaf.drawn_maps import drawn_starts
from sheafedge.models.sheaf.map_starts import MapStart, dense_start
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.training_rows import RowsInMemory
from sheafedge.models.training.whole_model import trained_part
from torch import Tensor, nn
from torch.func import functional_call

SAME = 1e-10  # float64, numbers of order 1, sums in another order
N_ROUNDS, EDGES = 4, ((0, 1), (1, 2), (2, 3), (0, 3))


def vector_of(model: ClientModel) -> Tensor:
    return torch.cat([one.detach().reshape(-1) for one in trained_part(model).parameters()]).clone()


def networks(**training: Any) -> dict[NodeId, ClientSetup]:
    """Clients with GPS, RF and both: two-layer encoders, attention, models of three sizes."""
    case = random_case(2, n_clients=4, n_rounds=N_ROUNDS, local_steps=2)
    setups = {i: setup_of(case, i, torch.float64, "sgd") for i in range(4)}
    settings = TrainingSettings(**{"local_steps": 2, "batch_size": 5, "model_step_size": 0.1, **training})
    return {i: replace(setup, training=settings, map_starts={}) for i, setup in setups.items()}


def linear(n_clients: int = 4, **training: Any) -> dict[NodeId, ClientSetup]:
    """Multinomial regression: an encoder without parameters, so that the head is the whole model."""
    rng, setups = np.random.default_rng(4), {}
    for i in range(n_clients):
        parts: dict[Any, nn.Module] = {"gps": nn.Identity()}
        model = ClientModel(parts, {"gps": nn.Flatten()}, fusion="concat", embedding_dim=6, n_outputs=3).double()
        model.head.data.copy_(initial_head(model.layout, torch.Generator().manual_seed(i)))
        rows: Any = RowsInMemory({"gps": rng.normal(size=(24, 6))}, rng.integers(3, size=24))
        settings = TrainingSettings(**{"local_steps": 2, "batch_size": 8, "encoder_optimizer": "sgd", **training})
        setups[i] = ClientSetup(
            client_id=i,
            group="all",
            models={"fused": model},
            rows=rows,
            objective=networks()[0].objective,
            batch_draws={"fused": np.random.default_rng(i)},
            training=settings,
            sheaf=SheafSettings(),
            group_mixing={j: 0.25 for a, b in EDGES for j in ((b,) if a == i else (a,) if b == i else ())},
        )
    return setups


def with_maps(setups: Mapping[NodeId, ClientSetup], sheaf: SheafSettings) -> dict[NodeId, ClientSetup]:
    """The same clients with maps along `EDGES`."""
    starts: dict[NodeId, dict[NodeId, MapStart]] = {i: {} for i in setups}
    for i, j in EDGES:
        layouts = (model_layout(setups[k].models["fused"]) for k in (i, j))
        starts[i][j], starts[j][i] = drawn_starts(sheaf, *layouts, np.random.default_rng([i, j]))
    return {i: replace(setup, sheaf=sheaf, map_starts=starts[i]) for i, setup in setups.items()}


def played(algorithm: str, setups: Mapping[NodeId, ClientSetup], setting: Setting | None = None) -> Played:
    learners = ALGORITHMS[algorithm].learners(list(setups.values()))

    def state_of(learner: Learner) -> dict[str, Tensor]:
        return {"model": vector_of(setups[learner.client_id].models["fused"])}

    return play(learners, EDGES, ALGORITHMS[algorithm].kinds, N_ROUNDS, state_of, setting or Setting())


def reference_of(setups: Mapping[NodeId, ClientSetup], **options: Any) -> FmtlProblem:
    """The same losses, starts and maps; minibatches are the rows in order."""

    def loss_of(setup: ClientSetup) -> Any:
        model, size, steps = setup.models["fused"], setup.training.batch_size, setup.training.local_steps
        shapes = {name: one.shape for name, one in model.named_parameters()}
        order = {id(one): name for name, one in model.named_parameters()}
        names = [order[id(one)] for one in trained_part(model).parameters()]

        def loss(round_index: int, step: int, theta: Tensor) -> Tensor:
            first = (round_index * steps + step) * size
            rows = np.arange(first, first + size)
            pieces = torch.split(theta, [shapes[name].numel() for name in names])
            values = {name: piece.view(shapes[name]) for name, piece in zip(names, pieces, strict=True)}
            inputs = {str(k): torch.as_tensor(v) for k, v in setup.rows.inputs(rows).items()}
            logits = functional_call(model, values, (inputs,))
            return nn.functional.cross_entropy(logits, torch.from_numpy(setup.rows.label[rows]))

        return loss

    one = setups[0]
    maps: dict[Edge, Tensor] = {
        (i, j): dense_start(start, len(vector_of(setup.models["fused"])), torch.float64)
        for i, setup in setups.items()
        for j, start in setup.map_starts.items()
    }
    chosen: dict[str, Any] = {
        "losses": {i: loss_of(setup) for i, setup in setups.items()},
        "start": {i: vector_of(setup.models["fused"]) for i, setup in setups.items()},
        "edges": EDGES, "alpha": one.training.model_step_size, "coupling": one.sheaf.coupling, "maps": maps,
        "eta": one.sheaf.map_step_size, "local_steps": one.training.local_steps, "n_rounds": N_ROUNDS,
    } | options  # fmt: skip
    return FmtlProblem(**chosen)


def largest_gap(one: Played, models: list[dict[int, Tensor]]) -> float:
    return max(
        float((state[i]["model"] - models[k][i]).abs().max()) for k, state in enumerate(one.states) for i in models[k]
    )


def gap_between(one: Played, other: Played) -> float:
    return largest_gap(one, [{i: state["model"] for i, state in states.items()} for states in other.states])


STARTS: list[dict[str, Any]] = [
    {"map_start": "random", "map_scale": 1.0, "coupling": 0.01},
    {"map_start": "random", "map_storage": "dense"},
    {"map_start": "hadamard"},
    {"map_start": "hadamard", "map_share": "edge"},
    {"map_start": "uniform", "map_share": "edge"},
    {"map_start": "orthonormal"},
    {"map_start": "identity_noise"},
]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: " ".join(map(str, start.values())))
@pytest.mark.parametrize("steps", [1, 2])
def test_networks_of_three_sizes_walk_the_reference(start: dict[str, Any], steps: int) -> None:
    sheaf = SheafSettings(
        **{"coupling": 0.2, "compression": 0.2, "map_step_size": 0.05, "clamp_map_step": False, **start}
    )
    setups = with_maps(networks(local_steps=steps), sheaf)
    assert len({len(vector_of(setup.models["fused"])) for setup in setups.values()}) == len(GROUPS)
    expected = run_sheaf_fmtl(reference_of(setups))
    alone = run_sheaf_fmtl(reference_of(setups, coupling=0.0))[-1].models
    found = played("sheaf_fmtl", setups)
    assert largest_gap(found, [state.models for state in expected]) < SAME
    assert max(float((expected[-1].models[i] - alone[i]).abs().max()) for i in alone) > 1e6 * SAME


def test_one_vector_per_round_gives_the_same_models_as_two() -> None:
    sheaf = SheafSettings(coupling=0.2, compression=0.2, map_step_size=0.05, map_start="hadamard")
    double = played("sheaf_fmtl", with_maps(networks(), sheaf))
    single = played("sheaf_fmtl", with_maps(networks(), replace(sheaf, exchange="single")), Setting(missing="wait"))
    assert gap_between(single, double) < SAME


def in_order(setups: dict[NodeId, ClientSetup]) -> dict[NodeId, ClientSetup]:
    return {i: replace(setup, batch_draws={"fused": InOrder()}) for i, setup in setups.items()}


def test_dfedu_walks_the_reference() -> None:
    setups = in_order(linear(batch_size=3, model_step_size=0.3, weight_decay=0.05))
    expected = run_dfedu(reference_of(setups, weight_decay=0.05))
    assert largest_gap(played("dfedu", setups), [state.models for state in expected]) < SAME


def test_identity_maps_that_do_not_learn_are_dfedu() -> None:
    dim = 3 * 7
    frozen = SheafSettings(map_step_size=0.0, coupling=0.3)
    identity: dict[NodeId, MapStart] = dict.fromkeys(range(4), torch.arange(dim))
    setups = linear(model_step_size=0.3)
    mapped = {
        i: replace(setup, sheaf=frozen, map_starts={j: identity[j] for j in setup.group_mixing})
        for i, setup in linear(model_step_size=0.3).items()
    }
    plain = {i: replace(setup, sheaf=frozen) for i, setup in setups.items()}
    assert 0.0 < gap_between(played("sheaf_fmtl", mapped), played("dfedu", plain)) < SAME


@pytest.mark.parametrize("algorithm", ["sheaf_fmtl", "dfedu"])
def test_without_coupling_a_linear_model_is_trained_as_alone_to_the_bit(algorithm: str) -> None:
    off = SheafSettings(coupling=0.0)
    steps = {"model_step_size": 0.3, "head_step_size": 0.3}
    coupled = {i: replace(setup, sheaf=off) for i, setup in linear(**steps).items()}
    assert gap_between(played(algorithm, coupled), played("local", linear(**steps))) == 0.0


@pytest.mark.parametrize("start", ["random", "structured"])
def test_of_a_linear_model_it_is_sheaf_dmfl_without_gossip_to_the_bit(start: Any) -> None:
    """The head is the whole model, and equal sizes have the same mean and smaller one."""
    sheaf = SheafSettings(coupling=0.3, map_step_size=0.05, map_start=start, compression=0.3)
    steps = {"model_step_size": 0.2, "head_step_size": 0.2}
    whole, heads = linear(**steps), linear(**steps)
    rows = torch.from_numpy(np.sort(np.random.default_rng(0).choice(21, size=6, replace=False)))
    if start == "random":
        whole, heads = with_maps(whole, sheaf), with_maps(heads, sheaf)
    else:
        whole, heads = (
            {i: replace(s, sheaf=sheaf, map_starts=dict.fromkeys(s.group_mixing, rows)) for i, s in one.items()}
            for one in (whole, heads)
        )
    one, other = played("sheaf_fmtl", whole), played("sheaf_dmfl", heads)
    assert gap_between(one, other) == 0.0
    assert gap_between(one, played("local", linear(**steps))) > 1e-6


def test_the_control_decays_weights_as_the_coupling_does_in_the_mean_and_sends_nothing() -> None:
    decay = {i: 0.1 * (i + 1) for i in range(4)}
    setups = {i: replace(setup, sheaf_decay=decay[i]) for i, setup in linear(weight_decay="as_sheaf").items()}
    control = played("sheaf_fmtl", setups)
    assert control.recorder.traffic.messages == 0
    for i in range(4):
        alone = {j: replace(s, sheaf=SheafSettings(coupling=0.0)) for j, s in linear(weight_decay=decay[i]).items()}
        wanted = played("sheaf_fmtl", alone)
        assert torch.equal(control.states[-1][i]["model"], wanted.states[-1][i]["model"])


BYTES: dict[str, dict[str, Any]] = {
    "two vectors": {"sheaf.clamp_map_step": False},
    "two vectors, clamped": {},
    "frozen": {"sheaf.map_step_size": 0.0},
    "models": {"algorithm": "dfedu"},
}


@pytest.mark.parametrize("name", BYTES)
def test_payloads_are_those_of_the_formulas(name: str) -> None:
    scenario = tiny({"algorithm": "sheaf_fmtl", "sheaf.compression": 0.1, "sheaf.map_start": "hadamard", **BYTES[name]})
    emulation = wired(scenario).emulation
    dims = {client.client_id: model_layout(client.models["fused"]).dim for client in emulation.clients}
    groups = {client.client_id: client.group for client in emulation.clients}
    ends = [end for i, j in emulation.graph.edges for end in ((i, j), (j, i))]
    if name == "models":
        floats = sum(dims[i] for i, j in ends if groups[i] == groups[j])
    else:
        per_edge = [max(1, int(0.1 * min(dims[i], dims[j]))) for i, j in ends]
        floats = {"two vectors": 2 * sum(per_edge), "frozen": sum(per_edge)}.get(name, 2 * sum(per_edge) + len(ends))
    sent = []
    for phase in emulation.learners[0].phases(0):
        now = [message for learner in emulation.learners for message in learner.compute(phase.name, 0)]
        for learner in emulation.learners:
            mine = [message for message in now if message.receiver == learner.client_id]
            assert {message.slot for message in mine} == learner.expected(phase.name, 0)
            learner.absorb(phase.name, 0, mine)
        sent += now
    assert sum(message.payload.nbytes for message in sent) == 4 * floats

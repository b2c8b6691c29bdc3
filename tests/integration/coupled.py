"""Clients whose whole models are coupled, and the same problem as the reference of Sheaf-FMTL and dFedU takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from integration.cases import InOrder, random_case, setup_of
from integration.played import Played, Setting, play
from reference.sheaf_fmtl import Edge, FmtlProblem
from sheafedge.emulator.contracts import Learner, NodeId
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.head import initial_head
from sheafedge.models.model_layout import model_layout
from sheafedge.models.objectives import cross_entropy, squared_error
from sheafedge.models.settings import SheafSettings, TrainingSettings
from sheafedge.models.sheaf.drawn_maps import drawn_starts
from sheafedge.models.sheaf.equations import structured_starts
from sheafedge.models.sheaf.map_starts import MapStart, dense_start
from sheafedge.models.training.client_setup import ClientSetup
from sheafedge.models.training.training_rows import RowsInMemory
from sheafedge.models.training.whole_model import trained_part
from torch import Tensor, nn
from torch.func import functional_call

SAME = 1e-10  # float64, numbers of order 1, sums in another order
N_ROUNDS = 4
RING, STAR = ((0, 1), (1, 2), (2, 3), (0, 3)), ((0, 1), (0, 2), (0, 3))
Setups = dict[NodeId, ClientSetup]


def vector_of(model: ClientModel) -> Tensor:
    """Copy of all that is trained."""
    return torch.cat([one.detach().reshape(-1) for one in trained_part(model).parameters()]).clone()


def networks(**training: Any) -> Setups:
    """Clients with GPS, RF and both: two-layer encoders, attention, models of three sizes."""
    case = random_case(2, n_clients=4, n_rounds=N_ROUNDS, local_steps=2)
    setups = {i: setup_of(case, i, torch.float64, "sgd") for i in range(4)}
    settings = TrainingSettings(**{"local_steps": 2, "batch_size": 5, "model_step_size": 0.1, **training})
    return {i: replace(setup, training=settings, map_starts={}) for i, setup in setups.items()}


def of_one_input(
    columns: Mapping[NodeId, Sequence[int]] | None = None,
    *,
    network: bool = False,
    values: bool = False,
    **training: Any,
) -> Setups:
    """Clients with one table each, on a ring; linear models, in which the head is all, or networks with a hidden layer.

    Args:
        columns: client -> the columns that it has, of 6; all of them by default.
        network: whether there is a hidden layer.
        values: whether one value is learned, and not three classes.
        training: settings.
    """
    rng, setups = np.random.default_rng(4), {}
    for i in range(4):
        owned = list((columns or {}).get(i, range(6)))
        encoders: dict[Any, nn.Module] = {"gps": window_mlp((len(owned),), 5, 4) if network else nn.Flatten()}
        parts: dict[Any, nn.Module] = {"gps": nn.Identity()}
        width, n_outputs = 4 if network else len(owned), 1 if values else 3
        model = ClientModel(parts, encoders, fusion="concat", embedding_dim=width, n_outputs=n_outputs).double()
        draws = torch.Generator().manual_seed(i)
        for parameter in model.encoders.parameters():
            nn.init.normal_(parameter, std=0.5, generator=draws)
        model.head.data.copy_(initial_head(model.layout, draws))
        x, y = rng.normal(size=(24, 6))[:, owned], rng.integers(3, size=24)
        label: Any = y.astype(np.float32) if values else y
        inputs: Any = {"gps": x}
        settings = TrainingSettings(**{"local_steps": 2, "batch_size": 3, "encoder_optimizer": "sgd", **training})
        setups[i] = ClientSetup(
            client_id=i,
            group="all",
            models={"fused": model},
            rows=RowsInMemory(inputs, label),
            objective=squared_error if values else cross_entropy,
            batch_draws={"fused": InOrder()},
            training=settings,
            sheaf=SheafSettings(),
        )
    return linked(setups, RING)


def linked(setups: Setups, edges: Sequence[Edge]) -> Setups:
    """The same clients as members of one group with these edges."""
    neighbors: dict[NodeId, list[NodeId]] = {i: [] for i in setups}
    for i, j in edges:
        neighbors[i].append(j)
        neighbors[j].append(i)
    return {i: replace(setup, group_mixing=dict.fromkeys(sorted(neighbors[i]), 0.25)) for i, setup in setups.items()}


def with_maps(setups: Setups, sheaf: SheafSettings, edges: Sequence[Edge] = RING) -> Setups:
    """The same clients with maps as a scenario would draw them."""
    starts: dict[NodeId, dict[NodeId, MapStart]] = {i: {} for i in setups}
    for i, j in edges:
        own, peer = (model_layout(setups[k].models["fused"]) for k in (i, j))
        draws = np.random.default_rng([i, j])
        if sheaf.draws_maps:
            starts[i][j], starts[j][i] = drawn_starts(sheaf, own, peer, draws)
        else:
            starts[i][j], starts[j][i] = structured_starts(own, peer, sheaf.compression, draws)
    return mapped(setups, sheaf, starts)


def mapped(setups: Setups, sheaf: SheafSettings, starts: Mapping[NodeId, Mapping[NodeId, MapStart]]) -> Setups:
    """The same clients with these maps."""
    return {i: replace(setup, sheaf=sheaf, map_starts=starts[i]) for i, setup in setups.items()}


def played(
    algorithm: str, setups: Setups, edges: Sequence[Edge] = RING, *, n_rounds: int = N_ROUNDS, missing: str = "skip"
) -> Played:
    """Models of all clients after every round, on an emulator whose links are instant."""
    learners = ALGORITHMS[algorithm].learners(list(setups.values()))

    def state_of(learner: Learner) -> dict[str, Tensor]:
        return {"model": vector_of(setups[learner.client_id].models["fused"])}

    return play(learners, edges, ALGORITHMS[algorithm].kinds, n_rounds, state_of, Setting(missing=missing))


def reference_of(setups: Setups, edges: Sequence[Edge] = RING, **options: Any) -> FmtlProblem:
    """The same losses, starts and maps; minibatches are the rows in order, again and again."""

    def loss_of(setup: ClientSetup) -> Any:
        model, size, steps = setup.models["fused"], setup.training.batch_size, setup.training.local_steps
        shapes = {name: one.shape for name, one in model.named_parameters()}
        order = {id(one): name for name, one in model.named_parameters()}
        names = [order[id(one)] for one in trained_part(model).parameters()]

        def loss(round_index: int, step: int, theta: Tensor) -> Tensor:
            first = (round_index * steps + step) * size
            rows = np.arange(first, first + size) % len(setup.rows.label)
            pieces = torch.split(theta, [shapes[name].numel() for name in names])
            given = {name: piece.view(shapes[name]) for name, piece in zip(names, pieces, strict=True)}
            inputs = {str(k): torch.as_tensor(v) for k, v in setup.rows.inputs(rows).items()}
            return setup.objective(
                functional_call(model, given, (inputs,)), torch.from_numpy(setup.rows.label[rows]), None
            )

        return loss

    one = next(iter(setups.values()))
    maps: dict[Edge, Tensor] = {
        (i, j): dense_start(start, len(vector_of(setup.models["fused"])), torch.float64)
        for i, setup in setups.items()
        for j, start in setup.map_starts.items()
    }
    chosen: dict[str, Any] = {
        "losses": {i: loss_of(setup) for i, setup in setups.items()},
        "start": {i: vector_of(setup.models["fused"]) for i, setup in setups.items()},
        "edges": tuple(edges), "alpha": one.training.model_step_size, "coupling": one.sheaf.coupling, "maps": maps,
        "eta": one.sheaf.map_step_size, "weight_decay": one.training.weight_decay,
        "local_steps": one.training.local_steps, "n_rounds": N_ROUNDS,
    } | options  # fmt: skip
    return FmtlProblem(**chosen)


def largest_gap(one: Played, models: Sequence[Mapping[int, Tensor]]) -> float:
    """Over all rounds and clients."""
    assert len(one.states) == len(models)
    return max(
        float((state[i]["model"] - models[k][i]).abs().max()) for k, state in enumerate(one.states) for i in models[k]
    )


def gap_between(one: Played, other: Played) -> float:
    """Over all rounds and clients."""
    return largest_gap(one, [{i: state["model"] for i, state in states.items()} for states in other.states])

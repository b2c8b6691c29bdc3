"""From a scenario to clients and learners on a graph, before there is a clock."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import networkx as nx
import torch
from torch import Tensor

from ...datasets.splits.private_rows import private_split
from ...emulator.contracts import ConfigError, Learner, NodeId
from ...emulator.edge.device_profiles import DeviceProfile
from ...emulator.engine import named_stream
from ...emulator.faults.fault_plan import FaultPlan
from ...emulator.network.topology import build_topology
from ...models.algorithms.algorithm_table import ALGORITHMS, Algorithm
from ...models.training.client_setup import ClientSetup
from ...models.twin_model import TwinModel
from ..schema.scenario import Scenario
from .client import Client
from .coupling_watch import coupling_warnings, limit_warnings
from .data import ClientData
from .devices import client_devices
from .encoders import OBJECTIVES
from .faults import fault_plan
from .initial_models import InitialModels
from .live import LiveRows
from .map_starts import check_maps, map_starts, redrawn_maps
from .members import Member, members_of
from .mixing import all_weights, with_groups_linked
from .mobility import MixingWeights, MovingNeighbors, moving_neighbors
from .torch_setup import choose_device

#: Of clients that move and have a map for each other: with heads of 4160 numbers their maps grow by 16 MB per round.
MOST_MAPPED_CLIENTS = 32


class Assembly(NamedTuple):
    """What learns, before there is a clock.

    Attributes:
        algorithm: of all.
        graph: along which messages go.
        clients: all of them.
        learners: of those that were asked for.
        devices: client -> its emulated device.
        faults: what fails when.
        moving: who are neighbors when; None: always the same.
        warnings: what is risky about the step sizes.
    """

    algorithm: Algorithm
    graph: nx.Graph[NodeId]
    clients: tuple[Client, ...]
    learners: tuple[Learner, ...]
    devices: Mapping[NodeId, DeviceProfile]
    faults: FaultPlan
    moving: MovingNeighbors | None
    warnings: tuple[str, ...]


def find_algorithm(name: str) -> Algorithm:
    """An algorithm by name.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in ALGORITHMS:
        close = difflib.get_close_matches(name, ALGORITHMS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigError(f"unknown algorithm {name!r}; known: {', '.join(sorted(ALGORITHMS))}{hint}")
    return ALGORITHMS[name]


def assemble(
    scenario: Scenario,
    data: list[ClientData],
    *,
    dtype: torch.dtype = torch.float32,
    only: Collection[NodeId] | None = None,
) -> Assembly:
    """Clients, their graph, and learners of all or only of some; errors as of `build`."""
    algorithm = find_algorithm(scenario.algorithm)
    device = choose_device(scenario.compute.device)
    _check_pace(scenario, algorithm)
    devices = client_devices(scenario)
    clients = make_clients(scenario, algorithm, data, device, dtype)
    modalities_of = {client.client_id: frozenset(client.modalities) for client in clients}
    graph = build_topology(
        scenario.topology.kind,
        modalities_of,
        named_stream(scenario.seed, "topology"),
        edge_probability=scenario.topology.edge_probability,
        degree=scenario.topology.degree,
        edge_list=scenario.topology.edge_list,
    )
    warnings = coupling_warnings(scenario, graph)
    _check_heads(scenario, algorithm, clients, graph)
    check_maps(scenario, algorithm)
    _check_mobility(scenario, algorithm)
    starts = map_starts(scenario.sheaf, scenario.seed, clients, graph) if algorithm.maps_heads else {}
    if algorithm.couples_heads and only is None:
        heads = {client.client_id: client.models["fused"].head.detach() for client in clients}
        warnings += limit_warnings(scenario.training.head_step_size, scenario.sheaf, starts, heads)
    links = with_groups_linked(graph, clients) if algorithm.links_groups else graph
    faults = fault_plan(scenario.faults, scenario.seed, links)
    weigh = partial(all_weights, clients, scenario.training.personal_encoders)
    moves = scenario.topology.kind == "mobile"
    moving = moving_neighbors(scenario.mobility, scenario.seed, graph, faults, weigh) if moves else None
    weights = weigh(graph, links) if moving is None else moving.weights
    learners = make_learners(scenario, algorithm, clients, graph, weights, starts, only)
    return Assembly(algorithm, links, clients, learners, devices, faults, moving, warnings)


def make_clients(
    scenario: Scenario, algorithm: Algorithm, data: list[ClientData], device: torch.device, dtype: torch.dtype
) -> tuple[Client, ...]:
    """Clients with their groups and initial models."""
    initial = _initial_models(scenario, algorithm)
    clients = []
    for member, rows in zip(members_of(scenario), data, strict=True):
        names = {m: (m,) for m in member.modalities} if algorithm.unimodal else {"fused": member.modalities}
        models = {
            name: initial.model(member, owned, rows).to(device=device, dtype=dtype) for name, owned in names.items()
        }
        client = Client(
            member.client_id, member.group, member.modalities, rows, models, member.outputs, train=rows.train
        )
        clients.append(_with_twin(scenario, algorithm, initial, member, client))
    return tuple(clients)


def _initial_models(scenario: Scenario, algorithm: Algorithm) -> InitialModels:
    settings, all_outputs = scenario.model, None
    if scenario.sheaf.map_start == "aligned":
        groups = [scenario.data_of(group.name) for group in scenario.clients.groups]
        all_outputs = sorted({output for data in groups for output in scenario.task_spec.output_identities(data)})
    fusion = algorithm.fusion if settings.fusion == "default" else settings.fusion
    return InitialModels(scenario.seed, settings, fusion, all_outputs)


def _with_twin(
    scenario: Scenario, algorithm: Algorithm, initial: InitialModels, member: Member, client: Client
) -> Client:
    """A second model of the same start and rows kept aside, where the algorithm wants them.

    Raises:
        ConfigError: rows that are still being sensed cannot be kept aside.
    """
    if algorithm.private_share == 0.0:
        return client
    train = client.data.train
    if isinstance(train, LiveRows):
        raise ConfigError(
            f"algorithm {scenario.algorithm!r} keeps training rows aside, which data.mode = 'live' does not have yet;"
            " set data.mode = 'replay'"
        )
    kept, private = private_split(train, algorithm.private_share)
    shared = client.models["fused"]
    own = initial.model(member, client.modalities, client.data)
    twin = TwinModel(shared, own.to(device=shared.head.device, dtype=shared.head.dtype))
    return replace(client, train=train.take(kept), private=train.take(private), twin=twin)


def make_learners(
    scenario: Scenario,
    algorithm: Algorithm,
    clients: tuple[Client, ...],
    graph: nx.Graph[NodeId],
    weights: Mapping[NodeId, MixingWeights],
    starts: Mapping[NodeId, Mapping[NodeId, Tensor]],
    only: Collection[NodeId] | None = None,
) -> tuple[Learner, ...]:
    """One learner per client, with its neighbors' weights and initial maps.

    Args:
        graph: of the scenario, along which encoders and heads are shared.
        weights: client -> what its neighbors weigh.
        starts: client -> neighbor -> initial map.
        only: clients that get one; None: all.
    """
    setups = []
    for client in (client for client in clients if only is None or client.client_id in only):
        me = client.client_id
        setup = ClientSetup(
            client_id=me,
            group=client.group,
            models=client.models,
            rows=client.train,
            objective=OBJECTIVES[scenario.task_spec.objective],
            batch_draws={name: named_stream(scenario.seed, "batches", me, name) for name in client.models},
            training=scenario.training,
            sheaf=scenario.sheaf,
            sharing=scenario.sharing,
            mixing=weights[me].encoders,
            private=client.private,
            private_rounds=(scenario.rounds + 1) // 2,
            twin=client.twin,
            head_mixing=weights[me].everything,
            group_mixing=weights[me].group,
            map_starts=starts.get(me, {}),
            redrawn_maps=redrawn_maps(
                scenario.sheaf, scenario.seed, client, [clients[peer] for peer in sorted(graph[me])]
            )
            if scenario.sheaf.rotate_index
            else None,
        )
        setups.append(setup)
    return tuple(algorithm.learners(setups))


def _check_heads(
    scenario: Scenario, algorithm: Algorithm, clients: tuple[Client, ...], graph: nx.Graph[NodeId]
) -> None:
    """Refuse to average what has no common coordinates.

    Raises:
        ConfigError: neighbors whose models of one name have heads of different layouts, or other numbers of outputs.
    """
    if not (algorithm.equal_heads or algorithm.equal_outputs):
        return
    models = {client.client_id: client.models for client in clients}
    for a, b in graph.edges:
        for name in models[a].keys() & models[b].keys():  # "fused", or the modalities that both own
            one, other = models[a][name].layout, models[b][name].layout
            if one.n_outputs != other.n_outputs:
                raise ConfigError(
                    f"algorithm {scenario.algorithm!r} averages what neighbors know of their classes, but {a} tells"
                    f" {one.n_outputs} apart and {b} {other.n_outputs}; give all of clients.groups as many outputs, or"
                    " use 'sheaf_dmfl'"
                )
            if algorithm.equal_heads and one != other:
                raise ConfigError(
                    f"algorithm {scenario.algorithm!r} averages heads or what they read, but those of neighbors {a} and"
                    f" {b} have {one.dim} and {other.dim} numbers that mean different things; set model.fusion to one"
                    " of one width ('attention', 'mean'), or use 'sheaf_dmfl'"
                )


def _check_mobility(scenario: Scenario, algorithm: Algorithm) -> None:
    """Refuse to move what must stay in reach, and maps for more edges than memory holds.

    Raises:
        ConfigError: either is asked for.
    """
    if scenario.topology.kind != "mobile":
        return
    if algorithm.links_groups:
        raise ConfigError(
            f"algorithm {scenario.algorithm!r} links all members of a group, which topology.kind = 'mobile' cannot"
            " promise; use another of either"
        )
    if algorithm.maps_heads and scenario.clients.n_clients > MOST_MAPPED_CLIENTS:
        raise ConfigError(
            f"algorithm {scenario.algorithm!r} has a map for every edge that topology.kind = 'mobile' can ever make,"
            f" {scenario.clients.n_clients - 1} per client; set clients.n_clients to at most {MOST_MAPPED_CLIENTS}, or"
            " use an algorithm without maps"
        )


def _check_pace(scenario: Scenario, algorithm: Algorithm) -> None:
    """Refuse to let clients go apart that train one model together.

    Raises:
        ConfigError: their own paces, or nodes that are off, are asked for.
    """
    if not algorithm.pooled:
        return
    if scenario.network.mode == "asynchronous" or any(fault.kind == "node_off" for fault in scenario.faults):
        raise ConfigError(
            f"algorithm {scenario.algorithm!r} trains one model for all clients, which cannot go at a pace of their own"
            " or be off; set network.mode = 'synchronous' and leave 'node_off' out of faults"
        )

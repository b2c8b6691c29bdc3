"""Assembly of a scenario: clients and learners on a graph, without a clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import networkx as nx
import torch
from torch import Tensor

from ...datasets.splits.client_rows import private_split
from ...emulator.contracts import Learner, Modality, NodeId
from ...emulator.edge.device_profiles import DeviceProfile
from ...emulator.faults.fault_plan import FaultPlan
from ...emulator.random_streams import named_stream
from ...models.algorithms.algorithm import Algorithm
from ...models.objectives import OBJECTIVES
from ...models.rules.local_rule import GLOBAL, PERSONAL
from ...models.sheaf.map_starts import MapStart
from ...models.training.client_setup import ClientSetup
from ...models.training.participation import Participation
from ...models.training.whole_model import trained_part
from ...models.twin_model import TwinModel
from ..schema.learning_rules import coupled_graph, coupling_strength
from ..schema.neighborhood import neighborhood_of
from ..schema.scenario import Scenario
from .client import Client
from .coupling_notes import coupling_notes
from .coupling_watch import coupling_warnings, limit_warnings
from .data import ClientData
from .edge_maps import EdgeMaps
from .faults import fault_plan
from .initial_models import InitialModels
from .live import LiveRows
from .members import Member, members_of, node_devices
from .mixing import MixingWeights, MovingNeighbors, all_weights, moving_neighbors
from .taking_part import clients_of_exchange
from .torch_setup import choose_device


class Assembly(NamedTuple):
    """Clients and learners of a run, before a clock is made.

    Attributes:
        algorithm: algorithm of all clients.
        graph: graph along which messages are sent.
        clients: all of them.
        learners: learners of the requested clients; last that of the server, if there is one and all are requested.
        devices: node -> its emulated device.
        faults: plan of all failures.
        moving: neighbors over time; None: always the same.
        warnings: sentences about risky step sizes.
        notes: sentences about the coupling of whole models.
        server: number of the server; None: the algorithm has none.
    """

    algorithm: Algorithm
    graph: nx.Graph[NodeId]
    clients: tuple[Client, ...]
    learners: tuple[Learner, ...]
    devices: Mapping[NodeId, DeviceProfile]
    faults: FaultPlan
    moving: MovingNeighbors | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    server: NodeId | None = None


def assemble(
    scenario: Scenario,
    data: list[ClientData],
    *,
    dtype: torch.dtype = torch.float32,
    only: Collection[NodeId] | None = None,
) -> Assembly:
    """Assembly of a scenario with learners of all clients, or only of some; errors as of `build`."""
    algorithm = scenario.algorithm_spec
    device = choose_device(scenario.compute.device)
    devices = node_devices(scenario)
    clients = make_clients(scenario, algorithm, data, device, dtype)
    neighborhood = neighborhood_of(scenario)
    graph = neighborhood.graph
    warnings = coupling_warnings(*coupling_strength(scenario, coupled_graph(neighborhood)))
    maps = EdgeMaps(scenario.sheaf, scenario.seed, clients, whole_models=algorithm.couples_models)
    starts = initial_maps(scenario, algorithm, maps, graph, only)
    notes: tuple[str, ...] = ()
    # not in workers: the process that assembles all clients warns once
    if algorithm.couples and only is None:
        vectors = {client.client_id: coupled_vector(algorithm, client) for client in clients}
        step_size = getattr(scenario.training, "model_step_size" if algorithm.couples_models else "head_step_size")
        warnings += limit_warnings(step_size, scenario.sheaf, starts, vectors, whole_models=algorithm.couples_models)
        notes = coupling_notes(neighborhood, starts, vectors, maps.equivalent_decay(graph))
    # the graph of messages can have more edges than that of the sheaf: whole models also go inside groups
    links = neighborhood.links
    server = scenario.server_id
    faults = fault_plan(scenario.faults, scenario.seed, links, server)
    weigh = partial(all_weights, clients, scenario.training.personal_encoders)
    moves = scenario.topology.kind == "mobile"
    moving = moving_neighbors(scenario.mobility, scenario.seed, graph, faults, weigh) if moves else None
    # weights of moving clients change in place from round to round, so that learners keep one reference
    weights = weigh(graph, links) if moving is None else moving.weights
    learners = make_learners(scenario, algorithm, clients, graph, weights, maps, starts, only)
    return Assembly(algorithm, links, clients, learners, devices, faults, moving, warnings, notes, server)


def initial_maps(
    scenario: Scenario,
    algorithm: Algorithm,
    maps: EdgeMaps,
    graph: nx.Graph[NodeId],
    only: Collection[NodeId] | None,
) -> Mapping[NodeId, Mapping[NodeId, MapStart]]:
    """Client -> neighbor -> initial map of the clients that get a learner; empty where the learners need none.

    Raises:
        ConfigError: dense maps would need more than `compute.map_memory_gb`.
    """
    alone = scenario.sheaf.coupling == 0.0 or scenario.training.weight_decay == "as_sheaf"
    if not algorithm.has_maps or (algorithm.couples_models and alone):
        return {}
    maps.check_memory(graph, scenario.compute.map_memory_gb)
    return maps.of_graph(graph, only)


def coupled_vector(algorithm: Algorithm, client: Client) -> Tensor:
    """[d_i] what neighbors pull at, before the first round."""
    model = client.models["fused"]
    if not algorithm.couples_models:
        return model.head.detach()
    return torch.cat([parameter.detach().reshape(-1) for parameter in trained_part(model).parameters()])


def make_clients(
    scenario: Scenario, algorithm: Algorithm, data: list[ClientData], device: torch.device, dtype: torch.dtype
) -> tuple[Client, ...]:
    """Clients with their groups and initial models."""
    members = members_of(scenario)
    # only aligned maps compare outputs by identity; otherwise heads are drawn per layout
    all_outputs = None
    if scenario.sheaf.map_start == "aligned":
        designed = [
            member.task.outputs(member.data, rows.test).identities for member, rows in zip(members, data, strict=True)
        ]
        all_outputs = sorted({output for own in designed for output in own})
    initial = InitialModels(scenario.seed, scenario.model, scenario.fusion, all_outputs)
    clients = []
    for member, rows in zip(members, data, strict=True):
        models = {
            name: initial.model(member, owned, rows).to(device=device, dtype=dtype)
            for name, owned in _model_names(algorithm, member).items()
        }
        client = Client(
            member.client_id, member.group, member.modalities, rows, models, member.outputs(rows.test), train=rows.train
        )
        clients.append(_with_twin(algorithm, initial, member, client))
    return tuple(clients)


def _model_names(algorithm: Algorithm, member: Member) -> Mapping[str, tuple[Modality, ...]]:
    """Name of each of a client's models -> its modalities; models of the same modalities start equal."""
    if algorithm.unimodal:  # one model per sensor, of which the best is reported
        return {modality: (modality,) for modality in member.modalities}
    names = (PERSONAL, GLOBAL) if algorithm.personal else ("fused",)
    return dict.fromkeys(names, member.modalities)


def _with_twin(algorithm: Algorithm, initial: InitialModels, member: Member, client: Client) -> Client:
    """Client with a second model of the same start and with rows kept aside, for algorithms that need them."""
    if algorithm.private_share == 0.0:
        return client
    train = client.data.train
    assert not isinstance(train, LiveRows), "refused with the scenario"
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
    maps: EdgeMaps,
    starts: Mapping[NodeId, Mapping[NodeId, MapStart]],
    only: Collection[NodeId] | None = None,
) -> tuple[Learner, ...]:
    """One learner per client, with its neighbors' weights and initial maps, and that of the server if there is one.

    Args:
        graph: graph along which encoders and heads are shared.
        weights: client -> mixing weights of its neighbors.
        maps: maker of restriction maps.
        starts: client -> neighbor -> initial map.
        only: clients that get one; None: all.
    """
    decay, participation = maps.equivalent_decay(graph), _participation(scenario, clients)
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
            personalization=scenario.personalization,
            mixing=weights[me].encoders,
            private=client.private,
            private_rounds=(scenario.rounds + 1) // 2,
            twin=client.twin,
            head_mixing=weights[me].everything,
            group_mixing=weights[me].group,
            map_starts=starts.get(me, {}),
            sheaf_decay=decay.get(me, 0.0),
            redrawn_maps=maps.redrawn(me, sorted(graph[me])) if scenario.sheaf.rotate_index else None,
            participation=participation,
        )
        setups.append(setup)
    return tuple(algorithm.learners(setups))


def _participation(scenario: Scenario, clients: tuple[Client, ...]) -> Participation | None:
    """The server of a run and its participants; None where the algorithm has no server."""
    if scenario.server_id is None:
        return None
    n_rows = {client.client_id: len(client.train) for client in clients}
    return Participation(scenario.server_id, n_rows, clients_of_exchange(scenario), scenario.sharing.every)

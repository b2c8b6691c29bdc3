"""Assembly of a scenario: clients and learners on a graph, without a clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import networkx as nx
import torch
from torch import Tensor

from ...emulator.contracts import Learner, Modality, NodeId
from ...emulator.edge.device_profiles import DeviceProfile
from ...emulator.faults.fault_plan import FaultPlan
from ...emulator.random_streams import named_stream
from ...models.algorithms.algorithm import COMPRESSED_GLOBAL, COMPRESSED_LOCAL, GLOBAL, PERSONAL, Algorithm
from ...models.client_model import ClientModel
from ...models.model_pair import ModelPair
from ...models.objectives import OBJECTIVES
from ...models.settings import SharingSettings
from ...models.sheaf.map_starts import MapStart
from ...models.training.client_setup import ClientSetup
from ...models.training.participation import Participation
from ...models.training.whole_model import trained_part
from ..schema.neighborhood import members_by_group, neighborhood_of
from ..schema.rules.coupling_strength import coupled_graph, coupling_strength
from ..schema.scenario import Scenario
from ..sleeping.learner_table import Awake, LearnerTable, ModelsOnDemand, clients_sleep
from ..sleeping.model_pool import ModelPool, Models
from .beam_orders import beam_frame, found_orders, outputs_of
from .client import Client
from .coupling_notes import checkpoint_warnings, coupling_notes, partition_warnings
from .coupling_watch import coupling_warnings, limit_warnings
from .data import ClientData
from .edge_maps import EdgeMaps
from .encoders import torch_seed
from .faults import fault_plan
from .initial_models import InitialModels
from .members import Member, members_of, node_devices
from .mixing import MixingWeights, MovingNeighbors, all_weights, moving_neighbors
from .started_models import StartedModels
from .taking_part import clients_of_exchange, late_clients
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
        table: the learners, where clients sleep; else None.
    """

    algorithm: Algorithm
    graph: nx.Graph[NodeId]
    clients: tuple[Client, ...]
    learners: Sequence[Learner]
    devices: Mapping[NodeId, DeviceProfile]
    faults: FaultPlan
    moving: MovingNeighbors | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    server: NodeId | None = None
    table: LearnerTable | None = None


def assemble(
    scenario: Scenario,
    data: list[ClientData],
    *,
    dtype: torch.dtype = torch.float32,
    only: Collection[NodeId] | None = None,
    may_sleep: bool = False,
) -> Assembly:
    """Assembly of a scenario with learners of all clients, or only of some; errors as of `build`.

    Args:
        scenario: to assemble.
        data: of every client.
        dtype: of models and messages.
        only: clients that get a learner; None: all.
        may_sleep: whether learners may be a table, where the scenario draws few of many clients.
    """
    algorithm = scenario.algorithm_spec
    device = choose_device(scenario.compute.device)
    devices = node_devices(scenario)
    if only is None and may_sleep and clients_sleep(scenario):
        return _asleep(scenario, data, device, dtype)
    clients, _ = make_clients(scenario, algorithm, data, device, dtype)
    neighborhood = neighborhood_of(scenario)
    graph, compared = neighborhood.graph, neighborhood.sheaf_graph
    warnings = coupling_warnings(*coupling_strength(scenario, coupled_graph(neighborhood)))
    maps = EdgeMaps(scenario.sheaf, scenario.seed, clients, whole_models=algorithm.couples_models)
    starts = initial_maps(scenario, algorithm, maps, compared, only)
    notes: tuple[str, ...] = ()
    # not in workers: the process that assembles all clients warns once
    if algorithm.couples and only is None:
        vectors = {client.client_id: coupled_vector(algorithm, client) for client in clients}
        step_size = getattr(scenario.training, "model_step_size" if algorithm.couples_models else "head_step_size")
        warnings += limit_warnings(step_size, scenario.sheaf, starts, vectors, whole_models=algorithm.couples_models)
        notes = coupling_notes(neighborhood, starts, vectors, maps.equivalent_decay(compared))
    # the graph of messages can have more edges than that of the sheaf: whole models also go inside groups
    links = neighborhood.links
    server = scenario.server_id
    faults = fault_plan(scenario.faults, scenario.seed, links, server)
    weigh = partial(all_weights, clients, scenario.training.personal_encoders, scenario.sheaf)
    moves = scenario.topology.kind == "mobile"
    moving = moving_neighbors(scenario.mobility, scenario.seed, graph, faults, weigh) if moves else None
    # weights of moving clients change in place from round to round, so that learners keep one reference
    weights = weigh(graph, links) if moving is None else moving.weights
    learners = make_learners(scenario, algorithm, clients, compared, weights, maps, starts, only)
    warnings += (*checkpoint_warnings(scenario, learners), *partition_warnings(scenario))
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
    scenario: Scenario,
    algorithm: Algorithm,
    data: list[ClientData],
    device: torch.device,
    dtype: torch.dtype,
    models_of: Callable[[NodeId], Models] | None = None,
) -> tuple[tuple[Client, ...], Callable[[NodeId, Models], Models]]:
    """Clients with their groups and initial models, and what makes such models of a client anew, or of used ones.

    Args:
        scenario, algorithm: of the run.
        data: of every client.
        device, dtype: of the models.
        models_of: gives the models of a client when they are asked for; None: every client is given its own now.
    """
    members, orders = members_of(scenario), found_orders(scenario, data)
    # only aligned maps compare outputs by identity; otherwise heads are drawn per layout
    all_outputs = None
    if scenario.sheaf.map_start in ("aligned", "learned"):
        known = [outputs_of(*one) for one in zip(members, data, orders, strict=True)]
        all_outputs = sorted({output for own in known for output in own})
    started = started_models(scenario)
    initial = InitialModels(scenario.seed, scenario.model, scenario.fusion, device, dtype, all_outputs, orders, started)

    counted: dict[tuple[str, str], dict[tuple[tuple[int, ...], ...], float]] = {}

    def fresh(client_id: NodeId, used: Models) -> Models:
        member, rows = members[client_id], data[client_id]
        models = {
            name: initial.model(member, owned, rows, used.get(name))
            for name, owned in _model_names(algorithm, member).items()
        }
        for name, model in models.items():  # members of a group have one architecture, whose work is counted once
            model.forward_flops = counted.setdefault((member.group, name), model.forward_flops)
        return models

    clients = []
    for member, rows, order in zip(members, data, orders, strict=True):
        if models_of is None:
            models = fresh(member.client_id, {})
        else:
            models = ModelsOnDemand(_model_names(algorithm, member), partial(models_of, member.client_id))
        outputs = outputs_of(member, rows, order)
        client = Client(member.client_id, member.group, member.modalities, rows, models, outputs, order=order)
        clients.append(_with_pair(initial, member, client) if algorithm.paired else client)
    return tuple(clients), fresh


def started_models(scenario: Scenario) -> StartedModels | None:
    """Trained models that clients start from; None: their weights are drawn. Errors as of `StartedModels.at`."""
    settings = scenario.model
    if not settings.start_from:
        return None
    return StartedModels.at(settings.start_from, scenario.seed, scaling=settings.start_scaling == "kept")


def _model_names(algorithm: Algorithm, member: Member) -> Mapping[str, tuple[Modality, ...]]:
    """Name of each of a client's models -> its modalities; models of the same modalities start equal."""
    if algorithm.unimodal:  # one model per sensor, of which the best is reported
        return {modality: (modality,) for modality in member.modalities}
    names: tuple[str, ...] = (PERSONAL, GLOBAL) if algorithm.personal else ("fused",)
    if algorithm.factored:
        names = (PERSONAL, COMPRESSED_LOCAL, COMPRESSED_GLOBAL)
    return dict.fromkeys(names, member.modalities)


def _with_pair(initial: InitialModels, member: Member, client: Client) -> Client:
    """Client with a second model of the same start."""
    kept = initial.model(member, client.modalities, client.data)
    return replace(client, pair=ModelPair(client.models["fused"], kept))


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
        graph: graph of the sheaf, along which heads are compared.
        weights: client -> mixing weights of its neighbors.
        maps: maker of restriction maps.
        starts: client -> neighbor -> initial map.
        only: clients that get one; None: all.
    """
    decay, participation = maps.equivalent_decay(graph), _participation(scenario, clients)
    setups = []
    for client in (client for client in clients if only is None or client.client_id in only):
        me = client.client_id
        setup = replace(
            _setup(scenario, client, client.models, weights[me], participation),
            map_starts=starts.get(me, {}),
            sheaf_decay=decay.get(me, 0.0),
            redrawn_maps=maps.redrawn(me, sorted(graph[me])) if scenario.sheaf.rotate_index else None,
        )
        setups.append(setup)
    return tuple(algorithm.learners(setups))


def _setup(
    scenario: Scenario,
    client: Client,
    models: Mapping[str, ClientModel],
    weights: MixingWeights,
    participation: Participation | None,
) -> ClientSetup:
    """A client without maps before its first round."""
    return ClientSetup(
        client_id=client.client_id,
        group=client.group,
        models=models,
        rows=client.data.train,
        objective=OBJECTIVES[scenario.task_spec.objective],
        batch_draws={name: named_stream(scenario.seed, "batches", client.client_id, name) for name in models},
        training=scenario.training,
        sheaf=scenario.sheaf,
        sharing=_sharing(scenario),
        personalization=scenario.personalization,
        hyper=scenario.hyper,
        factors=scenario.factors,
        common_draws=partial(named_stream, scenario.seed),
        mixing=weights.encoders,
        pair=client.pair,
        head_mixing=weights.everything,
        sheaf_mixing=weights.sheaf,
        group_mixing=weights.group,
        participation=participation,
        frame=None if client.order is None else beam_frame(client.order, models["fused"]),
    )


def _sharing(scenario: Scenario) -> SharingSettings:
    """How vectors are averaged; an algorithm that trains on alone has a fifth of the rounds for it, if none is set."""
    if not scenario.algorithm_spec.tunes or scenario.sharing.until > 0:
        return scenario.sharing
    return replace(scenario.sharing, until=max(1, scenario.rounds - max(1, scenario.rounds // 5)))


def _asleep(scenario: Scenario, data: list[ClientData], device: torch.device, dtype: torch.dtype) -> Assembly:
    """Assembly whose learners are a table: of many clients, of which a round has few."""
    algorithm, server = scenario.algorithm_spec, scenario.server_id

    def build(client_id: NodeId, models: Models) -> Awake:
        setup = _setup(scenario, clients[client_id], models, weights[client_id], participation)
        (learner,) = algorithm.learners([setup])
        return Awake(learner, setup.models)

    def kind(client_id: NodeId) -> Hashable:
        client = clients[client_id]
        return client.group, len(client.outputs), tuple(client.data.train.input_shapes.items())

    def models_of(client_id: NodeId) -> Models:
        return table.models(client_id)

    clients, fresh = make_clients(scenario, algorithm, data, device, dtype, models_of)
    pool = ModelPool(fresh, kind)
    table = LearnerTable(scenario.clients.n_clients, build, pool)
    neighborhood = neighborhood_of(scenario)
    links, participation = neighborhood.links, _participation(scenario, clients)
    weights = all_weights(clients, scenario.training.personal_encoders, scenario.sheaf, neighborhood.graph, links)
    if algorithm.server_alone is not None:
        members = members_by_group(neighborhood.groups)
        first = sorted(of_group[0] for of_group in members.values())
        setups = [_setup(scenario, clients[one], pool.new(one), weights[one], participation) for one in first]
        table.server = algorithm.server_alone(setups, members)
    faults = fault_plan(scenario.faults, scenario.seed, links, server)
    devices = node_devices(scenario)
    return Assembly(
        algorithm, links, clients, table, devices, faults, None, partition_warnings(scenario), (), server, table
    )


def _participation(scenario: Scenario, clients: tuple[Client, ...]) -> Participation | None:
    """The server of a run and its participants; None where the algorithm has no server."""
    if scenario.server_id is None:
        return None
    n_rows = {client.client_id: len(client.data.train) for client in clients}
    drawn, late, seed = clients_of_exchange(scenario), late_clients(scenario), torch_seed(scenario.seed, "server")
    return Participation(scenario.server_id, n_rows, drawn, scenario.sharing.every, late, seed)

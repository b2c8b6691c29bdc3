"""Rules about learning: the algorithm, the coupling of heads, and what is shared how."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ...emulator.contracts import MODALITIES
from ...models.factor_settings import LONGEST_STEP
from ...models.settings import SheafSettings
from ..tasks.task_spec import SensorTask
from .neighborhood import Graph, Neighborhood
from .rule import Rule
from .scenario_fields import ScenarioFields

Case = Mapping[str, object]
T = TypeVar("T")

#: Of clients that move and have a map for each other: with heads of 4160 numbers their maps grow by 16 MB per round.
MOST_MAPPED_CLIENTS = 32

#: Of `sheaf.map_start`: all entries of such a map mean as much, see `drawn_maps.entry_variance`.
INDEPENDENT_STARTS = ("random", "uniform", "orthonormal", "hadamard")

LEARNING_RULES: tuple[Rule[ScenarioFields], ...] = (
    # --- all clients in step ---
    Rule(
        "network.mode",
        lambda s: s.algorithm_spec.pooled and s.network.mode == "asynchronous",
        "algorithm {s.algorithm!r} trains one model for all clients, which cannot go at a pace of their own; set"
        " network.mode = 'synchronous'",
    ),
    Rule(
        "faults",
        lambda s: ({"kind": fault.kind} for fault in s.faults if s.algorithm_spec.pooled and fault.spec.stops_nodes),
        "algorithm {s.algorithm!r} trains one model for all clients, which cannot be off; leave {kind!r} out of faults",
    ),
    Rule(
        "network.missing",
        lambda s: s.network.mode == "asynchronous" and s.network.missing == "wait",
        "network.missing = 'wait' does not go with network.mode = 'asynchronous', which has no barrier; use 'skip' or"
        " 'stale'",
    ),
    Rule(
        "sheaf.exchange",
        lambda s: s.network.mode == "asynchronous" and s.sheaf.exchange == "single",
        "sheaf.exchange = 'single' does not go with network.mode = 'asynchronous', where the ends of an edge do not see"
        " the same residual; use 'double'",
    ),
    Rule(
        "sheaf.rotate_index",
        lambda s: s.network.mode == "asynchronous" and s.sheaf.rotate_index,
        "sheaf.rotate_index = true does not go with network.mode = 'asynchronous', where neighbors are in other rounds"
        " and compare other coordinates; set it to false",
    ),
    Rule(
        "topology.kind",
        lambda s: s.network.mode == "asynchronous" and s.topology.kind == "mobile",
        "topology.kind = 'mobile' does not go with network.mode = 'asynchronous', where rounds have no common"
        " start at which neighbors are determined; choose another",
    ),
    # --- what a lost message does ---
    Rule(
        "sheaf.exchange",
        lambda s: s.network.mode == "synchronous" and s.sheaf.exchange == "single" and s.network.missing != "wait",
        "sheaf.exchange = 'single' needs network.missing = 'wait', got {s.network.missing!r}: both ends of an edge must"
        " see the same residual",
    ),
    Rule(
        "sheaf.rotate_index",
        lambda s: s.sheaf.rotate_index and s.network.missing == "stale",
        "sheaf.rotate_index compares other coordinates in every round, so network.missing = 'stale' would take a"
        " projection for what it is not; use 'skip' or 'wait'",
    ),
    Rule(
        "sharing.codec",
        lambda s: s.sharing.codec == "top_k" and s.network.missing == "stale",
        "sharing.codec = 'top_k' names other coordinates in every message, so network.missing = 'stale' cannot fill the"
        " gaps of one with another; use 'skip' or 'wait'",
    ),
    # --- models and maps ---
    Rule(
        "training.personal_encoders",
        lambda s: _personal_encoders_of_nobody(s),
        "training.personal_encoders names {stranger!r}, which no group of clients.groups owns; choose among {owned}",
    ),
    Rule(
        "model.embedding_dim",
        lambda s: s.algorithm_spec.even_embedding and s.model.embedding_dim % 2 == 1,
        "model.embedding_dim must be even for algorithm {s.algorithm!r}, which halves it, got {s.model.embedding_dim}",
    ),
    Rule(
        "sheaf.map_start",
        lambda s: (
            s.algorithm_spec.has_maps
            and not s.algorithm_spec.couples
            and s.sheaf.map_start in ("random", "uniform", "identity_noise")
        ),
        "algorithm {s.algorithm!r} averages along its maps, which sheaf.map_start = {s.sheaf.map_start!r} makes longer"
        " than 1, so that heads can diverge; use 'structured' or 'aligned'",
    ),
    Rule(
        "sheaf.map_step_size",
        lambda s: s.sheaf.rotate_index and s.algorithm_spec.couples and s.sheaf.learns_maps,
        "sheaf.rotate_index draws maps anew every round, and what is redrawn cannot learn with sheaf.map_step_size ="
        " {s.sheaf.map_step_size:g}; set it to 0",
    ),
    # --- whole models as one vector ---
    Rule(
        "training.weight_decay",
        lambda s: s.training.weight_decay != 0.0 and not s.algorithm_spec.couples_models and not _decays_by_adam(s),
        "training.weight_decay is of algorithms that step a whole model as one vector (sheaf_fmtl, dfedu), and"
        " algorithm {s.algorithm!r} is none of them; set it to 0, give a number with training.optimizer = 'adam', or"
        " use sheaf_fmtl with sheaf.coupling = 0",
    ),
    Rule(
        "training.optimizer",
        lambda s: s.training.optimizer == "adam" and _steps_in_its_own_way(s),
        "training.optimizer = 'adam' steps a client's whole model by its own gradient, but algorithm {s.algorithm!r}"
        " has steps of its own; set it to 'parts', or use an algorithm such as 'local', 'dpsgd' or 'fedavg'",
    ),
    Rule(
        "training.weight_decay",
        lambda s: (
            s.training.weight_decay == "as_sheaf"
            and s.algorithm_spec.couples_models
            and not (s.algorithm_spec.has_maps and s.sheaf.map_start in INDEPENDENT_STARTS)
        ),
        "training.weight_decay = 'as_sheaf' stands for coupling through maps whose entries all mean as much, which"
        " algorithm {s.algorithm!r} with sheaf.map_start = {s.sheaf.map_start!r} does not have; use sheaf_fmtl with"
        " 'random', 'uniform', 'orthonormal' or 'hadamard', or give a number",
    ),
    Rule(
        "training.personal_encoders",
        lambda s: bool(s.training.personal_encoders) and s.algorithm_spec.couples_models,
        "training.personal_encoders does not go with algorithm {s.algorithm!r}, which couples all of a model; leave it"
        " out, or use 'sheaf_dmfl'",
    ),
    Rule(
        "sheaf.map_storage",
        lambda s: s.sheaf.map_storage == "kronecker" and s.algorithm_spec.couples_models,
        "sheaf.map_storage = 'kronecker' has one small matrix for all outputs of a head, which algorithm"
        " {s.algorithm!r} with its whole models does not have; use 'factored'",
    ),
    # --- personal models ---
    Rule(
        "personalization",
        lambda s: _pull_too_strong(s),
        "personalization.{pull} {strength:g} * training.head_step_size {s.training.head_step_size:g} = {product:.2g},"
        " and from 2 on a pulled model diverges; lower one of them",
    ),
    Rule(
        "personalization.server_mixing",
        lambda s: s.personalization.server_mixing > 1.0 and not s.algorithm_spec.factored,
        "personalization.server_mixing must lie in (0, 1] with algorithm {s.algorithm!r}, got"
        " {s.personalization.server_mixing:g}; beyond the mean of its clients goes only the server of 'tdpfed'",
    ),
    Rule(
        "personalization.attraction",
        lambda s: _personal_steps_too_long(s),
        "personalization.attraction {s.personalization.attraction:g} * personalization.personal_step_size"
        " {s.personalization.personal_step_size:g} = {product:.3g}, and from {limit:.3g} on a personal model with"
        " Nesterov's momentum diverges; lower one of them",
    ),
    Rule(
        "factors.aggregation",
        lambda s: s.algorithm_spec.factored and s.factors.aggregation == "tensors" and not s.algorithm_spec.server,
        "factors.aggregation = 'tensors' is what a server does, which algorithm {s.algorithm!r} does not have; use"
        " 'factors', or algorithm = 'tdpfed'",
    ),
    Rule(
        "sharing.codec",
        lambda s: s.algorithm_spec.factored and s.factors.aggregation == "tensors" and s.sharing.codec == "top_k",
        "sharing.codec = 'top_k' never sends all factors of a weight, which factors.aggregation = 'tensors' needs; use"
        " another codec, or 'factors'",
    ),
    Rule(
        "export.model",
        lambda s: s.export.model.startswith("compressed") and not s.algorithm_spec.factored,
        "export.model = {s.export.model!r} is made of factors, which algorithm {s.algorithm!r} does not have; set it to"
        " 'personal', or use algorithm = 'tdpfed'",
    ),
    Rule(
        "model.start_from",
        lambda s: bool(s.model.start_from) and s.algorithm_spec.generates,
        "model.start_from gives clients trained weights, which algorithm {s.algorithm!r} replaces by generated ones;"
        " leave it out, or use another algorithm",
    ),
    Rule(
        "model.start_scaling",
        lambda s: not s.model.start_from and s.model.start_scaling != "kept",
        "model.start_scaling = {s.model.start_scaling!r} is of models that model.start_from names, which is empty; name"
        " a run, or leave it out",
    ),
    # --- clients that move ---
    Rule(
        "algorithm",
        lambda s: s.topology.kind == "mobile" and s.algorithm_spec.links_groups,
        "algorithm {s.algorithm!r} links all members of a group, which topology.kind = 'mobile' cannot promise; use"
        " another of either",
    ),
    Rule(
        "clients.n_clients",
        lambda s: (
            [{"most": MOST_MAPPED_CLIENTS, "peers": s.clients.n_clients - 1}]
            if s.topology.kind == "mobile" and s.algorithm_spec.has_maps and s.clients.n_clients > MOST_MAPPED_CLIENTS
            else False
        ),
        "algorithm {s.algorithm!r} has a map for every edge that topology.kind = 'mobile' can ever make, {peers} per"
        " client; set clients.n_clients to at most {most}, or use an algorithm without maps",
    ),
)

#: Of heads that neighbors compare or average.
HEAD_RULES: tuple[Rule[Neighborhood], ...] = (
    Rule(
        "clients.groups",
        lambda s: _neighbors_with_other_outputs(s) if _compares_classes(s.scenario) else False,
        "algorithm {s.scenario.algorithm!r} averages values per class with neighbors, but client {one} has {n_one}"
        " outputs and client {other} has {n_other}; give all of clients.groups as many outputs, or use 'sheaf_dmfl'",
    ),
    Rule(
        "model.fusion",
        lambda s: _neighbors_with_other_heads(s) if s.scenario.algorithm_spec.equal_heads else False,
        "algorithm {s.scenario.algorithm!r} averages heads or what they read, but those of neighbors {one} and {other}"
        " have {n_one} and {n_other} numbers that mean different things; set model.fusion to 'attention' or 'mean', or"
        " use 'sheaf_dmfl'",
    ),
    Rule(
        "sheaf.map_storage",
        lambda s: (
            _neighbors_with_other_outputs(s)
            if s.scenario.algorithm_spec.has_maps and s.scenario.sheaf.map_storage == "kronecker"
            else False
        ),
        "sheaf.map_storage = 'kronecker' compares whole columns of heads, but neighbors {one} and {other} have {n_one}"
        " and {n_other} outputs; use 'factored', or give all groups as many outputs",
    ),
    Rule(
        "sheaf.coupling",
        lambda s: _coupling_too_strong(s),
        "{account}, and from 2 on {what} diverge; lower sheaf.coupling or {field}",
    ),
)


def coupling_strength(scenario: ScenarioFields, graph: Graph) -> tuple[float, str]:
    """Strength of the coupling, alpha * lambda * |P_i|^2 with the most neighbors, and a text that shows its factors.

    With held projections a client's own step is stable only below 2. Without edges, where the algorithm couples
    nothing, or where |P_i| depends on the size of the model (`sheaf.map_scale`), it is 0.

    Args:
        scenario: whose algorithm it is.
        graph: along which neighbors pull, see `coupled_graph`.
    """
    spec, sheaf, training = scenario.algorithm_spec, scenario.sheaf, scenario.training
    alone = spec.couples_models and training.weight_decay == "as_sheaf"
    unknown = spec.has_maps and sheaf.map_scale > 0.0
    if not spec.couples or alone or unknown or graph.number_of_edges() == 0:
        return 0.0, ""
    field = "model_step_size" if spec.couples_models else "head_step_size"
    step_size, degree = getattr(training, field), max(degree for _, degree in graph.degree)
    norm_sq = stacked_norm_sq(sheaf, degree) if spec.has_maps else float(degree)
    strength = step_size * sheaf.coupling * norm_sq
    of = f"squared norm of the maps of {degree} edges" if spec.has_maps else "neighbors"
    account = (
        f"training.{field} {step_size:g} * sheaf.coupling {sheaf.coupling:g} * {norm_sq:.2g} ({of}) = {strength:.2g}"
    )
    return strength, account


def stacked_norm_sq(sheaf: SheafSettings, degree: int) -> float:
    """Largest squared norm that the maps of one client with so many neighbors have together, before they learn.

    Rows of the identity may be the same on all edges, and add up. Rows that are drawn point elsewhere on every edge:
    their norm is the end of the spectrum of a Gaussian matrix, or of a sum of random projections, for large models.

    Source: V. Marchenko, L. Pastur 1967; free convolution of projections (D. Voiculescu 1987).
    """
    share = sheaf.compression
    if sheaf.map_start in ("random", "uniform"):
        return (1.0 + math.sqrt(degree * share)) ** 2
    if sheaf.map_start in ("orthonormal", "hadamard") and share < 1.0 - 1.0 / degree:
        return (math.sqrt((degree - 1) * share) + math.sqrt(1.0 - share)) ** 2
    return float(degree)


def coupled_graph(s: Neighborhood) -> Graph:
    """Graph along which neighbors pull: without maps, only inside groups."""
    if s.scenario.algorithm_spec.has_maps:
        return s.graph
    across = [(one, other) for one, other in s.graph.edges if s.groups[one] != s.groups[other]]
    inside = s.graph.copy()
    inside.remove_edges_from(across)
    return inside


def _coupling_too_strong(s: Neighborhood) -> Sequence[Case]:
    strength, account = coupling_strength(s.scenario, coupled_graph(s))
    whole = s.scenario.algorithm_spec.couples_models
    named = (
        {"what": "models", "field": "training.model_step_size"}
        if whole
        else {"what": "heads", "field": "training.head_step_size"}
    )
    return [{"account": account, **named}] if strength >= 2.0 else []


def _decays_by_adam(s: ScenarioFields) -> bool:
    return s.training.optimizer == "adam" and s.training.weight_decay != "as_sheaf"


def _steps_in_its_own_way(s: ScenarioFields) -> bool:
    spec = s.algorithm_spec
    return spec.couples or spec.has_maps or spec.pooled or spec.factored or spec.private_share > 0.0


def _pull_too_strong(s: ScenarioFields) -> Sequence[Case]:
    pull = s.algorithm_spec.pull if s.training.optimizer == "parts" else ""  # Adam takes no longer steps for it
    strength = getattr(s.personalization, pull) if pull else 0.0
    product = strength * s.training.head_step_size
    return [{"pull": pull, "strength": strength, "product": product}] if product >= 2.0 else []


def _personal_steps_too_long(s: ScenarioFields) -> Sequence[Case]:
    product = s.personalization.attraction * s.personalization.personal_step_size
    too_long = s.algorithm_spec.factored and product >= LONGEST_STEP
    return [{"product": product, "limit": LONGEST_STEP}] if too_long else []


def _personal_encoders_of_nobody(s: ScenarioFields) -> Iterator[Case]:
    owned = {modality for group in s.clients.groups for modality in group.modalities}
    for modality in s.training.personal_encoders:
        if modality not in owned:
            yield {"stranger": modality, "owned": ", ".join(m for m in MODALITIES if m in owned)}


def _compares_classes(s: ScenarioFields) -> bool:
    return s.algorithm_spec.equal_outputs or s.algorithm_spec.equal_heads


def _neighbors_with_other_outputs(s: Neighborhood) -> Sequence[Case]:
    """The first neighbors with different numbers of outputs."""
    n_outputs = _by_group(s, lambda group: _n_outputs(s, group))
    return _first_neighbors(s, n_outputs, lambda one, other: one != other)


def _neighbors_with_other_heads(s: Neighborhood) -> Sequence[Case]:
    """The first neighbors with as many outputs, but heads that read the embeddings of different modalities."""
    if s.scenario.fusion != "concat" or s.scenario.algorithm_spec.unimodal:
        return []  # what the head reads is one embedding, whatever the client owns
    clients = s.scenario.clients
    read = _by_group(s, lambda group: (_n_outputs(s, group), clients.group(group).owned))
    width = s.scenario.model.embedding_dim
    dims = {group: n_outputs * (len(owned) * width + 1) for group, (n_outputs, owned) in read.items()}
    found = _first_neighbors(s, read, lambda one, other: one[0] == other[0] and one[1] != other[1])
    return [{**case, "n_one": dims[case["group"]], "n_other": dims[case["other_group"]]} for case in found]


def _n_outputs(s: Neighborhood, group: str) -> int:
    """Number of outputs of a group's models; 0 where the data decide it, the same for all groups."""
    task = s.scenario.task_spec
    return task.outputs(s.scenario.data_of(group)).n if isinstance(task, SensorTask) else 0


def _by_group(s: Neighborhood, value: Callable[[str], T]) -> dict[str, T]:
    return {group.name: value(group.name) for group in s.scenario.clients.groups}


def _first_neighbors(
    s: Neighborhood, of_group: Mapping[str, T], do_not_match: Callable[[T, T], bool]
) -> list[dict[str, Any]]:
    """The first edge whose ends do not match, by what their groups have."""
    for one, other in s.graph.edges:
        group, other_group = s.groups[one], s.groups[other]
        if group != other_group and do_not_match(of_group[group], of_group[other_group]):
            values = {"n_one": of_group[group], "n_other": of_group[other_group]}
            return [{"one": one, "other": other, "group": group, "other_group": other_group, **values}]
    return []

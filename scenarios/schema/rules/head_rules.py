"""Rules about heads that neighbors compare or average, on the graph that they are neighbors on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...tasks.task_spec import SensorTask
from ..neighborhood import Graph, Neighborhood
from ..scenario_fields import ScenarioFields
from .coupling_strength import coupled_graph, coupling_strength
from .rule import Case, Rule

T = TypeVar("T")

#: Of heads that neighbors compare or average.
HEAD_RULES: tuple[Rule[Neighborhood], ...] = (
    Rule(
        "clients.groups",
        lambda s: _ends_with_other_outputs(s, s.graph) if _compares_classes(s.scenario) else False,
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
        "sheaf.edges",
        lambda s: s.scenario.algorithm_spec.has_maps and bool(s.graph.edges) and not s.sheaf_graph.edges,
        "sheaf.edges = 'same_sensors' leaves algorithm {s.scenario.algorithm!r} nothing to compare, as no two neighbors"
        " own the same sensors; set it to 'all', or give more clients to a group of clients.groups",
    ),
    Rule(
        "sheaf.map_storage",
        lambda s: (
            _ends_with_other_outputs(s, s.sheaf_graph)
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


def _coupling_too_strong(s: Neighborhood) -> Sequence[Case]:
    strength, account = coupling_strength(s.scenario, coupled_graph(s))
    whole = s.scenario.algorithm_spec.couples_models
    named = (
        {"what": "models", "field": "training.model_step_size"}
        if whole
        else {"what": "heads", "field": "training.head_step_size"}
    )
    return [{"account": account, **named}] if strength >= 2.0 else []


def _compares_classes(s: ScenarioFields) -> bool:
    return s.algorithm_spec.equal_outputs or s.algorithm_spec.equal_heads


def _ends_with_other_outputs(s: Neighborhood, graph: Graph) -> Sequence[Case]:
    """The first edge whose ends have different numbers of outputs."""
    n_outputs = _by_group(s, lambda group: _n_outputs(s, group))
    return _first_edge(s, graph, n_outputs, lambda one, other: one != other)


def _neighbors_with_other_heads(s: Neighborhood) -> Sequence[Case]:
    """The first neighbors with as many outputs, but heads that read the embeddings of different modalities."""
    if s.scenario.fusion != "concat" or s.scenario.algorithm_spec.unimodal:
        return []  # what the head reads is one embedding, whatever the client owns
    clients = s.scenario.clients
    read = _by_group(s, lambda group: (_n_outputs(s, group), clients.group(group).owned))
    width = s.scenario.model.embedding_dim
    dims = {group: n_outputs * (len(owned) * width + 1) for group, (n_outputs, owned) in read.items()}
    found = _first_edge(s, s.graph, read, lambda one, other: one[0] == other[0] and one[1] != other[1])
    return [{**case, "n_one": dims[case["group"]], "n_other": dims[case["other_group"]]} for case in found]


def _n_outputs(s: Neighborhood, group: str) -> int:
    """Number of outputs of a group's models; 0 where the data decide it, the same for all groups."""
    task = s.scenario.task_spec
    return task.outputs(s.scenario.data_of(group)).n if isinstance(task, SensorTask) else 0


def _by_group(s: Neighborhood, value: Callable[[str], T]) -> dict[str, T]:
    return {group.name: value(group.name) for group in s.scenario.clients.groups}


def _first_edge(
    s: Neighborhood, graph: Graph, of_group: Mapping[str, T], do_not_match: Callable[[T, T], bool]
) -> list[dict[str, Any]]:
    """The first edge whose ends do not match, by what their groups have."""
    for one, other in graph.edges:
        group, other_group = s.groups[one], s.groups[other]
        if group != other_group and do_not_match(of_group[group], of_group[other_group]):
            values = {"n_one": of_group[group], "n_other": of_group[other_group]}
            return [{"one": one, "other": other, "group": group, "other_group": other_group, **values}]
    return []

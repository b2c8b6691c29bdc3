"""From `[[faults]]` to the plan that the emulator asks: every random timetable has a stream of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import networkx as nx

from ...emulator.contracts import ConfigError, NodeId
from ...emulator.engine import named_stream
from ...emulator.faults.fault_plan import Corruption, Edge, FaultPlan, edge_of
from ...emulator.faults.outages import Outage, Outages, RandomOutages, ScheduledOutages, Timetable
from ..schema.fault_section import FaultSection
from ..schema.scenario import Scenario


def fault_plan(scenario: Scenario, graph: nx.Graph[NodeId]) -> FaultPlan:
    """All faults of a run, but those of sensors' clocks, which `sensor_clocks` knows.

    Args:
        scenario: with its `[[faults]]` and seed.
        graph: along which messages go.

    Raises:
        ConfigError: an edge that the graph does not have is to fail.
    """
    nodes: dict[NodeId, list[Outages]] = {}
    edges: dict[Edge, list[Outages]] = {}
    corruptions = []
    for index, fault in enumerate(scenario.faults):
        times = _timetables(scenario.seed, index, fault)
        named = frozenset(_named_edges(fault, graph))
        if fault.kind == "node_off":
            for node in fault.nodes:
                nodes.setdefault(node, []).append(times(node))
        elif fault.kind == "link_down":
            for edge in sorted(named):
                edges.setdefault(edge, []).append(times(*edge))
        elif fault.kind == "partition":
            parted = times("partition")
            for edge in _between(fault.groups, graph):
                edges.setdefault(edge, []).append(parted)
        elif fault.kind == "corrupted":
            timetable = Timetable([times("corrupted")])
            corruptions.append(Corruption(named or None, fault.share, timetable, f"corrupted {index}"))
    return FaultPlan(
        scenario.seed,
        frozenset(graph),
        {node: Timetable(parts) for node, parts in nodes.items()},
        {edge: Timetable(parts) for edge, parts in edges.items()},
        tuple(corruptions),
    )


def _timetables(seed: int, index: int, fault: FaultSection) -> Callable[..., Outages]:
    """Makes the timetable of one thing that an entry names."""
    if fault.mean_up_s is None or fault.mean_down_s is None:
        start_s = fault.at_s or 0.0
        scheduled = ScheduledOutages([Outage(start_s, math.inf if fault.for_s is None else start_s + fault.for_s)])
        return lambda *_: scheduled
    means_s = fault.mean_up_s, fault.mean_down_s
    return lambda *what: RandomOutages(named_stream(seed, "fault", index, fault.kind, *what), *means_s)


def _named_edges(fault: FaultSection, graph: nx.Graph[NodeId]) -> Iterator[Edge]:
    for one, other in fault.edges:
        if not graph.has_edge(one, other):
            near = ", ".join(map(str, sorted(graph[one]))) or "none"
            raise ConfigError(
                f"faults: {fault.kind!r} names the edge [{one}, {other}], which is not there; the neighbors of client"
                f" {one} are: {near}"
            )
        yield edge_of(one, other)


def _between(groups: tuple[tuple[NodeId, ...], ...], graph: nx.Graph[NodeId]) -> list[Edge]:
    """Edges whose ends are in different groups; who is in none is in the group of all others."""
    group_of = {node: index for index, group in enumerate(groups) for node in group}
    return sorted(edge_of(a, b) for a, b in graph.edges if group_of.get(a) != group_of.get(b))

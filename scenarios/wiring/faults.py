"""Fault plan of a run from `[[faults]]`, and the frames that faulty sensors give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx

from ...datasets.windows.sensed_frames import SensedFrames
from ...emulator.contracts import NodeId
from ...emulator.faults.fault_plan import Edge, FaultPlan, FaultPlanDraft, edge_of
from ...emulator.faults.outages import Outage, Outages, RandomOutages, ScheduledOutages
from ...emulator.random_streams import named_stream
from ..schema.fault_section import FaultSection, NodeName
from .members import Member


def fault_plan(
    faults: Sequence[FaultSection], seed: int, graph: nx.Graph[NodeId], server: NodeId | None = None
) -> FaultPlan:
    """Plan of all faults of a run on the simulated clock.

    Args:
        faults: entries of `[[faults]]`.
        seed: root seed of the run.
        graph: graph along which messages are sent.
        server: number of the server; None: there is none, and no entry names one.
    """
    draft = FaultPlanDraft(seed, graph)
    for index, fault in enumerate(faults):
        entry = _Entry(fault, index, seed, graph, server)
        if fault.spec.add_to is not None:
            fault.spec.add_to(draft, fault, entry)
    return draft.plan()


@dataclass(frozen=True, slots=True)
class _Entry:
    """Entry of `[[faults]]` with its number; see `FaultEntry`."""

    fault: FaultSection
    index: int
    seed: int
    graph: nx.Graph[NodeId]
    server: NodeId | None

    @property
    def stream_name(self) -> str:
        return f"{self.fault.kind} {self.index}"

    @property
    def named_nodes(self) -> Sequence[NodeId]:
        return [self._number(node) for node in self.fault.nodes]

    @property
    def named_edges(self) -> Sequence[Edge]:
        return sorted({edge_of(self._number(one), self._number(other)) for one, other in self.fault.edges})

    @property
    def parting_edges(self) -> Sequence[Edge]:
        """Edges between the groups of a partition; nodes in none of them are one more group."""
        group_of = {self._number(node): index for index, group in enumerate(self.fault.groups) for node in group}
        return sorted(edge_of(a, b) for a, b in self.graph.edges if group_of.get(a) != group_of.get(b))

    def outages(self, *what: object) -> Outages:
        fault = self.fault
        if fault.mean_up_s is None or fault.mean_down_s is None:
            start_s = fault.at_s or 0.0
            return ScheduledOutages([Outage(start_s, math.inf if fault.for_s is None else start_s + fault.for_s)])
        # the number of the entry is part of the name: two equal entries fail independently
        draws = named_stream(self.seed, "fault", self.index, fault.kind, *what)
        return RandomOutages(draws, fault.mean_up_s, fault.mean_down_s)

    def _number(self, node: NodeName) -> NodeId:
        if isinstance(node, str):
            assert self.server is not None, "refused with the scenario"
            return self.server
        return node


def shown_frames(faults: Sequence[FaultSection], member: Member, sensed: SensedFrames) -> SensedFrames:
    """Frames that the sensors of a client give, with sensor faults; labels and received powers keep the right time."""
    shown = sensed
    for fault in faults:
        if fault.spec.shown is None or member.client_id not in fault.nodes:
            continue
        modality = fault.modality
        assert modality is not None, "refused with the scenario"
        shown = fault.spec.shown(shown, fault, modality)
    return shown

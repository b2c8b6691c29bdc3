"""All faults of a run as one value that answers by time; nodes and edges that never fail are not in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..contracts import InFlight, NodeId
from ..random_streams import named_stream
from .outages import Outages, Timetable

Edge = tuple[NodeId, NodeId]

#: Bits that are flipped in a corrupted message, at least 1 and at most so many: a burst of noise, not of malice.
MAX_FLIPPED_BITS = 8


def edge_of(one: NodeId, other: NodeId) -> Edge:
    """An edge by its ends, whichever comes first."""
    return (one, other) if one < other else (other, one)


@dataclass(frozen=True, slots=True)
class Corruption:
    """Bits of some messages are flipped on their way.

    Attributes:
        edges: edges that are concerned; None: all.
        share: share of the messages that arrive while it lasts.
        times: timetable of the corruption.
        name: name of its random stream; only it and the message's own names decide whether a message is hit.
    """

    edges: frozenset[Edge] | None
    share: float
    times: Timetable
    name: str

    def concerns(self, edge: Edge, arrival_s: float) -> bool:
        """Whether a message that arrives over this edge at this instant may be hit."""
        return (self.edges is None or edge in self.edges) and self.times.is_out(arrival_s)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Times at which nodes are off and edges down, and damage of messages.

    Attributes:
        seed: seed of the draws per message.
        all_nodes: all nodes of the run.
        nodes: those that are off at times.
        edges: those that are down at times.
        corruptions: damage of messages.
    """

    seed: int = 0
    all_nodes: frozenset[NodeId] = frozenset()
    nodes: Mapping[NodeId, Timetable] = field(default_factory=dict)
    edges: Mapping[Edge, Timetable] = field(default_factory=dict)
    corruptions: tuple[Corruption, ...] = ()

    def is_off(self, node: NodeId, now_s: float) -> bool:
        """Whether a node is off at this instant."""
        return self._node(node).is_out(now_s)

    def goes_off_s(self, node: NodeId, now_s: float) -> float:
        """When a node goes off next; this instant or before where it is off, infinity where it never does."""
        return self._node(node).goes_out_s(now_s)

    def back_s(self, node: NodeId, now_s: float) -> float:
        """The first instant from this one on at which a node is on."""
        return self._node(node).back_s(now_s)

    def any_on_s(self, now_s: float) -> float:
        """The first instant from this one on at which any node is on."""
        # A node without a timetable is always on.
        if self.all_nodes <= self.nodes.keys():
            return min((self.back_s(node, now_s) for node in self.all_nodes), default=now_s)
        return now_s

    def loses(self, sender: NodeId, receiver: NodeId, offered_s: float, arrival_s: float) -> bool:
        """Whether a message is lost because its edge was down, or one of its ends off, at any instant of its way.

        The way begins when the message is offered: whatever waits in a queue of a node that goes off is lost.
        """
        if not self.nodes and not self.edges:  # asked of every message of a run
            return False
        edge = self.edges.get(edge_of(sender, receiver), _ALWAYS_ON)
        return any(part.touches(offered_s, arrival_s) for part in (edge, self._node(sender), self._node(receiver)))

    def flipped_bits(self, in_flight: InFlight, arrival_s: float) -> NDArray[np.int64] | None:
        """Numbers of the bits that a message arrives with wrong, counted modulo its length; None: it is sound."""
        if not self.corruptions:
            return None
        edge = edge_of(in_flight.slot.sender, in_flight.receiver)
        for corruption in self.corruptions:
            if corruption.concerns(edge, arrival_s):
                # A stream per message: which ones are hit depends neither on the order of messages nor on other faults.
                draws = named_stream(self.seed, corruption.name, *in_flight.slot, in_flight.receiver)
                if draws.random() < corruption.share:
                    # Modulo the length, because the length of what is left is known to the transport only.
                    return draws.integers(0, 1 << 62, size=int(draws.integers(1, MAX_FLIPPED_BITS + 1)))
        return None

    def _node(self, node: NodeId) -> Timetable:
        return self.nodes.get(node, _ALWAYS_ON)


_ALWAYS_ON = Timetable()

#: The plan of a run in which nothing fails.
NO_FAULTS = FaultPlan()


class FaultPlanDraft:
    """A plan in the making; every entry of a scenario adds its part.

    Args:
        seed: seed of the draws per message.
        nodes: all nodes of the run.
    """

    def __init__(self, seed: int, nodes: Iterable[NodeId]) -> None:
        self._seed, self._all_nodes = seed, frozenset(nodes)
        self._nodes: dict[NodeId, list[Outages]] = {}
        self._edges: dict[Edge, list[Outages]] = {}
        self._corruptions: list[Corruption] = []

    def add_node(self, node: NodeId, outages: Outages) -> None:
        """A node is off in these outages too."""
        self._nodes.setdefault(node, []).append(outages)

    def add_edge(self, edge: Edge, outages: Outages) -> None:
        """An edge is down in these outages too."""
        self._edges.setdefault(edge, []).append(outages)

    def add_corruption(self, corruption: Corruption) -> None:
        """Some messages are damaged; of several corruptions that hit a message, the first counts."""
        self._corruptions.append(corruption)

    def plan(self) -> FaultPlan:
        """Everything that was added so far."""
        return FaultPlan(
            self._seed,
            self._all_nodes,
            {node: Timetable(parts) for node, parts in self._nodes.items()},
            {edge: Timetable(parts) for edge, parts in self._edges.items()},
            tuple(self._corruptions),
        )

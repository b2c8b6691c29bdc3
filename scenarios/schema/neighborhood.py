"""Groups and neighbors of all clients, as the scenario alone decides them, before any data."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import networkx as nx
import numpy as np

from ...emulator.contracts import Modality, NodeId, TopologyError
from ...emulator.network.edge_generators import TopologyOptions
from ...emulator.network.topology import build_topology
from ...emulator.random_streams import named_stream
from ...models.settings import SheafSettings
from .clients_section import ClientsSection
from .network_section import TopologySection
from .scenario_fields import ScenarioFields

Graph: TypeAlias = "nx.Graph[NodeId]"

#: A graph of more clients is drawn when a run starts, not whenever a scenario is checked: with 2000 clients a hundred
#: draws that do not connect them take two seconds.
MOST_CHECKED_CLIENTS = 2000


class Neighborhood(NamedTuple):
    """A scenario with the graph of its clients.

    Attributes:
        scenario: scenario of the clients.
        graph: graph of the topology, along which encoders and heads are shared; without edges where a server shares
            them.
        groups: name of every client's group.
    """

    scenario: ScenarioFields
    graph: Graph
    groups: list[str]

    @property
    def sheaf_graph(self) -> Graph:
        """Graph of the sheaf: its edges are those along which heads, or whole models, are compared."""
        owned = [self.scenario.clients.group(name).modalities for name in self.groups]
        return sheaf_edges(self.graph, self.scenario.sheaf, owned)

    @property
    def links(self) -> Graph:
        """Graph along which messages are sent: some algorithms also link all members of a group, or a server."""
        if (server := self.scenario.server_id) is not None:
            return nx.star_graph([server, *self.graph])
        linked = self.scenario.algorithm_spec.links_groups
        return with_groups_linked(self.graph, self.groups) if linked else self.graph


def neighborhood_of(scenario: ScenarioFields) -> Neighborhood:
    """Groups and graph of a scenario; its file of edges is read, if it names one.

    Raises:
        TopologyError: the graph cannot carry the run, or the file of edges cannot be read.
    """
    clients = scenario.clients
    groups = assign_groups(clients, scenario.seed)
    if scenario.server_id is not None:
        alone: Graph = nx.empty_graph(clients.n_clients)
        return Neighborhood(scenario, alone, groups)
    owned = tuple(frozenset(clients.group(name).modalities) for name in groups)
    kind = scenario.topology.kind
    build = _built.__wrapped__ if kind == "edge_list" else _built  # a file may change
    graph = build(scenario.topology, owned, scenario.seed)
    if isinstance(graph, str):
        raise TopologyError(graph)
    return Neighborhood(scenario, graph, groups)


def assign_groups(clients: ClientsSection, seed: int) -> list[str]:
    """Group of every client: exact counts by largest remainder, dealt in random order."""
    n_clients, groups = clients.n_clients, clients.groups
    exact = np.array([group.share * n_clients for group in groups])
    # the tolerance keeps products such as 0.29 * 100 = 28.999999999999996 whole
    counts = np.floor(exact + 1e-9).astype(int)
    # stable: of equal remainders the group that is listed first gets the client
    for index in np.argsort(counts - exact, kind="stable")[: n_clients - counts.sum()]:
        counts[index] += 1
    names = [group.name for group, count in zip(groups, counts, strict=True) for _ in range(count)]
    order = named_stream(seed, "groups").permutation(n_clients)
    return [names[index] for index in order]


def with_groups_linked(graph: Graph, groups: Sequence[str]) -> Graph:
    """The graph, and an edge between any two clients of one group.

    Args:
        graph: nodes are client ids.
        groups: [n_clients] name of every client's group.
    """
    linked: Graph = graph.copy()
    for members in members_by_group(groups).values():
        linked.add_edges_from(itertools.combinations(members, 2))
    return linked


def sheaf_edges(graph: Graph, sheaf: SheafSettings, owned: Sequence[Iterable[Modality]]) -> Graph:
    """The graph with those edges along which heads are compared, see `sheaf.edges`.

    Args:
        graph: nodes are client ids.
        sheaf: settings of the scenario.
        owned: [n_clients] modalities of every client.
    """
    return graph if sheaf.edges == "all" else edges_inside(graph, [frozenset(own) for own in owned])


def edges_inside(graph: Graph, kinds: Sequence[Hashable]) -> Graph:
    """All clients of the graph, and those of its edges whose ends are of one kind.

    Args:
        graph: nodes are client ids.
        kinds: [n_clients] kind of every client.
    """
    inside: Graph = graph.copy()
    inside.remove_edges_from([(one, other) for one, other in graph.edges if kinds[one] != kinds[other]])
    return inside


def members_by_group(groups: Sequence[str]) -> dict[str, list[NodeId]]:
    """Group -> ids of its clients, both in the order of the clients."""
    members: dict[str, list[NodeId]] = {}
    for client, group in enumerate(groups):
        members.setdefault(group, []).append(client)
    return members


@lru_cache(maxsize=64)
def _built(topology: TopologySection, owned: tuple[frozenset[Modality], ...], seed: int) -> Graph | str:
    """Frozen graph, or the sentence about why there is none.

    Kept, because every edit of a scenario checks it again and most edits leave the graph as it is.
    """
    try:
        graph = build_topology(
            topology.kind,
            dict(enumerate(owned)),
            named_stream(seed, "topology"),
            TopologyOptions(**topology.model_dump(exclude={"kind"})),
        )
    except TopologyError as error:
        return str(error)
    # frozen: all scenarios with the same topology, sensors and seed share it
    return nx.freeze(graph)

"""Edges of every kind of communication graph, before those without a shared modality are dropped.

A ring needs an order of clients in which the owners of each modality are adjacent; `ring_order` finds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations, pairwise
from pathlib import Path

import networkx as nx
import numpy as np

from ..contracts import MODALITIES, Modality, NodeId, TopologyError
from ..regular_file import quoted, read_regular, reason, shown

Ownership = Mapping[NodeId, frozenset[Modality]]

MAX_EDGE_LIST_BYTES = 1 << 24
MAX_TRIES = 100  # a graph that was never connected in a hundred draws is not unlucky but too sparse
_SHOWN_CLIENTS = 8
#: Clients with equal modalities that stand side by side in a ring.
Piece = tuple[frozenset[Modality], tuple[NodeId, ...]]


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """Options of the kinds of graphs; each kind reads only its own field.

    Attributes:
        edge_probability: probability of every possible edge, for "erdos_renyi".
        degree: neighbors of every client before edges without a shared modality are dropped, for "regular"; and on
            the ring before edges are rewired, for "small_world".
        rewiring_probability: probability that an edge of the ring gets another end, for "small_world".
        attached: edges of every client that joins, for "scale_free".
        islands: number of groups without edges between them, for "islands".
        edge_list: text file with `i j` per line and # comments, for "edge_list".
    """

    edge_probability: float = 0.3
    degree: int = 4
    rewiring_probability: float = 0.1
    attached: int = 2
    islands: int = 4
    edge_list: str | Path = ""


Edges = Iterable[tuple[NodeId, NodeId]]
Generator = Callable[[Ownership, np.random.Generator, TopologyOptions], Edges]


def ring_edges(modalities_of: Ownership, _draws: np.random.Generator, _options: TopologyOptions) -> Edges:
    """Edges from each client to two others, in an order that keeps the owners of a modality together if possible."""
    order = ring_order(modalities_of)
    return [*pairwise(order), (order[-1], order[0])] if len(order) > 2 else list(pairwise(order))


def erdos_renyi_edges(modalities_of: Ownership, draws: np.random.Generator, options: TopologyOptions) -> Edges:
    """Every possible edge with the same probability, independently."""
    probability = options.edge_probability
    if not 0.0 <= probability <= 1.0:
        raise TopologyError(f"topology.edge_probability must lie in [0, 1], got {probability}; 0.3 suits 20 clients")
    nodes = np.array(sorted(modalities_of))
    first, second = np.triu_indices(len(nodes), k=1)
    drawn = draws.random(len(first)) < probability
    return zip(nodes[first[drawn]].tolist(), nodes[second[drawn]].tolist(), strict=True)


def regular_edges(modalities_of: Ownership, draws: np.random.Generator, options: TopologyOptions) -> Edges:
    """Edges of a random graph in which every client has the same number of neighbors."""
    nodes, degree = sorted(modalities_of), options.degree
    if not 1 <= degree < len(nodes) or degree * len(nodes) % 2:
        raise TopologyError(
            f"topology.degree must lie in [1, {len(nodes) - 1}] and degree times the {len(nodes)} clients must be even,"
            f" got {degree}"
        )
    # networkx has a generator of its own: seeded from the named stream, the graph depends on that stream alone.
    drawn = nx.random_regular_graph(degree, len(nodes), seed=int(draws.integers(2**32)))
    return [(nodes[first], nodes[second]) for first, second in drawn.edges]


def small_world_edges(modalities_of: Ownership, draws: np.random.Generator, options: TopologyOptions) -> Edges:
    """Edges of a Watts-Strogatz graph: a ring of near neighbors, of which some are exchanged for far ones.

    Source: Watts and Strogatz, Nature 393 (1998). Clients stand on the ring in the order of `ring_order`.
    """
    order, degree = ring_order(modalities_of), options.degree
    if not 2 <= degree < len(order) or degree % 2:
        raise TopologyError(
            f"topology.degree must be even and lie in [2, {len(order) - 1}] for topology.kind = 'small_world' with"
            f" {len(order)} clients, got {degree}"
        )
    drawn = nx.watts_strogatz_graph(len(order), degree, options.rewiring_probability, seed=int(draws.integers(2**32)))
    return [(order[first], order[second]) for first, second in drawn.edges]


def scale_free_edges(modalities_of: Ownership, draws: np.random.Generator, options: TopologyOptions) -> Edges:
    """Edges of a Barabasi-Albert graph: clients join one by one and prefer neighbors that have many already.

    Source: Barabasi and Albert, Science 286 (1999). Who joins when is drawn, so that ids do not tell the degree.
    """
    nodes, attached = np.array(sorted(modalities_of)), options.attached
    if not 1 <= attached < len(nodes):
        raise TopologyError(
            f"topology.attached must lie in [1, {len(nodes) - 1}] with {len(nodes)} clients, got {attached}"
        )
    nodes = draws.permutation(nodes)
    drawn = nx.barabasi_albert_graph(len(nodes), attached, seed=int(draws.integers(2**32)))
    return [(int(nodes[first]), int(nodes[second])) for first, second in drawn.edges]


def star_edges(modalities_of: Ownership, _draws: np.random.Generator, _options: TopologyOptions) -> Edges:
    """Edges from every client to one, the first of those with the most modalities."""
    # Every edge of a star ends there, so modalities that the center lacks cannot be connected.
    center = min(modalities_of, key=lambda client: (-len(modalities_of[client]), client))
    return [(center, client) for client in modalities_of if client != center]


def complete_edges(modalities_of: Ownership, _draws: np.random.Generator, _options: TopologyOptions) -> Edges:
    """Edges between all pairs of clients."""
    return combinations(sorted(modalities_of), 2)


def grid_edges(modalities_of: Ownership, _draws: np.random.Generator, _options: TopologyOptions) -> Edges:
    """Edges of a square lattice, its last row as long as clients last: up to four neighbors each.

    Clients stand on it in the order of `line_order`, every second row from right to left, so that the owners of a
    modality stand together.
    """
    order = line_order(modalities_of)
    n_columns = math.isqrt(max(0, len(order) - 1)) + 1
    rows = [order[start : start + n_columns] for start in range(0, len(order), n_columns)]
    # a row that goes back and is not full ends under the middle of the row above
    at = {
        (row, column if row % 2 == 0 else n_columns - 1 - column): client
        for row, clients in enumerate(rows)
        for column, client in enumerate(clients)
    }
    steps = ((0, 1), (1, 0))
    ends = [(place, (place[0] + down, place[1] + right)) for place in at for down, right in steps]
    return [(at[here], at[there]) for here, there in ends if there in at]


def island_edges(modalities_of: Ownership, _draws: np.random.Generator, options: TopologyOptions) -> Edges:
    """Edges between all pairs of a group, and none between groups; owners of every modality are dealt to all groups."""
    n_islands = options.islands
    if not 1 <= n_islands <= len(modalities_of):
        raise TopologyError(
            f"topology.islands must lie in [1, {len(modalities_of)}] with {len(modalities_of)} clients, got {n_islands}"
        )
    order = line_order(modalities_of)
    return [edge for first in range(n_islands) for edge in combinations(sorted(order[first::n_islands]), 2)]


def listed_edges(modalities_of: Ownership, _draws: np.random.Generator, options: TopologyOptions) -> Edges:
    """The edges in a text file: `i j` per line; # starts a comment; empty lines do not count."""
    path = Path(options.edge_list)
    try:
        lines = read_regular(path, MAX_EDGE_LIST_BYTES).decode("utf-8").splitlines()
    except (OSError, ValueError) as error:  # ValueError: not text, or a NUL in the path
        raise TopologyError(
            f"topology.edge_list {shown(options.edge_list)!r} cannot be read ({reason(error)}); give a text file"
        ) from None
    contents = ((number, line.partition("#")[0].split()) for number, line in enumerate(lines, start=1))
    return [_edge(words, f"{path}, line {number}", modalities_of) for number, words in contents if words]


TOPOLOGIES: dict[str, Generator] = {
    "ring": ring_edges,
    "erdos_renyi": erdos_renyi_edges,
    "regular": regular_edges,
    "small_world": small_world_edges,
    "scale_free": scale_free_edges,
    "star": star_edges,
    "complete": complete_edges,
    "grid": grid_edges,
    "islands": island_edges,
    "edge_list": listed_edges,
    "mobile": complete_edges,  # all pairs that can ever be in range; `MovingGraph` has those of an instant
}

DRAWN_KINDS = frozenset({"erdos_renyi", "regular", "small_world", "scale_free"})

#: Kinds whose groups are meant to be apart: nobody can be asked to reach all others.
KINDS_APART = frozenset({"islands"})

REMEDIES = {
    "ring": "no order of the clients keeps each modality together, so let a client own several modalities",
    "erdos_renyi": f"{MAX_TRIES} draws did not connect them, so raise topology.edge_probability",
    "regular": f"{MAX_TRIES} draws did not connect them, so raise topology.degree",
    "small_world": f"{MAX_TRIES} draws did not connect them, so raise topology.degree",
    "scale_free": f"{MAX_TRIES} draws did not connect them, so raise topology.attached",
    "star": "the center must own every modality that several clients own, so let one client own them all",
    "grid": "no order of the clients keeps each modality together, so let a client own several modalities",
    "complete": "let them share the modality",  # cannot happen: two owners of a modality always have an edge here
    "edge_list": "add an edge between them to topology.edge_list",
    "mobile": "let them share the modality",  # cannot happen either
}


def _edge(words: list[str], where: str, modalities_of: Ownership) -> tuple[NodeId, NodeId]:
    """One line of an edge list, checked."""
    try:
        first, second = (int(word) for word in words)
    except ValueError:
        raise TopologyError(f"{where}: expected two client numbers 'i j', got {quoted(' '.join(words))}") from None
    if first == second:
        raise TopologyError(f"{where}: client {first} has an edge to itself; remove the line")
    for client in (first, second):
        if client not in modalities_of:
            raise TopologyError(f"{where}: unknown client {client}; the clients are {listed_clients(modalities_of)}")
    return first, second


def listed_clients(clients: Iterable[NodeId]) -> str:
    """{0, 3, 7}, cut short where long."""
    ordered = sorted(clients)
    cut = ", ..." if len(ordered) > _SHOWN_CLIENTS else ""
    return "{" + ", ".join(map(str, ordered[:_SHOWN_CLIENTS])) + cut + "}"


def ring_order(modalities_of: Mapping[NodeId, frozenset[Modality]]) -> list[NodeId]:
    """All clients, ordered so that each modality's owners form one arc of the ring, where such an order exists.

    Clients with the same modalities stay together; only those with the most may stand in two places, so that GPS
    clients, both, RF clients, both close a full ring. Prefers a ring without gaps; where no order works, the clients
    are ordered by id, and the connectivity check reports what is wrong.
    """
    pieces = _pieces(modalities_of)
    # Around the ring every modality starts once and ends once, and every change of group is one of these: a cheap
    # way to see that no order exists, which also keeps the search short.
    n_groups = len({group for group, _ in pieces})
    if n_groups > 2 * len(frozenset[Modality]().union(*modalities_of.values())):
        return sorted(modalities_of)
    # A gap is a pair of ring neighbors without a shared modality, between which there will be no edge.
    closed = (order for order in _orders(pieces[:1], pieces[1:], _are_linked_arcs) if order[-1][0] & order[0][0])
    order = next(chain(closed, _orders(pieces[:1], pieces[1:], _are_arcs)), None)
    return sorted(modalities_of) if order is None else [client for _, clients in order for client in clients]


def line_order(modalities_of: Mapping[NodeId, frozenset[Modality]]) -> list[NodeId]:
    """All clients, ordered so that each modality's owners stand together, where such an order exists.

    Clients with the same modalities stay together. Where no order works, that of the ring is taken.
    """
    groups: dict[frozenset[Modality], list[NodeId]] = {}
    for group, clients in _pieces(modalities_of):
        groups.setdefault(group, []).extend(clients)
    pieces = [(group, tuple(sorted(clients))) for group, clients in groups.items()]
    order = next(_orders([], pieces, _stand_together), None)
    return ring_order(modalities_of) if order is None else [client for _, clients in order for client in clients]


def _pieces(modalities_of: Mapping[NodeId, frozenset[Modality]]) -> list[Piece]:
    """Clients by what they own, in a fixed order; the best equipped first, and in two halves."""
    groups: dict[frozenset[Modality], list[NodeId]] = {}
    for client in sorted(modalities_of):
        groups.setdefault(modalities_of[client], []).append(client)
    owned = sorted(groups, key=lambda group: (-len(group), [MODALITIES.index(m) for m in MODALITIES if m in group]))
    pieces = [(group, tuple(groups[group])) for group in owned]
    group, clients = pieces[0]
    # The owners of most modalities link the arcs of two modalities, and a ring has two such places.
    half = len(clients) // 2
    return [*((group, part) for part in (clients[:half], clients[half:]) if part), *pieces[1:]]


def _orders(placed: list[Piece], left: list[Piece], fits: Callable[[list[Piece]], bool]) -> Iterator[list[Piece]]:
    """Orders of which every beginning fits, by depth-first search that stops where one does not."""
    if not fits(placed):
        return
    if not left:
        yield placed
    for index, piece in enumerate(left):
        yield from _orders([*placed, piece], left[:index] + left[index + 1 :], fits)


def _runs(placed: list[Piece], modality: Modality) -> list[bool]:
    """Whether owners stand at each place, with repetitions removed: [True, False, True] is two runs."""
    owned = [modality in piece[0] for piece in placed]
    return owned[:1] + [after for before, after in pairwise(owned) if before != after]


def _are_arcs(placed: list[Piece]) -> bool:
    """Each modality changes sides twice at most: its owners stand together, if need be around the seam."""
    # Three runs, such as owned, not owned, owned, still close to one arc around the seam.
    return all(len(_runs(placed, modality)) <= 3 for modality in MODALITIES)


def _are_linked_arcs(placed: list[Piece]) -> bool:
    """Arcs, and next to each piece one with a modality in common."""
    return _are_arcs(placed) and all(before[0] & after[0] for before, after in pairwise(placed))


def _stand_together(placed: list[Piece]) -> bool:
    """Each modality's owners stand side by side."""
    return all(sum(_runs(placed, modality)) <= 1 for modality in MODALITIES)

"""Cutting a graph into parts of about one size with few edges between them."""

from __future__ import annotations

import math
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError
from .graph_edges import Edges, Nodes, neighbor_lists

#: Overlapping parts are drawn so often from each part of the partition, each time this share of its nodes.
TIMES_SAMPLED, SHARE_SAMPLED = 5, 0.5


def metis_is_installed() -> bool:
    """Whether graphs are cut by METIS; without it they are cut in a simpler way, and figures are not those of METIS."""
    return find_spec("pymetis") is not None


def partition(n_nodes: int, edges: Edges, n_parts: int, draws: np.random.Generator) -> list[Nodes]:
    """Nodes of every part, disjoint and covering all: by METIS, or breadth first where it is missing.

    Source: G. Karypis, V. Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", 1998,
    through the package pymetis, with the seed drawn here.
    """
    if n_parts == 1:
        return [np.arange(n_nodes)]
    seed = int(draws.integers(2**31 - 1))
    if not metis_is_installed():
        return breadth_first_partition(n_nodes, edges, n_parts, draws)
    import pymetis  # noqa: PLC0415 - an extra that most users do not need

    neighbors = [own.tolist() for own in neighbor_lists(n_nodes, edges)]
    _, of_node = pymetis.part_graph(n_parts, adjacency=neighbors, options=pymetis.Options(seed=seed))
    found = np.asarray(of_node)
    return [np.flatnonzero(found == part) for part in range(n_parts)]


def breadth_first_partition(n_nodes: int, edges: Edges, n_parts: int, draws: np.random.Generator) -> list[Nodes]:
    """Parts of one size, each grown from a node drawn at random; a new one where a part finds no way on."""
    neighbors, free = neighbor_lists(n_nodes, edges), np.ones(n_nodes, dtype=np.bool_)
    starts = iter(draws.permutation(n_nodes))
    parts: list[Nodes] = []
    for number in range(n_parts):
        size = n_nodes * (number + 1) // n_parts - n_nodes * number // n_parts
        part: list[int] = []
        reached = 0
        while len(part) < size:
            if reached == len(part):  # nothing to go on from
                part.append(int(next(node for node in starts if free[node])))
                free[part[-1]] = False
            fresh = [int(one) for one in neighbors[part[reached]] if free[one]][: size - len(part)]
            free[fresh] = False
            part += fresh
            reached += 1
        parts.append(np.sort(np.array(part, dtype=np.int64)))
    return parts


def overlapping_partition(n_nodes: int, edges: Edges, n_parts: int, draws: np.random.Generator) -> list[Nodes]:
    """A fifth as many disjoint parts, and of each five times a random half of its nodes.

    Raises:
        ConfigError: the number of parts is no multiple of five.

    Source: J. Baek et al., "Personalized subgraph federated learning", ICML 2023, overlapping scenario.
    """
    if n_parts % TIMES_SAMPLED:
        raise ConfigError(
            f"clients.n_clients must be a multiple of {TIMES_SAMPLED} with data.owners = 'metis_overlap', which draws"
            f" {TIMES_SAMPLED} clients from each part, got {n_parts}; set it to 30"
        )
    disjoint = partition(n_nodes, edges, n_parts // TIMES_SAMPLED, draws)
    return [_half(part, draws) for part in disjoint for _ in range(TIMES_SAMPLED)]


def _half(part: Nodes, draws: np.random.Generator) -> Nodes:
    return np.sort(draws.permutation(part)[: math.ceil(SHARE_SAMPLED * len(part))])


def node_parts(n_nodes: int, shares: tuple[float, float, float], draws: np.random.Generator) -> NDArray[np.str_]:
    """[n_nodes] whether a node is trained, validated or tested on, drawn on the whole graph before it is cut.

    Drawn client by client, a node of two overlapping parts could be trained on by one client and tested at the other.

    Args:
        n_nodes: number of nodes.
        shares: of train, validation and test; they add up to 1.
        draws: the only randomness.
    """
    ends = np.round(np.cumsum(shares)[:2] * n_nodes).astype(np.int64)
    names = np.repeat(np.array(("train", "validation", "test")), np.diff([0, *ends, n_nodes]))
    parts = np.empty_like(names)
    parts[draws.permutation(n_nodes)] = names
    return parts

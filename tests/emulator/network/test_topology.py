"""Topologies: only neighbors that share a sense, every modality in one piece, or a sentence that says why not."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sheafedge.emulator.contracts import MODALITIES, ConfigError, Modality, TopologyError
from sheafedge.emulator.network import topology
from sheafedge.emulator.network.edge_generators import KINDS_APART, TOPOLOGIES, TopologyOptions, ring_order
from sheafedge.emulator.network.topology import build_topology, check_connected, modality_subgraph

Ownership = dict[int, frozenset[Modality]]

GPS: frozenset[Modality] = frozenset({"gps"})
RF: frozenset[Modality] = frozenset({"rf"})
BOTH = GPS | RF
TWENTY: Ownership = dict(enumerate([GPS] * 4 + [RF] * 6 + [BOTH] * 10))

owned_sets = st.sets(st.sampled_from(MODALITIES), min_size=1).map(frozenset)
ownerships = st.dictionaries(st.integers(0, 50), owned_sets, min_size=1, max_size=14)


def draws(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def is_connected_everywhere(graph: nx.Graph, modalities_of: Ownership) -> bool:
    """Written apart from the code under test: flood each modality from one owner."""
    for modality in MODALITIES:
        owners = {client for client, owned in modalities_of.items() if modality in owned}
        reached, frontier = set(), set(list(owners)[:1])
        while frontier:
            reached |= frontier
            frontier = {n for client in frontier for n in graph.adj[client] if n in owners} - reached
        if reached != owners:
            return False
    return True


@pytest.mark.parametrize("kind", sorted(set(TOPOLOGIES) - {"edge_list", *KINDS_APART}))
def test_every_kind_carries_twenty_mixed_clients(kind: str) -> None:
    owned = TWENTY | {0: BOTH}
    graph = build_topology(kind, owned, draws())
    assert sorted(graph) == sorted(owned)
    assert all(owned[a] & owned[b] and a != b for a, b in graph.edges)
    assert is_connected_everywhere(graph, owned)


@settings(max_examples=40)
@given(
    kind=st.sampled_from(["ring", "erdos_renyi", "regular", "small_world", "scale_free", "star", "complete", "grid"]),
    owned=ownerships,
    seed=st.integers(0),
)
def test_a_topology_is_connected_in_every_modality_or_refused(kind: str, owned: Ownership, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topology, "MAX_TRIES", 10)  # most of these are refused, and all tries take their time
        try:
            graph = build_topology(kind, owned, draws(seed), TopologyOptions(edge_probability=0.5, degree=2))
        except TopologyError:
            return
    assert sorted(graph) == sorted(owned)
    assert all(owned[a] & owned[b] and a != b for a, b in graph.edges)
    assert is_connected_everywhere(graph, owned)


@given(owned=ownerships)
def test_a_complete_graph_always_carries_the_run_and_has_every_shared_edge(owned: Ownership) -> None:
    graph = build_topology("complete", owned, draws())
    expected = {(a, b) for a, b in combinations(sorted(owned), 2) if owned[a] & owned[b]}
    assert {(min(edge), max(edge)) for edge in graph.edges} == expected


@given(owned=ownerships, edges=st.sets(st.tuples(st.integers(0, 50), st.integers(0, 50))))
def test_the_check_accepts_exactly_the_graphs_that_connect_every_modality(
    owned: Ownership, edges: set[tuple[int, int]]
) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(owned)
    graph.add_edges_from((a, b) for a, b in edges if a in owned and b in owned and a != b)
    if is_connected_everywhere(graph, owned):
        check_connected(graph, owned)
    else:
        with pytest.raises(TopologyError, match="cannot reach"):
            check_connected(graph, owned)


def test_the_error_names_the_modality_the_pieces_and_the_remedy() -> None:
    owned: Ownership = {0: GPS, 3: GPS, 5: RF, 7: GPS, 9: GPS}
    graph = nx.Graph([(0, 3), (7, 9), (3, 5), (5, 7)])  # connected as a whole, but GPS does not pass through 5
    with pytest.raises(TopologyError, match=r"modality 'gps': clients \{0, 3\} cannot reach \{7, 9\} .*add an edge"):
        check_connected(graph, owned)
    assert issubclass(TopologyError, ConfigError)


def test_a_lone_owner_is_connected() -> None:
    check_connected(nx.empty_graph(1), {0: BOTH})
    owned: Ownership = {0: GPS, 1: RF}
    assert build_topology("complete", owned, draws()).number_of_edges() == 0


def test_a_modality_subgraph_holds_its_owners_and_their_edges() -> None:
    owned: Ownership = {0: GPS, 1: BOTH, 2: RF, 3: BOTH}
    graph = build_topology("complete", owned, draws())
    assert set(modality_subgraph(graph, owned, "rf")) == {1, 2, 3}
    assert {frozenset(edge) for edge in modality_subgraph(graph, owned, "gps").edges} == {
        frozenset(edge) for edge in [(0, 1), (0, 3), (1, 3)]
    }
    assert len(modality_subgraph(graph, owned, "camera")) == 0


@pytest.mark.parametrize("kind", ["erdos_renyi", "regular", "small_world", "scale_free"])
def test_the_same_draws_give_the_same_graph_and_others_another(kind: str) -> None:
    first, again, other = (set(build_topology(kind, TWENTY, draws(seed)).edges) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_order_in_which_clients_are_listed_does_not_matter() -> None:
    backwards = dict(reversed(TWENTY.items()))
    for kind in ("ring", "erdos_renyi", "regular", "small_world", "scale_free", "complete", "grid", "islands"):
        forwards = build_topology(kind, TWENTY, draws())
        assert nx.utils.graphs_equal(forwards, build_topology(kind, backwards, draws()))


def test_erdos_renyi_joins_as_many_pairs_as_asked() -> None:
    owned = dict.fromkeys(range(150), RF)
    n_pairs, probability = 150 * 149 / 2, 0.2
    n_edges = build_topology(
        "erdos_renyi", owned, draws(4), TopologyOptions(edge_probability=probability)
    ).number_of_edges()
    three_errors = 3 * (n_pairs * probability * (1 - probability)) ** 0.5
    assert abs(n_edges - n_pairs * probability) < three_errors


def test_erdos_renyi_is_drawn_again_until_it_is_connected() -> None:
    """At this probability most draws are disconnected, and every one of twenty seeds still succeeds."""
    single_draws = [nx.is_connected(nx.erdos_renyi_graph(8, 0.3, seed=seed)) for seed in range(20)]
    assert not all(single_draws)
    for seed in range(20):
        build_topology("erdos_renyi", dict.fromkeys(range(8), RF), draws(seed), TopologyOptions(edge_probability=0.3))


def test_too_sparse_a_graph_is_refused_with_the_setting_to_raise() -> None:
    complaint = r"modality 'rf': clients .* cannot reach .* raise topology.edge_probability"
    with pytest.raises(TopologyError, match=complaint):
        build_topology("erdos_renyi", dict.fromkeys(range(30), RF), draws(), TopologyOptions(edge_probability=0.01))


def test_a_small_world_is_a_ring_of_near_neighbors_until_edges_are_rewired() -> None:
    owned = dict.fromkeys(range(20), RF)
    lattice = build_topology("small_world", owned, draws(), TopologyOptions(degree=4, rewiring_probability=0.0))
    assert dict(lattice.degree) == dict.fromkeys(range(20), 4)
    assert nx.average_clustering(lattice) == pytest.approx(0.5)  # Watts and Strogatz: 3 (k - 2) / 4 (k - 1)
    rewired = build_topology("small_world", owned, draws(), TopologyOptions(degree=4, rewiring_probability=0.3))
    assert rewired.number_of_edges() == lattice.number_of_edges()
    assert nx.average_shortest_path_length(rewired) < nx.average_shortest_path_length(lattice)


def test_a_scale_free_graph_has_hubs_that_ids_do_not_tell() -> None:
    owned = dict.fromkeys(range(60), RF)
    graphs = [build_topology("scale_free", owned, draws(seed), TopologyOptions(attached=2)) for seed in range(8)]
    for graph in graphs:
        assert graph.number_of_edges() == 2 * (60 - 2)
        assert min(degree for _, degree in graph.degree) == 2
        assert max(degree for _, degree in graph.degree) >= 10
    assert len({max(graph, key=graph.degree) for graph in graphs}) > 4


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        ("small_world", TopologyOptions(degree=3), r"topology\.degree must be even and lie in \[2, 7\].*got 3"),
        ("small_world", TopologyOptions(degree=8), r"topology\.degree must be even and lie in \[2, 7\].*got 8"),
        ("islands", TopologyOptions(islands=9), r"topology\.islands must lie in \[1, 8\].*got 9"),
        ("scale_free", TopologyOptions(attached=8), r"topology\.attached must lie in \[1, 7\].*got 8"),
    ],
)
def test_sizes_that_no_such_graph_has_are_refused(kind: str, options: TopologyOptions, sentence: str) -> None:
    with pytest.raises(TopologyError, match=sentence):
        build_topology(kind, dict.fromkeys(range(8), RF), draws(), options)


def test_regular_gives_everybody_the_same_number_of_neighbors() -> None:
    graph = build_topology("regular", dict.fromkeys(range(10, 30), RF), draws(), TopologyOptions(degree=5))
    assert {degree for _, degree in graph.degree} == {5}


@pytest.mark.parametrize(("n_clients", "degree"), [(4, 4), (4, 0), (5, 3), (1, 1)])
def test_impossible_degrees_are_refused(n_clients: int, degree: int) -> None:
    with pytest.raises(TopologyError, match=r"topology.degree must lie in .* got"):
        build_topology("regular", dict.fromkeys(range(n_clients), RF), draws(), TopologyOptions(degree=degree))


@pytest.mark.parametrize("n_clients", [1, 2, 5, 9, 20])
def test_a_grid_is_a_square_lattice_with_a_last_row_that_may_be_short(n_clients: int) -> None:
    graph = build_topology("grid", dict.fromkeys(range(n_clients), RF), draws())
    side = math.isqrt(max(0, n_clients - 1)) + 1
    lattice = nx.grid_2d_graph(-(-n_clients // side), side)
    back = lattice.number_of_nodes() // side % 2 == 0  # the last row goes from right to left
    missing = lattice.number_of_nodes() - n_clients
    for column in range(missing):
        lattice.remove_node((-(-n_clients // side) - 1, column if back else side - 1 - column))
    assert nx.is_isomorphic(graph, lattice)


def test_on_a_grid_the_owners_of_a_modality_stand_together() -> None:
    """Dealt by id they would not: gps clients would be apart."""
    graph = build_topology("grid", TWENTY, draws())
    assert is_connected_everywhere(graph, TWENTY)
    assert max(degree for _, degree in graph.degree) <= 4
    apart: Ownership = {0: GPS, 1: RF, 2: GPS}
    with pytest.raises(TopologyError, match="modality 'gps'"):
        check_connected(nx.path_graph(3), apart)
    assert nx.number_connected_components(nx.Graph(build_topology("grid", {0: GPS, 1: GPS}, draws()).edges)) == 1


def test_islands_are_complete_mixed_and_apart() -> None:
    graph = build_topology("islands", TWENTY, draws(), TopologyOptions(islands=4))
    by_id = {node: island for island, nodes in enumerate(nx.connected_components(graph)) for node in nodes}
    assert len({*by_id.values()}) >= 4
    for a, b in combinations(sorted(TWENTY), 2):
        if by_id[a] == by_id[b] and TWENTY[a] & TWENTY[b]:
            assert graph.has_edge(a, b)
    sizes = sorted(len(nodes) for nodes in nx.connected_components(graph))
    assert sizes == [5, 5, 5, 5]
    for nodes in nx.connected_components(graph):
        assert frozenset[str]().union(*(TWENTY[node] for node in nodes)) == BOTH


def test_a_star_centers_on_who_owns_most() -> None:
    graph = build_topology("star", {0: GPS, 1: RF, 2: BOTH, 3: BOTH, 4: GPS}, draws())
    assert set(graph.edges(2)) == {(2, 0), (2, 1), (2, 3), (2, 4)}
    assert graph.number_of_edges() == 4


def test_a_star_whose_center_lacks_a_shared_modality_is_refused() -> None:
    owned: Ownership = {0: GPS, 1: GPS, 2: RF, 3: RF}
    with pytest.raises(TopologyError, match=r"modality 'rf': .*the center must own every modality"):
        build_topology("star", owned, draws())


def test_a_ring_of_three_groups_closes_without_a_gap() -> None:
    graph = build_topology("ring", TWENTY, draws())
    assert {degree for _, degree in graph.degree} == {2}
    assert nx.is_connected(graph)


def test_a_ring_with_a_single_go_between_is_a_chain() -> None:
    owned: Ownership = {0: GPS, 1: RF, 2: BOTH, 3: GPS, 4: RF}
    graph = build_topology("ring", owned, draws())
    assert sorted(degree for _, degree in graph.degree) == [1, 1, 2, 2, 2]


@pytest.mark.parametrize(("n_clients", "n_edges"), [(1, 0), (2, 1), (3, 3), (7, 7)])
def test_small_rings(n_clients: int, n_edges: int) -> None:
    assert build_topology("ring", dict.fromkeys(range(n_clients), RF), draws()).number_of_edges() == n_edges


@given(owned=st.dictionaries(st.integers(0, 9), owned_sets, min_size=1, max_size=6))
def test_a_ring_is_refused_only_where_no_order_of_the_clients_works(owned: Ownership) -> None:
    from itertools import pairwise, permutations

    def works(order: tuple[int, ...]) -> bool:
        graph = nx.Graph()
        graph.add_nodes_from(order)
        edges = [*pairwise(order), (order[-1], order[0])]
        graph.add_edges_from((a, b) for a, b in edges if a != b and owned[a] & owned[b])
        return is_connected_everywhere(graph, owned)

    possible = any(works((min(owned), *rest)) for rest in permutations(sorted(owned)[1:]))
    assert sorted(ring_order(owned)) == sorted(owned)
    if possible:
        build_topology("ring", owned, draws())
    else:
        with pytest.raises(TopologyError, match="no order of the clients keeps each modality together"):
            build_topology("ring", owned, draws())


def test_a_hopeless_ring_of_all_fifteen_groups_is_refused_quickly() -> None:
    subsets = [frozenset(c) for size in range(1, 5) for c in combinations(MODALITIES[:4], size)]
    with pytest.raises(TopologyError, match="no order of the clients"):
        build_topology("ring", dict(enumerate(subsets * 2)), draws())


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "edges.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_edge_list_is_read_with_comments_and_masked(tmp_path: Path) -> None:
    path = write(tmp_path, "# a small town\n0 1\n\n1 2  # the long way\n 2\t1\n0 2\n")
    graph = build_topology("edge_list", {0: GPS, 1: BOTH, 2: RF}, draws(), TopologyOptions(edge_list=str(path)))
    assert {frozenset(edge) for edge in graph.edges} == {frozenset((0, 1)), frozenset((1, 2))}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1", r"edges.txt, line 2: expected two client numbers 'i j', got '1'"),
        ("1 2 0.5", "line 2: expected two client numbers"),
        ("1 two", "line 2: expected two client numbers 'i j', got '1 two'"),
        ("1,2", "line 2: expected two client numbers"),
        ("2 2", "line 2: client 2 has an edge to itself; remove the line"),
        ("1 77", r"line 2: unknown client 77; the clients are \{0, 1, 2\}"),
        ("-1 0", "line 2: unknown client -1"),
    ],
)
def test_a_bad_line_of_an_edge_list_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path, f"0 1\n{line}\n")
    with pytest.raises(TopologyError, match=complaint):
        build_topology("edge_list", dict.fromkeys(range(3), RF), draws(), TopologyOptions(edge_list=path))


def test_an_edge_list_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    not_text = tmp_path / "edges.bin"
    not_text.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.txt", tmp_path, not_text, "\0"):
        with pytest.raises(TopologyError, match=r"topology.edge_list .* cannot be read"):
            build_topology("edge_list", {0: RF, 1: RF}, draws(), TopologyOptions(edge_list=path))


def test_an_edge_list_that_leaves_a_modality_in_pieces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"cannot reach .* to topology.edge_list"):
        build_topology(
            "edge_list", dict.fromkeys(range(4), RF), draws(), TopologyOptions(edge_list=write(tmp_path, "0 1\n2 3\n"))
        )


def test_unknown_kinds_are_refused_with_the_known_ones() -> None:
    with pytest.raises(TopologyError, match=r"unknown topology.kind 'torus'; known: complete, edge_list, erdos_renyi"):
        build_topology("torus", TWENTY, draws())


def test_clients_without_a_modality_and_no_clients_at_all_are_refused() -> None:
    with pytest.raises(TopologyError, match="client 1 owns no modality"):
        build_topology("ring", {0: RF, 1: frozenset()}, draws())
    with pytest.raises(TopologyError, match="no clients"):
        build_topology("ring", {}, draws())


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_impossible_edge_probabilities_are_refused(probability: float) -> None:
    with pytest.raises(TopologyError, match=r"topology.edge_probability must lie in \[0, 1\], got"):
        build_topology("erdos_renyi", TWENTY, draws(), TopologyOptions(edge_probability=probability))


@given(owned=ownerships)
def test_probability_one_is_the_complete_graph(owned: Ownership) -> None:
    assume(len(owned) > 1)
    drawn = build_topology("erdos_renyi", owned, draws(), TopologyOptions(edge_probability=1.0))
    assert nx.utils.graphs_equal(drawn, build_topology("complete", owned, draws()))

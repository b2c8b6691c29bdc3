"""Wiring: who gets what, from which stream, and what is refused before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.contracts import ConfigError
from sheafedge.models.head import HeadLayout
from sheafedge.models.sheaf.drawn_maps import drawn_starts
from sheafedge.models.sheaf.map_starts import dense_start
from sheafedge.scenarios.schema.neighborhood import assign_groups, with_groups_linked
from sheafedge.scenarios.schema.rules.coupling_strength import coupling_strength
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario, shipped_scenarios
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.coupling_watch import coupling_warnings
from sheafedge.scenarios.wiring.data import ClientData, load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build
from sheafedge.scenarios.wiring.mixing import group_weights, mixing_weights, neighbor_weights
from sheafedge.scenarios.wiring.torch_setup import choose_device

ROUNDING = 1e-12  # sums of a few float64 weights
STANDARD_ERRORS = 5.0  # beyond them once in two million tests
MODALITIES = {"gps": ["gps"], "rf": ["rf"], "both": ["gps", "rf"]}

Build = Callable[..., Emulation]


@pytest.fixture(scope="module")
def data_of() -> Callable[[Scenario], list[ClientData]]:
    """Reads what clients own, once for every way to share it out."""
    loaded: dict[str, list[ClientData]] = {}

    def of(scenario: Scenario) -> list[ClientData]:
        key = repr((scenario.seed, scenario.data, scenario.clients, scenario.world))
        if key not in loaded:
            loaded[key] = load_data(scenario).clients
        return loaded[key]

    return of


@pytest.fixture
def wire(tiny: Scenario, data_of: Callable[[Scenario], list[ClientData]]) -> Iterator[Build]:
    """Builds variants of the tiny scenario, and closes them."""
    built: list[Emulation] = []

    def one(edits: Mapping[str, Any] | None = None, **options: Any) -> Emulation:
        scenario = tiny.edited(edits or {})
        built.append(build(scenario, data_of(scenario), lambda *_: {}, lambda *_: None, **options))
        return built[-1]

    yield one
    for emulation in built:
        emulation.close()


def dealt_groups(scenario: Scenario) -> list[str]:
    return assign_groups(scenario.clients, scenario.seed)


def with_groups(tiny: Scenario, n_clients: int, shares: list[float], seed: int = 0) -> Scenario:
    groups = [{"name": f"g{i}", "modalities": ["rf"], "share": share} for i, share in enumerate(shares)]
    return tiny.edited({"clients": {"n_clients": n_clients, "groups": groups}, "seed": seed})


def head(client: Client) -> torch.Tensor:
    return client.models["fused"].head.detach()


def encoder(client: Client, modality: str) -> torch.Tensor:
    return torch.cat([value.flatten() for value in client.models["fused"].encoders[modality].state_dict().values()])


def common_encoders(first: Client, second: Client) -> list[tuple[torch.Tensor, torch.Tensor]]:
    shared = [modality for modality in first.modalities if modality in second.modalities]
    return [(encoder(first, modality), encoder(second, modality)) for modality in shared]


@given(n_clients=st.integers(1, 200), weights=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any))
def test_groups_get_their_share_of_clients_rounded_by_largest_remainder(
    tiny: Scenario, n_clients: int, weights: list[int]
) -> None:
    names = dealt_groups(with_groups(tiny, n_clients, [weight / sum(weights) for weight in weights]))
    counts = [names.count(f"g{index}") for index in range(len(weights))]
    assert len(names) == n_clients
    rounded_up, rounded_down = [sum(weights)], [0]
    for count, weight in zip(counts, weights, strict=True):
        whole, remainder = divmod(weight * n_clients, sum(weights))  # exact
        assert count in (whole, whole + 1)
        (rounded_up if count > whole else rounded_down).append(remainder)
    assert min(rounded_up) >= max(rounded_down)


def test_twenty_base_stations_are_four_with_gps_six_with_rf_and_ten_with_both() -> None:
    assert Counter(dealt_groups(load_scenario("beam_tracking"))) == {"gps": 4, "rf": 6, "both": 10}


def test_twenty_base_stations_that_watch_a_street_are_seven_seven_and_six() -> None:
    dealt = Counter(dealt_groups(load_scenario("blockage")))
    assert dealt == {"lidar+camera": 7, "lidar+rf": 7, "camera+rf": 6}


def test_linked_groups_have_an_edge_between_any_two_members_and_none_to_others() -> None:
    linked = with_groups_linked(nx.path_graph(2), ["a", "b", "a", "a"])
    assert sorted(map(sorted, linked.edges)) == [[0, 1], [0, 2], [0, 3], [2, 3]]


def test_groups_are_dealt_in_an_order_that_the_seed_decides(tiny: Scenario) -> None:
    dealt = [dealt_groups(with_groups(tiny, 20, [0.5, 0.5], seed)) for seed in (0, 0, 1)]
    assert dealt[0] == dealt[1]
    assert dealt[0] != dealt[2]
    assert dealt[0] != sorted(dealt[0])


def test_groups_without_clients_are_left_out(wire: Build) -> None:
    groups = [
        {"name": "all", "modalities": ["rf"], "share": 1.0},
        {"name": "none", "modalities": ["gps"], "share": 0.0},
    ]
    assert {name: len(members) for name, members in wire({"clients.groups": groups}).groups.items()} == {"all": 4}


def test_clients_own_the_modalities_of_their_group(wire: Build) -> None:
    for client in wire().clients:
        assert sorted(client.modalities) == MODALITIES[client.group]
        assert sorted(client.models["fused"].modalities) == MODALITIES[client.group]


def test_mixing_is_doubly_stochastic_in_every_modality(wire: Build) -> None:
    """What keeps the mean of encoders where it is; a client's own weight is what the neighbors leave."""
    emulation = wire()
    weights = mixing_weights(emulation.clients, emulation.graph)
    for modality in ("gps", "rf"):
        owners = [client.client_id for client in emulation.clients if modality in client.modalities]
        matrix = np.zeros((len(owners), len(owners)))
        for row, node in enumerate(owners):
            for peer, weight in weights[node][modality].items():
                assert emulation.graph.has_edge(node, peer)
                matrix[row, owners.index(peer)] = weight
        np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(axis=0), 1.0, atol=ROUNDING)
        np.testing.assert_allclose(matrix, matrix.T, atol=ROUNDING)
        assert len(owners) == 3  # one gps, one rf, two both
    outsiders = [client for client in emulation.clients if "gps" not in client.modalities]
    assert outsiders
    assert all("gps" not in weights[client.client_id] for client in outsiders)


def test_personal_encoders_have_no_mixing_weights_and_change_nobody_elses(wire: Build) -> None:
    edits = {"training.personal_encoders": ["gps"]}
    plain, personal = wire(), wire(edits)
    assert set(plain.graph.edges) == set(personal.graph.edges)
    weights = mixing_weights(plain.clients, plain.graph)
    left = mixing_weights(plain.clients, plain.graph, personal=("gps",))
    assert any("gps" in of_client for of_client in weights.values())
    assert left == {node: {m: w for m, w in own.items() if m != "gps"} for node, own in weights.items()}


def test_heads_start_equal_unless_the_scenario_says_otherwise(wire: Build) -> None:
    common, independent = (wire({"model.head_start": start}).clients for start in ("common", "independent"))
    assert all(torch.equal(head(one), head(other)) for one, other in pairwise(common))
    assert not any(torch.equal(head(one), head(other)) for one, other in pairwise(independent))


@pytest.mark.parametrize("start", ["common", "independent"])
def test_encoders_of_a_modality_start_equal_at_all_its_owners(start: str, wire: Build) -> None:
    clients = wire({"model.head_start": start}).clients
    pairs = [pair for one, other in pairwise(clients) for pair in common_encoders(one, other)]
    assert len(pairs) >= 2
    assert all(torch.equal(one, other) for one, other in pairs)


def test_the_seed_decides_the_initial_models(wire: Build) -> None:
    def initial(seed: int) -> torch.Tensor:
        client = next(client for client in wire({"seed": seed}).clients if client.group == "both")
        return torch.cat([head(client), encoder(client, "rf")])

    assert torch.equal(initial(0), initial(0))
    assert not torch.equal(initial(0), initial(1))


def test_a_model_alone_starts_as_inside_the_fused_one(wire: Build) -> None:
    """So that algorithms differ in what they do, not in their luck."""
    fused = next(client for client in wire().clients if client.group == "both")
    alone = next(client for client in wire({"algorithm": "dsgd"}).clients if client.client_id == fused.client_id)
    assert set(alone.models) == {"gps", "rf"}
    for modality in ("gps", "rf"):
        own = torch.cat([v.flatten() for v in alone.models[modality].encoders[modality].state_dict().values()])
        assert torch.equal(own, encoder(fused, modality))


@pytest.mark.parametrize(
    "edits",
    [
        {"link.loss_probability": 0.5, "links.model": "gilbert_elliott"},
        {"sheaf.coupling": 0.3, "sheaf.compression": 0.5},
        {"network.missing": "stale"},
        {"training.batch_size": 4},
    ],
)
def test_changing_one_part_moves_no_other_parts_draws(edits: dict[str, Any], wire: Build) -> None:
    before, after = (
        wire({"topology.kind": "erdos_renyi", "topology.edge_probability": 0.8}),
        wire({"topology.kind": "erdos_renyi", "topology.edge_probability": 0.8, **edits}),
    )
    assert [client.group for client in before.clients] == [client.group for client in after.clients]
    assert set(before.graph.edges) == set(after.graph.edges)
    assert all(torch.equal(head(one), head(other)) for one, other in zip(before.clients, after.clients, strict=True))


def test_building_leaves_the_global_generator_of_torch_alone(wire: Build) -> None:
    before = torch.get_rng_state()
    wire()
    assert torch.equal(torch.get_rng_state(), before)


def test_models_come_in_the_precision_that_is_asked_for(wire: Build) -> None:
    for client in wire(dtype=torch.float64).clients:
        assert {value.dtype for value in client.models["fused"].state_dict().values()} == {torch.float64}


@pytest.mark.parametrize(
    ("edits", "fragments"),
    [
        ({"network.transport": "zmq", "network.address": "nowhere"}, ("network.address", "'nowhere'", "inproc://NAME")),
        ({"topology.kind": "edge_list", "topology.edge_list": "/no/file"}, ("topology.edge_list '/no/file'",)),
    ],
)
def test_what_cannot_be_built_is_a_sentence(edits: dict[str, Any], fragments: tuple[str, ...], wire: Build) -> None:
    with pytest.raises(ConfigError) as caught:
        wire(edits)
    assert [fragment for fragment in fragments if fragment not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


#: Those who own GPS tell fewer beams apart than those who own GPS and RF.
COARSE_AND_FINE: dict[str, Any] = {
    "data.n_beams": 16,
    "clients.groups": [
        {"name": "coarse", "modalities": ["gps"], "share": 0.5, "n_beams": 8},
        {"name": "fine", "modalities": ["gps", "rf"], "share": 0.5},
    ],
}


@pytest.mark.parametrize("algorithm", ["head_averaging", "dsgd_heads", "dmml_kd"])
def test_what_is_about_other_numbers_of_beams_cannot_be_averaged(algorithm: str, wire: Build) -> None:
    said = rf"^algorithm '{algorithm}' averages .* client \d has \d+ outputs and client \d has \d+; give all"
    with pytest.raises(ConfigError, match=said) as caught:
        wire({"algorithm": algorithm, **COARSE_AND_FINE})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "algorithm", ["dsgd", "dpsgd", "group_averaging", "sheaf_diffusion", "diffused_and_tuned", "centralized"]
)
def test_what_is_averaged_with_equals_only_may_be_about_other_numbers_of_beams(algorithm: str, wire: Build) -> None:
    emulation = wire({"algorithm": algorithm, **COARSE_AND_FINE})
    outputs = {len(client.outputs) for client in emulation.clients}
    assert outputs == {8, 16}


def test_concatenated_heads_of_other_modalities_cannot_be_averaged(wire: Build) -> None:
    edits = {"algorithm": "head_averaging", "model.fusion": "concat"}
    said = r"^algorithm 'head_averaging' averages heads .* have \d+ and \d+ numbers .*; set model\.fusion"
    with pytest.raises(ConfigError, match=said):
        wire(edits)
    same = [{"name": "all", "modalities": ["gps", "rf"], "share": 1.0}]
    assert wire({**edits, "clients.groups": same}).learners


@pytest.mark.parametrize("algorithm", ["dsgd_heads", "dmml_kd", "sheaf_diffusion"])
def test_concatenation_is_nothing_to_those_who_do_not_average_fused_heads(algorithm: str, wire: Build) -> None:
    assert wire({"algorithm": algorithm, "model.fusion": "concat"}).learners


@pytest.mark.parametrize("algorithm", ["sheaf_diffusion", "diffused_and_tuned"])
def test_heads_do_not_diffuse_along_random_maps(algorithm: str, wire: Build) -> None:
    said = rf"^algorithm '{algorithm}' .* sheaf\.map_start = 'random' .* diverge; use 'structured' or 'aligned'$"
    with pytest.raises(ConfigError, match=said):
        wire({"algorithm": algorithm, "sheaf.map_start": "random"})
    assert wire({"algorithm": algorithm, "sheaf.map_start": "aligned"}).learners
    assert wire({"algorithm": "sheaf_dmfl", "sheaf.map_start": "random"}).learners


def test_those_who_answer_in_pairs_have_a_second_model_of_the_same_start(wire: Build) -> None:
    for client in wire({"algorithm": "diffused_and_tuned"}).clients:
        pair = client.pair
        assert pair is not None
        assert client.answering("fused") is pair
        assert pair.trained is client.models["fused"]
        one, other = (torch.cat([v.flatten() for v in m.parameters()]) for m in (pair.trained, pair.kept))
        assert torch.equal(one, other)
        assert not set(map(id, pair.trained.modules())) & set(map(id, pair.kept.modules()))
    for client in wire({"algorithm": "sheaf_diffusion"}).clients:
        assert client.pair is None
        assert client.answering("fused") is client.models["fused"]


def test_heads_mix_with_weights_of_the_whole_graph_and_groups_inside_their_own(wire: Build) -> None:
    emulation = wire({"topology.kind": "ring"})
    graph, clients = emulation.graph, emulation.clients
    whole = neighbor_weights(graph)
    assert all(set(of_node) == set(graph[node]) for node, of_node in whole.items())
    assert {weight for of_node in whole.values() for weight in of_node.values()} == {1 / 3}
    inside = group_weights(clients, graph)
    group_of = {client.client_id: client.group for client in clients}
    for node, of_node in inside.items():
        assert set(of_node) == {peer for peer in graph[node] if group_of[peer] == group_of[node]}


def test_groups_are_linked_for_those_who_ask_and_for_nobody_else(wire: Build) -> None:
    groups = [{"name": "a", "modalities": ["gps"], "share": 0.5}, {"name": "b", "modalities": ["gps"], "share": 0.5}]
    edits = {"topology.kind": "star", "clients.groups": groups}
    star, linked = (wire({**edits, "algorithm": name}).graph for name in ("dpsgd", "group_averaging"))
    assert star.number_of_edges() == 3
    members = wire(edits).groups
    pairs = [frozenset(c.client_id for c in group) for group in members.values()]
    assert {frozenset(edge) for edge in linked.edges} == {frozenset(edge) for edge in star.edges} | set(pairs)
    assert linked.number_of_edges() == 4


def test_an_edge_list_is_read_from_its_file(tmp_path: Any, wire: Build) -> None:
    (tmp_path / "edges").write_text("# a line of four\n0 1\n1 2\n2 3\n0 2\n1 3\n0 3\n")
    graph = wire({"topology.kind": "edge_list", "topology.edge_list": str(tmp_path / "edges")}).graph
    assert graph.number_of_edges() == wire({"topology.kind": "complete"}).graph.number_of_edges()


def test_one_client_alone_can_be_built(tiny: Scenario) -> None:
    scenario = tiny.edited({"clients.n_clients": 1})
    emulation = build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None)
    assert emulation.graph.number_of_edges() == 0
    emulation.close()


def test_a_gpu_that_is_not_there_is_a_sentence() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match=r"compute\.device = 'cuda'.*use 'auto' or 'cpu'"):
        choose_device("cuda")
    assert choose_device("auto") == torch.device("cpu")


def test_the_cpu_can_be_had_everywhere() -> None:
    assert choose_device("cpu") == torch.device("cpu")


def coupled(tiny: Scenario, strength: float, **edits: Any) -> tuple[str, ...]:
    """Warnings where head_step_size * coupling * degree is `strength`, at 4 neighbors."""
    settings = {"training.head_step_size": 0.1, "sheaf.coupling": strength / 0.4, **edits}
    return coupling_warnings(*coupling_strength(tiny.edited(settings), nx.star_graph(4)))


def test_a_coupling_that_overshoots_is_warned_of(tiny: Scenario) -> None:
    (warning,) = coupled(tiny, 1.9)
    assert "= 1.9: above 1 heads overshoot" in warning


def test_a_gentle_coupling_passes_in_silence(tiny: Scenario) -> None:
    assert coupled(tiny, 0.9) == ()


@pytest.mark.parametrize("start", ["random", "uniform", "orthonormal", "hadamard"])
@pytest.mark.parametrize("compression", [0.05, 0.4])
def test_the_strength_of_drawn_maps_is_that_of_the_norm_of_all_their_rows(
    tiny: Scenario, start: str, compression: float
) -> None:
    degree, dim = 6, 600
    scenario = tiny.edited({"sheaf.map_start": start, "sheaf.compression": compression})
    layout = HeadLayout(1, (("gps", dim - 1),))
    drawn = [drawn_starts(scenario.sheaf, layout, layout, np.random.default_rng(k))[0] for k in range(degree)]
    stacked = torch.cat([dense_start(one, dim, torch.float64) for one in drawn])
    norm_sq = float(torch.linalg.matrix_norm(stacked, ord=2)) ** 2
    strength, _ = coupling_strength(scenario, nx.star_graph(degree))
    alpha, coupling = scenario.training.head_step_size, scenario.sheaf.coupling
    assert strength == pytest.approx(alpha * coupling * norm_sq, rel=0.06)  # large models leave less to chance
    assert strength < 0.9 * alpha * coupling * degree or start in ("random", "uniform")


def test_without_coupled_heads_no_coupling_is_too_strong(tiny: Scenario) -> None:
    assert coupled(tiny, 50.0, algorithm="local") == ()
    assert coupling_warnings(*coupling_strength(tiny.edited({"sheaf.coupling": 1}), nx.empty_graph(4))) == ()


@pytest.mark.parametrize("name", shipped_scenarios())
def test_no_shipped_scenario_is_refused_or_warned_of(name: str) -> None:
    assert coupling_warnings(*coupling_strength(load_scenario(name), nx.star_graph(9))) == ()


def test_a_recorded_street_says_when_its_links_are_dark(tiny: Scenario) -> None:
    clients = load_data(tiny).clients
    assert all(client.blocked is not None and 0.0 <= client.blocked.share < 0.5 for client in clients)

"""Nodes of a graph from a file to learners: parts, one split for all, and nothing of the graph in any message."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import tomli_w
from integration.audit import leaks, runs
from sheafedge import load_run
from sheafedge.datasets.rows.row_samples import RowSamples
from sheafedge.emulator.contracts import ConfigError, DataError, InFlight, Message
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.emulator.network.transport.wire_transport import MemoryTransport
from sheafedge.emulator.state_tree import state_digest
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.export.bundles import export_bundles
from sheafedge.scenarios.export.export_source import ExportRequest
from sheafedge.scenarios.export.finished_run import finished_run
from sheafedge.scenarios.plugins.loading import load_plugin, unload
from sheafedge.scenarios.running.metric_rows import metric_rows
from sheafedge.scenarios.running.run import resume_run, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import build, emulate
from sheafedge.scenarios.workers.worker_run import build_learners

N_NODES = 120
TINY = {
    "rounds": 2,
    "evaluate_every": 1,
    "clients.n_clients": 5,
    "topology.kind": "complete",
    "network.transport": "memory",
    "compute.executor": "serial",
    "model.embedding_dim": 6,
    "model.hidden_dim": 8,
    "data.dataset": "file",
    "data.owners": "equal",
    "export.onnx": False,
}
Own = Callable[..., Scenario]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nodes of two classes that are told by features and neighbors alike."""
    path, draws = tmp_path_factory.mktemp("graph") / "mine.npz", np.random.default_rng(3)
    y = np.arange(N_NODES) % 2
    graph = nx.stochastic_block_model([60, 60], [[0.2, 0.02], [0.02, 0.2]], seed=1)
    order = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)])
    edges = order[np.array(list(graph.edges)).T]
    np.savez(path, x=draws.normal(size=(N_NODES, 9)) + y[:, None], y=y, edge_index=edges)
    return path


@pytest.fixture
def own(file: Path) -> Own:
    def made(**edits: Any) -> Scenario:
        given = {key.replace("__", "."): value for key, value in edits.items()}
        return load_scenario("cora").edited({**TINY, "data.root": str(file), **given})

    return made


def sides(scenario: Scenario) -> list[tuple[RowSamples, RowSamples]]:
    found = []
    for client in load_data(scenario).clients:
        assert isinstance(client.train, RowSamples)
        assert isinstance(client.test, RowSamples)
        found.append((client.train, client.test))
    return found


def test_no_node_is_trained_on_by_one_client_and_tested_at_another(own: Own) -> None:
    pairs = sides(own(clients__n_clients=15, data__owners="metis_overlap"))
    validated = sides(own(clients__n_clients=15, data__owners="metis_overlap", data__scored="validation"))
    trained, tested = ({int(row) for pair in pairs for row in pair[side].rows} for side in (0, 1))
    scored = {int(row) for _, test in validated for row in test.rows}
    assert sum(len(test) for _, test in pairs) > len(tested)  # some are tested at two clients: they do overlap
    assert not trained & tested
    assert not scored & (trained | tested)
    assert [train.rows.tolist() for train, _ in validated] == [train.rows.tolist() for train, _ in pairs]


def test_a_client_knows_its_own_nodes_and_the_edges_between_them(own: Own) -> None:
    for train, test in sides(own()):
        assert train.graph is test.graph
        assert train.graph is not None
        assert len(train.graph) == N_NODES // 5
        assert np.isin(train.rows, train.graph.nodes).all()
        numbers = train.inputs()["graph"]
        assert numbers.shape == (len(train), 1)
        assert (train.graph.nodes[numbers[:, 0].astype(int)] == train.rows).all()
        assert train.graph.edges.max() < len(train.graph)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedper", "apfl", "dpsgd", "dfedu", "fedsheafhn", "sheaf_dmfl"])
def test_nothing_of_the_graph_is_in_any_message(algorithm: str, own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ALGORITHMS[algorithm]
    parts = {"training__optimizer": "parts", "training__weight_decay": 0.0} if spec.couples else {}
    scenario, frames = own(algorithm=algorithm, **parts), []
    submit = MemoryTransport.submit

    def overheard(transport: MemoryTransport, messages: Sequence[Message]) -> list[InFlight]:
        frames.extend((message, b"", np.asarray(message.payload)) for message in messages)
        return submit(transport, messages)

    monkeypatch.setattr(MemoryTransport, "submit", overheard)
    data = load_data(scenario).clients
    emulation = build(scenario, data, lambda *_: {}, lambda *_: None)
    emulate(emulation, scenario.rounds)
    assert frames
    secrets: dict[str, set[bytes]] = {"edges": set(), "features": set(), "scaled": set(), "labels": set()}
    for client, known in zip(emulation.clients, data, strict=True):
        graph, (model, *_) = known.train.graph, client.models.values()
        gathered = model.encoders["graph"].graph.like(model.head)[1].detach()
        secrets["edges"] |= runs(graph.edges) | runs(graph.edges.T)
        secrets["features"] |= runs(graph.features)
        secrets["scaled"] |= runs(gathered.cpu().numpy())
        secrets["labels"] |= runs(known.train.label) | runs(known.test.label)
    assert all(secrets.values())
    assert leaks(secrets, frames) == set()
    # the same spy finds a graph that is sent
    assert leaks(secrets, [(frames[0][0], b"", data[0].train.graph.features.ravel())])


@pytest.mark.parametrize("algorithm", ["local", "fedavg", "fedper", "ditto", "apfl", "pfedhn"])
def test_clients_with_graphs_learn_and_a_resumed_run_ends_as_an_unbroken_one(
    algorithm: str, own: Own, tmp_path: Path
) -> None:
    whole = run_scenario(own(algorithm=algorithm, rounds=4), tmp_path / "whole")
    short = run_scenario(own(algorithm=algorithm, rounds=2, keep_checkpoint=True), tmp_path / "short")
    longer = resume_run(short.folder, edits={"rounds": 4})
    assert list(metric_rows(longer.folder)) == list(metric_rows(whole.folder))
    found = whole.summary["groups"]["parts"]
    assert found["accuracy"] > whole.summary["baselines"]["parts"]["majority"]["accuracy"]


def test_sleeping_clients_and_threads_compute_the_same_over_lossy_links_with_the_server_off(
    own: Own, tmp_path: Path
) -> None:
    lossy = own(
        rounds=4,
        clients__sampled=2,
        link__loss_probability=0.4,
        link__retry_limit=0,
        faults=[{"kind": "node_off", "nodes": ["server"], "at_s": 0.02, "for_s": 0.03}],
    )
    hashes = set()
    for edits in ({}, {"compute.awake_clients": 2}, {"compute.executor": "threads"}, {"compute.executor": "batched"}):
        result = run_scenario(lossy.edited(edits), tmp_path / f"run{len(list(tmp_path.iterdir()))}")
        hashes.add(result.summary["trace_hash"])
    assert len(hashes) == 1
    assert result.summary["traffic"]["lost_packets"] > 0


def test_exported_models_take_graphs_and_bundles_say_that_they_do_not(own: Own, tmp_path: Path) -> None:
    result = run_scenario(own(algorithm="ditto", export__onnx=True), tmp_path / "run")
    assert [row["client"] for row in result.summary["exports"]] == list(range(5))
    metadata = OnnxSession(result.folder / result.summary["exports"][0]["path"]).metadata
    assert list(json.loads(metadata["inputs"])) == ["features", "edge_index"]
    with pytest.raises(ConfigError, match=r"bundles hold models whose inputs are samples of one shape.* whole graphs"):
        export_bundles(finished_run(result.folder), [ExportRequest()])
    with pytest.raises(
        ConfigError, match=r"takes a whole graph, not samples; load .* with onnxruntime and give it fea"
    ):
        load_run(result.folder).model(3)


def test_workers_compute_what_one_process_does(own: Own) -> None:
    """They read the data themselves: a graph is never sent to them."""
    scenario = own(algorithm="fedavg")
    data = load_data(scenario).clients
    _, starts = build_learners(tomli_w.dumps(scenario.pinned_tables()), [1, 3])
    emulation = build(scenario, data, lambda *_: {}, lambda *_: None)
    assert starts == [state_digest(emulation.learners[client].state()) for client in (1, 3)]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"edge_index": np.zeros((3, 2), int)}, r"edge_index must have shape \[2, edges\], got \[3, 2\]"),
        ({"edge_index": np.zeros((2, 3))}, r"edge_index must hold whole numbers, the rows of x that an edge joins"),
        ({"edge_index": np.array([[0, 1], [1, 120]])}, r"joins 1 and 120 in column 1, but the nodes are 0 to 119"),
        ({"edge_index": np.array([[0, -1], [1, 1]])}, r"joins -1 and 1 in column 1"),
        ({"edge_index": np.array([[4], [4]])}, r"joins no two different nodes"),
        ({"x": np.zeros((N_NODES, 3, 3))}, r"edge_index needs x of shape \[nodes, features\]"),
        ({"x": np.full((N_NODES, 3), np.nan)}, r"x must hold finite numbers"),
    ],
)
def test_what_is_wrong_with_a_graph_is_one_sentence(
    arrays: dict[str, np.ndarray], sentence: str, own: Own, file: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "wrong.npz", **{**np.load(file), **arrays})
    with pytest.raises(DataError, match=sentence):
        sides(own(data__root=str(tmp_path / "wrong.npz")))


def test_a_file_without_edges_is_no_graph(own: Own, file: Path, tmp_path: Path) -> None:
    arrays = {name: values for name, values in np.load(file).items() if name != "edge_index"}
    np.savez(tmp_path / "table.npz", **arrays)
    for owners, sentence in (
        ("equal", r"modality 'graph' of clients.groups needs"),
        ("metis", "data.owners needs"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            sides(own(data__root=str(tmp_path / "table.npz"), data__owners=owners))


def test_a_run_warns_once_where_metis_is_missing(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)

    def warnings_of(owners: str) -> tuple[str, ...]:
        scenario = own(data__owners=owners)
        return build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None).warnings

    (said,) = warnings_of("metis")
    assert "METIS is not installed" in said
    assert "pip install 'sheafedge[graphs]'" in said
    assert warnings_of("equal") == ()


def test_a_plugin_brings_a_graph_as_files_do(own: Own, file: Path, tmp_path: Path) -> None:
    """Its reader returns edges; the run is that of the same graph in a file."""
    plugin = tmp_path / "neighbors.py"
    plugin.write_text(
        "import numpy as np\n"
        "from sheafedge.plugins import FederatedRows, Plugin, RowDataset\n"
        "def graph(request):\n"
        "    stored = np.load(request.root)\n"
        "    source, target = stored['edge_index']\n"
        "    both = np.unique(np.array([[*source, *target], [*target, *source]]), axis=1)\n"
        "    classes = tuple(map(str, range(2)))\n"
        "    return FederatedRows('mine', stored['x'].astype(np.float32), stored['y'], classes, edges=both)\n"
        "PLUGIN = Plugin(row_datasets={'neighbors': RowDataset(graph, 'a file', 'classes')})\n"
    )
    load_plugin(plugin)
    try:
        plugged = run_scenario(own(algorithm="fedavg", data__dataset="neighbors"), tmp_path / "plugged")
    finally:
        unload(plugin.name)
    filed = run_scenario(own(algorithm="fedavg"), tmp_path / "filed")
    assert plugged.summary["trace_hash"] == filed.summary["trace_hash"]
    assert plugged.summary["groups"] == filed.summary["groups"]

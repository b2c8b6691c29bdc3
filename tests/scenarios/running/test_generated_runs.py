"""Whole runs with a server that generates models: what they leave, late clients, and checkpoints of large networks."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from integration.tiny import tiny, wired
from rich.console import Console
from sheafedge.models.hyper.hyper_server import HyperServer
from sheafedge.scenarios.report.run_report import write_run_report
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.schema.neighborhood import neighborhood_of
from sheafedge.scenarios.terminal.run_console import print_result
from sheafedge.scenarios.wiring import coupling_notes

SERVER, N_CLIENTS = 5, 5
SCENARIO = tiny(
    {
        "algorithm": "fedsheafhn",
        "rounds": 4,
        "hyper.refresh_every": 1,
        "hyper.late_clients": 2,
        "hyper.join_round": 1,
        "link.loss_probability": 0.1,
    }
)

ALONE = {"hyper.late_clients": 0, "rounds": 2, "link.loss_probability": 0.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run_scenario(SCENARIO, tmp_path_factory.mktemp("run") / "it")


def rows_of(run: RunResult) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]


def test_late_clients_are_scored_apart(run: RunResult) -> None:
    parts = run.summary["joined_late"]
    assert (parts["late"]["clients"], parts["others"]["clients"]) == (2, 3)
    assert len(set(parts["numbers"])) == 2
    last = {row["client"]: row["models"]["fused"]["top1"] for row in rows_of(run) if "models" in row}
    late = [last[client] for client in parts["numbers"]]
    others = [score for client, score in last.items() if client not in parts["numbers"]]
    assert parts["late"]["top1"] == pytest.approx(sum(late) / 2)
    assert parts["others"]["top1"] == pytest.approx(sum(others) / 3)
    console = Console(file=io.StringIO(), width=120)
    print_result(console, run)
    assert "2 clients late" in console.file.getvalue()  # type: ignore[attr-defined]


def test_rows_of_the_server_tell_of_its_graph_and_those_of_late_clients_have_no_loss_before_they_join(
    run: RunResult,
) -> None:
    rows, late = rows_of(run), run.summary["joined_late"]["numbers"]
    of_server = [row for row in rows if row["client"] == SERVER]
    assert [row["known_clients"] for row in of_server] == [0, 3, 3, 3]
    assert all("dirichlet_energy" in row for row in of_server)
    assert [row["heard"] for row in of_server] == [3] * 4
    has_loss = {(row["client"], row["round"]) for row in rows if "loss" in row}
    assert has_loss == {(i, r) for i in range(N_CLIENTS) for r in range(4) if i not in late or r >= 1}


def test_the_report_draws_the_graph_of_clients(run: RunResult) -> None:
    page = write_run_report(run.folder, figures=False).read_text()
    for caption in ("Dirichlet energy of the server", "Edges of the graph of clients", "Mean age of the embeddings"):
        assert caption in page


def test_the_graph_of_clients_is_one_that_neighbors_can_have(run: RunResult, tmp_path: Path) -> None:
    edges = [tuple(map(int, line.split())) for line in (run.folder / "client_graph.txt").read_text().splitlines()]
    assert len(edges) == 3  # of three clients that the server knows
    assert not {end for edge in edges for end in edge} & set(run.summary["joined_late"]["numbers"])
    everybody = run_scenario(SCENARIO.edited(ALONE), tmp_path / "all").folder
    listed = {"topology.kind": "edge_list", "topology.edge_list": str(everybody / "client_graph.txt")}
    peers = SCENARIO.edited({"algorithm": "dfedu", **listed})
    found = neighborhood_of(peers)
    owned = [set(peers.clients.group(group).owned) for group in found.groups]
    # clients without a sensor in common are never neighbors
    assert {*map(frozenset, found.graph.edges)} == {
        frozenset((i, j)) for i in range(N_CLIENTS) for j in range(i) if owned[i] & owned[j]
    }
    numbers = run_scenario(SCENARIO.edited({"algorithm": "pfedhn", **ALONE}), tmp_path / "numbers").folder
    assert not (numbers / "client_graph.txt").exists()


def test_nobody_joins_late_unless_somebody_is_asked_to(tmp_path: Path) -> None:
    assert "joined_late" not in run_scenario(SCENARIO.edited(ALONE), tmp_path / "it").summary


def test_factors_take_fewer_bytes_both_ways() -> None:
    def sizes(**edits: Any) -> tuple[int, int]:
        walked = wired(tiny({"algorithm": "fedsheafhn", "model.hidden_dim": 32, **edits}))
        sent = [m for learner in walked.emulation.learners for m in learner.compute("broadcast", 0)]
        (server,) = [walked.emulation.learners[-1].parts["server"]]  # type: ignore[attr-defined]
        assert isinstance(server, HyperServer)
        return sum(m.payload.size for m in sent), server.n_parameters

    dense, factored = sizes(), sizes(**{"hyper.output": "factors", "hyper.rank_ratio": 2.0})
    assert 0.4 < factored[0] / dense[0] < 0.7
    assert factored[1] < dense[1]


def test_checkpoints_of_large_networks_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    edits = {"algorithm": "fedsheafhn", "hyper.hidden": 16}
    assert wired(tiny(edits)).emulation.warnings == ()
    monkeypatch.setattr(coupling_notes, "LARGE_CHECKPOINT_MB", 0.01)
    (warning,) = wired(tiny(edits)).emulation.warnings
    assert re.match(
        r"the server's networks have 0\.0 million parameters, so that a checkpoint has 0 MB; raise", warning
    )
    assert wired(tiny({**edits, "checkpoint_every": 0})).emulation.warnings == ()
    assert wired(tiny({"algorithm": "fedavg"})).emulation.warnings == ()

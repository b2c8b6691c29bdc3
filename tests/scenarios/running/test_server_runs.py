"""Whole runs with a server: what they leave, and what its outages, its samples and its cell do to them."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from integration.tiny import state_of, tiny, walk, wired
from rich.console import Console
from sheafedge.scenarios.compare.curves import curves_of
from sheafedge.scenarios.compare.stored_runs import stored_state
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.terminal.run_console import print_result

FEDAVG = {"algorithm": "fedavg"}
SERVER = 5
OFF: dict[str, Any] = {"faults": [{"kind": "node_off", "nodes": ["server"], "at_s": 0.0, "for_s": 0.15}]}


SCENARIO = tiny({**FEDAVG, "evaluate_every": 2, "server.profile": "server_cpu"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run_scenario(SCENARIO, tmp_path_factory.mktemp("run") / "it")


@pytest.fixture(scope="module")
def rows(run: RunResult) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]


def test_the_server_has_a_row_per_round_and_is_scored_in_none(rows: list[Mapping[str, Any]]) -> None:
    of_server = [row for row in rows if row["client"] == SERVER]
    assert [row["round"] for row in of_server] == [0, 1, 2]
    assert {row["group"] for row in of_server} == {"server"}
    assert [row["heard"] for row in of_server] == [5, 5, 5]
    assert not any("models" in row for row in of_server)
    assert len(rows) == 3 * (5 + 1)


def test_the_summary_counts_clients_alone_and_what_the_server_sent_received_and_spent(run: RunResult) -> None:
    summary, server = run.summary, run.summary["server"]
    assert summary["clients"] == sum(group["clients"] for group in summary["groups"].values()) == 5
    assert summary["edges"] == 5
    assert server["up"]["bytes"] + server["down"]["bytes"] == summary["traffic"]["bytes"]
    assert server["up"]["messages"] == server["down"]["messages"] == summary["traffic"]["messages"] / 2
    assert 0.0 < server["up"]["mean_s"] <= server["up"]["max_s"] < summary["virtual_time_s"]
    assert server["energy_j"] == pytest.approx(65.0 * server["busy_s"])  # watts of "server_cpu"
    assert server["energy_j"] < summary["energy_j"]


def test_a_deadline_within_which_nobody_can_train_is_warned_of(run: RunResult, tmp_path: Path) -> None:
    assert run.warnings == ()
    late = run_scenario(SCENARIO.edited({"network.deadline_s": 1e-6}), tmp_path / "late")
    (sentence,) = late.warnings
    n_late, n_sent = (late.summary["traffic"][name] for name in ("late_messages", "messages"))
    assert sentence.startswith(f"{n_late} of {n_sent} messages came after their phase had ended, and nobody used them;")
    assert "network.deadline_s = 1e-06 is short" in sentence
    assert late.summary["warnings"] == [sentence]


def test_the_end_of_a_run_says_what_the_server_did_and_how_the_global_model_scores(run: RunResult) -> None:
    console = Console(file=io.StringIO(), width=160)
    print_result(console, run)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert shown.count("the global model") == len(run.summary["groups"]) == 3
    megabytes = run.summary["server"]["up"]["bytes"] / 1e6
    assert re.search(rf"^server +up {megabytes:,.1f} MB", shown, re.MULTILINE)
    for group, models in run.summary["models"].items():
        assert set(models) == {"fused", "global"}
        assert run.summary["groups"][group]["model"] == "fused"


def test_a_comparison_finds_the_run_again_and_not_a_part_of_it(run: RunResult, tmp_path: Path) -> None:
    assert stored_state(run.folder, SCENARIO).kind == "stored"
    part = tmp_path / "part"
    shutil.copytree(run.folder, part)
    lines = (part / "metrics.jsonl").read_text().splitlines()
    (part / "metrics.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    assert stored_state(part, SCENARIO).kind == "unusable"


def test_curves_over_bytes_count_the_server(run: RunResult) -> None:
    results = {
        "vary": None,
        "comparison": {},
        "entries": [
            {"arm": "fedavg", "n": 1, "runs": {"0": run.folder.name}, "facts": {"bytes": {"values": {"0": 1}}}}
        ],
    }
    (curve,) = curves_of(results, run.folder.parent)
    assert curve.rounds.tolist() == [2, 3]
    assert curve.sent_bytes[-1] == run.summary["traffic"]["bytes"]


def test_while_the_server_is_off_clients_train_alone_and_wait_for_the_deadline() -> None:
    on, off = walk(tiny(FEDAVG)), walk(tiny({**FEDAVG, **OFF}))
    assert off.emulation.recorder.traffic.dropped_by_faults > 0
    assert off.emulation.env.now > on.emulation.env.now + 0.1
    first = [of_round[0]["head"] for of_round in off.states]
    assert not any(one.equal(other) for one, other in pairwise(first))
    begun = wired(tiny(FEDAVG)).emulation
    start = state_of(begun, begun.learners[-1])
    assert all(values.equal(start[name]) for name, values in off.states[0][SERVER].items())
    assert not any(values.equal(start[name]) for name, values in off.states[-1][SERVER].items())


def test_clients_that_are_not_drawn_neither_compute_nor_send() -> None:
    sampled = walk(tiny({**FEDAVG, "clients.sampled": 2}))
    whole = walk(tiny(FEDAVG))
    recorder = sampled.emulation.recorder
    assert recorder.up.messages == recorder.down.messages < 2 / 3 * whole.emulation.recorder.up.messages
    drawn = [{node for node in states if node < SERVER} for states in sampled.states]
    assert [len(clients) for clients in drawn] == [2, 2, 2]
    last = {client: max(number for number in range(3) if client in drawn[number]) for client in set().union(*drawn)}
    resting = [client for client, number in last.items() if number < 2]
    assert resting
    for client in resting:
        now = state_of(sampled.emulation, sampled.emulation.learners[client])
        assert now["head"].equal(sampled.states[last[client]][client]["head"])
    assert sampled.trace_hash == walk(tiny({**FEDAVG, "clients.sampled": 2})).trace_hash
    assert sampled.trace_hash != walk(tiny({**FEDAVG, "clients.sampled": 2, "seed": 1})).trace_hash


def test_a_straggler_misses_the_round() -> None:
    """It trains, and what it sends comes too late."""
    slow = {"compute.stragglers.share": 0.2, "compute.stragglers.factor": 1000.0, "network.deadline_s": 0.05}
    late = walk(tiny({**FEDAVG, **slow}))
    assert late.emulation.recorder.traffic.late_messages > 0
    assert late.emulation.recorder.up.lost_messages == 0


def test_the_uplink_of_one_cell_takes_the_time_of_all() -> None:
    wide: dict[str, Any] = {**FEDAVG, "link.rate_bps": 1e6, "network.deadline_s": 5.0}
    alone, shared = (walk(tiny({**wide, "server.medium": medium})).emulation for medium in ("own", "processor_sharing"))
    assert shared.recorder.up.largest_s > 2.5 * alone.recorder.up.largest_s
    assert shared.env.now > alone.env.now
    assert shared.recorder.traffic.bytes == alone.recorder.traffic.bytes


def test_all_transports_and_pools_give_the_same_run() -> None:
    hard: dict[str, Any] = {
        **FEDAVG,
        **OFF,
        "link.loss_probability": 0.3,
        "link.retry_limit": 0,
        "network.missing": "stale",
    }
    memory = walk(tiny(hard))
    zmq = walk(tiny({**hard, "network.transport": "zmq", "compute.executor": "threads"}))
    assert memory.trace_hash == zmq.trace_hash
    assert memory.emulation.recorder.traffic.partial_messages > 0


def test_with_links_that_repeat_until_delivered_every_round_is_heard_by_all() -> None:
    lossy: dict[str, Any] = {**FEDAVG, "link.loss_probability": 0.3, "network.missing": "wait", "clients.sampled": 3}
    emulation = walk(tiny(lossy)).emulation
    assert emulation.recorder.traffic.retransmissions > 0
    assert emulation.recorder.traffic.lost_packets == emulation.recorder.traffic.late_messages == 0
    assert emulation.learners[-1].health()["heard"] == 3


@pytest.mark.slow
def test_radio_links_reach_a_server(tmp_path: Path) -> None:
    radio = {"links.model": "radio", "network.deadline_s": 1.0, "export.pictures": 1, "rounds": 1}
    result = run_scenario(tiny({**FEDAVG, **radio}), tmp_path / "radio")
    assert result.summary["server"]["up"]["messages"] > 0

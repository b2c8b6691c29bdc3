"""Clients that are drawn for a round play it, and the others are as if they were not there, whatever the algorithm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from integration.tiny import Walk, state_of, tiny, walk
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.compare.curves import curves_of
from sheafedge.scenarios.compare.stored_runs import stored_state
from sheafedge.scenarios.report.run_records import read_records
from sheafedge.scenarios.running.run import RunResult, resume_run, run_scenario
from sheafedge.scenarios.wiring.taking_part import participants, taking_part

N, SAMPLED, ROUNDS = 5, 3, 4
SOME = {"clients.sampled": SAMPLED, "rounds": ROUNDS, "topology.kind": "complete"}
RULES = [name for name, spec in ALGORITHMS.items() if not spec.pooled]
#: One of every way in which clients exchange; the others take their time.
QUICK = {"sheaf_dmfl_att", "sheaf_diffusion", "dfedu", "dpsgd_adapt_then_combine", "fedproto_decentralized", "ditto"}


def absent(round_index: int) -> set[int]:
    return set(range(N)) - participants(0, N, SAMPLED, round_index)


def edges_of(walked: Walk) -> set[tuple[int, int]]:
    return set(walked.emulation.recorder.edges)


@pytest.mark.parametrize(
    "rule", [rule if rule in QUICK else pytest.param(rule, marks=pytest.mark.slow) for rule in RULES]
)
@pytest.mark.parametrize("missing", ["skip", "wait"])
def test_who_is_not_drawn_does_nothing_and_nobody_waits_for_it(rule: str, missing: str) -> None:
    """With "wait" a single message that somebody expected of the absent would keep the round from ending."""
    walked = walk(tiny({**SOME, "algorithm": rule, "network.missing": missing, "link.loss_probability": 0.1}))
    for round_index, states in enumerate(walked.states):
        assert {node for node in states if node < N} == participants(0, N, SAMPLED, round_index)
    traffic = walked.emulation.recorder.traffic
    assert traffic.late_messages == 0
    alone = {"local", "local_unimodal"}
    assert (traffic.messages > 0) == (rule not in alone)
    slow = tiny({**SOME, "algorithm": rule, "network.missing": "skip", "network.deadline_s": 1e6})
    assert walk(slow).emulation.env.now < 1e5  # no round went on to its deadline


def test_states_stand_still_until_the_client_is_drawn_again() -> None:
    walked = walk(tiny({**SOME, "algorithm": "dpsgd_adapt_then_combine"}))
    learners = walked.emulation.learners
    drawn = {node: [number for number in range(ROUNDS) if node not in absent(number)] for node in range(N)}
    last = {node: rounds[-1] for node, rounds in drawn.items() if rounds}
    assert set(last.values()) != {ROUNDS - 1}, "somebody rests in the last round"
    for node, round_index in last.items():
        now = state_of(walked.emulation, learners[node])
        then = walked.states[round_index][node]
        assert all(np.array_equal(now[part], then[part]) for part in then), node


def test_messages_go_among_those_who_take_part() -> None:
    """One round: the edges that carried anything are those between the drawn."""
    walked = walk(tiny({**SOME, "algorithm": "dsgd_heads", "rounds": 1}))
    drawn = participants(0, N, SAMPLED, 0)
    assert edges_of(walked) <= {(one, other) for one in drawn for other in drawn}
    assert edges_of(walked)


def test_drawing_all_is_the_run_without_drawing() -> None:
    for rule in ("sheaf_dmfl_att", "fedavg"):
        everybody = walk(tiny({"algorithm": rule, "clients.sampled": N}))
        assert everybody.trace_hash == walk(tiny({"algorithm": rule})).trace_hash
        assert everybody.trace_hash != walk(tiny({"algorithm": rule, "clients.sampled": N - 1})).trace_hash


def test_with_a_server_the_same_clients_are_drawn_as_with_neighbors() -> None:
    peers, served = (tiny({**SOME, "algorithm": rule, "sharing.every": 2}) for rule in ("dpsgd", "fedavg"))
    among_peers, with_server = taking_part(peers), taking_part(served)
    assert among_peers is not None
    assert with_server is not None
    for round_index in range(ROUNDS):
        assert with_server(round_index) == among_peers(round_index) | {N}
    assert among_peers(4) == among_peers(5) != among_peers(6)


# --- what a run writes ---


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    edits = {**SOME, "algorithm": "head_averaging", "evaluate_every": 2, "keep_checkpoint": True}
    return run_scenario(tiny(edits), tmp_path_factory.mktemp("runs") / "short")


def rows_of(folder: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_rows_are_of_those_who_took_part_and_after_the_last_round_of_all(kept: RunResult) -> None:
    rows = rows_of(kept.folder)
    found = [{row["client"] for row in rows if row["round"] == number} for number in range(ROUNDS)]
    assert found[:-1] == [set(participants(0, N, SAMPLED, number)) for number in range(ROUNDS - 1)]
    assert found[-1] == set(range(N))
    assert len(rows) == (ROUNDS - 1) * SAMPLED + N
    last = [row for row in rows if row["round"] == ROUNDS - 1]
    assert all("models" in row for row in last)
    first = tiny(SOME).task_spec.columns[0].key
    for group, figures in kept.summary["groups"].items():
        mean = np.mean([row["models"]["fused"][first] for row in last if row["group"] == group])
        assert figures[first] == pytest.approx(mean)
    heard = [row["neighbors"] for row in last if "neighbors" in row]
    assert len(heard) == SAMPLED
    assert 0 < max(heard) < SAMPLED


def test_a_longer_run_is_the_one_that_was_begun_with_so_many_rounds(kept: RunResult, tmp_path: Path) -> None:
    """The observations of the others after round 4 are none of the longer run."""
    longer = resume_run(kept.folder, edits={"rounds": 6})
    edits = {**SOME, "algorithm": "head_averaging", "evaluate_every": 2, "keep_checkpoint": True, "rounds": 6}
    whole = run_scenario(tiny(edits), tmp_path / "whole")
    assert longer.summary["trace_hash"] == whole.summary["trace_hash"] != kept.summary["trace_hash"]
    assert rows_of(longer.folder) == rows_of(whole.folder)


def test_a_comparison_finds_the_run_again_and_counts_all_that_was_sent(kept: RunResult, tmp_path: Path) -> None:
    edits = {**SOME, "algorithm": "head_averaging", "evaluate_every": 2, "keep_checkpoint": True}
    assert stored_state(kept.folder, tiny(edits)).kind == "stored"
    entries = [{"arm": "it", "n": 1, "runs": {"0": kept.folder.name}, "facts": {"bytes": {"values": {"0": 1}}}}]
    (curve,) = curves_of({"vary": None, "comparison": {}, "entries": entries}, kept.folder.parent)
    assert curve.rounds.tolist() == [2, 4]
    assert curve.sent_bytes[-1] == kept.summary["traffic"]["bytes"] > curve.sent_bytes[0] > 0


def test_a_report_reads_it(kept: RunResult) -> None:
    records = read_records(kept.folder)
    sent = records.columns["bytes_sent"]
    assert sent[:, -1].sum() == kept.summary["traffic"]["bytes"]
    assert (np.diff(sent, axis=1) >= 0.0).all()
    assert np.isfinite(records.scores[:, -1]).all()

"""`[[faults]]` in a scenario: what it refuses, and what becomes of a whole run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from integration.tiny import tiny, walk
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.faults.fault_plan import FaultPlan
from sheafedge.emulator.saved_state import SavedState
from sheafedge.scenarios.running.emulation_state import emulation_state, restore_emulation
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate
from sheafedge.scenarios.wiring.faults import fault_plan

RING = {"topology.kind": "complete", "rounds": 6}
#: Rounds of the tiny scenario take a tenth of a simulated second or less.
SOME_OF_ALL = [
    {"kind": "node_off", "nodes": [0], "at_s": 0.05, "for_s": 0.1},
    {"kind": "node_off", "nodes": [2, 3], "mean_up_s": 0.2, "mean_down_s": 0.1},
    {"kind": "link_down", "edges": [[1, 2]], "mean_up_s": 0.1, "mean_down_s": 0.1},
    {"kind": "partition", "groups": [[0, 1], [2, 3]], "at_s": 0.2, "for_s": 0.2},
    {"kind": "corrupted", "share": 0.2},
]


def faulty(*faults: dict[str, Any], **edits: Any) -> Any:
    return tiny({**RING, "faults": list(faults), **edits})


def plan_of(scenario: Any, graph: Any) -> FaultPlan:
    return fault_plan(scenario.faults, scenario.seed, graph)


def test_no_faults_leave_the_run_as_it_was() -> None:
    assert walk(tiny(RING)).trace_hash == walk(faulty()).trace_hash
    assert walk(faulty()).trace_hash != walk(faulty(*SOME_OF_ALL)).trace_hash


@pytest.mark.parametrize("algorithm", ["sheaf_dmfl_att", "diffused_and_tuned", "dpsgd", "dmml_kd"])
def test_a_run_with_all_faults_is_the_same_over_every_transport_and_pool(algorithm: str) -> None:
    memory = walk(faulty(*SOME_OF_ALL, algorithm=algorithm))
    zmq = walk(
        faulty(*SOME_OF_ALL, **{"algorithm": algorithm, "network.transport": "zmq", "compute.executor": "threads"})
    )
    assert memory.trace_hash == zmq.trace_hash
    traffic = memory.emulation.recorder.traffic
    assert traffic.dropped_by_faults > 0
    assert traffic.corrupted_messages > 0
    assert traffic.lost_messages == traffic.dropped_by_faults + traffic.corrupted_messages  # links lose nothing here
    assert all(len(states) == 5 for states in memory.states)


def test_another_seed_has_other_random_faults() -> None:
    random = [fault for fault in SOME_OF_ALL if "mean_up_s" in fault]

    def off_times(seed: int) -> list[float]:
        scenario = faulty(*random, seed=seed)
        graph = walk(tiny(RING)).emulation.graph
        return [plan_of(scenario, graph).goes_off_s(node, 0.0) for node in (2, 3)]

    assert off_times(0) == off_times(0)
    assert off_times(0) != off_times(1)
    assert off_times(0)[0] != off_times(0)[1]  # every node has a timetable of its own


def test_an_entry_more_does_not_move_the_others() -> None:
    graph = walk(tiny(RING)).emulation.graph
    alone, beside = (plan_of(faulty(*faults), graph) for faults in (SOME_OF_ALL[:2], SOME_OF_ALL))
    assert [alone.goes_off_s(node, 0.3) for node in range(5)] == [beside.goes_off_s(node, 0.3) for node in range(5)]


def test_a_partition_cuts_every_edge_between_its_groups_and_heals() -> None:
    graph = walk(tiny(RING)).emulation.graph
    plan = plan_of(faulty({"kind": "partition", "groups": [[0, 1], [2]], "at_s": 1.0, "for_s": 2.0}), graph)
    cut = {(a, b) for a, b in graph.edges if plan.loses(a, b, 1.5, 1.6)}
    side = {0: 0, 1: 0, 2: 1, 3: 2, 4: 2}  # 3 and 4 are in no group, and stay together
    assert cut == {(a, b) for a, b in graph.edges if side[a] != side[b]}
    assert not any(plan.loses(a, b, now_s, now_s) for a, b in graph.edges for now_s in (0.5, 3.0))


def test_a_corrupted_message_is_never_absorbed() -> None:
    """With all of them damaged clients learn as if they had never talked, though every message was sent."""
    corrupted = walk(faulty({"kind": "corrupted", "share": 1.0}))
    silent = walk(faulty({"kind": "partition", "groups": [[0], [1], [2], [3], [4]]}))
    alone, spoiled = silent.states[-1], corrupted.states[-1]
    assert all((alone[i]["head"] == spoiled[i]["head"]).all() for i in alone)
    traffic = corrupted.emulation.recorder.traffic
    assert traffic.corrupted_messages == traffic.messages == traffic.lost_messages
    together = walk(faulty()).states[-1]
    assert any((alone[i]["head"] != together[i]["head"]).any() for i in alone)


def test_a_run_with_a_node_off_leaves_a_whole_folder(tmp_path: Path) -> None:
    """A client that is off has a row that says so, and is scored as it stands, in the last round too."""
    off = {"kind": "node_off", "nodes": [0], "at_s": 0.04}
    summary = run_scenario(faulty(off, evaluate_every=3), tmp_path / "run", checkpoints=False).summary
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 5 * 6
    said = {(row["round"], row["client"]) for row in rows if row.get("off")}
    first = min(round_index for round_index, _ in said)
    assert said == {(round_index, 0) for round_index in range(first, 6)}
    mine = [row["models"] for row in rows if row["client"] == 0 and "models" in row]
    assert len(mine) == 2
    assert 0 < first < 3  # it went off before its models were first looked at
    assert mine[0] == mine[1]
    assert summary["traffic"]["dropped_by_faults"] > 0
    assert sum(group["clients"] for group in summary["groups"].values()) == 5


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"kind": "node_off"}, "does not say what fails; add nodes = "),
        ({"kind": "corrupted", "edges": [[0, 1]]}, "does not say what fails; add share = "),
        (
            {"kind": "node_off", "nodes": [0], "edges": [[0, 1]]},
            r"does not know edges, got \[\[0, 1\]\]; it takes nodes",
        ),
        ({"kind": "node_off", "nodes": [0, 0]}, "names client 0 twice"),
        ({"kind": "partition", "groups": [[0, 1], [1, 2]]}, "names client 1 twice"),
        ({"kind": "link_down", "edges": [[3, 3]]}, "an edge from client 3 to itself"),
        ({"kind": "node_off", "nodes": [0], "mean_up_s": 3.0}, "needs both of its mean times; add mean_down_s"),
        ({"kind": "node_off", "nodes": [0], "mean_up_s": 3.0, "mean_down_s": 1.0, "at_s": 0.0}, "either on schedule"),
        ({"kind": "explosion"}, r"faults\.0\.kind must be"),
        ({"kind": "node_off", "nodes": [0], "when": 3}, r"faults\.0\.when is not a known field"),
        ({"kind": "node_off", "nodes": [0], "for_s": 0}, r"faults\.0\.for_s must be above 0"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_in_one_sentence(fault: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        faulty(fault)
    assert "\n" not in str(refused.value)


def test_a_run_with_faults_goes_on_from_a_checkpoint_as_if_it_had_never_stopped() -> None:
    """Timetables are asked by time and remember nothing, so there is nothing of theirs in a checkpoint."""
    scenario = faulty(*SOME_OF_ALL, **{"network.missing": "stale", "rounds": 8})
    data = load_data(scenario).clients

    def built(start_s: float | None = None) -> Emulation:
        return build(scenario, data, lambda learner, _: learner.health(), lambda *_: None, start_s=start_s)

    whole = built()
    emulate(whole, 8)
    for stopped_after in (2, 5):
        first = built()
        emulate(first, stopped_after)
        state = emulation_state(first)
        second = built(state["clock"]["now_s"])
        restore_emulation(second, SavedState(state), stopped_after)
        emulate(second, 8, stopped_after)
        assert second.recorder.trace_hash == whole.recorder.trace_hash
        assert second.recorder.traffic == whole.recorder.traffic
        assert first.recorder.trace_hash != whole.recorder.trace_hash


# --- clocks -----------------------------------------------------------------------------------------------------------


def drifting(**drift: Any) -> Any:
    """One second ahead is ten frames, with windows of two."""
    return faulty({"kind": "clock_drift", "nodes": [3], **drift}, rounds=2)


def test_the_clock_of_one_sensor_moves_its_inputs_and_neither_labels_nor_anybody_else() -> None:
    usual, late = load_data(faulty(rounds=2)).clients, load_data(drifting(modality="gps", jump_s=1.0)).clients
    for client, (before, after) in enumerate(zip(usual, late, strict=True)):
        inputs, shifted = before.test.inputs(), after.test.inputs()
        assert (before.test.label == after.test.label).all()
        for modality, values in inputs.items():
            moved = client == 3 and modality == "gps"
            assert np.array_equal(values, shifted[modality]) != moved


def test_a_drift_of_less_than_half_a_frame_changes_nothing() -> None:
    usual = walk(faulty(rounds=2)).trace_hash
    assert walk(drifting(modality="gps", jump_s=0.04)).trace_hash == usual
    assert walk(drifting(modality="gps", jump_s=0.06)).trace_hash != usual
    assert walk(drifting(modality="gps", ppm=20_000.0)).trace_hash != usual
    assert walk(drifting(modality="gps", jump_s=1.0, at_s=1e6)).trace_hash == usual


@pytest.mark.parametrize(
    ("drift", "sentence"),
    [
        ({"jump_s": 1.0}, "does not say enough; add modality"),
        ({"modality": "gps"}, "does not say enough; add ppm"),
        ({"modality": "gps", "jump_s": 1.0, "for_s": 3.0}, "stays; leave out for_s"),
        ({"modality": "gps", "jump_s": -1.0}, r"jump_s must be at least 0"),
        ({"modality": "sonar", "jump_s": 1.0}, r"faults\.0\.modality must be"),
    ],
)
def test_a_clock_that_cannot_be_is_refused(drift: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        drifting(**drift)

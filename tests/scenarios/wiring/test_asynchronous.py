"""`network.mode = "asynchronous"`, slow groups and stragglers: what they refuse, and what becomes of a whole run."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest
from integration.tiny import Walk, tiny, walk
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.device_profiles import DeviceProfile
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.wiring.members import client_devices, stragglers

OWN_PACE = {"network.mode": "asynchronous"}
STRAGGLERS = {"compute.stragglers.share": 0.4, "compute.stragglers.factor": 5.0}
AT_ONCE = {"link.rate_bps": 1e18, "link.propagation_s": 0.0, "link.processing_s": 0.0}
#: Of the loss that training takes off in the synchronous run.
NEAR = 0.3  # minibatches of 16 rows leave a tenth of noise


def losses(walked: Walk) -> list[float]:
    """Mean over the clients, round by round."""
    return [mean(of_round.values()) for of_round in walked.losses]


@pytest.mark.parametrize("algorithm", ["sheaf_dmfl_att", "sheaf_diffusion", "dpsgd", "dmml_kd", "sheaf_prototypes"])
@pytest.mark.parametrize("missing", ["skip", "stale"])
def test_every_transport_and_pool_gives_the_same_run(algorithm: str, missing: str) -> None:
    lossy = {"link.loss_probability": 0.2, "algorithm": algorithm, "network.missing": missing}
    memory = walk(tiny({**OWN_PACE, **STRAGGLERS, **lossy}))
    zmq = walk(tiny({**OWN_PACE, **STRAGGLERS, **lossy, "network.transport": "zmq", "compute.executor": "threads"}))
    assert memory.trace_hash == zmq.trace_hash
    assert memory.trace_hash != walk(tiny({**OWN_PACE, **STRAGGLERS, **lossy, "seed": 1})).trace_hash


def test_it_learns_as_the_synchronous_run_does_where_all_devices_are_equal() -> None:
    """Sensors tell clients' models apart, so even on equal devices some are a little ahead."""
    edits = {**AT_ONCE, "rounds": 30}
    in_step, own_pace = losses(walk(tiny(edits))), losses(walk(tiny({**edits, **OWN_PACE})))
    learned = mean(in_step[:3]) - mean(in_step[-5:])
    assert learned > 0.15 * in_step[0]
    assert abs(mean(own_pace[-5:]) - mean(in_step[-5:])) < NEAR * learned
    assert own_pace != in_step


def test_stragglers_cost_the_others_no_time_and_words_get_old() -> None:
    edits = {**STRAGGLERS, **AT_ONCE, "rounds": 6}
    in_step, own_pace = walk(tiny(edits)).emulation, walk(tiny({**edits, **OWN_PACE})).emulation
    assert in_step.env.now > own_pace.env.now
    assert in_step.recorder.staleness.used == 0
    told = own_pace.recorder.staleness.as_dict()
    assert told["max"] > 1
    evenly = walk(tiny({"rounds": 6, **AT_ONCE, **OWN_PACE})).emulation.recorder.staleness.as_dict()
    assert evenly["max"] <= 1  # the control: sensors alone make no straggler


def test_a_run_tells_how_old_the_words_were_that_it_used(tmp_path: Path) -> None:
    summary = run_scenario(tiny({**OWN_PACE, **STRAGGLERS, "rounds": 4}), tmp_path / "run", checkpoints=False).summary
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 5 * 4
    heard = [row for row in rows if row["heard"]]
    used = sum(row["heard"] for row in heard)
    assert summary["staleness"]["used"] == used
    total = sum(row["heard"] * row["staleness_mean"] for row in heard)
    assert summary["staleness"]["mean"] == pytest.approx(total / used)
    assert summary["staleness"]["max"] == max(row["staleness_max"] for row in heard)
    assert summary["virtual_time_s"] == max(row["time_s"] for row in rows)
    for client in range(5):
        assert [row["round"] for row in rows if row["client"] == client] == [0, 1, 2, 3]
    in_step = run_scenario(tiny({"rounds": 2}), tmp_path / "in step", checkpoints=False).summary
    assert "staleness" not in in_step


def test_nodes_that_are_off_at_times_finish_their_rounds_later() -> None:
    off = {"faults": [{"kind": "node_off", "nodes": [0, 1], "mean_up_s": 0.01, "mean_down_s": 0.02}]}
    undisturbed, disturbed = walk(tiny({**OWN_PACE, "rounds": 6})), walk(tiny({**OWN_PACE, **off, "rounds": 6}))
    assert disturbed.emulation.env.now > undisturbed.emulation.env.now
    assert all(len(states) == 5 for states in disturbed.states)


# --- devices ----------------------------------------------------------------------------------------------------------


def slow_of(scenario: Scenario) -> frozenset[int]:
    return stragglers(scenario.compute.stragglers.share, scenario.clients.n_clients, scenario.seed)


def test_as_many_clients_are_stragglers_as_were_asked_for_and_more_hold_the_same() -> None:
    few, many = (slow_of(tiny({"compute.stragglers.share": share})) for share in (0.4, 0.8))
    assert (len(few), len(many)) == (2, 4)
    assert few < many
    assert slow_of(tiny()) == frozenset()
    others = {slow_of(tiny({"compute.stragglers.share": 0.4, "seed": seed})) for seed in range(8)}
    assert len(others) > 1


def devices_of(scenario: Scenario) -> dict[int, DeviceProfile]:
    return client_devices(scenario.compute, scenario.clients, scenario.seed)


def test_a_straggler_takes_longer_for_everything_by_the_same_factor() -> None:
    scenario = tiny(STRAGGLERS)
    plain, slowed = devices_of(tiny()), devices_of(scenario)
    for client, device in slowed.items():
        factor = 5.0 if client in slow_of(scenario) else 1.0
        for flops in (0.0, 1e9):
            assert device.seconds(flops) == pytest.approx(factor * plain[client].seconds(flops))


def test_a_group_may_have_a_device_of_its_own() -> None:
    groups = [group.model_dump(exclude_none=True) for group in tiny().clients.groups]
    groups[0]["profile"] = "edge_gpu"
    devices = devices_of(tiny({"clients.groups": groups}))
    assert {device.name for device in devices.values()} == {"edge_gpu", "edge_cpu"}
    groups[0]["profile"] = "toaster"
    with pytest.raises(ConfigError, match=r"unknown clients\.groups: profile 'toaster'; choose one of: edge_cpu"):
        devices_of(tiny({"clients.groups": groups}))

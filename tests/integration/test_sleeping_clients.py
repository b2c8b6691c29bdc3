"""Clients that sleep while they take no part: the run is the one in which all are awake, to the last bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from integration.tiny import tiny
from sheafedge.emulator.contracts import ConfigError
from sheafedge.models.client_model import ClientModel
from sheafedge.scenarios.running.progress import NoRunProgress
from sheafedge.scenarios.running.run import RunResult, resume_run, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.sleeping.learner_table import clients_sleep
from sheafedge.scenarios.wiring.emulation import Emulation

N, SAMPLED, ROUNDS = 7, 3, 6
#: Links that lose half of what they carry, late and in bursts, behind queues; all that a node may remember.
SOME: dict[str, Any] = {
    "clients.n_clients": N,
    "clients.sampled": SAMPLED,
    "rounds": ROUNDS,
    "evaluate_every": 2,
    "link.loss_probability": 0.3,
    "link.retry_limit": 1,
    "link.retry_interval_s": 0.02,
    "link.rate_bps": 2e6,
    "network.deadline_s": 0.03,
    "network.missing": "skip",
    "checkpoint_every": 2,
}
ASLEEP, AWAKE = {"compute.awake_clients": 0}, {"compute.awake_clients": N}
CASES: dict[str, dict[str, Any]] = {
    "a server": {"algorithm": "fedavg"},
    "a server, bursts, and what was heard last": {
        "algorithm": "ditto",
        "network.missing": "stale",
        "links.model": "gilbert_elliott",
    },
    "a server that is off at times, for two rounds each": {
        "algorithm": "apfl",
        "sharing.every": 2,
        "sharing.codec": "int8",
        "faults": [{"kind": "node_off", "nodes": ["server", 1], "mean_up_s": 0.05, "mean_down_s": 0.02}],
    },
    "a server and a queue per node": {
        "algorithm": "pfedme",
        "links.transmitter": "per_node",
        "links.queue_bytes": 3000,
    },
    "everything arrives": {"algorithm": "per_fedavg", "network.missing": "wait", "network.transport": "zmq"},
    "a server that generates models": {"algorithm": "fedsheafhn", "hyper.refresh_every": 2},
    "a server that generates models of numbers": {"algorithm": "pfedhn", "sharing.every": 2},
    "heads start apart": {"algorithm": "lg_fedavg", "model.head_start": "independent"},
    "neighbors": {"algorithm": "ditto_decentralized", "sharing.codec": "top_k"},
    "neighbors and what was heard last": {"algorithm": "head_averaging", "network.missing": "stale"},
    "one model per sensor": {"algorithm": "dsgd", "compute.executor": "threads"},
    "nobody": {"algorithm": "local"},
    # few of each group, so that one client's models are used by others of its group and of no other
    "groups of several sensors": {
        "algorithm": "ditto",
        "clients.groups": [
            {"name": "gps", "modalities": ["gps"], "share": 0.4},
            {"name": "both", "modalities": ["gps", "rf"], "share": 0.6},
        ],
        "faults": [{"kind": "node_off", "nodes": [1, 4], "mean_up_s": 0.05, "mean_down_s": 0.02}],
    },
}
QUICK = {
    "a server",
    "a server, bursts, and what was heard last",
    "a server that generates models",
    "neighbors",
    "groups of several sensors",
}
EACH = [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]


def scenario(case: str, edits: dict[str, Any]) -> Scenario:
    return tiny({**SOME, **CASES[case], **edits})


def left(run: RunResult) -> dict[str, Any]:
    """All that a run leaves and that is not about this machine or about who was awake."""
    real = ("recording_time_s", "wall_time_s", "value_time_s", "export_time_s")
    summary = {key: value for key, value in run.summary.items() if key not in real}
    rows = (run.folder / "metrics.jsonl").read_text()
    return {"summary": summary, "rows": rows, "diagnostics": (run.folder / "diagnostics.json").read_text()}


class Watched(NoRunProgress):
    """Counts who is awake at the end of every round, and may stop the run there."""

    def __init__(self, stop_after: int | None = None) -> None:
        self._stop_after = stop_after
        self.emulation: Emulation | None = None
        self.n_awake: list[int] = []

    def started(self, emulation: Emulation) -> None:
        self.emulation = emulation

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        assert self.emulation is not None
        if (nodes := self.emulation.nodes) is not None:
            self.n_awake.append(nodes.table.n_awake)
        if round_index == self._stop_after:
            raise RuntimeError("killed")


@pytest.mark.parametrize("case", EACH)
def test_who_sleeps_changes_nothing(case: str, tmp_path: Path) -> None:
    watched = Watched()
    awake = run_scenario(scenario(case, AWAKE), tmp_path / "awake", watched)
    assert watched.emulation is not None
    assert watched.emulation.nodes is None
    asleep = run_scenario(scenario(case, ASLEEP), tmp_path / "asleep", watched)
    assert watched.emulation.nodes is not None
    assert watched.n_awake == [SAMPLED] * ROUNDS
    assert left(asleep) == left(awake)
    traffic = asleep.summary["traffic"]
    assert traffic["lost_packets"] + traffic["retransmissions"] > 0 or case == "nobody"


@pytest.mark.parametrize("case", EACH)
def test_a_killed_run_with_sleepers_goes_on_bit_for_bit(case: str, tmp_path: Path) -> None:
    whole = run_scenario(scenario(case, ASLEEP), tmp_path / "whole")
    with pytest.raises(RuntimeError, match="killed"):
        run_scenario(scenario(case, ASLEEP), tmp_path / "run", Watched(stop_after=4))
    assert left(resume_run(tmp_path / "run.failed")) == left(whole)


def test_a_sleeper_that_forgets_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: a client that wakes as it was before its first round."""
    from sheafedge.scenarios.sleeping import learner_table

    whole = run_scenario(scenario("a server", ASLEEP), tmp_path / "whole")
    monkeypatch.setattr(learner_table.LearnerTable, "sleep", lambda self, client: self._awake.pop(client))
    forgetful = run_scenario(scenario("a server", ASLEEP), tmp_path / "run")
    assert forgetful.summary["trace_hash"] != whole.summary["trace_hash"]


def test_clients_that_wake_use_the_models_of_those_that_fell_asleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[ClientModel] = []
    whole = ClientModel.__init__
    monkeypatch.setattr(
        ClientModel, "__init__", lambda self, *args, **given: (built.append(self), whole(self, *args, **given))[1]
    )
    watched = Watched()
    watched_rounds: list[int] = []
    monkeypatch.setattr(watched, "round_ended", lambda *_: watched_rounds.append(len(built)))
    one_group = {"clients.groups": [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}]}
    run_scenario(scenario("a server", {**ASLEEP, **one_group}), tmp_path / "run", watched)
    # one for the start of the server, then one per client of a round, whoever these are
    assert watched_rounds == [1 + SAMPLED] * ROUNDS


@pytest.mark.parametrize("forgotten", ["reset", "scale_by"])
def test_a_used_model_that_keeps_something_of_another_client_is_another_run(
    forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of models that are used again."""
    edits = {**ASLEEP, "world.n_sites": 2}  # sensed elsewhere, and scaled by other statistics
    whole = run_scenario(scenario("neighbors", edits), tmp_path / "whole")
    monkeypatch.setattr(ClientModel, forgotten, lambda self, *_: None)
    mixed_up = run_scenario(scenario("neighbors", edits), tmp_path / "run")
    assert mixed_up.summary["trace_hash"] != whole.summary["trace_hash"]


@pytest.mark.slow
def test_models_of_sleepers_are_exported_as_they_were_put_away(tmp_path: Path) -> None:
    edits = {"export.onnx": True, "rounds": 3}
    runs = [
        run_scenario(scenario("a server", {**edits, **which}), tmp_path / name)
        for name, which in (("asleep", ASLEEP), ("awake", AWAKE))
    ]
    models = [{path.name: path.read_bytes() for path in (run.folder / "models").iterdir()} for run in runs]
    assert len(models[0]) >= N
    assert models[0] == models[1]


def test_who_holds_something_in_common_stays_awake() -> None:
    base = {**SOME, **ASLEEP}
    assert clients_sleep(tiny({**base, "algorithm": "fedavg"}))
    stay: list[dict[str, Any]] = [
        {"algorithm": "sheaf_dmfl_att"},
        {"algorithm": "diffused_and_tuned"},
        {"algorithm": "group_averaging"},
        {"algorithm": "fedavg", "links.model": "radio", "network.deadline_s": 1.0},
        {"algorithm": "fedavg", "server.medium": "processor_sharing"},
        {"algorithm": "fedavg", "links.priorities": True},
        {"algorithm": "fedavg", "clients.sampled": 0},
        {"algorithm": "fedavg", "compute.awake_clients": N},
    ]
    assert not any(clients_sleep(tiny({**base, **edits})) for edits in stay)


def test_a_checkpoint_of_sleepers_does_not_open_with_all_awake(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        run_scenario(scenario("a server", ASLEEP), tmp_path / "run", Watched(stop_after=4))
    path = tmp_path / "run.failed" / "scenario.toml"
    path.write_text(path.read_text().replace("awake_clients = 0", f"awake_clients = {N}"))
    with pytest.raises(ConfigError, match="does not fit"):
        resume_run(tmp_path / "run.failed")
    assert json.loads((tmp_path / "run.failed" / "metrics.jsonl").read_text().splitlines()[0])["round"] == 0

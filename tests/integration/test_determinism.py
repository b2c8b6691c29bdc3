"""One seed, one run: repeatable to the last bit, and no component's draws move those of another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from doubles.links import fate_of
from integration.played import digest
from integration.tiny import Walk, state_of, tiny, walk, wired
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sheafedge.datasets.windows.samples import Samples
from sheafedge.datasets.windows.sensor_windows import BeamWindows
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.scenarios.links.link_maker import LinkEnd, make_links
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.wiring.live import LiveRows

LOSSY = {"link.loss_probability": 0.3, "link.retry_limit": 0, "network.missing": "stale"}


def ran(folder: Path, edits: dict[str, Any]) -> RunResult:
    return run_scenario(tiny({**LOSSY, **edits}), folder)


def rows(result: RunResult) -> list[Any]:
    return [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def without_wall_time(result: RunResult) -> dict[str, Any]:
    machine = {"recording_time_s", "wall_time_s", "value_time_s", "export_time_s", "environment"}
    return {key: value for key, value in result.summary.items() if key not in machine}


@pytest.mark.parametrize("algorithm", ["sheaf_dmfl_att", "dsgd"])
def test_one_seed_gives_one_run_and_another_seed_another(tmp_path: Path, algorithm: str) -> None:
    first, again, other = (
        ran(tmp_path / name, {"algorithm": algorithm, "seed": seed})
        for name, seed in (("first", 3), ("again", 3), ("other", 4))
    )
    assert first.summary["traffic"]["lost_packets"] > 0
    assert without_wall_time(first) == without_wall_time(again)
    assert rows(first) == rows(again)
    assert first.summary["trace_hash"] != other.summary["trace_hash"]
    assert [row["loss"] for row in rows(first)] != [row["loss"] for row in rows(other)]


@pytest.mark.slow
def test_the_run_folder_repeats_its_run_in_another_process(tmp_path: Path) -> None:
    """With other hashes of strings, so that no order of a set decides about anything."""
    first = ran(tmp_path / "first", {"network.transport": "zmq"})
    command = [sys.executable, "-c", "from sheafedge.scenarios.entry import main; main()"]
    again = tmp_path / "again"
    subprocess.run(
        [*command, "run", str(first.folder / "scenario.toml"), "--out", str(again)],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        stdout=subprocess.DEVNULL,
    )
    summary = json.loads((again / "summary.json").read_text(encoding="utf-8"))
    assert summary["trace_hash"] == first.summary["trace_hash"]


def test_two_runs_side_by_side_do_not_touch_each_other() -> None:
    """Nothing is global: built together and played in turn, they are what they are alone."""
    alone = {seed: walk(tiny({**LOSSY, "seed": seed})).trace_hash for seed in (0, 1)}
    together = {seed: wired(tiny({**LOSSY, "seed": seed})) for seed in (1, 0)}
    for round_index in range(3):
        ends = {}
        for seed, walked in together.items():
            env = walked.emulation.env
            ends[seed] = env.all_of([env.process(each.play_round(round_index)) for each in walked.emulation.stations])
        while not all(end.processed for end in ends.values()):
            for seed, walked in together.items():
                if not ends[seed].processed:
                    walked.emulation.env.step()
    assert {seed: walked.trace_hash for seed, walked in together.items()} == alone


# --- streams --------------------------------------------------------------------------------------------------------

#: Edits of one component each.
UNRELATED: dict[str, dict[str, Any]] = {
    "more loss": {"link.loss_probability": 0.5},
    "bursts of loss": {"links.model": "gilbert_elliott", "link.loss_probability": 0.2},
    "slower links": {"link.rate_bps": 1e6, "network.deadline_s": 0.02},
    "another policy": {"network.missing": "skip"},
    "another transport": {"network.transport": "zmq"},
    "threads": {"compute.executor": "threads"},
    "hidden sensors": {"training.hide_sensors": 0.4},
    "more rounds": {"rounds": 5},
    "random maps": {"sheaf.map_start": "random"},
    "a stronger coupling": {"sheaf.coupling": 0.2},
    "nobody sends": {"algorithm": "local"},
    "a complete graph": {"topology.kind": "complete"},
}


def beginning(walked: Walk) -> dict[str, Any]:
    """What exists before the first round, maps apart: rows of every client, its group, its models."""
    emulation = walked.emulation
    seen: dict[str, Any] = {}
    for client, learner in zip(emulation.clients, emulation.learners, strict=True):
        data = client.data
        whose = {"group": client.group, "recording": data.recording}
        owned = {
            f"{name} {field}": values.tobytes()
            for name, part in (("train", data.train), ("test", data.test))
            for field, values in arrays_of(part).items()
        }
        state = {name: v for name, v in state_of(emulation, learner).items() if "map to" not in name}
        seen[f"client {client.client_id}"] = {**whose, **owned, "models": digest(state)}
    return seen


def arrays_of(samples: Samples | LiveRows) -> dict[str, NDArray[Any]]:
    assert isinstance(samples, BeamWindows)
    arrays: dict[str, NDArray[Any]] = {str(modality): rows for modality, rows in samples.inputs().items()}
    return arrays | {"label": samples.label, "end": samples.end}


def test_every_link_has_losses_of_its_own_whoever_else_is_there() -> None:
    """No two directions lose alike, and an edge more or less changes no other link."""
    scenario = tiny({"link.loss_probability": 0.5, "link.retry_limit": 0})
    ends = {node: LinkEnd("both") for node in range(4)}

    def fates(edges: list[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, ...]]:
        links = make_links(
            scenario.links, scenario.link, nx.Graph(edges), EmulatorEnvironment(0), ends, until_delivered=False
        )
        return {pair: tuple(fate_of(link, 64 * 128).lost_packets.tolist()) for pair, link in links.items()}

    few, many = fates([(0, 1), (1, 2)]), fates([(0, 1), (1, 2), (0, 2), (3, 0)])
    assert len(set(many.values())) == len(many) == 8
    assert few == {ends: many[ends] for ends in few}


@pytest.fixture(scope="module")
def before() -> Walk:
    return wired(tiny(LOSSY))


@pytest.mark.parametrize("edit", UNRELATED)
def test_a_component_that_changes_leaves_the_beginning_of_all_others(before: Walk, edit: str) -> None:
    edited = wired(tiny({**LOSSY, **UNRELATED[edit]}))
    assert beginning(edited) == beginning(before)
    if edit != "a complete graph":
        assert set(edited.emulation.graph.edges) == set(before.emulation.graph.edges)
    edited.emulation.close()


def test_another_seed_is_another_beginning(before: Walk) -> None:
    """Or the comparison above would compare constants."""
    other, reference = beginning(wired(tiny({**LOSSY, "seed": 1}))), beginning(before)
    assert [other[client]["models"] for client in other] != [reference[client]["models"] for client in reference]
    assert [other[client]["train end"] for client in other] != [reference[client]["train end"] for client in reference]


FROZEN = {
    "training.head_step_size": 0.0,
    "training.encoder_step_size": 0.0,
    "training.attention_step_size": 0.0,
    "training.local_steps": 1,
    "rounds": 6,
    "sheaf.map_step_size": 0.01,
}
"""Nobody learns, so that the loss of a round is that of its batch under the initial model."""

BATCH_LOSS = 1e-5  # averaging equal encoders rounds in float32


@pytest.fixture(scope="module")
def still() -> list[list[float]]:
    """Without any edit."""
    return losses({})


def losses(edits: dict[str, Any]) -> list[list[float]]:
    """[round][client], of clients that learn nothing."""
    walked = walk(tiny({**FROZEN, **edits}))
    return [[loss for _, loss in sorted(of_round.items())] for of_round in walked.losses]


@pytest.mark.parametrize("edit", ["more loss", "threads", "nobody sends", "a complete graph", "random maps"])
def test_a_component_that_changes_leaves_all_minibatches(edit: str, still: list[list[float]]) -> None:
    assert_allclose(losses(UNRELATED[edit]), still, rtol=0.0, atol=BATCH_LOSS)
    assert min(np.std(still, axis=0)) > 100 * BATCH_LOSS  # every round another batch, and it shows


def test_another_seed_draws_other_minibatches(still: list[list[float]]) -> None:
    assert np.abs(np.array(losses({"seed": 1})) - still).min() > BATCH_LOSS

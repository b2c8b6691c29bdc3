"""Runs whose clients are computed together are those whose clients are computed one by one, up to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from integration.test_resume import stopped
from integration.tiny import PLAIN_SGD, Walk, tiny, walk
from numpy.testing import assert_allclose
from sheafedge.emulator.turns import Turn
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.factors.alternating_turn import AlternatingTurn
from sheafedge.models.joint.joint_turns import GradientTurn, StepsTurn
from sheafedge.scenarios.running.run import resume_run, run_scenario

SAME = 1e-10  # float64, three rounds
LOSSY = {"link.loss_probability": 0.3, "link.retry_limit": 0}
BATCHED = {"compute.executor": "batched"}
#: Clients of three groups, so that each architecture is owned by several and some by one.
MIXED = {"clients.n_clients": 6, "world.n_sites": 1}
#: Each client's batch is all of its rows, of which every client has another number: none can be computed together.
DIFFERENT = "batches larger than a set"
CASES: dict[str, dict[str, Any]] = {
    "Adam": {},
    "balanced classes": {"training.class_weights": "balanced"},
    "concatenation": {"model.fusion": "concat"},
    "a network that scores": {"model.fusion": "attention_mlp"},
    DIFFERENT: {"training.batch_size": 4096},
    "hidden sensors": {"training.hide_sensors": 0.4},
    "nodes that go off": {"faults": [{"kind": "node_off", "nodes": [0, 3], "mean_up_s": 0.05, "mean_down_s": 0.03}]},
    "unequal devices": {"compute.stragglers.share": 0.5, "compute.stragglers.factor": 20.0},
    "bursts, and what was said before": {"links.model": "gilbert_elliott", "network.missing": "stale"},
    "maps of dense matrices": {"sheaf.map_storage": "dense"},
    "over ZeroMQ": {"network.transport": "zmq"},
}


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many turns were computed by each call."""
    sizes: list[int] = []
    for kind in (StepsTurn, GradientTurn, AlternatingTurn):
        run_with = kind.run_with

        def noted(turn: Any, others: Sequence[Turn], run_with: Any = run_with) -> None:
            sizes.append(1 + len(others))
            run_with(turn, others)

        monkeypatch.setattr(kind, "run_with", noted)
    return sizes


def assert_same(ours: Walk, theirs: Walk) -> None:
    """Equal states of all clients after every round, up to rounding, and equal fates of all messages."""
    for round_index, (mine, other) in enumerate(zip(ours.states, theirs.states, strict=True)):
        assert mine.keys() == other.keys()
        for client, state in mine.items():
            for part, values in state.items():
                where = f"round {round_index}, client {client}, {part}"
                assert_allclose(values, other[client][part], rtol=SAME, atol=SAME, err_msg=where)
    assert ours.emulation.recorder.traffic.as_dict() == theirs.emulation.recorder.traffic.as_dict()


#: One of each way to come to turns: steps of parts, of whole models, steps near a place, gradients, other models, steps
#: in alternation.
QUICK = {"sheaf_dmfl_att", "sheaf_fmtl", "ditto_decentralized", "apfl", "dmml_kd", "fedavg", "fedsheafhn", "tdpfed"}


@pytest.mark.parametrize(
    "algorithm",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in ALGORITHMS
        if name != "centralized"
    ],
)
def test_every_algorithm(algorithm: str, together: list[int]) -> None:
    """With plain SGD: where Adam divides a gradient that is all rounding, pFedMe's pull makes much of it."""
    edits = {**PLAIN_SGD, **LOSSY, **MIXED, "algorithm": algorithm}
    if ALGORITHMS[algorithm].couples_models:
        edits["training.model_step_size"] = 0.01
    if ALGORITHMS[algorithm].factored:  # Adam it is, for which a gradient of rounding alone is a step, that grows
        edits |= {"factors.step_size": 1e-5, "factors.steps": 1, "training.local_steps": 1}
    alone = walk(tiny(edits), torch.float64)
    assert together == []
    assert_same(walk(tiny({**edits, **BATCHED}), torch.float64), alone)
    assert max(together) > 1


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_run(case: str, together: list[int]) -> None:
    edits = {**LOSSY, **MIXED, **CASES[case]}
    assert_same(walk(tiny({**edits, **BATCHED}), torch.float64), walk(tiny(edits), torch.float64))
    assert (together != []) == (case != DIFFERENT)


def test_sensors_are_hidden_alike_on_threads() -> None:
    edits = {**LOSSY, **MIXED, "training.hide_sensors": 0.4}
    hashes = {walk(tiny({**edits, "compute.executor": executor})).trace_hash for executor in ("serial", "threads")}
    assert len(hashes) == 1
    assert walk(tiny({**LOSSY, **MIXED})).trace_hash not in hashes


def test_where_nodes_have_no_common_rounds_each_is_computed_alone(together: list[int]) -> None:
    edits = {**LOSSY, **MIXED, "network.mode": "asynchronous"}
    assert walk(tiny({**edits, **BATCHED})).trace_hash == walk(tiny(edits)).trace_hash
    assert together == []


def test_a_batched_run_repeats_to_the_bit_on_any_number_of_threads() -> None:
    hashes = {walk(tiny({**LOSSY, **MIXED, **BATCHED, "compute.threads": n})).trace_hash for n in (1, 2, 2)}
    assert len(hashes) == 1


@pytest.mark.parametrize(("before", "after"), [("batched", "serial"), ("serial", "batched"), ("batched", "batched")])
def test_a_run_goes_on_with_another_executor(tmp_path: Path, before: str, after: str) -> None:
    edits = {**LOSSY, **MIXED, "rounds": 4}
    whole = run_scenario(tiny({**edits, "compute.executor": after}), tmp_path / "whole")
    aside = stopped(tiny({**edits, "compute.executor": before}), tmp_path / "stopped", round_index=1)
    resumed = resume_run(aside, edits={"compute.executor": after})
    assert resumed.summary["environment"]["executor"].startswith(after)
    for group, scores in whole.summary["groups"].items():
        for name, value in scores.items():
            if isinstance(value, float):
                assert_allclose(resumed.summary["groups"][group][name], value, rtol=1e-3, err_msg=f"{group} {name}")
    if before == after:
        assert resumed.summary["trace_hash"] == whole.summary["trace_hash"]


def test_auto_takes_batches_of_small_models_and_says_so(tmp_path: Path) -> None:
    result = run_scenario(tiny({"compute.executor": "auto", "rounds": 1}), tmp_path / "run")
    assert result.summary["environment"]["executor"] == "batched, 2 threads"
    assert np.isfinite(result.summary["wall_time_s"])

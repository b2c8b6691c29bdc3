"""Run folders as runs leave them, written by hand: figures that a reader can check, and no training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from sheafedge.scenarios.schema.scenario import Scenario

#: Group of every client.
GROUPS = ("gps", "gps", "rf", "rf")
ROUNDS = 3

Written = Callable[..., Path]


def score(node: int, round_index: int) -> float:
    return 0.1 * (node + 1) + 0.05 * round_index


def row(node: int, round_index: int) -> dict[str, Any]:
    """A line of `metrics.jsonl` of a run without a sheaf, of before times and residuals were written."""
    seen: dict[str, Any] = {
        "round": round_index,
        "client": node,
        "group": GROUPS[node],
        "time_s": 0.5 * (round_index + 1),
        "bytes_sent": 1_000_000 * (round_index + 1),
        "energy_j": 2.0 * (round_index + 1),
        "loss": 1.0 / (1 + round_index + node),
    }
    # round 1 is not scored
    return seen if round_index == 1 else {**seen, "models": {"fused": {"top1": score(node, round_index), "top3": 0.9}}}


def summary() -> dict[str, Any]:
    last = [score(node, ROUNDS - 1) for node in range(4)]
    kind = {"messages": 36, "bytes": 12_000_000, "lost_messages": 2}
    return {
        "scenario": "beam_tracking",
        "task": "beam_tracking",
        "algorithm": "sheaf_dmfl_att",
        "seed": 0,
        "rounds": ROUNDS,
        "clients": 4,
        "edges": 6,
        "test_windows": 400,
        "virtual_time_s": 1.5,
        "energy_j": 24.0,
        "wall_time_s": 1.0,
        "trace_hash": "0123456789abcdef",
        "groups": {
            "gps": {
                "clients": 2,
                "model": "fused",
                "top1": (last[0] + last[1]) / 2,
                "top3": 0.9,
                "power_loss_db": None,
            },
            "rf": {"clients": 2, "model": "fused", "top1": (last[2] + last[3]) / 2, "top3": 0.9, "power_loss_db": 1.25},
        },
        "baselines": {"gps": {"persistence": {"top1": 0.4}, "majority": {"top1": 0.02}}, "rf": {}},
        "traffic": {"messages": 36, "bytes": 12_000_000, "lost_messages": 2, "by_kind": {"encoder": kind}},
        "exports": [],
        "warnings": ["the coupling of client 2 <b>grows</b>"],
        "environment": {"sheafedge": "0.1.0", "torch": "2.9", "code": "abc"},
    }


@pytest.fixture
def written(tmp_path: Path, tiny: Scenario) -> Written:
    """Writes a run folder, with more columns of rows, changed keys of the summary, edited fields of the scenario."""

    def write(
        name: str = "run",
        *,
        more: Callable[[int, int], dict[str, Any]] = lambda node, round_index: {},
        changes: dict[str, Any] | None = None,
        edits: dict[str, Any] | None = None,
        diagnostics: dict[str, Any] | None = None,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        groups = [{"name": name, "modalities": [name], "share": 0.5} for name in ("gps", "rf")]
        scenario = tiny.edited({"rounds": ROUNDS, "clients.groups": groups, **(edits or {})})
        (folder / "scenario.toml").write_text(tomli_w.dumps(scenario.pinned_tables()), encoding="utf-8")
        rows = [{**row(node, index), **more(node, index)} for index in range(ROUNDS) for node in range(4)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
        (folder / "summary.json").write_text(json.dumps({**summary(), **(changes or {})}), encoding="utf-8")
        if diagnostics is not None:
            (folder / "diagnostics.json").write_text(json.dumps(diagnostics), encoding="utf-8")
        return folder

    return write

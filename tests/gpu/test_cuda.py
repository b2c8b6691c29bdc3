"""What a GPU must not change: `pytest -m gpu` where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.schema.scenario import load_scenario

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]

#: Scores are shares of a few hundred rows, and rounding turns a handful of near ties between beams.
SCORE_TOLERANCE = 0.05
EDITS: dict[str, Any] = {"rounds": 10, "world.duration_s": 700, "export.pictures": 0}


def run_on(device: str, folder: Path, **more: Any) -> RunResult:
    scenario = load_scenario("beam_tracking").edited({**EDITS, "compute.device": device, **more})
    return run_scenario(scenario, folder / device)


def test_a_gpu_learns_what_the_cpu_learns(tmp_path: Path) -> None:
    on_cpu, on_gpu = (run_on(device, tmp_path).summary["groups"] for device in ("cpu", "cuda"))
    for group, scores in on_cpu.items():
        assert on_gpu[group]["top3"] == pytest.approx(scores["top3"], abs=SCORE_TOLERANCE), group


def test_a_gpu_repeats_itself_to_the_bit(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (run_on("cuda", tmp_path / name, **{"export.onnx": False}) for name in ("a", "b"))
    assert first.summary["trace_hash"] == second.summary["trace_hash"]


def test_models_trained_on_a_gpu_are_exported_and_agree(tmp_path: Path) -> None:
    summary = run_on("cuda", tmp_path).summary
    assert len(summary["exports"]) == summary["clients"]
    assert all(row["max_abs_error"] <= 1e-4 for row in summary["exports"])

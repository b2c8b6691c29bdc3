"""What a GPU must not change: `pytest -m gpu` where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.wiring.torch_setup import float32_products
from torch.nn import functional

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]

#: Scores are shares of a few hundred rows, and rounding turns a handful of near ties between beams.
SCORE_TOLERANCE = 0.05
EDITS: dict[str, Any] = {"rounds": 10, "world.duration_s": 700, "export.pictures": 0}


def run_on(device: str, folder: Path, **more: Any) -> RunResult:
    scenario = load_scenario("beam_tracking").edited({**EDITS, "compute.device": device, **more})
    folder.mkdir(exist_ok=True)
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


def test_clients_computed_together_on_a_gpu_are_those_computed_one_by_one(tmp_path: Path) -> None:
    short = {"rounds": 3, "export.onnx": False}
    alone, together = (
        run_on("cuda", tmp_path / name, **short, **{"compute.executor": name}).summary["groups"]
        for name in ("serial", "batched")
    )
    for group, scores in alone.items():
        assert together[group]["top3"] == pytest.approx(scores["top3"], abs=SCORE_TOLERANCE), group


def test_products_are_not_rounded_to_tf32_unless_asked_for() -> None:
    draws = torch.Generator(device="cuda").manual_seed(0)
    one = torch.rand(256, 256, generator=draws, device="cuda")
    images, kernels = torch.rand(4, 64, 16, 16, device="cuda"), torch.rand(64, 64, 3, 3, device="cuda")

    def error() -> float:
        exact = functional.conv2d(images.double(), kernels.double())
        of_products = ((one @ one) - (one.double() @ one.double())).abs().max() / 256
        return float(of_products + (functional.conv2d(images, kernels) - exact).abs().max() / exact.abs().max())

    with float32_products(tf32=False):
        exact = error()
    with float32_products(tf32=True):
        rounded = error()
    assert exact < 1e-5 < rounded


def test_factors_of_a_convolutional_network_learn_and_are_handed_out(tmp_path: Path) -> None:
    """One round of the larger network of the TDPFed experiments, on images of 32 x 32 pixels in three channels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=160)
    images = rng.normal(size=(160, 3, 32, 32)).astype(np.float32) + labels[:, None, None, None]
    np.savez(tmp_path / "images.npz", x=images, y=labels)
    scenario = load_scenario("two_digits").edited(
        {
            "data.dataset": "file",
            "data.root": str(tmp_path / "images.npz"),
            "clients.n_clients": 4,
            "clients.groups": [{"name": "all", "modalities": ["image"], "share": 1.0, "encoder": "vgg8"}],
            "rounds": 1,
            "evaluate_every": 1,
            "training.local_steps": 2,
            "personalization.personal_step_size": 0.01,
            "export.onnx": True,
            "export.model": "compressed local",
            "export.pictures": 0,
            "compute.device": "cuda",
        }
    )
    summary = run_scenario(scenario, tmp_path / "run").summary
    assert set(summary["models"]["all"]) == {"personal", "compressed local", "compressed global"}
    assert len(summary["exports"]) == 4
    assert all(row["bytes"] < 2_400_000 for row in summary["exports"])

"""What a GPU must not change: `pytest -m gpu` where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sheafedge.models.flat import FlatModule
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.wiring.torch_setup import gpu_arithmetic
from torch import nn
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


@pytest.mark.parametrize("executor", ["threads", "batched"])
@pytest.mark.parametrize("width", [0.1, 0.25])
def test_convolutions_of_any_width_repeat_themselves_to_the_bit(tmp_path: Path, width: float, executor: str) -> None:
    """With sizes that are no multiples of four, views of a flat vector begin where cuDNN reads no normalization."""
    edits = {
        "rounds": 3,
        "world.n_sites": 2,
        "world.duration_s": 90,
        "clients.n_clients": 4,
        "topology.kind": "complete",
        "model.width": width,
        "training.local_steps": 2,
        "training.batch_size": 8,
        "export.onnx": False,
        "export.pictures": 0,
        "compute.device": "cuda",
        "compute.executor": executor,
    }
    scenario = load_scenario("blockage").edited(edits)
    first, second = (run_scenario(scenario, tmp_path / name).summary for name in ("first", "second"))
    assert first["trace_hash"] == second["trace_hash"]
    assert first["environment"]["executor"].startswith(executor)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [3, 5, 8])
def test_a_flat_normalization_computes_on_a_gpu_what_it_computes_on_a_cpu(
    channels: int, memory_format: torch.memory_format
) -> None:
    found = {}
    for device in ("cpu", "cuda"):
        layers = nn.Sequential(
            nn.Conv2d(1, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 2, 3)
        )
        flat = FlatModule(layers.to(device, torch.float64))
        flat.vector.copy_(torch.linspace(0.1, 0.9, len(flat.vector)))
        maps = torch.linspace(-1.0, 1.0, 4 * 9 * 9, dtype=torch.float64).sin().reshape(4, 1, 9, 9)
        for _ in range(3):
            layers(maps.to(device).contiguous(memory_format=memory_format)).square().mean().backward()
            flat.trainable.data.add_(flat.gradient, alpha=-0.1)
            flat.gradient.zero_()
        layers.eval()
        found[device] = [layers(maps.to(device)).detach().cpu(), flat.vector.cpu()]
    for cpu, gpu in zip(found["cpu"], found["cuda"], strict=True):
        torch.testing.assert_close(gpu, cpu, rtol=1e-9, atol=1e-10)


def test_products_are_not_rounded_to_tf32_unless_asked_for() -> None:
    draws = torch.Generator(device="cuda").manual_seed(0)
    one = torch.rand(256, 256, generator=draws, device="cuda")
    images, kernels = torch.rand(4, 64, 16, 16, device="cuda"), torch.rand(64, 64, 3, 3, device="cuda")

    def error() -> float:
        exact = functional.conv2d(images.double(), kernels.double())
        of_products = ((one @ one) - (one.double() @ one.double())).abs().max() / 256
        return float(of_products + (functional.conv2d(images, kernels) - exact).abs().max() / exact.abs().max())

    with gpu_arithmetic(tf32=False):
        exact = error()
    with gpu_arithmetic(tf32=True):
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

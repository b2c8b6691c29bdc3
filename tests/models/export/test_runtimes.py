"""One exported model in every runtime that is installed: the answers of its client, whichever sensors are there.

`SHEAFEDGE_OTHER_PYTHON` may name a Python that has another onnxruntime, such as the oldest one of the manifest:

    python3.11 -m venv old && old/bin/pip install onnxruntime==1.18.1 'numpy<2'
    SHEAFEDGE_OTHER_PYTHON=old/bin/python .venv/bin/pytest -m slow tests/models/export/test_runtimes.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.map_encoder import beam_map_encoder, camera_encoder, lidar_encoder
from sheafedge.models.encoders.normalize import CameraScale, LidarScale, StandardizePower
from sheafedge.models.export.deployed_model import DeployedModel
from sheafedge.models.export.onnx_export import OnnxExporter
from torch import nn

pytestmark = pytest.mark.slow

RUNTIMES = 1e-4  # the project's promise for float32; one summation order against another
ROOT = Path(__file__).resolve().parents[3]
DOUBLES = Path(__file__).resolve().parents[2] / "doubles"
PACKAGES = ROOT / "examples" / "clients" / "node_modules"
EMBEDDING, N_OUTPUTS = 8, 3
SHAPES: dict[Modality, tuple[int, ...]] = {"lidar": (2, 16, 216), "camera": (4, 16, 24), "rf": (8, 32)}
#: Rows of `present`: all sensors, without each of them, alone, and rows that differ.
PRESENT = ([[1, 1, 1]], [[0, 1, 1]], [[1, 0, 1]], [[1, 1, 0]], [[0, 0, 1]], [[1, 1, 1], [0, 1, 1], [1, 0, 0]])

Arrays = Mapping[str, NDArray[np.float32]]
Runtime = Callable[[Path, Sequence[Arrays]], list[dict[str, NDArray[np.float32]]]]

_OTHER_ONNXRUNTIME = """
import json, sys
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
names = [one.name for one in session.get_outputs()]
answers = []
for case in json.load(sys.stdin):
    inputs = {name: np.reshape(np.float32(one["data"]), one["shape"]) for name, one in case.items()}
    found = zip(names, session.run(None, inputs))
    answers.append({name: {"shape": values.shape, "data": values.ravel().tolist()} for name, values in found})
json.dump(answers, sys.stdout)
"""


def written(cases: Sequence[Arrays]) -> str:
    return json.dumps(
        [
            {name: {"shape": values.shape, "data": values.ravel().tolist()} for name, values in case.items()}
            for case in cases
        ]
    )


def in_a_process(command: Sequence[str], cases: Sequence[Arrays]) -> list[dict[str, NDArray[np.float32]]]:
    done = subprocess.run(command, input=written(cases), capture_output=True, text=True, check=True)
    return [
        {name: np.reshape(np.float32(one["data"]), one["shape"]) for name, one in answer.items()}
        for answer in json.loads(done.stdout)
    ]


def installed_onnxruntime(path: Path, cases: Sequence[Arrays]) -> list[dict[str, Any]]:
    session = OnnxSession(path)
    return [dict(zip(("logits", "attention"), session.answer(case), strict=True)) for case in cases]


def another_onnxruntime(path: Path, cases: Sequence[Arrays]) -> list[dict[str, NDArray[np.float32]]]:
    python = os.environ.get("SHEAFEDGE_OTHER_PYTHON")
    if not python:
        pytest.skip("SHEAFEDGE_OTHER_PYTHON names no Python with another onnxruntime")
    return in_a_process([python, "-c", _OTHER_ONNXRUNTIME, str(path)], cases)


def openvino(path: Path, cases: Sequence[Arrays]) -> list[dict[str, NDArray[np.float32]]]:
    runtime = pytest.importorskip("openvino", reason="OpenVINO is not installed: pip install openvino")
    # in bfloat16, where a processor can, it is up to 0.04 off
    model = runtime.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [{name: np.array(model(case)[name]) for name in ("logits", "attention")} for case in cases]


def onnxruntime_web(path: Path, cases: Sequence[Arrays]) -> list[dict[str, NDArray[np.float32]]]:
    node = shutil.which("node")
    if node is None or not (PACKAGES / "onnxruntime-web").exists():
        pytest.skip("Node.js or onnxruntime-web is not installed: npm install in examples/clients")
    return in_a_process([node, str(DOUBLES / "onnxruntime_web.mjs"), str(PACKAGES), str(path)], cases)


@pytest.fixture(scope="module")
def model() -> ClientModel:
    """LiDAR, camera and sweeps, with the layers of blockage; no value is special."""
    draws, torch_draws = np.random.default_rng(0), torch.Generator().manual_seed(0)
    normalizers: dict[Modality, nn.Module] = {
        "lidar": LidarScale(),
        "camera": CameraScale(draws.integers(0, 255, (5, *SHAPES["camera"]))),
        "rf": StandardizePower(draws.normal(-60.0, 8.0, (20, *SHAPES["rf"]))),
    }
    makers = {"lidar": lidar_encoder, "camera": camera_encoder, "rf": beam_map_encoder}
    encoders = {m: makers[m](SHAPES[m], EMBEDDING, torch.Generator(), width=0.5) for m in SHAPES}
    made = ClientModel(normalizers, encoders, fusion="attention", embedding_dim=EMBEDDING, n_outputs=N_OUTPUTS)
    with torch.no_grad():
        for values in made.parameters():
            values.copy_(torch.randn(values.shape, generator=torch_draws) * values[:1].numel() ** -0.5)
    return made.eval()


@pytest.fixture(scope="module")
def path(model: ClientModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("model") / "model.onnx"
    OnnxExporter().export(model, SHAPES, file, {})
    return file


def samples(n: int) -> dict[str, NDArray[np.float32]]:
    draws = np.random.default_rng(1)
    spans = {"lidar": (0.0, 16.0), "camera": (0.0, 255.0), "rf": (-80.0, -40.0)}
    # each sample of a level of its own: averages over noise alone would hardly differ
    return {
        m: (draws.uniform(*spans[m], (n, *(1 for _ in shape))) + draws.normal(0.0, 2.0, (n, *shape))).astype(np.float32)
        for m, shape in SHAPES.items()
    }


def cases() -> list[dict[str, NDArray[np.float32]]]:
    return [samples(3) | {"present": np.array(rows, np.float32)} for rows in PRESENT]


@pytest.mark.parametrize("runtime", [installed_onnxruntime, another_onnxruntime, openvino, onnxruntime_web])
def test_a_runtime_answers_as_the_client_does(runtime: Runtime, model: ClientModel, path: Path) -> None:
    answers = runtime(path, cases())
    with torch.no_grad():
        expected = [DeployedModel(model)(*map(torch.from_numpy, case.values())) for case in cases()]
    seen = np.stack([logits for logits, _ in expected])
    assert seen.std(axis=0).min() > 100 * RUNTIMES, "the cases must give different answers"
    for found, (logits, shares) in zip(answers, expected, strict=True):
        assert_allclose(found["logits"], logits, atol=RUNTIMES, rtol=RUNTIMES)
        assert_allclose(found["attention"], shares, atol=RUNTIMES)


@pytest.mark.parametrize("runtime", [installed_onnxruntime, another_onnxruntime, onnxruntime_web])
def test_a_runtime_answers_no_samples_by_an_empty_answer(runtime: Runtime, path: Path) -> None:
    """OpenVINO does not: MaxPool of its CPU plugin fails."""
    (found,) = runtime(path, [samples(0) | {"present": np.ones((1, 3), np.float32)}])
    assert (found["logits"].shape, found["attention"].shape) == ((0, N_OUTPUTS), (0, 3))

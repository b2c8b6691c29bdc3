"""Session of the ONNX runtime: many rows in pieces are the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from doubles.bundles import tiny_bundle, tiny_inputs
from numpy.testing import assert_allclose
from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.onnx_session import ROWS_AT_ONCE

ROUNDING = 1e-6  # a last bit of logits near 1, where a product of matrices sums in another order


def test_many_rows_are_answered_in_their_order(tmp_path: Path) -> None:
    bundle = load_bundle(tiny_bundle(tmp_path / "bundle"), trial=None)
    session = bundle.session
    for n in (1, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 3):
        inputs = tiny_inputs(bundle.manifest, n)
        assert_allclose(session.run_all(inputs), session.run(inputs), atol=ROUNDING, rtol=0.0)
        one_by_one = [session.run({name: rows[i : i + 1] for name, rows in inputs.items()}) for i in range(n)]
        assert_allclose(session.run_all(inputs), np.concatenate(one_by_one), atol=ROUNDING, rtol=0.0)


@pytest.mark.parametrize("has_cuda", [True, False])
def test_a_gpu_is_asked_for_where_the_runtime_knows_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_cuda: bool
) -> None:
    """The runtime for CPUs warns of every provider that it does not have; it is all that many machines have."""
    bundle, asked = tiny_bundle(tmp_path / "bundle"), []
    known = ["CUDAExecutionProvider", "CPUExecutionProvider"] if has_cuda else ["CPUExecutionProvider"]
    make = onnxruntime.InferenceSession

    def session(source: Any, options: Any, providers: list[Any]) -> Any:
        asked.append([one if isinstance(one, str) else one[0] for one in providers])
        return make(source, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: known)
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    assert load_bundle(bundle, cuda=True, trial=None).session.provider == "CPUExecutionProvider"
    assert asked == [known]

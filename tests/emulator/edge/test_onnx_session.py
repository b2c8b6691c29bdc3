"""Session of the ONNX runtime: many rows in pieces are the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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

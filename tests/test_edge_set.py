"""A device with four packages and no torch serves a bundle: tried in an environment that has nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WHEEL_CHECK = Path(__file__).resolve().parents[1] / ".ci" / "wheel_check.py"


@pytest.mark.slow
@pytest.mark.checkout
@pytest.mark.timeout(900)
def test_a_clean_environment_without_torch_serves_a_bundle() -> None:
    done = subprocess.run(
        [sys.executable, "-P", WHEEL_CHECK, "edge"], capture_output=True, text=True, timeout=840, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "golden answers from a served bundle, without torch" in done.stdout
    assert "edge passed" in done.stdout

"""A comparison of two methods that is run in a moment."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from sheafedge.scenarios.compare import comparing
from sheafedge.scenarios.compare.comparing import run_comparison
from sheafedge.scenarios.compare.comparison import Comparison, validated_comparison


@pytest.fixture(scope="session")
def two_methods(tiny_edits: dict[str, Any]) -> Comparison:
    """Together and alone, with two seeds."""
    return validated_comparison(
        {
            "name": "two",
            "scenario": "beam_tracking",
            "seeds": [0, 1],
            "reference": "alone",
            "set": {**tiny_edits, "compute.executor": "serial"},
            "methods": {"together": {"algorithm": "sheaf_dmfl_att"}, "alone": {"algorithm": "local"}},
        }
    )


@pytest.fixture(scope="session")
def finished(two_methods: Comparison, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Its folder and results; tests only read them."""
    folder = tmp_path_factory.mktemp("compared") / "two"
    return folder, run_comparison(two_methods, folder)


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves take ten times as long as the tiny runs that they show; the comparison `finished` has them."""
    monkeypatch.setattr(comparing, "_draw", lambda results, folder: None)


@pytest.fixture(scope="module", autouse=True)
def _old_objects_are_no_garbage() -> None:
    """Full collections, which `compare` does after every run, skip torch and all tests: half a second less each."""
    gc.collect()  # what the module before has left is freed, not frozen
    gc.freeze()

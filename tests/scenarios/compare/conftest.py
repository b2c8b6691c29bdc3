"""A comparison of two methods that is run in a moment."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w
from sheafedge.scenarios.compare import comparing, jobs
from sheafedge.scenarios.compare.comparing import run_comparison
from sheafedge.scenarios.compare.comparison import Comparison, validated_comparison
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario


@pytest.fixture(scope="session")
def _made_before(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """`run_scenario` that copies the first run of a scenario for all further ones."""
    made: dict[str, Path] = {}
    store = tmp_path_factory.mktemp("made")

    def made_once(scenario: Scenario, folder: Path, **options: Any) -> None:
        key = tomli_w.dumps(scenario.tables())
        if key not in made:
            run_scenario(scenario, store / str(len(made)), **options)
            made[key] = store / str(len(made))
        shutil.copytree(made[key], folder)

    return made_once


@pytest.fixture(scope="module", autouse=True)
def _equal_runs_are_made_once(_made_before: Callable[..., None]) -> Iterator[None]:
    """Tests here ask which runs are made, kept and compared, and not what a run computes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "run_scenario", _made_before)
        patch.setattr(jobs, "gc", SimpleNamespace(collect=lambda: 0))  # copies leave no cycles
        yield


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

"""A comparison of two methods that is run in a moment."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w
from sheafedge.scenarios.compare import comparing, jobs
from sheafedge.scenarios.compare.comparing import run_comparison
from sheafedge.scenarios.compare.comparison import Comparison, validated_comparison
from sheafedge.scenarios.compare.results import FACTS, spread
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


def spread_of(values: Sequence[float]) -> dict[str, Any]:
    """One figure of `results.json`."""
    return spread({str(seed): value for seed, value in enumerate(values)})


@pytest.fixture
def written_results() -> dict[str, Any]:
    """Results of three methods over five seeds that nothing has run: accuracies of two groups, and what they cost."""
    accuracies = {
        "alone": ([0.70, 0.72, 0.69, 0.74, 0.71], [0.60, 0.61, 0.64, 0.62, 0.60]),
        "50 % & more_#1": ([0.74, 0.75, 0.73, 0.79, 0.75], [0.61, 0.60, 0.66, 0.62, 0.61]),
        "together": ([0.73, 0.71, 0.74, 0.70, 0.72], [0.70, 0.69, 0.75, 0.71, 0.70]),
    }
    groups = ("young", "old", "all clients")
    entries = []
    for method, (young, old) in accuracies.items():
        both = [(one + other) / 2 for one, other in zip(young, old, strict=True)]
        facts = {name: spread_of([1e6] * 5) for name in FACTS}
        scores = {
            group: {
                "clients": 4 if group == "all clients" else 2,
                "scores": {"accuracy": spread_of(values)},
                "baselines": {"majority": {"accuracy": spread_of([0.2] * 5)}},
            }
            for group, values in zip(groups, (young, old, both), strict=True)
        }
        runs = {str(seed): f"run-{seed}" for seed in range(5)}
        told = {"arm": method, "algorithm": "local", "edits": {}, "n": 5, "runs": runs, "warnings": []}
        entries.append({**told, "groups": scores, "facts": facts})
    return {
        "name": "written",
        "scenario": "digits",
        "task": "classification",
        "split": "rows",
        "scored": "held_out",
        "seeds": list(range(5)),
        "reference": None,
        "vary": None,
        "tuning": None,
        "entries": entries,
        "failures": [],
        "comparison": {"name": "written", "scenario": "digits", "arms": {method: {} for method in accuracies}},
        "resampling": {"drawn": "split", "test_per_train": 0.25},
        "environment": {"sheafedge": "0.1.0"},
    }


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves take ten times as long as the tiny runs that they show; the comparison `finished` has them."""
    monkeypatch.setattr(comparing, "write_figures", lambda results, folder: None)


@pytest.fixture(scope="module", autouse=True)
def _old_objects_are_no_garbage() -> None:
    """Full collections, which `compare` does after every run, skip torch and all tests: half a second less each."""
    gc.collect()  # what the module before has left is freed, not frozen
    gc.freeze()

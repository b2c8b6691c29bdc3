"""The page about streets and measured sites: its rivals answer as they say, and every method has its controls."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sheafedge.datasets.windows.drive_bys import Recording
from sheafedge.datasets.windows.sensor_windows import BeamWindows
from sheafedge.datasets.windows.track_windows import tracking_windows
from sheafedge.scenarios.compare.plan import planned_runs

PAGE = Path(__file__).parents[2] / "docs" / "transfer"
pytestmark = [
    pytest.mark.checkout,
    pytest.mark.skipif(not PAGE.is_dir(), reason="the sources are not here: an installed wheel is tested"),
]
N_BEAMS, SECTOR_DEG = 64, 45.0


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_transfer", PAGE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def passes(n: int, offset_deg: float, seed: int) -> BeamWindows:
    """Drive-bys whose best beam follows the bearing, seen by an array that is mounted this much beside its heading."""
    draws = np.random.default_rng(seed)
    right_m = np.tile(np.linspace(-9.0, 9.0, n // 4), 4)
    positions_m = np.stack([right_m, np.full(n, 12.0)], axis=1) + draws.normal(0, 0.05, (n, 2))
    seen_deg = np.degrees(np.arctan2(right_m, 12.0)) - offset_deg
    off = np.abs(seen_deg[:, None] - np.linspace(-SECTOR_DEG, SECTOR_DEG, N_BEAMS))
    return tracking_windows(Recording("r", positions_m, 10 ** (-0.1 * off), np.repeat(np.arange(4), n // 4)), 4)


def top3(make: ModuleType, rival: str, train: BeamWindows, test: BeamWindows) -> float:
    answer, _ = make.RIVALS["gps"][rival]
    return float(make.scores(answer(train, test), test)["top3"])


def test_the_sector_needs_no_sample_and_fails_where_the_array_hangs_askew(make: ModuleType) -> None:
    straight, askew = (passes(400, offset_deg, 0) for offset_deg in (0.0, 12.0))
    nothing = straight.take(np.zeros(0, dtype=np.int64))
    assert top3(make, "sector, no samples", nothing, straight) > 0.95
    assert top3(make, "sector, no samples", nothing, askew) < 0.1
    assert top3(make, "line", askew, passes(400, 12.0, 1)) > 0.9
    assert top3(make, "nearest neighbors", askew, passes(400, 12.0, 1)) > 0.9


def test_neighbors_of_few_samples_are_fewer_than_asked_for(make: ModuleType) -> None:
    few = passes(400, 0.0, 0).take(np.arange(0, 380, 60))
    answer, _ = make.RIVALS["gps"]["nearest neighbors"]
    ranking = answer(few, passes(400, 0.0, 1))
    assert ranking.shape == (384, 3)
    assert all(len(set(row)) == 3 for row in ranking.tolist())


def test_every_method_starts_elsewhere_and_is_otherwise_the_same(make: ModuleType, tmp_path: Path) -> None:
    assert list(make.METHODS) == ["from scratch", "shuffled street", "street"]
    assert not {*make.SEEDS} & {*make.TUNING_SEEDS}
    for name in make.INPUTS:
        methods = {method: make.start_edits(tmp_path, name, labels) for method, labels in make.METHODS.items()}
        edits = {**make.MEASURED, **make.owning(name), "data.root": str(tmp_path)}
        runs = planned_runs(make._comparison("x", edits, methods))
        assert len(runs) == 5 * 3
        assert not [run.refusal for run in runs if run.refusal]
        assert {key for one in methods.values() for key in one} == {"model.start_from", "model.start_scaling"}
        paths = {run.scenario.model.start_from for run in runs}
        assert paths == {"", *(str(make.start_of(tmp_path, name, one, "{seed}")) for one in (True, False))}


def test_tables_say_mean_spread_and_paired_difference(make: ModuleType) -> None:
    def outcome(first: float) -> dict[str, Any]:
        scores = {"top3": 0.5, "power_loss_db": 1.0}
        return {
            str(seed): {site: {"top1": first + 0.01 * seed, **scores} for site in ("1", "5", "8")} for seed in range(5)
        }

    methods = {"from scratch": outcome(0.3), "shuffled street": outcome(0.25), "street": outcome(0.4)}
    rivals = {rival: outcome(0.2) for rival in make.RIVALS["gps"]}
    steps = dict.fromkeys(methods, 0.003)
    part = {"methods": methods, "rivals": rivals, "test_per_train": 0.5, "steps": steps, "samples": [80, 70, 120]}
    started = {method: methods[method] for method in ("shuffled street", "street")}
    found = {"zero": {"methods": started, "test_per_train": 0.5}, "shares": {"0.05": part}}
    assert "| 5% | street | 0.420 ± 0.016 | 0.500 ± 0.000 | 1.00 ± 0.00 |" in make.scores_table(found, "gps")
    assert "| 5% | from scratch | +0.100 [+0.100, +0.100], 5/5 |" in make.differences_table(found, "gps")
    assert "| 5% | 80, 70, 120 | 0.003 | 0.003 | 0.003 |" in make.steps_table(found, "gps")

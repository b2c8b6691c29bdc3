"""Seeds that deal one data set again and again are no independent samples."""

from __future__ import annotations

from typing import Any

import pytest
from sheafedge.scenarios.compare.resampling import resampling
from sheafedge.scenarios.schema.scenario import load_scenario

SUMMARIES = [{"train_windows": 60, "test_windows": 30}, {"train_windows": 80, "test_windows": 40}]


@pytest.mark.parametrize(
    ("name", "edits", "drawn"),
    [
        ("blockage", {}, "data"),
        ("beam_tracking", {"data.split": "time"}, "data"),
        ("digits", {}, "split"),
        ("blockage", {"data.source": "recording", "data.recordings": ["a.h5"], "data.split": "sequence"}, "split"),
        ("blockage", {"data.source": "recording", "data.recordings": ["a.h5"], "data.split": "time"}, "neither"),
    ],
)
def test_the_scenario_says_what_a_seed_draws(name: str, edits: dict[str, Any], drawn: str) -> None:
    found = resampling(load_scenario(name).edited(edits), SUMMARIES)
    assert found == {"drawn": drawn, "test_per_train": 0.5 if drawn == "split" else 0.0}


def test_without_a_complete_run_nothing_is_corrected() -> None:
    assert resampling(load_scenario("digits"), []) == {"drawn": "split", "test_per_train": 0.0}

"""What another seed draws anew: data, split, or neither; it decides what an interval over seeds stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..schema.scenario import Scenario

Drawn = Literal["data", "split", "neither", "unknown"]


def resampling(scenario: Scenario, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What seeds of a scenario draw, as it is stored in `results.json`.

    Rows with a split of their own count as dealt anew, because a scenario does not tell whether they have one: their
    intervals are wider than necessary.

    Args:
        scenario: scenario of one of the runs.
        summaries: content of `summary.json` of all runs.

    Returns:
        drawn: "data": every seed records a world of its own; "split": every seed deals the same data anew into training
            and held-out samples; "neither": all seeds have the same data and the same split.
        test_per_train: held-out samples per training sample over all runs, by which intervals are corrected; 0 unless
            the split is dealt anew, or where no run is complete.
    """
    drawn = _drawn(scenario)
    n_train = sum(summary["train_windows"] for summary in summaries)
    n_test = sum(summary["test_windows"] for summary in summaries)
    return {"drawn": drawn, "test_per_train": n_test / n_train if drawn == "split" and n_train else 0.0}


def _drawn(scenario: Scenario) -> Drawn:
    data = scenario.data
    if data.source == "world":
        return "data"
    # the end of a recording is its end under every seed
    return "neither" if data.source != "rows" and data.split == "time" else "split"

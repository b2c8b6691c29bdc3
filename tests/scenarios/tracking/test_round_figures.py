"""Trackers get one number under one name, and no number that is none."""

from __future__ import annotations

import math
from typing import Any

from sheafedge.scenarios.tracking.round_figures import final_figures, round_figures

ROWS: list[dict[str, Any]] = [
    {
        "round": 1,
        "client": 0,
        "group": "a",
        "time_s": 2.0,
        "bytes_sent": 10,
        "energy_j": 1.5,
        "compute_s": 0.2,
        "loss": 0.5,
        "residuals": {"1": 3.0},
        "models": {"fused": {"f1": 0.6}},
        "held_out_loss": {"fused": 0.4},
    },
    {
        "round": 1,
        "client": 1,
        "group": "a",
        "time_s": 3.0,
        "bytes_sent": 20,
        "energy_j": 1.0,
        "compute_s": 0.4,
        "loss": math.inf,
        "models": {"fused": {"f1": 0.8}},
        "held_out_loss": {"fused": 0.6},
        "train_loss": {"fused": None},
    },
    {
        "round": 1,
        "client": 2,
        "group": "b",
        "time_s": 1.0,
        "bytes_sent": 30,
        "energy_j": 0.5,
        "train_models": {"fused": {"f1": 0.9}, "camera": {"f1": 0.7}},
    },
]


def test_a_round_is_sums_over_nodes_and_means_over_clients_of_a_group() -> None:
    found = round_figures(ROWS)
    expected = {
        "network/bytes_sent": 60.0,
        "network/energy_j": 3.0,
        "network/time_s": 3.0,
        "a/compute_s": 0.3,
        "a/loss": 0.5,
        "a/held_out/fused/f1": 0.7,
        "a/held_out/fused/loss": 0.5,
        "b/train/fused/f1": 0.9,
        "b/train/camera/f1": 0.7,
    }
    assert found.keys() == expected.keys()
    assert all(math.isclose(found[name], value) for name, value in expected.items())


def test_a_run_ends_with_scores_baselines_traffic_and_times() -> None:
    summary = {
        "groups": {"a": {"clients": 2, "model": "fused", "f1": 0.7}},
        "baselines": {"a": {"majority": {"f1": 0.1}}},
        "traffic": {"messages": 4, "bytes": 60},
        "virtual_time_s": 3.0,
        "energy_j": math.nan,
    }
    assert final_figures(summary) == {
        "final/a/clients": 2.0,
        "final/a/f1": 0.7,
        "final/a/majority/f1": 0.1,
        "final/traffic/messages": 4.0,
        "final/traffic/bytes": 60.0,
        "final/virtual_time_s": 3.0,
    }

"""What the process of a small run tells its page: four clients in two groups, three rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sheafedge.scenarios.live_page.live_page import page_facts
from sheafedge.scenarios.schema.scenario import Scenario

GROUPS = ("gps", "gps", "rf", "rf")
EDGES = ((0, 1), (1, 0), (2, 3), (3, 2))
Told = dict[str, Any]


def started() -> Told:
    return {"what": "started", "groups": GROUPS, "members": {"gps": 2, "rf": 2}, "edges": EDGES}


def told_round(index: int, lost: int = 0) -> Told:
    """A round, in which the link from 0 to 1 loses `lost` of its ten packets in each round so far."""
    done = index + 1
    rows = [
        {
            "round": index, "client": node, "group": GROUPS[node], "time_s": 0.5 * done, "bytes_sent": 1000 * done,
            "energy_j": 2.0 * done, "loss": 1.0 / (done + node), "compute_s": 0.1, "airtime_s": 0.05, "waiting_s": 0.3,
            "models": {"fused": {"top1": 0.1 * (node + done)}},
        }
        for node in range(4)
    ]  # fmt: skip
    traffic = {"messages": 40 * done, "bytes": 1_000_000 * done, "by_kind": {}}
    # messages, bytes, lost and arrived messages, packets, lost packets, sent bytes, airtime, delay
    edges = [[*edge, done, 100, 0, done, 10 * done, lost * done * (edge == (0, 1)), 100, 0.1, 0.1] for edge in EDGES]
    scored = {group: {"clients": 2, "model": "fused", "top1": 0.1 * done} for group in ("gps", "rf")}
    return {"what": "round", "rows": rows, "scored": scored, "traffic": traffic, "edges": edges}


@pytest.fixture
def facts(tiny: Scenario, tmp_path: Path) -> Told:
    """First thing that is told."""
    edits = {"rounds": 3, "faults": [{"kind": "node_off", "nodes": [1], "at_s": 0.1, "for_s": 0.2}]}
    return page_facts(tiny.edited(edits), tmp_path / "run", tmp_path / "run" / "report.html", None)

"""Fields of the files of a complete run that comparisons and exports read: `summary.json` and `metrics.jsonl`.

Both files hold more; what is not listed here is kept and not checked.
"""

from __future__ import annotations

from typing import Any

import pydantic
from pydantic import ConfigDict

#: Far above the files of a run of 5,000 rounds with 20 clients; larger ones would fill the memory.
MAX_SUMMARY_BYTES, MAX_METRICS_BYTES = 1 << 26, 1 << 30


class _Stored(pydantic.BaseModel):
    """Part of a stored object."""

    model_config = ConfigDict(extra="allow")


class StoredGroup(_Stored):
    """A group of a summary; all other keys are figures."""

    __pydantic_extra__: dict[str, float | None]
    clients: int
    model: str


class StoredModel(_Stored):
    """One exported model of a summary."""

    client: int
    path: str


class StoredEnvironment(_Stored):
    """Software that a run was made with."""

    sheafedge: str
    torch: str


class StoredSummary(_Stored):
    """Checked fields of `summary.json`."""

    task: str
    clients: int
    rounds: int
    test_windows: int
    virtual_time_s: float
    energy_j: float
    wall_time_s: float
    trace_hash: str
    groups: dict[str, StoredGroup]
    baselines: dict[str, dict[str, dict[str, float | None]]]
    traffic: dict[str, Any]
    exports: list[StoredModel]
    warnings: list[str]
    environment: StoredEnvironment


class StoredMetrics(_Stored):
    """A line of `metrics.jsonl`: one client after one round; an undefined score is None."""

    round: int
    client: int
    group: str
    bytes_sent: int
    time_s: float
    models: dict[str, dict[str, float | None]] = {}

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
    """One exported model of a summary, with scores of its client's models where they changed after the last round."""

    client: int
    path: str
    scores: dict[str, dict[str, float | None]] | None = None


class StoredEnvironment(_Stored):
    """Software that a run was made with."""

    sheafedge: str
    torch: str


class StoredTheoryRow(_Stored):
    """Figures of theory after so many rounds; all other keys are figures."""

    __pydantic_extra__: dict[str, float | str | None]
    round: int


class StoredBound(_Stored):
    """The mean squared gradient of a run beside its bound, or why there is none."""

    mean_square: float | None = None
    bound: float | None = None
    rho: float = 0.0
    step_size: float = 0.0
    smoothness: float = 0.0
    reason: str = ""


class StoredTheory(_Stored):
    """Figures of theory of a run."""

    rows: list[StoredTheoryRow] = []
    bound: StoredBound = StoredBound()


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
    theory: StoredTheory | None = None


class StoredMetrics(_Stored):
    """A line of `metrics.jsonl`: one client after one round; an undefined score is None."""

    round: int
    client: int
    group: str
    bytes_sent: int
    time_s: float
    models: dict[str, dict[str, float | None]] = {}

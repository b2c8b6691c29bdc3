"""Records of a complete run, as its report reads them: one array of nodes and rounds per column of `metrics.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError
from ...emulator.regular_file import is_regular, open_regular, read_regular
from ..running.stored_run import MAX_METRICS_BYTES, MAX_SUMMARY_BYTES, StoredMetrics, StoredSummary
from ..schema.scenario import Scenario, stored_scenario
from ..schema.toml_file import read_toml
from ..tasks.task_spec import Column

Array = NDArray[np.float64]
Edge = tuple[int, int]

DIAGNOSTICS = "diagnostics.json"
_NEEDED = ("scenario.toml", "summary.json", "metrics.jsonl")
#: Keys of a line of `metrics.jsonl` that are no column of figures.
_KEYS = frozenset({"round", "client", "group", "residuals"})
#: Keys that hold a number for every model; that of the reported model is the column.
_OF_MODELS = ("held_out_loss", "train_loss")


class MeasuredEdge(pydantic.BaseModel):
    """Messages of one direction of an edge; what a link does not tell is None."""

    sender: int
    receiver: int
    messages: int
    bytes: int
    lost_messages: int = 0
    packets: int = 0
    lost_packets: int = 0
    mean_delay_s: float | None = None
    rate_bps: float | None = None

    @property
    def loss(self) -> float:
        """Share of packets that were lost; of messages where packets are not counted."""
        lost, of = (self.lost_packets, self.packets) if self.packets else (self.lost_messages, self.messages)
        return lost / of if of else 0.0


class Diagnostics(pydantic.BaseModel):
    """Content of `diagnostics.json`.

    Attributes:
        edges: directions of edges that carried messages.
        held_out: group -> model -> name of a curve -> its values; see the tasks.
    """

    edges: list[MeasuredEdge] = []
    held_out: dict[str, dict[str, dict[str, Any]]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class RunRecords:
    """What a complete run wrote down; N nodes, a server the last of them, and R rounds.

    Attributes:
        folder: path of the run folder.
        scenario: scenario of the run.
        summary: content of its `summary.json`.
        groups: [N] group of every node.
        columns: name -> [N, R] values of numeric columns; NaN where a row has none.
        scores: [N, R] first score of the model that the node's group reports; NaN where it was not scored.
        train_scores: the same on training samples; all NaN where they were not scored.
        residuals: edge -> [R] norm of its residual in the heads, mean of what both ends know.
        diagnostics: measurements of edges and held-out answers; empty for runs of before there were any.
    """

    folder: Path
    scenario: Scenario
    summary: Mapping[str, Any]
    groups: tuple[str, ...]
    columns: Mapping[str, Array]
    scores: Array
    train_scores: Array
    residuals: Mapping[Edge, Array]
    diagnostics: Diagnostics

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return int(self.scores.shape[1])

    @property
    def rounds(self) -> Array:
        """[R] number of completed rounds."""
        return np.arange(1, self.n_rounds + 1, dtype=np.float64)

    @property
    def first(self) -> Column:
        """Score that ranks models."""
        return self.scenario.task_spec.columns[0]

    @property
    def group_names(self) -> tuple[str, ...]:
        """Groups of clients in the order of the summary."""
        return tuple(self.summary["groups"])

    def members(self, group: str) -> list[int]:
        """Numbers of the nodes of a group."""
        return [node for node, name in enumerate(self.groups) if name == group]

    def has(self, *names: str) -> bool:
        """Whether all these columns are there and hold a number."""
        return all(name in self.columns and np.isfinite(self.columns[name]).any() for name in names)

    def last(self, name: str) -> Array:
        """[N] last known value of a column for every node; NaN where there is none."""
        return last_known(self.columns[name])


def last_known(values: Array) -> Array:
    """[N] last value of [N, R] that is not NaN; NaN where all are."""
    known = np.isfinite(values)
    places = values.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
    return np.where(known.any(axis=1), values[np.arange(len(values)), places], np.nan)


def read_records(folder: Path) -> RunRecords:
    """Records in the folder of a complete run.

    Raises:
        ConfigError: it is no folder of a complete run, or needs a plugin.
        DataError: a file in it is damaged.
    """
    if missing := [name for name in _NEEDED if not is_regular(folder / name)]:
        raise ConfigError(
            f"{folder} is not the folder of a complete run ({missing[0]} is missing); give one under runs/"
        )
    path = folder / "scenario.toml"
    scenario = stored_scenario(read_toml(path), str(path))
    try:
        summary = json.loads(read_regular(folder / "summary.json", MAX_SUMMARY_BYTES))
        StoredSummary.model_validate(summary)
        diagnostics = Diagnostics()
        if is_regular(folder / DIAGNOSTICS):
            diagnostics = Diagnostics.model_validate_json(read_regular(folder / DIAGNOSTICS, MAX_METRICS_BYTES))
        with open_regular(folder / "metrics.jsonl", MAX_METRICS_BYTES) as lines:
            return _records(folder, scenario, summary, diagnostics, map(json.loads, lines))
    except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        why = " ".join(str(error).splitlines()[:3])[:240]
        raise DataError(f"run {folder} cannot be read ({type(error).__name__}: {why}); run it again") from None


def _records(
    folder: Path,
    scenario: Scenario,
    summary: Mapping[str, Any],
    diagnostics: Diagnostics,
    rows: Iterable[Mapping[str, Any]],
) -> RunRecords:
    n_nodes = summary["clients"] + ("server" in summary)
    shape = n_nodes, summary["rounds"]
    first = scenario.task_spec.columns[0].key
    groups = [""] * n_nodes
    columns: dict[str, Array] = {}
    scores, train_scores = np.full(shape, np.nan), np.full(shape, np.nan)
    ends: dict[Edge, list[Array]] = {}
    for row in rows:
        StoredMetrics.model_validate(row)
        place = node, round_index = row["client"], row["round"]
        groups[node] = row["group"]
        model = summary["groups"].get(row["group"], {}).get("model", "")
        known = {**row, **{name: row[name].get(model) for name in _OF_MODELS if name in row}}
        for name, value in known.items():
            if name not in _KEYS and isinstance(value, int | float):
                _put(columns.setdefault(name, np.full(shape, np.nan)), place, value)
        _put(scores, place, row.get("models", {}).get(model, {}).get(first))
        _put(train_scores, place, row.get("train_models", {}).get(model, {}).get(first))
        for neighbor, residual in row.get("residuals", {}).items():
            edge = (min(node, int(neighbor)), max(node, int(neighbor)))
            values = ends.setdefault(edge, [np.full(shape[1], np.nan) for _ in range(2)])
            values[node > int(neighbor)][round_index] = residual
    residuals = {edge: _mean_of_ends(values) for edge, values in sorted(ends.items())}
    return RunRecords(
        folder, scenario, summary, tuple(groups), columns, scores, train_scores, residuals, diagnostics
    )  # fmt: skip


def _put(values: Array, place: tuple[int, int], value: float | None) -> None:
    if value is not None:
        values[place] = value


def _mean_of_ends(ends: Sequence[Array]) -> Array:
    """[R] mean of what is known; NaN where neither end knows it."""
    known = np.stack(ends)
    n = np.isfinite(known).sum(axis=0)
    return np.where(n > 0, np.nansum(known, axis=0) / np.maximum(n, 1), np.nan)

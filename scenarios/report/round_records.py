"""Figures of the rounds of a run, complete or so far, for figures and tables: an array of nodes and rounds each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pydantic
from numpy.typing import NDArray

from ..tasks.task_spec import Column

Array = NDArray[np.float64]
Edge = tuple[int, int]


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
class RoundRecords:
    """What the rounds of a run wrote down; N nodes, a server the last of them, and R rounds.

    Attributes:
        summary: content of `summary.json`, or as much of it as is known before the run ends.
        score_columns: scores of the task; the first ranks models.
        groups: [N] group of every node.
        columns: name -> [N, R] values of numeric columns; NaN where a row has none.
        scores: [N, R] first score of the model that the node's group reports; NaN where it was not scored.
        train_scores: the same on training samples; all NaN where they were not scored.
        residuals: edge -> [R] norm of its residual in the heads, mean of what both ends know.
        diagnostics: measurements of edges and held-out answers; empty for runs of before there were any.
    """

    summary: Mapping[str, Any]
    score_columns: tuple[Column, ...]
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
        return self.score_columns[0]

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

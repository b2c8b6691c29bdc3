"""`RunSoFar`: what a run has told until now, as a report of a complete run would read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..report.round_records import Array, Diagnostics, RoundRecords
from ..report.row_table import RowTable
from ..running.progress_pace import ProgressPace
from ..tasks.task_spec import Column
from .edge_history import EdgeHistory

#: Notes that are kept: the last ones.
MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended.

    Attributes:
        state: "complete", "interrupted" or "failed".
        sentence: the same in words, and where its results are.
    """

    state: str
    sentence: str


@dataclass(slots=True)
class RunSoFar:
    """State of a run, changed by what its process tells, see `take`.

    Attributes:
        facts: what was told at the start, see `LivePage`.
        phase: "loading", "recording", "training", "exporting".
        done, total: of what is counted in the phase; 0 and 0: nothing is.
        pace: pace of the phase.
        nodes: what was told when everything was built.
        rounds_done: completed rounds.
        now_s: simulated time in s.
        scored: group -> its report so far, as in the summary of a run.
        traffic: counters of messages.
        notes: sentences for the user.
        end: None while it goes on.
    """

    facts: Mapping[str, Any]
    phase: str = "loading"
    done: int = 0
    total: int = 0
    pace: ProgressPace = field(default_factory=ProgressPace)
    nodes: Mapping[str, Any] | None = None
    rounds_done: int = 0
    now_s: float = 0.0
    scored: Mapping[str, Any] = field(default_factory=dict)
    traffic: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    end: RunEnd | None = None
    edges: EdgeHistory = field(default_factory=lambda: EdgeHistory(()))
    _rows: RowTable | None = None
    _has_told_rounds: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Scores of the task."""
        return tuple(Column(**column) for column in self.facts["columns"])

    @property
    def n_rounds(self) -> int:
        """Rounds of the whole run."""
        return int(self.facts["rounds"])

    def take(self, told: Mapping[str, Any]) -> None:
        """One thing that the process of the run tells; see `LivePage` for what there is."""
        takers: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "counting": self._counting,
            "noted": self._noted,
            "started": self._started,
            "round": self._round,
            "ended": self._ended,
        }
        takers[told["what"]](told)

    def records(self) -> RoundRecords | None:
        """Records of the completed rounds; None before the first."""
        if self._rows is None or self.nodes is None or not self.rounds_done:
            return None
        reported = {group: figures["model"] for group, figures in self.scored.items()}
        rows = self._rows
        summary = {
            "groups": {
                group: {"clients": n, "model": "", **self.scored.get(group, {})}
                for group, n in self.nodes["members"].items()
            },
            "baselines": {},
            "traffic": self.traffic,
            "scored": self.facts["scored"],
        }
        return RoundRecords(
            summary=summary,
            score_columns=self.columns,
            groups=tuple(rows.groups),
            columns={name: self._so_far(values) for name, values in rows.columns(reported).items()},
            scores=self._so_far(rows.scores(reported)),
            train_scores=self._so_far(rows.train_scores(reported)),
            residuals={edge: self._so_far(values) for edge, values in rows.residuals().items()},
            diagnostics=Diagnostics(edges=self.edges.lately()),
        )

    def _so_far(self, values: Array) -> Array:
        return np.asarray(values[..., : self.rounds_done])

    def _counting(self, told: Mapping[str, Any]) -> None:
        if told["phase"] != self.phase:
            self.phase, self.pace = told["phase"], ProgressPace(told["done"])
        self.done, self.total = told["done"], told["total"]
        self.pace.see(self.done)

    def _noted(self, told: Mapping[str, Any]) -> None:
        self.notes = [*self.notes, told["sentence"]][-MOST_NOTES:]

    def _started(self, told: Mapping[str, Any]) -> None:
        """Everything is built; also told again when a run goes on with new workers."""
        self.nodes, self._has_told_rounds = told, False
        self.phase, self.done, self.total, self.pace = "training", self.rounds_done, self.n_rounds, ProgressPace()
        if self._rows is None:
            self._rows = RowTable(len(told["groups"]), self.n_rounds, self.columns[0].key)
            self._rows.groups = list(told["groups"])
            self.edges = EdgeHistory((int(one), int(other)) for one, other in told["edges"])
            for line in self.facts["earlier"]:
                self._rows.add(json.loads(line))

    def _round(self, told: Mapping[str, Any]) -> None:
        assert self._rows is not None, "started before its first round"
        rows: Sequence[Mapping[str, Any]] = told["rows"]
        for row in rows:
            self._rows.add(row)
        self.rounds_done = self.done = rows[0]["round"] + 1
        self.now_s = max(row["time_s"] for row in rows)
        self.scored, self.traffic = told["scored"] or self.scored, told["traffic"]
        if not self._has_told_rounds and self.rounds_done > 1:
            self.pace = ProgressPace(self.rounds_done)  # resumed: rounds of before say nothing about the pace
        self._has_told_rounds = True
        self.pace.see(self.rounds_done)
        if told["edges"] is not None:
            self.edges.see(self.rounds_done, told["edges"])

    def _ended(self, told: Mapping[str, Any]) -> None:
        self.end = RunEnd(told["state"], told["sentence"])

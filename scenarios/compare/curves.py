"""Learning curves: scores over rounds, over bytes sent, over energy and over simulated time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tasks.task_table import TASKS
from .results import ALL_CLIENTS, complete_runs
from .stored_runs import stored_rounds, stored_summary

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Learning curve of one method over R scored rounds and S seeds.

    Attributes:
        method: name of the method.
        rounds: [R] number of completed rounds.
        sent_bytes: [R] bytes sent by all clients and a server so far, mean over seeds.
        energy_j: [R] energy that they spent on computing so far, mean over seeds.
        time_s: [R] simulated time in s at which the last client completed the round, mean over seeds.
        scores: group -> [S, R] first score of the task, mean over the clients as each was scored last; NaN where
            none of the group has been.
    """

    method: str
    rounds: Array
    sent_bytes: Array
    energy_j: Array
    time_s: Array
    scores: Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class _RunCurve:
    rounds: list[int]
    sent_bytes: list[float]
    energy_j: list[float]
    time_s: list[float]
    scores: dict[str, list[float]]


def curves_of(results: Mapping[str, Any], folder: Path) -> list[Curve]:
    """Curves of all methods that have runs, at the first varied value.

    Args:
        results: content of `results.json`.
        folder: parent of the run folders.
    """
    values = results["comparison"].get("vary", {}).get(results["vary"], [None])
    entries = [entry for entry in results["entries"] if entry.get("varied") == values[0]]
    return [_mean_curve(entry, folder) for entry in entries if entry["n"]]


def _mean_curve(entry: Mapping[str, Any], folder: Path) -> Curve:
    runs = [_run_curve(folder / name) for name in complete_runs(entry).values()]
    return Curve(
        method=entry["arm"],
        rounds=np.array(runs[0].rounds, dtype=float),
        sent_bytes=np.mean([run.sent_bytes for run in runs], axis=0),
        energy_j=np.mean([run.energy_j for run in runs], axis=0),
        time_s=np.mean([run.time_s for run in runs], axis=0),
        scores={group: np.array([run.scores[group] for run in runs]) for group in runs[0].scores},
    )


def _run_curve(folder: Path) -> _RunCurve:
    summary = stored_summary(folder)
    first = TASKS[summary["task"]].columns[0].key
    reported = {group: facts["model"] for group, facts in summary["groups"].items()}
    curve = _RunCurve([], [], [], [], {group: [] for group in [*reported, ALL_CLIENTS]})
    # a client that takes no part in a round has no line of it: what it had sent, and how it scored, stands
    last: dict[int, Mapping[str, Any]] = {}
    scores: dict[int, tuple[str, float]] = {}
    for index, rows in stored_rounds(folder):
        last.update({row["client"]: row for row in rows})
        # a server has no models; with training.evaluate_every above 1 some rounds have no scores
        scored = [row for row in rows if "models" in row]
        if not scored:
            continue
        scores.update({row["client"]: (row["group"], row["models"][reported[row["group"]]][first]) for row in scored})
        curve.rounds.append(index + 1)
        curve.sent_bytes.append(sum(row["bytes_sent"] for row in last.values()))
        curve.energy_j.append(sum(row.get("energy_j", 0.0) for row in last.values()))
        # asynchronous clients complete a round at different times
        curve.time_s.append(max(row["time_s"] for row in rows))
        for group, so_far in curve.scores.items():
            known = [score for of, score in scores.values() if group in (of, ALL_CLIENTS)]
            so_far.append(float(np.mean(known)) if known else np.nan)
    return curve

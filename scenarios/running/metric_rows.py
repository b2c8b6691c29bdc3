"""Rows of a run, one per node and round that it took part in: wherever its folder holds them.

They are the lines of `metrics.jsonl`; of runs with very many clients they are columns, see `metric_columns`, and the
lines are those of a sample of the clients and of aggregates over groups.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...emulator.regular_file import is_folder, open_regular
from .metric_columns import COLUMNS, column_files, is_of_resting, read_columns, read_rows
from .stored_run import MAX_METRICS_BYTES

#: Name of the file of lines in a run folder.
METRICS = "metrics.jsonl"
#: Clients that have lines of their own where the others have columns, evenly spread over the numbers of all.
N_SAMPLE = 20
#: Columns that are no figures of a client.
_FACTS = ("round", "client", "group")


def has_columns(folder: Path) -> bool:
    """Whether the rows of a run are columns."""
    return is_folder(folder / COLUMNS)


def metric_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Rows of a run, one after the other, round by round where they are columns.

    Raises:
        OSError, ValueError, KeyError, RecursionError: a file is missing or damaged.
    """
    if has_columns(folder):
        for _, path in column_files(folder / COLUMNS):
            yield from read_rows(path)
        return
    with open_regular(folder / METRICS, MAX_METRICS_BYTES) as lines:
        for line in lines:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("a line is no object")
            yield row


def metric_rounds(folder: Path) -> Iterator[tuple[int, Sequence[dict[str, Any]]]]:
    """Rounds in order, each with its rows; errors as of `metric_rows`. Columns are read a round at a time."""
    if has_columns(folder):
        files: dict[int, list[Path]] = {}
        for round_index, path in column_files(folder / COLUMNS):
            files.setdefault(round_index, []).append(path)
        for round_index, paths in files.items():
            yield round_index, [row for path in paths for row in read_rows(path)]
        return
    rounds: dict[int, list[dict[str, Any]]] = {}
    for row in metric_rows(folder):
        rounds.setdefault(row["round"], []).append(row)
    yield from sorted(rounds.items())


def observed_until(folder: Path, rounds_done: int, n_bytes: int) -> list[tuple[int, int]]:
    """Round and node of every row that a run had written when so many rounds were done; errors as of `metric_rows`.

    Args:
        folder: of the run.
        rounds_done: number of rounds.
        n_bytes: length of the file of lines at that time.
    """
    if has_columns(folder):
        files = [one for one in column_files(folder / COLUMNS) if one[0] < rounds_done and not is_of_resting(one[1])]
        return [(number, node) for number, path in files for node in read_columns(path)["client"].tolist()]
    rows = [json.loads(line) for line in (folder / METRICS).read_bytes()[: max(0, n_bytes)].splitlines()]
    return [(row["round"], row["client"]) for row in rows]


def round_lines(rows: Sequence[Mapping[str, Any]], n_clients: int) -> Iterator[dict[str, Any]]:
    """Lines of `metrics.jsonl` of a round whose rows are columns: a sample of the rows, then one aggregate per group.

    Args:
        rows: of the round.
        n_clients: of the run; a server has a greater number, and always its line.
    """
    sample = set(np.linspace(0, n_clients - 1, min(N_SAMPLE, n_clients)).round().astype(int).tolist())
    yield from (dict(row) for row in rows if row["client"] in sample or row["client"] >= n_clients)
    for group in dict.fromkeys(row["group"] for row in rows if row["client"] < n_clients):
        members = [row for row in rows if row["group"] == group]
        figures: dict[str, list[float]] = {}
        for name, value in (figure for row in members for figure in _numbers(row)):
            figures.setdefault(name, []).append(value)
        aggregates = {name: _aggregate(values) for name, values in figures.items()}
        yield {"round": rows[0]["round"], "group": group, "clients": len(members), "over_clients": aggregates}


def _numbers(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if isinstance(value, Mapping) and name != "residuals":
            yield from _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and name not in _FACTS:
            yield f"{prefix}{name}", float(value)


def _aggregate(values: Iterable[float]) -> dict[str, float]:
    found = np.asarray(list(values))
    return {
        "n": len(found),
        "mean": float(found.mean()),
        "std": float(found.std()),
        "min": float(found.min()),
        "max": float(found.max()),
    }

"""Results of a comparison in long form: a line per method, seed, group and quantity, for tools of statistics."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from ...models.algorithms.algorithm import SHARED_MODELS
from .results import ALL_CLIENTS

#: Columns of `results.csv`.
COLUMNS = ("method", "algorithm", "varied_field", "varied", "seed", "group", "clients", "source", "quantity", "value")
#: Value of `source` for scores of the reported model, for the shared one beside it, and for what a run cost; baselines
#: have their names.
MODEL, RUN = "model", "run"


def long_form(results: Mapping[str, Any]) -> str:
    """Content of `results.csv`, with every number as exact as in `results.json`."""
    file = io.StringIO()
    # not the line ends of the csv module, which are those of Windows
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(COLUMNS)
    for entry in results["entries"]:
        varied = results["vary"] or "", entry.get("varied", "")
        for seed, *rest in _measured(entry):
            lines.writerow([entry["arm"], entry["algorithm"], *varied, seed, *rest])
    return file.getvalue()


def _measured(entry: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Seed, group, clients, source, quantity and value of every number of an entry."""
    for name, group in entry["groups"].items():
        shared = {name: group.get(name, {}) for name in SHARED_MODELS}
        sources = {MODEL: group["scores"], **shared, **group["baselines"]}
        for source, figures in sources.items():
            yield from _of_figures(figures, name, group["clients"], source)
    if entry["n"]:
        yield from _of_figures(entry["facts"], ALL_CLIENTS, entry["groups"][ALL_CLIENTS]["clients"], RUN)


def _of_figures(figures: Mapping[str, Any], group: str, clients: int, source: str) -> Iterator[tuple[Any, ...]]:
    for quantity, figure in figures.items():
        for seed, value in figure["values"].items():
            yield seed, group, clients, source, quantity, value

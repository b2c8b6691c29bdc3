"""`RowTable`: lines of `metrics.jsonl`, in any order, as one array of nodes and rounds per figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from .round_records import Array, Edge

K = TypeVar("K")

#: Keys of a line that are no column of figures.
_KEYS = frozenset({"round", "client", "group", "residuals"})
#: Keys that hold a number for every model; that of the reported model is the column.
_OF_MODELS = ("held_out_loss", "train_loss")
#: Keys that count from the start of the run: what a node has no row of leaves them as they were.
_SUMS = ("bytes_sent", "energy_j")
#: Keys that hold a table of scores for every model.
_SCORES, _TRAIN_SCORES = "models", "train_models"


class RowTable:
    """Figures of N nodes in R rounds.

    Args:
        n_nodes: N, a server included.
        n_rounds: R.
        first: key of the first score.

    Attributes:
        groups: [N] group of every node; empty before its first row.
    """

    def __init__(self, n_nodes: int, n_rounds: int, first: str) -> None:
        self.groups = [""] * n_nodes
        self._shape, self._first = (n_nodes, n_rounds), first
        self._columns: dict[str, Array] = {}
        self._of_models: dict[tuple[str, str], Array] = {}
        self._ends: dict[Edge, list[Array]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Put a row in its place, over an earlier one of the same node and round."""
        place = node, round_index = row["client"], row["round"]
        self.groups[node] = row["group"]
        for name, value in row.items():
            if name not in _KEYS and isinstance(value, int | float):
                self._array(self._columns, name)[place] = value
        for name in _OF_MODELS:
            for model, value in row.get(name, {}).items():
                self._put((name, model), place, value)
        for name in (_SCORES, _TRAIN_SCORES):
            for model, scores in row.get(name, {}).items():
                self._put((name, model), place, scores.get(self._first))
        for neighbor, residual in row.get("residuals", {}).items():
            edge = (min(node, int(neighbor)), max(node, int(neighbor)))
            values = self._ends.setdefault(edge, [np.full(self._shape[1], np.nan) for _ in range(2)])
            values[node > int(neighbor)][round_index] = residual

    def columns(self, reported: Mapping[str, str]) -> dict[str, Array]:
        """Name -> [N, R] values; of columns with a number for every model, that of the model which a group reports.

        Args:
            reported: group -> name of the model that it reports.
        """
        losses = {name: self._reported(name, reported) for name in _OF_MODELS if self._has(name)}
        sums = {name: carried(self._columns[name]) for name in _SUMS if name in self._columns}
        return {**self._columns, **sums, **losses}

    def scores(self, reported: Mapping[str, str]) -> Array:
        """[N, R] first score of the reported models; NaN where there is none."""
        return self._reported(_SCORES, reported)

    def train_scores(self, reported: Mapping[str, str]) -> Array:
        """[N, R] first score of the reported models on training samples; NaN where there is none."""
        return self._reported(_TRAIN_SCORES, reported)

    def residuals(self) -> dict[Edge, Array]:
        """Edge -> [R] residual, mean of what its ends know."""
        return {edge: _mean_of_ends(values) for edge, values in sorted(self._ends.items())}

    def _put(self, key: tuple[str, str], place: tuple[int, int], value: float | None) -> None:
        if value is not None:
            self._array(self._of_models, key)[place] = value

    def _array(self, arrays: dict[K, Array], key: K) -> Array:
        if key not in arrays:
            arrays[key] = np.full(self._shape, np.nan)
        return arrays[key]

    def _has(self, name: str) -> bool:
        return any(key == name for key, _ in self._of_models)

    def _reported(self, name: str, reported: Mapping[str, str]) -> Array:
        found = np.full(self._shape, np.nan)
        for node, group in enumerate(self.groups):
            values = self._of_models.get((name, reported.get(group, "")))
            if values is not None:
                found[node] = values[node]
        return found


def carried(values: Array) -> Array:
    """[N, R] sums so far, in rounds without a row those of the last round with one; 0 before the first.

    >>> carried(np.array([[np.nan, 3.0, np.nan, 5.0]])).tolist()
    [[0.0, 3.0, 3.0, 5.0]]
    """
    return np.asarray(np.maximum.accumulate(np.nan_to_num(values), axis=1))


def _mean_of_ends(ends: Sequence[Array]) -> Array:
    """[R] mean of what is known; NaN where neither end knows it."""
    known = np.stack(ends)
    n = np.isfinite(known).sum(axis=0)
    return np.where(n > 0, np.nansum(known, axis=0) / np.maximum(n, 1), np.nan)

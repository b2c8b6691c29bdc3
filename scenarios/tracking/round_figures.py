"""Figures of a round and of a whole run, as trackers take them: one number under one name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Table of a row of `metrics.jsonl` -> what its figures are called: scores by model, and losses by model.
_SCORES = {"models": "held_out", "train_models": "train"}
_LOSSES = {"held_out_loss": "held_out", "train_loss": "train"}
#: Sums over all nodes so far, in the unit of the row.
_SUMS = ("bytes_sent", "energy_j")
#: Facts of a row that are no figures.
_NO_FIGURES = ("round", "client", "group", "time_s", *_SUMS)


def round_figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Figures of a round: sums over nodes of what they sent and spent, means over the clients of a group of the rest.

    Args:
        rows: rows of `metrics.jsonl` of all nodes in one round.

    Returns:
        "network/bytes_sent", "GROUP/held_out/MODEL/SCORE", "GROUP/train/MODEL/loss", "GROUP/compute_s" and the like;
        numbers that are not finite are left out.
    """
    found = {f"network/{key}": float(sum(row.get(key, 0.0) for row in rows)) for key in _SUMS}
    found["network/time_s"] = float(max(row["time_s"] for row in rows))
    for group in dict.fromkeys(row["group"] for row in rows):
        members = [dict(_of_row(row)) for row in rows if row["group"] == group]
        for name in dict.fromkeys(name for member in members for name in member):
            values = [member[name] for member in members if name in member]
            found[f"{group}/{name}"] = sum(values) / len(values)
    return found


def final_figures(summary: Mapping[str, Any]) -> dict[str, float]:
    """Final figures of a run from its `summary.json`: scores per group, baselines, traffic, energy and times."""
    found: dict[str, float] = {}
    for group, scores in summary["groups"].items():
        found |= _numbers(scores, f"final/{group}/")
    for group, baselines in summary["baselines"].items():
        for baseline, scores in baselines.items():
            found |= _numbers(scores, f"final/{group}/{baseline}/")
    found |= _numbers(summary["traffic"], "final/traffic/")
    times = {key: summary[key] for key in ("virtual_time_s", "energy_j", "wall_time_s") if key in summary}
    return found | _numbers(times, "final/")


def _of_row(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in row.items():
        if key in _SCORES:
            for model, scores in value.items():
                yield from _numbers(scores, f"{_SCORES[key]}/{model}/").items()
        elif key in _LOSSES:
            for model, loss in _numbers(value).items():
                yield f"{_LOSSES[key]}/{model}/loss", loss
        elif key not in _NO_FIGURES:
            yield from _numbers({key: value}).items()


def _numbers(tree: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """What of a table is a finite number."""
    return {
        f"{prefix}{name}": float(value)
        for name, value in tree.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }

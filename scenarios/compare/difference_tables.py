"""Tables of paired differences between methods, with intervals, effect sizes and p values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..report.shown_scores import heading
from ..tasks.task_spec import Column
from ..tasks.task_table import TASKS
from .result_table import ResultTable, figure_of, group_names, name_cells, name_heads, number, without_zero


def difference_tables(results: Mapping[str, Any]) -> list[ResultTable]:
    """Differences of the first score: over all clients, and per group if there are several; none without methods."""
    if "statistics" not in results:
        return []
    first, groups = TASKS[results["task"]].columns[0], group_names(results)
    over_all = _difference_table(results, first, groups[-1])
    return [over_all, _differences_by_group(results, first)] if len(groups) > 1 else [over_all]


def _difference_table(results: Mapping[str, Any], column: Column, group: str) -> ResultTable:
    """Differences of one group with intervals, effect sizes and p values."""
    facts = results["statistics"]
    p_head = "p (Holm)" if facts["tests"] > 1 else "p"
    heads = [*name_heads(results), "difference", f"{facts['confidence']:.0%} interval", "effect", p_head]
    rows = []
    for names, figures in _compared(results, [group], column):
        figure = figures[0] or {}
        effect = figure.get("effect")
        rows.append(
            [
                *names,
                _signed(figure.get("mean"), column),
                _interval(figure.get("interval"), column),
                "-" if effect is None else f"{effect:+.2f}",
                p_value_text(figure.get("p_holm")),
            ]
        )
    return ResultTable(f"{heading(column)} above {results['reference']}, {group}", heads, rows)


def _differences_by_group(results: Mapping[str, Any], column: Column) -> ResultTable:
    groups = group_names(results)
    rows = [[*names, *(_with_interval(one, column) for one in of)] for names, of in _compared(results, groups, column)]
    title = f"{heading(column)} above {results['reference']}, seed by seed"
    confidence = f"{results['statistics']['confidence']:.0%}"
    heads = [*name_heads(results), *groups]
    return ResultTable(f"{title}, with {confidence} intervals", heads, rows, is_main=False)


def _compared(
    results: Mapping[str, Any], groups: Sequence[str], column: Column
) -> Iterator[tuple[list[str], list[Mapping[str, Any] | None]]]:
    """Names, and differences per group, of every entry but those of the reference."""
    for entry in results["entries"]:
        if entry["arm"] != results["reference"]:
            figures = [figure_of(entry, group, "differences", column) for group in groups]
            # shown in place of the number of seeds: only seeds that both methods completed make a pair
            n_pairs = max((figure["n"] for figure in figures if figure), default=0)
            yield name_cells(results, {**entry, "n": n_pairs}), figures


def _signed(value: float | None, column: Column) -> str:
    return "-" if value is None else ("+" if value >= 0 else "") + number(value, column)


def _interval(interval: Sequence[float] | None, column: Column) -> str:
    return "-" if interval is None else f"[{', '.join(_signed(bound, column) for bound in interval)}]"


def _with_interval(figure: Mapping[str, Any] | None, column: Column) -> str:
    if figure is None or figure["mean"] is None:
        return "-"
    interval = f" {_interval(figure['interval'], column)}" if figure["interval"] else ""
    return _signed(figure["mean"], column) + interval


def p_value_text(p: float | None) -> str:
    """Text of a p value; small ones are as exact as their normality, which nobody has shown, allows."""
    if p is None:
        return "-"
    return "<.001" if p < 0.001 else without_zero(f"{p:.3f}")

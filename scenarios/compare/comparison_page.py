"""Page of a comparison: what was compared, scores, differences, curves, and values per seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..report.figure_style import COLUMN_WIDTHS_IN, figure_style, inline_svg
from ..report.html_page import PageFacts, PageFigure, PagePart, PageSection, PageTable, PageText, html_page
from ..report.shown_scores import heading
from ..tasks.task_table import TASKS
from .comparison_tables import failure_lines, legend, result_tables
from .differences import notes
from .result_table import ResultTable, figure_of, group_names, name_cells, name_heads, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ComparisonFigure(NamedTuple):
    """A figure of a comparison: stem of its files, what is shown, and the figure itself."""

    name: str
    caption: str
    figure: Figure


def comparison_page(results: Mapping[str, Any], figures: Sequence[ComparisonFigure]) -> str:
    """Content of `report.html`, in one file that fetches nothing.

    Args:
        results: results with differences, from `with_differences`.
        figures: its figures, in order.
    """
    scores, costs, *others = result_tables(results)
    compared = [table for table in others if results["reference"] and f"above {results['reference']}" in table.title]
    drawn = {one.name: _in_page(one) for one in figures}
    differences: list[PagePart] = [*map(PageText, notes(results)), *map(_table, compared)]
    if compared and "differences" in drawn:
        differences.insert(len(notes(results)), drawn.pop("differences"))
    sections = [
        PageSection("What was compared", [PageText(legend(results)), PageFacts(_facts(results)), _methods(results)]),
        PageSection("Failures and warnings", _troubles(results)),
        PageSection("Scores", [_table(scores, "± is the standard deviation over seeds, not an error of the mean.")]),
        PageSection("Differences", differences),
        PageSection("Curves", list(drawn.values())),
        PageSection("Costs and other scores", [_table(table) for table in (costs, *others) if table not in compared]),
        PageSection("Per seed", _per_seed(results)),
    ]
    subtitle = f"{len(results['comparison']['arms'])} methods, {_seeds(results)}, scenario {results['scenario']}"
    return html_page(f"{results['name']}: comparison", subtitle, sections, _foot(results))


def _in_page(drawn: ComparisonFigure) -> PageFigure:
    with figure_style():
        svg = inline_svg(drawn.figure, drawn.name, drawn.caption)
    # stretched over a page, the letters of one for a column would be twice as large as the text
    return PageFigure(svg, drawn.caption, wide=drawn.figure.get_figwidth() > COLUMN_WIDTHS_IN[1])


def _facts(results: Mapping[str, Any]) -> dict[str, str]:
    environment = results["environment"]
    software = {
        name: environment[name] for name in ("sheafedge", "commit", "code", "torch", "python") if name in environment
    }
    machine = [_listed(environment[name]) for name in ("device", "processor", "machine", "cpus") if name in environment]
    return {
        "scenario": results["scenario"],
        "task": TASKS[results["task"]].title,
        "seeds": ", ".join(map(str, results["seeds"])),
        **({"varied": results["vary"]} if results["vary"] else {}),
        **({"reference": results["reference"]} if results["reference"] else {}),
        "edits of all methods": _edits(results["comparison"].get("set", {})),
        "software": ", ".join(f"{name} {_listed(value)}" for name, value in software.items()),
        **({"machine": f"{', '.join(machine)} processors"} if machine else {}),
    }


def _listed(value: object) -> str:
    """A fact of the environment; several where runs were made with several versions, or on several machines."""
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)


def _methods(results: Mapping[str, Any]) -> PageTable:
    algorithms = {entry["arm"]: entry["algorithm"] for entry in results["entries"]}
    rows = [
        [method, algorithms.get(method, ""), _edits({key: value for key, value in edits.items() if key != "algorithm"})]
        for method, edits in results["comparison"]["arms"].items()
    ]
    return PageTable(["method", "algorithm", "settings"], rows, "Methods")


def _edits(edits: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in edits.items()) or "none"


def _seeds(results: Mapping[str, Any]) -> str:
    n_seeds = len(results["seeds"])
    return f"{n_seeds} seed{'s' if n_seeds > 1 else ''}"


def _troubles(results: Mapping[str, Any]) -> list[PagePart]:
    warnings: dict[str, list[str]] = {}
    for entry in results["entries"]:
        for warning in entry["warnings"]:
            warnings.setdefault(warning, []).append(entry["arm"])
    told = [f"{', '.join(dict.fromkeys(methods))}: {warning}" for warning, methods in warnings.items()]
    return [
        *(PageText(f"failed: {line}", tone="warning") for line in failure_lines(results)),
        *(PageText(line, tone="warning") for line in told),
    ]


def _table(table: ResultTable, note: str = "") -> PageTable:
    return PageTable([head.replace("_", " ") for head in table.heads], table.rows, table.title, note)


def _per_seed(results: Mapping[str, Any]) -> list[PagePart]:
    """A table per group: the first score of every method with every seed."""
    column = TASKS[results["task"]].columns[0]
    heads = [*(head.replace("_", " ") for head in name_heads(results)), *(f"seed {seed}" for seed in results["seeds"])]
    tables: list[PagePart] = []
    for group in group_names(results):
        rows = []
        for entry in results["entries"]:
            values = (figure_of(entry, group, "scores", column) or {"values": {}})["values"]
            cells = [number(values[str(seed)], column) if str(seed) in values else "-" for seed in results["seeds"]]
            rows.append([*name_cells(results, entry), *cells])
        tables.append(PageTable(heads, rows, f"{heading(column)}, {group}"))
    return tables


def _foot(results: Mapping[str, Any]) -> str:
    version = results["environment"].get("sheafedge", "")
    return f"Written by sheafedge {version if isinstance(version, str) else ', '.join(version)}."
